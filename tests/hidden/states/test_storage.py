"""How states are kept: cells that hold the state, idempotence, positions, worked examples."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from insular.errors import InvalidArgumentError
from insular.hidden.states.storage import Storage, round_states
from insular.hidden.states.storage_spec import STORAGE_FORMATS


def test_int8_and_int4_by_hand() -> None:
    states = torch.tensor([[127.0, 1.4, -0.6], [0.0, 0.0, 0.0]])
    values, half = round_states(states, "int8")
    assert values.tolist() == [[127.0, 1.0, -1.0], [0.0, 0.0, 0.0]]
    assert half.tolist() == [[0.5] * 3, [0.0] * 3]
    values, half = round_states(torch.tensor([[7.0, 1.6, -0.4]]), "int4")
    assert values.tolist() == [[7.0, 2.0, 0.0]]
    assert half.tolist() == [[0.5] * 3]


def test_bf16_by_hand() -> None:
    values, half = round_states(torch.tensor([[1.0, 3.0, 0.0]]), "bf16")
    assert values.tolist() == [[1.0, 3.0, 0.0]]
    assert half.tolist() == [[2.0**-8, 2.0**-7, 0.0]]


@given(
    seed=st.integers(0, 2**31),
    size=st.floats(1e-3, 1e4),
    precision=st.sampled_from(STORAGE_FORMATS),
)
def test_what_is_read_back_lies_within_half_a_cell(seed: int, size: float, precision: str) -> None:
    states = torch.randn((4, 9), generator=torch.Generator().manual_seed(seed)) * size
    values, half = round_states(states, precision)  # pyright: ignore[reportArgumentType]
    assert bool(((values - states).abs() <= half * 1.0001 + 1e-6 * states.abs()).all())


@pytest.mark.parametrize("precision", STORAGE_FORMATS)
def test_storing_twice_changes_nothing_more(precision: str) -> None:
    states = torch.randn((5, 16), generator=torch.Generator().manual_seed(0))
    once, _ = round_states(states, precision)  # pyright: ignore[reportArgumentType]
    twice, _ = round_states(once, precision)  # pyright: ignore[reportArgumentType]
    assert torch.allclose(once, twice, rtol=1e-6, atol=0)


def test_only_every_gth_position_is_kept() -> None:
    stored = Storage(every=3).store(torch.ones(7, 2))
    assert stored.kept.tolist() == [True, False, False, True, False, False, True]
    assert bool(stored.values[1].isnan().all())
    assert Storage(format="int8").store(torch.ones(1, 4)).rounding_variance > 0
    assert Storage().store(torch.zeros(0, 4)).rounding_variance == 0


def test_unknown_formats_are_refused() -> None:
    with pytest.raises((InvalidArgumentError, TypeError), match="format"):
        Storage(format="int2")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgumentError, match="every"):
        Storage(every=0)

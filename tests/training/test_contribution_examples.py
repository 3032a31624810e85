"""The clipped sum of gradients that are given: worked examples, owners, NaN, memory."""

import gc
import weakref

import pytest
import torch
from torch import Tensor, nn

from insular.records.batches import TokenBatch
from insular.records.tokens import TokenisedRecord
from insular.training.batching import Batching
from insular.training.clipping import FlatClipping
from insular.training.contributions import ClippedSum, clipped_sum
from insular.training.gradients import GradientEngine, RecordGradients

NAN, INF = float("nan"), float("inf")


def record(name: str) -> TokenisedRecord:
    return TokenisedRecord(id=name, owner=name, tokens=tuple(range(1, 17)))


class Given(GradientEngine):
    """Gradients by record id, as given; remembers which arrays are still alive."""

    name = "given"

    def __init__(self, table: dict[str, list[float]]) -> None:
        self.table = table
        self.alive: list[weakref.ref[Tensor]] = []
        self.batch_sizes: list[int] = []

    def compute(self, model: nn.Module, batch: TokenBatch, *, loss: str) -> RecordGradients:
        del model, loss
        gc.collect()
        assert not any(found() is not None for found in self.alive)
        gradients = torch.tensor([self.table[name] for name in batch.record_ids])
        self.alive.append(weakref.ref(gradients.untyped_storage()))
        self.batch_sizes.append(len(gradients))
        return RecordGradients(
            gradients=gradients,
            losses=torch.ones(len(gradients)),
            logits=torch.zeros(*batch.shape, 2),
            batch_gradient=gradients.sum(dim=0),
        )


def given(
    units: list[dict[str, list[float]]], *, clip_norm: float = 1.0, together: int = 9
) -> tuple[ClippedSum, Given]:
    """Sum gradients that are given by unit and record."""
    size = len(next(iter(units[0].values())))
    engine = Given({name: row for unit in units for name, row in unit.items()})
    found = clipped_sum(
        nn.Linear(size, 1, bias=False),
        [tuple(record(name) for name in unit) for unit in units],
        engine=engine,
        clipping=FlatClipping(clip_norm=clip_norm),
        batching=Batching(max_tokens=16 * together, pad_token_id=0),
    )
    return found, engine


def test_worked_example_of_three_records() -> None:
    found, _ = given([{"a": [0.4, 0.3]}, {"b": [3.0, 4.0]}, {"c": [0.6, 0.8]}])
    assert found.value.tolist() == pytest.approx([1.60, 1.90])
    assert found.norms.tolist() == pytest.approx([0.5, 5.0, 1.0])
    # the float32 numbers closest to 0.6 and 0.8 are longer than 1
    assert (found.n_units, found.n_records, found.n_clipped) == (3, 3, 2)
    assert found.value.dtype == torch.float32
    assert found.norms.dtype == torch.float64


@pytest.mark.parametrize("together", [1, 2, 3])
def test_worked_example_of_an_owner_s_records_clipped_together(together: int) -> None:
    """Alice has 0.5 and 5.0, Bao 0.25; C = 1. Owners give 1.00 and 0.25, rows 1.50 and 0.25."""
    alice, bao = {"a1": [0.5], "a2": [5.0]}, {"b": [0.25]}
    by_owner, engine = given([alice, bao], together=together)
    assert by_owner.value.tolist() == [1.25]
    assert by_owner.norms.tolist() == [5.5, 0.25]
    assert (by_owner.n_units, by_owner.n_records, by_owner.n_clipped) == (2, 3, 1)
    assert max(engine.batch_sizes) == together
    without, _ = given([bao], together=together)
    assert [by_owner.value.item() / 2, without.value.item() / 2] == [0.625, 0.125]
    by_row, _ = given([{"a1": [0.5]}, {"a2": [5.0]}, bao], together=together)
    assert by_row.value.item() - without.value.item() == 1.50


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("together", [1, 9])
def test_a_unit_with_nan_or_inf_contributes_exactly_zero_and_is_counted(
    bad: float, together: int
) -> None:
    found, _ = given([{"a": [bad, 1.0]}, {"b": [3.0, 4.0]}], together=together)
    assert found.value.tolist() == pytest.approx([0.6, 0.8])
    assert (found.n_units, found.n_non_finite, found.n_clipped) == (2, 1, 1)
    owner, _ = given([{"a": [bad, 1.0], "c": [1.0, 1.0]}, {"b": [3.0, 4.0]}], together=together)
    assert torch.equal(owner.value, found.value)
    assert (owner.n_records, owner.n_non_finite) == (3, 1)


def test_one_physical_batch_of_gradients_is_alive_at_any_time() -> None:
    """The engine asserts it at each call: also while an owner's sum waits for its last record."""
    units = [{f"o{u}r{i}": [1.0] * 50 for i in range(3)} for u in range(4)]
    found, engine = given(units, together=2)
    assert engine.batch_sizes == [2] * 6
    assert found.norms.tolist() == pytest.approx([3 * 50**0.5] * 4)

"""Whose each row is: announced by the model's forward, refused where it cannot be right."""

import pytest
import torch
from torch import Tensor, nn

from insular.errors import InvalidArgumentError
from insular.precision.ownership import RowOwnership, announce_masks

from .samples import announced, mask_of


def indices(rows: slice | Tensor) -> list[int]:
    return list(range(rows.start, rows.stop)) if isinstance(rows, slice) else rows.tolist()


@pytest.mark.parametrize("side", ["left", "right", "mixed"])
def test_rows_are_the_mask_s_true_positions(side: str) -> None:
    mask = mask_of([3, 0, 5, 1], width=5, side=side)
    ownership = announced(mask)
    flat = mask.flatten()
    owners = torch.arange(4).repeat_interleave(5)
    for record, rows in enumerate(ownership.rows):
        assert indices(rows) == (flat & (owners == record)).nonzero().flatten().tolist()
    assert ownership.padding is not None
    assert ownership.padding.tolist() == (~flat).nonzero().flatten().tolist()


@pytest.mark.parametrize("side", ["left", "right"])
def test_contiguous_rows_are_slices(side: str) -> None:
    assert all(
        isinstance(rows, slice) for rows in announced(mask_of([3, 5], width=5, side=side)).rows
    )


def test_gaps_inside_a_record_are_indices() -> None:
    (rows,) = announced(torch.tensor([[True, False, True]])).rows
    assert isinstance(rows, Tensor)
    assert rows.tolist() == [0, 2]


def test_no_padding_is_none() -> None:
    assert announced(torch.ones(2, 3, dtype=torch.bool)).padding is None


class Root(nn.Module):
    """A root whose forward takes what a decoder takes."""

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> None:
        return None


def announced_by(*args: Tensor, **kwargs: Tensor) -> RowOwnership:
    root, ownership = Root(), RowOwnership()
    announce_masks(root, ownership)
    root(*args, **kwargs)
    return ownership


IDS = torch.tensor([[5, 6, 7], [8, 9, 0]])
MASK = torch.tensor([[1, 1, 1], [1, 1, 0]])


def test_forward_announces_its_mask() -> None:
    for ownership in (
        announced_by(input_ids=IDS, attention_mask=MASK),
        announced_by(IDS, attention_mask=MASK.bool()),
        announced_by(IDS, MASK),
    ):
        assert ownership.mask is not None
        assert torch.equal(ownership.mask, MASK.bool())
        assert [indices(rows) for rows in ownership.rows] == [[0, 1, 2], [3, 4]]


@pytest.mark.parametrize("name", ["input_ids", "inputs_embeds"])
def test_without_a_mask_every_position_is_real(name: str) -> None:
    value = IDS if name == "input_ids" else torch.zeros(2, 3, 4)
    ownership = announced_by(**{name: value})
    assert ownership.mask is not None
    assert ownership.mask.all()
    assert tuple(ownership.mask.shape) == (2, 3)


def test_each_forward_announces_anew() -> None:
    root, ownership = Root(), RowOwnership()
    announce_masks(root, ownership)
    root(input_ids=IDS, attention_mask=MASK)
    root(input_ids=IDS[:1, :2])
    assert ownership.mask is not None
    assert tuple(ownership.mask.shape) == (1, 2)


@pytest.mark.parametrize("shape", [(2, 1, 3, 3), (6,)])
def test_a_mask_that_does_not_say_who_owns_a_row_is_refused(shape: tuple[int, ...]) -> None:
    ownership = announced_by(input_ids=IDS, attention_mask=torch.ones(shape))
    with pytest.raises(InvalidArgumentError, match=r"got no batch mask; .* \[record, token\]"):
        ownership.require(6, layer="x")


def test_a_forward_without_tokens_forgets_the_last_batch() -> None:
    root, ownership = Root(), RowOwnership()
    announce_masks(root, ownership)
    root(input_ids=IDS, attention_mask=MASK)
    root()
    with pytest.raises(InvalidArgumentError, match="got no batch mask"):
        ownership.require(6, layer="x")


def test_no_batch_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"layer a\.b must know .* got no batch mask"):
        RowOwnership().require(4, layer="a.b")


def test_another_size_is_refused() -> None:
    ownership = announced(torch.ones(2, 3, dtype=torch.bool))
    ownership.require(6, layer="a.b")
    with pytest.raises(InvalidArgumentError, match=r"layer a\.b .* got 7 rows .* \(2, 3\)"):
        ownership.require(7, layer="a.b")


def test_a_removed_handle_ends_the_announcements() -> None:
    root, ownership = Root(), RowOwnership()
    handle = announce_masks(root, ownership)
    handle.remove()
    root(input_ids=IDS, attention_mask=MASK)
    assert ownership.mask is None

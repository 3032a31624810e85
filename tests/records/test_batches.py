import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

from insular.errors import InvalidArgumentError
from insular.records import TokenisedRecord
from insular.records.batches import collate

# The type checker that the suite may run under refuses an unknown choice first.
REFUSED = (InvalidArgumentError, TypeCheckError)


def record(name, *tokens, owner="u"):
    return TokenisedRecord(id=name, owner=owner, tokens=tokens)


TWO = [record("a", 5, 6, 7), record("b", 8, 9, owner="v")]


def test_right_padding_by_hand():
    batch = collate(TWO, pad_token_id=0, width=4)
    assert batch.input_ids.tolist() == [[5, 6, 7, 0], [8, 9, 0, 0]]
    assert batch.attention_mask.tolist() == [[True, True, True, False], [True, True, False, False]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 0], [0, 1, 0, 0]]
    assert batch.labels.tolist() == [[-100, 6, 7, -100], [-100, 9, -100, -100]]
    assert (batch.record_ids, batch.owner_ids) == (("a", "b"), ("u", "v"))
    assert (batch.n_records, batch.n_tokens, batch.shape) == (2, 5, (2, 4))


def test_left_padding_by_hand():
    batch = collate(TWO, pad_token_id=1, padding_side="left")
    assert batch.input_ids.tolist() == [[5, 6, 7], [1, 8, 9]]
    assert batch.position_ids.tolist() == [[0, 1, 2], [0, 0, 1]]
    assert batch.labels.tolist() == [[-100, 6, 7], [-100, -100, 9]]


RECORDS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), min_size=1, max_size=5)


@given(RECORDS, st.sampled_from(["left", "right"]))
def test_row_depends_on_its_record_width_and_side_only(rows, side):
    records = [record(str(number), *tokens) for number, tokens in enumerate(rows)]
    batch = collate(records, pad_token_id=3, width=7, padding_side=side)
    for number, one in enumerate(records):
        alone = collate([one], pad_token_id=3, width=7, padding_side=side)
        chosen = batch.select([number])
        for name in ("input_ids", "attention_mask", "position_ids", "labels"):
            assert torch.equal(getattr(alone, name), getattr(chosen, name))
        assert chosen.record_ids == alone.record_ids


@given(RECORDS, st.sampled_from(["left", "right"]))
def test_position_ids_count_real_tokens_only(rows, side):
    records = [record(str(number), *tokens) for number, tokens in enumerate(rows)]
    batch = collate(records, pad_token_id=0, padding_side=side)
    mask = batch.attention_mask.long()
    assert torch.equal(batch.position_ids, (mask.cumsum(1) - 1) * mask)


def test_a_real_token_with_the_paddings_id_keeps_its_label():
    batch = collate([record("a", 0, 5, 0)], pad_token_id=0, width=4)
    assert batch.labels.tolist() == [[-100, 5, 0, -100]]
    assert batch.n_tokens == 3


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_records_first_token_is_no_target(side):
    batch = collate(TWO, pad_token_id=0, width=6, padding_side=side)
    assert (batch.labels != -100).sum(dim=1).tolist() == [2, 1]


def test_select_keeps_order_and_width():
    batch = collate(TWO, pad_token_id=0, width=5).select([1, 0])
    assert batch.record_ids == ("b", "a")
    assert batch.owner_ids == ("v", "u")
    assert batch.input_ids.tolist() == [[8, 9, 0, 0, 0], [5, 6, 7, 0, 0]]
    assert batch.select([-1]).record_ids == ("a",)


@pytest.mark.parametrize("indices", [[], [2], [-3], [0, 0], [0, -2]])
def test_select_refuses_bad_rows(indices):
    with pytest.raises(InvalidArgumentError, match="distinct row of 2, got indices="):
        collate(TWO, pad_token_id=0).select(indices)


def test_to_moves_every_tensor():
    batch = collate(TWO, pad_token_id=0).to("meta")
    assert batch.device.type == "meta"
    assert {batch.attention_mask.device.type, batch.labels.device.type} == {"meta"}
    assert batch.record_ids == ("a", "b")


def test_repr_shows_no_tokens():
    assert "input_ids" not in repr(collate(TWO, pad_token_id=0))


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        ([], {}, "records must hold at least one record"),
        (TWO, {"width": 2}, "got width=2 for id='a' with 3 tokens"),
        (TWO, {"width": 0}, "width must be an integer >= 1"),
        (
            TWO,
            {"padding_side": "both"},
            "padding_side must be one of left, right|parameter 'padding_side'",
        ),
        (TWO, {"pad_token_id": -1}, "pad_token_id must be an integer >= 0"),
        ([TWO[0], TWO[0]], {}, "got id='a' twice"),
        ([record("e")], {}, "got none in id='e'"),
    ],
)
def test_refuses_bad_arguments(records, options, message):
    with pytest.raises(REFUSED, match=message):
        collate(records, **{"pad_token_id": 0, **options})

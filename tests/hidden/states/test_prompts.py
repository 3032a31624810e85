"""Held prompts: order, digests, duplicates, labels, batches."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hidden.decoder_samples import held, records, repeated, split
from insular.errors import InvalidArgumentError
from insular.hidden.states.prompts import batch_places, check_disjoint, hold_prompts, prompt_digest
from insular.records.batches import collate


def test_states_and_logits_come_in_the_order_of_the_records() -> None:
    decoder, rows = split(), records()
    prompts = hold_prompts(decoder, rows, layers=[0, 1], labels="none", batch_tokens=20)
    assert len(prompts.batches) > 2
    assert prompts.record_ids == tuple(one.id for one in rows)
    for place, one in enumerate(rows):
        alone = decoder.run(collate([one], pad_token_id=0), layers=[0, 1])
        assert torch.allclose(prompts.states(1)[place], alone.states[1][0], atol=1e-5)
        assert torch.allclose(prompts.logits()[place], alone.logits[0], atol=1e-5)


def test_padding_side_and_batching_do_not_matter() -> None:
    right = hold_prompts(split(), records(), layers=[1], labels="last_token")
    left = hold_prompts(
        split(), records(), layers=[1], labels="last_token", padding_side="left", batch_tokens=9
    )
    assert torch.allclose(right.states(1), left.states(1), atol=1e-5)
    assert torch.allclose(right.logits(), left.logits(), atol=1e-5)
    assert right.digest == left.digest


def test_a_label_is_the_last_token_and_no_part_of_its_prompt() -> None:
    rows = records()
    prompts = hold_prompts(split(), rows, layers=[0], labels="last_token")
    assert prompts.labels is not None
    assert prompts.labels.tolist() == [one.tokens[-1] for one in rows]
    assert prompts.digests[0] == prompt_digest(rows[0].tokens[:-1])
    with pytest.raises(InvalidArgumentError, match="at least 2 tokens"):
        hold_prompts(split(), records((3, 1)), layers=[0], labels="last_token")


def test_a_repeated_prompt_is_held_once_and_reported() -> None:
    rows = records()
    # equal prompts with another label are one prompt
    other = replace(repeated(rows[0], "copy"), tokens=(*rows[0].tokens[:-1], 5))
    prompts = hold_prompts(split(), [*rows, other], layers=[0], labels="last_token")
    assert prompts.duplicate_ids == ("copy",)
    assert prompts.n_prompts == len(rows)
    with_it = hold_prompts(split(), [*rows, other], layers=[0], labels="none")
    assert with_it.duplicate_ids == ()


def test_shared_prompts_are_refused_by_digest() -> None:
    check_disjoint(held(seed=0).digests, held(seed=1).digests)
    with pytest.raises(InvalidArgumentError, match="got 24 in both"):
        check_disjoint(held(seed=0).digests, held(seed=0).digests)
    with pytest.raises(InvalidArgumentError, match="got 1 in both"):
        check_disjoint(held(seed=0).digests, [*held(seed=1).digests, held(seed=0).digests[3]])


def test_unheld_layers_and_no_prompts_are_refused() -> None:
    prompts = hold_prompts(split(), records(), layers=[1], labels="none")
    with pytest.raises(InvalidArgumentError, match="one of the held layers"):
        prompts.states(0)
    with pytest.raises(InvalidArgumentError, match="at least one prompt"):
        hold_prompts(split(), [], layers=[1], labels="none")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 60))
def test_batches_hold_each_prompt_once_and_no_more_tokens_than_allowed(
    lengths: list[int], batch_tokens: int
) -> None:
    batches = batch_places(lengths, batch_tokens=batch_tokens)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    for batch in batches:
        width = max(lengths[place] for place in batch)
        assert len(batch) == 1 or len(batch) * width <= batch_tokens

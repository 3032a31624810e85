"""Ranks by pruned search against the slow way: every candidate scored by itself."""

from pathlib import Path

import numpy as np
import pytest
import torch

from insular.audit.secrets.planted import SecretSpace
from insular.errors import InvalidArgumentError
from insular.models.loading import Decoder, load_decoder
from insular.recipes.attack.extraction.scores import (
    SpelledSpace,
    place_secret,
    score_tokens,
    spell_space,
)
from models.families import CONTEXT, FAMILIES, tiny
from recipes.secret_models import spelling_folder

SPACE = SpelledSpace(prompt=(5, 6, 7, 8), symbols=tuple(range(10, 18)), length=3)


def decoder_of(model: object) -> Decoder:
    return Decoder(
        name="tiny",
        model=model,
        tokenizer=None,
        source=Path("none"),
        digest="",
        family="tiny",
        context_tokens=CONTEXT,
        pad_token_id=0,
    )


def slow_scores(decoder: Decoder, space: SpelledSpace = SPACE) -> np.ndarray:
    """Each candidate alone, without a cache."""
    found = []
    for value in range(space.size):
        row = torch.tensor([[*space.prompt, *space.tokens(value)]])
        with torch.no_grad():
            logits = decoder.model(input_ids=row, use_cache=False).logits[0].double()
        at = range(len(space.prompt) - 1, row.shape[1] - 1)
        found.append(sum(float(logits[i].log_softmax(-1)[row[0, i + 1]]) for i in at))
    return np.array(found)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_pruned_rank_is_that_of_brute_force(family: str):
    decoder = decoder_of(tiny(family))
    slow = slow_scores(decoder)
    order = np.argsort(-slow)
    for value in (int(order[0]), int(order[7]), int(order[256]), int(order[-1])):
        (score,) = score_tokens(decoder, [[*SPACE.prompt, *SPACE.tokens(value)]], given=[4])
        assert score.log_likelihood_nats == pytest.approx(slow[value], abs=1e-5)
        placed = place_secret(decoder, SPACE, value, score=score.log_likelihood_nats)
        gaps = np.delete(slow, value) - slow[value]
        sure = np.abs(np.abs(gaps) - 1e-4) > 2e-5  # not at the very edge of a tie
        assert placed.complete and placed.met_nats == pytest.approx(slow[value], abs=1e-5)
        assert abs(placed.above - int((gaps > 1e-4).sum())) <= (~sure).sum()
        assert abs(placed.tied - int((np.abs(gaps) <= 1e-4).sum())) <= (~sure).sum()
        assert placed.n_prefixes <= 1 + 8 + 64


def test_ties_are_told_from_likelier_candidates():
    model = tiny("mistral")
    with torch.no_grad():  # two symbols that nothing tells apart
        model.get_input_embeddings().weight[11] = model.get_input_embeddings().weight[10]
        model.get_output_embeddings().weight[11] = model.get_output_embeddings().weight[10]
    decoder = decoder_of(model)
    value = 0  # the first symbol three times: tied with the seven other spellings of it
    (score,) = score_tokens(decoder, [[*SPACE.prompt, *SPACE.tokens(value)]], given=[4])
    placed = place_secret(decoder, SPACE, value, score=score.log_likelihood_nats)
    slow = slow_scores(decoder)
    assert placed.tied == 7 == int((np.abs(slow - slow[0]) < 1e-5).sum()) - 1
    assert placed.above == int((slow > slow[0] + 1e-4).sum())


def test_a_likely_secret_takes_little_work_and_a_limit_is_kept():
    decoder = decoder_of(tiny("llama"))
    slow = slow_scores(decoder)
    value = int(np.argmax(slow))
    scores = [slow[value], slow[value] + 3.0]  # the second as if training had favoured it
    few, fewer = (place_secret(decoder, SPACE, value, score=float(s)) for s in scores)
    assert fewer.n_prefixes < few.n_prefixes <= 73
    stopped = place_secret(
        decoder, SPACE, int(np.argmin(slow)), score=float(slow.min()), most_prefixes=20
    )
    assert not stopped.complete and stopped.n_prefixes <= 20


def test_sampled_candidates_are_counted_with_their_repeats():
    decoder = decoder_of(tiny("gpt2"))
    slow = slow_scores(decoder)
    value = int(np.argsort(-slow)[100])
    candidates = np.sort(np.random.default_rng(0).integers(SPACE.size, size=300))
    candidates[:2] = candidates[0]
    candidates = np.sort(np.append(candidates, value))  # itself: a tie
    placed = place_secret(decoder, SPACE, value, score=float(slow[value]), candidates=candidates)
    gaps = slow[candidates] - slow[value]
    assert placed.above == int((gaps > 1e-4).sum())
    assert placed.tied == int((np.abs(gaps) <= 1e-4).sum()) >= 1


def test_batches_change_no_score():
    decoder = decoder_of(tiny("qwen2"))
    rng = np.random.default_rng(1)
    rows = [rng.integers(3, 60, size=n).tolist() for n in (4, 9, 30, 5, 12)]
    together = score_tokens(decoder, rows, given=[1, 2, 3, 1, 5])
    for row, given, score in zip(rows, (1, 2, 3, 1, 5), together, strict=True):
        (alone,) = score_tokens(decoder, [row], given=[given], tokens=1)
        assert alone.log_likelihood_nats == pytest.approx(score.log_likelihood_nats, abs=1e-4)
        assert alone.greedy == score.greedy
    with pytest.raises(InvalidArgumentError, match="context of 64 tokens"):
        score_tokens(decoder, [[5] * 65], given=[1])


def test_greedy_is_what_greedy_decoding_gives():
    decoder = decoder_of(tiny("gpt_neox"))
    row = list(SPACE.prompt)
    for _ in range(3):
        with torch.no_grad():
            row.append(int(decoder.model(input_ids=torch.tensor([row])).logits[0, -1].argmax()))
    other = [*row[:-1], (row[-1] + 1) % 64]
    found = score_tokens(decoder, [row, other], given=[4, 4])
    assert [score.greedy for score in found] == [True, False]


def test_a_space_is_a_tree_only_where_symbols_are_tokens(tmp_path: Path):
    decoder = load_decoder(str(spelling_folder(tmp_path / "model")))
    space = SecretSpace(alphabet="0123456789", length=4)
    spelled = spell_space(decoder, "pin Bo ", space)
    assert spelled is not None and spelled.size == 10_000
    assert decoder.encode("pin Bo 0420") == [*spelled.prompt, *spelled.tokens(420)]
    unknown = SecretSpace(alphabet="?!", length=2)  # both are <unk>
    assert spell_space(decoder, "pin Bo ", unknown) is None


@pytest.mark.pretrained
def test_a_real_decoder_ranks_as_brute_force_does():
    decoder = load_decoder("smollm2")
    space = SecretSpace(alphabet="0123456789", length=2)
    spelled = spell_space(decoder, "The access code of Belo Tariki is ", space)
    assert spelled is not None
    rows = [[*spelled.prompt, *spelled.tokens(value)] for value in range(100)]
    scores = score_tokens(decoder, rows, given=[len(spelled.prompt)] * 100)
    slow = np.array([score.log_likelihood_nats for score in scores])
    for value in (12, 47, 99):
        placed = place_secret(decoder, spelled, value, score=float(slow[value]))
        assert placed.above == int((slow > slow[value] + 1e-4).sum())
        assert placed.met_nats == pytest.approx(slow[value], abs=5e-5)
        assert placed.n_prefixes <= 11
    joined = SecretSpace(alphabet="abcdefghijklmnopqrstuvwxyz", length=4)
    assert spell_space(decoder, "The word is ", joined) is None  # letters join into tokens

"""The per-record loss, and the batch-wide mean that couples records by their lengths."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from insular.records.batches import IGNORED_LABEL
from insular.training.losses import LOSSES, record_losses


def logits_and_labels(
    n_records: int, n_tokens: int, *, vocab: int = 7, seed: int = 0
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n_records, n_tokens, vocab, generator=generator)
    labels = torch.randint(0, vocab, (n_records, n_tokens), generator=generator)
    ignored = torch.rand(n_records, n_tokens, generator=generator) < 0.3
    return logits, labels.masked_fill(ignored, IGNORED_LABEL)


def negative_log_probabilities(logits: Tensor, labels: Tensor) -> list[list[float]]:
    """Next-token terms of each record, position by position."""
    terms: list[list[float]] = []
    for record in range(len(labels)):
        mine = []
        for t in range(1, labels.shape[1]):
            label = int(labels[record, t])
            if label != IGNORED_LABEL:
                scores = logits[record, t - 1].double().tolist()
                log_sum = math.log(sum(math.exp(score) for score in scores))
                mine.append(log_sum - scores[label])
        terms.append(mine)
    return terms


@given(records=st.integers(1, 5), tokens=st.integers(1, 6), seed=st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_losses_equal_the_equations(records: int, tokens: int, seed: int) -> None:
    logits, labels = logits_and_labels(records, tokens, seed=seed)
    terms = negative_log_probabilities(logits, labels)
    total = max(1, sum(map(len, terms)))
    mean = [sum(mine) / max(1, len(mine)) for mine in terms]
    token = [sum(mine) * records / total for mine in terms]
    assert record_losses(logits, labels).tolist() == pytest.approx(mean, rel=1e-5, abs=1e-6)
    found = record_losses(logits, labels, loss="token_mean")
    assert found.tolist() == pytest.approx(token, rel=1e-5, abs=1e-6)


def test_worked_example() -> None:
    """Uniform scores over 4 tokens cost log 4 at each target, whatever the token."""
    labels = torch.tensor([[1, 2, 3], [1, 2, IGNORED_LABEL]])
    logits = torch.zeros(2, 3, 4)
    assert record_losses(logits, labels).tolist() == pytest.approx([math.log(4)] * 2)
    token_mean = record_losses(logits, labels, loss="token_mean")
    assert token_mean.tolist() == pytest.approx([math.log(4) * 4 / 3, math.log(4) * 2 / 3])


def test_token_mean_averages_to_the_batch_wide_mean() -> None:
    logits, labels = logits_and_labels(4, 6)
    expected = torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    )
    found = record_losses(logits, labels, loss="token_mean").mean()
    assert torch.allclose(found, expected)


def test_a_label_at_the_first_position_is_no_target() -> None:
    logits, labels = logits_and_labels(3, 5)
    changed = labels.clone()
    changed[:, 0] = (labels[:, 0] + 1) % 7
    for loss in LOSSES:
        assert torch.equal(
            record_losses(logits, labels, loss=loss), record_losses(logits, changed, loss=loss)
        )


def gradient_of(record: int, labels: Tensor, loss: str) -> tuple[float, Tensor]:
    logits, _ = logits_and_labels(*labels.shape)
    logits.requires_grad_()
    losses = record_losses(logits, labels, loss=loss)
    (gradient,) = torch.autograd.grad(losses[record], logits)
    return losses[record].item(), gradient


def test_record_mean_reads_that_record_only() -> None:
    _, labels = logits_and_labels(3, 5)
    other = labels.clone()
    other[1:] = IGNORED_LABEL
    value, gradient = gradient_of(0, labels, "record_mean")
    value_2, gradient_2 = gradient_of(0, other, "record_mean")
    assert value == value_2
    assert torch.equal(gradient, gradient_2)
    assert not gradient[1:].any()


def test_token_mean_depends_on_how_many_tokens_the_others_have() -> None:
    labels = torch.ones(2, 5, dtype=torch.int64)
    shorter = labels.clone()
    shorter[1, 2:] = IGNORED_LABEL
    value, gradient = gradient_of(0, labels, "token_mean")
    value_2, gradient_2 = gradient_of(0, shorter, "token_mean")
    assert value_2 == pytest.approx(value * 8 / 5, rel=1e-6)
    assert torch.allclose(gradient_2, gradient * 8 / 5)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_record_without_any_target_has_loss_zero_and_no_gradient(loss: str) -> None:
    """A prompt that was cut off before its answer: 0 / 0 must not reach the update."""
    labels = torch.tensor([[1, 2, IGNORED_LABEL], [IGNORED_LABEL] * 3])
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    losses = record_losses(logits, labels, loss=loss)
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert losses[1] == 0
    assert gradient.isfinite().all()
    assert not gradient[1].any()
    alone = record_losses(logits[:1], labels[:1])
    (expected,) = torch.autograd.grad(alone.sum(), logits)
    factor = 1 if loss == "record_mean" else 2
    assert torch.allclose(gradient[0], expected[0] * factor)


@pytest.mark.parametrize("loss", LOSSES)
def test_no_target_anywhere_is_zero(loss: str) -> None:
    losses = record_losses(torch.randn(2, 3, 5), torch.full((2, 3), IGNORED_LABEL), loss=loss)
    assert losses.tolist() == [0.0, 0.0]


def test_a_record_of_one_token_has_loss_zero() -> None:
    assert record_losses(torch.randn(2, 1, 5), torch.ones(2, 1).long()).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_scores_are_summed_in_float32(dtype: torch.dtype) -> None:
    logits, labels = logits_and_labels(3, 5)
    half = logits.to(dtype)
    found = record_losses(half, labels)
    assert found.dtype == torch.float32
    assert torch.equal(found, record_losses(half.float(), labels))


def test_a_nan_in_one_record_stays_there() -> None:
    logits, labels = logits_and_labels(3, 5)
    before = record_losses(logits, labels)
    labels[1, 3] = 2
    logits[1, 2] = float("nan")
    after = record_losses(logits, labels)
    assert after[1].isnan()
    assert torch.equal(before[[0, 2]], after[[0, 2]])

"""Measured utility: against a slow KL, common random numbers, and the evaluation set's guard."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from hidden.decoder_samples import erased, held, isotropic, split, unchanged
from insular.errors import InvalidArgumentError
from insular.evidence import decode, encode
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.gradients import hidden_gradients
from insular.hidden.states.prompts import hold_prompts
from insular.hidden.utility.measure import drawn_divergences, measure_utility
from insular.hidden.utility.results import UtilityResult
from insular.models.loading import load_decoder
from insular.records import read_packaged
from insular.records.tokens import TokenisedRecord


def measure(**options: object) -> UtilityResult:
    options = {"layer": 0, "sampler": isotropic, "seed": 0} | options
    prompts = options.pop("prompts", held())
    return measure_utility(split(), prompts, **options)  # type: ignore[arg-type]


def test_kl_agreement_and_perplexity_against_the_definition() -> None:
    prompts = held()
    released: list[Tensor] = []

    def sampler(states: Tensor, *, generator: torch.Generator, scale: float = 1.0) -> Tensor:
        released.append(isotropic(states, generator=generator, scale=scale))
        return released[-1]

    found = measure(sampler=sampler, scale=0.7)
    assert prompts.labels is not None and found.perplexity is not None
    kl, same, clean_loss, loss = [], [], [], []
    for kept, rows in zip(prompts.batches, prompts.rows, strict=True):
        with torch.no_grad():
            logits = split().tail(released[0][list(rows)], kept, layer=0)
        for place, p_logits, q_logits in zip(rows, kept.logits, logits, strict=True):
            p = np.exp(np.float64(p_logits) - np.logaddexp.reduce(np.float64(p_logits)))
            q = np.exp(np.float64(q_logits) - np.logaddexp.reduce(np.float64(q_logits)))
            kl.append(sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)))
            same.append(p.argmax() == q.argmax())
            clean_loss.append(-math.log(p[prompts.labels[place]]))
            loss.append(-math.log(q[prompts.labels[place]]))
    assert found.kl_nats.mean == pytest.approx(np.mean(kl), rel=1e-6)
    assert found.kl_median_nats == pytest.approx(np.median(kl), rel=1e-6)
    assert found.agreement.mean == np.mean(same)
    assert found.perplexity.clean == pytest.approx(math.exp(np.mean(clean_loss)), rel=1e-6)
    assert found.perplexity.released == pytest.approx(math.exp(np.mean(loss)), rel=1e-6)
    assert found.perplexity.ratio == pytest.approx(math.exp(found.perplexity.change_nats.mean))
    assert decode(UtilityResult, encode(found)) == found


def test_a_mechanism_that_returns_its_input_costs_nothing() -> None:
    for layer in (0, 1):
        found = measure(sampler=unchanged, layer=layer)
        assert found.kl_nats.high < 1e-9
        assert found.agreement.mean == 1.0 and found.agreement.low < 1.0
        assert found.perplexity is not None
        assert abs(found.perplexity.change_nats.mean) < 1e-5


def test_equal_seeds_share_their_random_numbers_at_every_scale() -> None:
    noise: list[Tensor] = []

    def sampler(states: Tensor, *, generator: torch.Generator, scale: float = 1.0) -> Tensor:
        released = isotropic(states, generator=generator, scale=scale)
        noise.append((released - states) / scale)
        return released

    for scale in (0.5, 2.0):
        measure(sampler=sampler, scale=scale, draws=2)
    measure(sampler=sampler, scale=2.0, seed=1)
    assert torch.allclose(noise[0], noise[2], atol=1e-5)
    assert torch.allclose(noise[1], noise[3], atol=1e-5)
    assert not torch.allclose(noise[0], noise[1])
    assert not torch.allclose(noise[0], noise[4])


def test_draws_are_averaged_per_prompt() -> None:
    arguments = {"layer": 0, "sampler": isotropic, "seed": 3, "scale": 1.0}
    two = drawn_divergences(split(), held(), draws=2, **arguments)  # type: ignore[arg-type]
    one = drawn_divergences(split(), held(), draws=1, **arguments)  # type: ignore[arg-type]
    second = 2 * two.kl_nats - one.kl_nats
    assert (second >= -1e-9).all() and not np.allclose(second, one.kl_nats)


def test_more_noise_costs_more_and_only_equal_costs_match() -> None:
    small, large = measure(scale=0.1), measure(scale=3.0)
    assert small.kl_nats.high < large.kl_nats.low
    assert not small.matches(large) and small.matches(small)
    assert not small.matches(measure(scale=0.1, prompts=held(seed=1)))


def test_prompts_that_a_scale_was_calibrated_on_are_refused() -> None:
    """The planted bug of this module: a cost stated on the prompts that set it."""
    with pytest.raises(InvalidArgumentError, match="must be disjoint, got 24 in both"):
        measure(calibrated_on=held().digests)
    measure(calibrated_on=held(seed=1).digests)


def test_prompts_without_labels_have_no_perplexity() -> None:
    assert measure(prompts=held(labels="none")).perplexity is None


def test_a_mechanism_that_changes_the_shape_is_refused() -> None:
    def wrong(states: Tensor, *, generator: torch.Generator, scale: float = 1.0) -> Tensor:
        return states[:, :3]

    with pytest.raises(InvalidArgumentError, match="must return states of shape"):
        measure(sampler=wrong)


def test_scores_that_overflow_are_refused() -> None:
    def broken(states: Tensor, *, generator: torch.Generator, scale: float = 1.0) -> Tensor:
        return erased(states, generator=generator) * torch.nan

    with pytest.raises(InvalidArgumentError, match="finite numbers"):
        measure(sampler=broken)


@pytest.mark.pretrained
def test_small_noise_costs_half_its_trace_under_the_true_fisher() -> None:
    """K = scale^2 tr F / 2 on the same prompts. Seeded; 32 x 4 draws and 32 x 8 labels agree
    within a third (each has a relative error near 0.1)."""
    loaded = load_decoder("smollm2")
    decoder = SplitDecoder(loaded.model)
    tokens = loaded.encode("\n".join(one.text for one in read_packaged("wikipedia").records[:40]))
    prompts = hold_prompts(
        decoder,
        [
            TokenisedRecord(id=str(n), owner=str(n), tokens=tuple(tokens[13 * n : 13 * n + 13]))
            for n in range(32)
        ],
        layers=[15],
        labels="last_token",
    )
    gradients = hidden_gradients(
        decoder, prompts, layer=15, kind="true", labels_per_prompt=8, seed=0
    )
    found = measure_utility(
        decoder, prompts, layer=15, sampler=isotropic, seed=0, scale=0.5, draws=4
    )
    predicted = 0.5**2 * gradients.summary.trace / 2
    assert found.kl_nats.mean == pytest.approx(predicted, rel=0.35)
    assert found.agreement.mean > 0.9

"""Measured utility of released states on held-out prompts."""

from collections.abc import Sequence

import numpy as np

from insular import _check
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.prompts import HeldPrompts, check_disjoint
from insular.hidden.utility._divergence import Divergences, Sampler, divergences, released
from insular.hidden.utility.intervals import IntervalMethod, mean_interval
from insular.hidden.utility.results import PerplexityChange, UtilityResult


def measure_utility(
    decoder: SplitDecoder,
    prompts: HeldPrompts,
    *,
    layer: int,
    sampler: Sampler,
    seed: int,
    scale: float = 1.0,
    draws: int = 1,
    calibrated_on: Sequence[str] = (),
    significance: float = 0.05,
    method: IntervalMethod = "bootstrap",
) -> UtilityResult:
    r"""Release the states of a layer and measure the next-token distribution that is left.

    :math:`\mathrm{KL}(p_h \,\|\, p_{\tilde h})` per prompt, top-1 agreement, and the change of
    the data label's log-probability.

    Guarantees:
        * Equal seed, draws and prompts give every mechanism and scale the same random numbers.
        * A mechanism that returns its input costs nothing, up to the rounding of the tail.
        * Prompts that a scale was calibrated on are refused.

    Args:
        decoder: The decoder.
        prompts: Held-out prompts.
        layer: Where the states are released.
        sampler: The mechanism's draw.
        seed: Seed of the draws, and of the bootstrap.
        scale: Passed to the mechanism.
        draws: Releases of each prompt; a prompt's values are their mean.
        calibrated_on: Digests of the prompts that set the scale or fitted the mechanism.
        significance: Error probability of each interval.
        method: Interval of the KL and of the log-probability; agreement is always binomial.

    Returns:
        The measured utility.

    Raises:
        InvalidArgumentError: If a prompt was calibrated on, or the scores are not finite.
    """
    check_disjoint(calibrated_on, prompts.digests)
    _check.non_negative_finite(scale=scale)
    found = drawn_divergences(
        decoder, prompts, layer=layer, sampler=sampler, seed=seed, scale=scale, draws=draws
    )
    kl = mean_interval(found.kl_nats, significance=significance, method=method, seed=seed)
    return UtilityResult(
        layer=layer,
        scale=float(scale),
        n_prompts=prompts.n_prompts,
        draws=draws,
        seed=seed,
        prompts_digest=prompts.digest,
        kl_nats=kl,
        kl_median_nats=float(np.median(found.kl_nats)),
        agreement=mean_interval(found.agrees, significance=significance, method="binomial"),
        perplexity=_perplexity(found, significance=significance, method=method, seed=seed),
    )


def drawn_divergences(
    decoder: SplitDecoder,
    prompts: HeldPrompts,
    *,
    layer: int,
    sampler: Sampler,
    seed: int,
    scale: float,
    draws: int,
) -> Divergences:
    """Each prompt's divergences, averaged over draws.

    Args:
        decoder: The decoder.
        prompts: Held prompts.
        layer: Where the states are released.
        sampler: The mechanism's draw.
        seed: Seed of the draws.
        scale: Passed to the mechanism.
        draws: Releases of each prompt.

    Returns:
        One number per prompt; KL is inf where the scores overflow.
    """
    _check.at_least(1, draws=draws)
    _check.at_least(0, seed=seed)
    each = []
    for draw in range(draws):
        states = released(prompts, sampler, layer=layer, seed=seed, draw=draw, scale=scale)
        each.append(divergences(decoder, prompts, states, layer=layer))
    changes = [one.log_likelihood_change_nats for one in each]
    return Divergences(
        kl_nats=np.mean([one.kl_nats for one in each], axis=0),
        agrees=np.mean([one.agrees for one in each], axis=0),
        log_likelihood_change_nats=None
        if changes[0] is None
        else np.mean([change for change in changes if change is not None], axis=0),
        clean_log_likelihood_nats=each[0].clean_log_likelihood_nats,
    )


def _perplexity(
    found: Divergences, *, significance: float, method: IntervalMethod, seed: int
) -> PerplexityChange | None:
    """The change of perplexity, paired by prompt."""
    if found.log_likelihood_change_nats is None or found.clean_log_likelihood_nats is None:
        return None
    clean = float(-found.clean_log_likelihood_nats.mean())
    rise = mean_interval(
        -found.log_likelihood_change_nats, significance=significance, method=method, seed=seed
    )
    return PerplexityChange(
        clean=float(np.exp(clean)), released=float(np.exp(clean + rise.mean)), change_nats=rise
    )

"""Could these numbers of a log have come from the sampler and the noise that it names?

Each test has its false-alarm probability written down, over a whole run, however long.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from insular.training.results import ReleaseEntry, SamplerFacts

FALSE_ALARM = 1e-6
"""Probability with which a correct run fails one kind of test: of its draws, of its noise."""

_RMS_ROUNDING = 1e-4  # a sum of squares in float32 may be this far off
_FEW_COORDINATES = 8  # below, float32 noise has too few values for a repeat to mean anything


def draw_differences(
    entries: Sequence[ReleaseEntry], facts: SamplerFacts, *, drawn_from: int
) -> Iterator[str]:
    """What is wrong with the sizes of the draws, one sentence each.

    Poisson draws are tested for their mean (a wrong rate), their spread (a loader that shuffles)
    and their empty ones (a loop that passes them over). With n draws k_i of a known distribution,
    the chance that the mean of f(k_i) is as far out as x is at most
    ``exp(-n sup_t (t x - log E exp(t f(k))))``, for every n and every distribution.

    Args:
        entries: The log.
        facts: The sampler as planned.
        drawn_from: Units that there were.

    Yields:
        One sentence for each finding.

    Source:
        Chernoff (1952), "A measure of asymptotic efficiency for tests of a hypothesis".
    """
    sizes = np.array([entry.n_units for entry in entries])
    if not len(sizes):
        return
    if facts.kind == "full_batch" and np.any(sizes != drawn_from):
        yield f"a full batch had {sizes[sizes != drawn_from][0]} units, of {drawn_from} that exist."
    if facts.kind == "shuffled" and facts.slots:
        yield from _slot_differences(entries, facts.slots, drawn_from)
    if facts.max_batch_size is not None and np.any(sizes > facts.max_batch_size):
        yield f"a draw had {sizes.max()} units, more than max_batch_size={facts.max_batch_size}."
    elif facts.sampling_prob is not None and facts.kind in ("poisson", "truncated_poisson"):
        yield from _poisson_differences(sizes, facts, drawn_from)


def noise_differences(entries: Sequence[ReleaseEntry]) -> Iterator[str]:
    """What is wrong with the size of the noise, one sentence each.

    Over n coordinates, ``n rms^2 / std^2`` is chi-square with n degrees of freedom: tested for
    each release and for all together. No two releases have equally long noise, unless it is the
    same noise.

    Args:
        entries: The log, in which ``noise_rms`` is a float64 of the noise that was added.

    Yields:
        One sentence for each finding.
    """
    from scipy.stats import chi2, poisson

    silent = [e for e in entries if e.noise_std == 0]
    if any(e.noise_rms != 0 for e in silent):
        yield "noise was measured in a release whose noise_std is 0."
    noisy = [e for e in entries if e.noise_std > 0]
    if not noisy:
        return
    freedom = np.array([e.n_params for e in noisy], dtype=float)
    rms = np.array([e.noise_rms for e in noisy])
    square = freedom * (rms / np.array([e.noise_std for e in noisy])) ** 2

    def chance(square: np.ndarray, freedom: np.ndarray) -> np.ndarray:
        low = chi2.cdf(square * (1 + _RMS_ROUNDING), freedom)
        high = chi2.sf(square * (1 - _RMS_ROUNDING), freedom)
        return np.minimum(low, high)

    odd = np.flatnonzero(~(chance(square, freedom) >= FALSE_ALARM / (8 * len(noisy))))
    if len(odd):
        first = noisy[int(odd[0])]
        yield (
            f"noise_rms was {first.noise_rms:.6g} in release {first.number}, which noise of "
            f"standard deviation {first.noise_std:.6g} on {first.n_params} coordinates does not "
            f"have; {len(odd)} of {len(noisy)} releases are like this."
        )
    elif not chance(square.sum(keepdims=True), freedom.sum(keepdims=True))[0] >= FALSE_ALARM / 8:
        ratio = math.sqrt(square.sum() / freedom.sum())
        yield f"the noise of all releases together was {ratio:.6g} times what noise_std says."
    if freedom.min() >= _FEW_COORDINATES:
        n_repeats = len(rms) - len(np.unique(rms))
        pairs = len(rms) * (len(rms) - 1) / 2
        by_chance = pairs * math.sqrt(freedom.max() / math.pi) * 2.0**-52
        if poisson.sf(n_repeats - 1, by_chance) < FALSE_ALARM / 8:
            yield (
                f"{n_repeats} of {len(noisy)} releases had noise exactly as long as another one's: "
                "noise was used again."
            )


def _poisson_differences(sizes: np.ndarray, facts: SamplerFacts, drawn_from: int) -> Iterator[str]:
    """Mean, spread and empty draws against independent coins."""
    from scipy.stats import binom

    assert facts.sampling_prob is not None
    prob, most = facts.sampling_prob, facts.max_batch_size
    low, high = (int(binom.ppf(tail, drawn_from, prob)) for tail in (1e-30, 1 - 1e-16))
    low, high = max(0, low - 1), min(drawn_from, high + math.ceil(math.sqrt(high + 1)) + 1)
    counts = np.arange(low, high + 1)
    chances = binom.pmf(counts, drawn_from, prob)
    counts, chances = counts[chances > 0], chances[chances > 0]
    if most is not None:
        counts = np.minimum(counts, most)
    said = f"sampling_prob={prob:.6g} of {drawn_from} units"
    centre = round(float(np.sum(chances * counts)), 9)
    measures: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "their mean size": lambda k: k,
        "their mean squared distance from the expected size": lambda k: (k - centre) ** 2,
        "their share of empty ones": lambda k: (k == 0) * 1.0,
    }
    for words, measure in measures.items():
        values = measure(counts.astype(float))
        found = float(np.mean(measure(sizes.astype(float))))
        if _log_chance(found, values, chances) * len(sizes) < math.log(FALSE_ALARM / 6):
            yield (
                f"draws were not those of {said}: {words} was {found:.4g} over {len(sizes)} "
                f"releases, expected {float(np.sum(chances * values)):.4g}."
            )


def _log_chance(found: float, values: np.ndarray, chances: np.ndarray) -> float:
    """Upper bound, per draw, on the log of the chance of a mean as far out as ``found``."""
    from scipy.optimize import minimize_scalar

    mean = float(np.sum(values * chances))
    spread = math.sqrt(float(np.sum((values - mean) ** 2 * chances)))
    if spread == 0:
        return 0.0 if math.isclose(found, mean, abs_tol=1e-9) else -math.inf
    side = 1.0 if found >= mean else -1.0
    scaled = side * (values - mean) / spread
    target = side * (found - mean) / spread

    def bound(log_t: float) -> float:
        tilted = math.exp(log_t) * (scaled - target)
        most = float(tilted.max())
        return most + math.log(float(np.sum(chances * np.exp(tilted - most))))

    best = minimize_scalar(bound, bounds=(-14.0, 14.0), method="bounded")
    return min(0.0, float(best.fun))


def _slot_differences(
    entries: Sequence[ReleaseEntry], slots: int, drawn_from: int
) -> Iterator[str]:
    """Slots in turn, and every slot of the size that a partition has."""
    wrong = [e for e in entries if e.slot != e.step % slots]
    if wrong:
        yield (
            f"release {wrong[0].number} for step {wrong[0].step} had slot {wrong[0].slot}, in turn "
            f"it was slot {wrong[0].step % slots}."
        )
    sizes = (drawn_from // slots, -(-drawn_from // slots))
    odd = [e for e in entries if not sizes[0] <= e.n_units <= sizes[1]]
    if odd:
        yield (
            f"release {odd[0].number} had {odd[0].n_units} units, a slot has {sizes[0]} to "
            f"{sizes[1]} of {drawn_from}."
        )

"""What a retrieval attack found. Torch-free."""

from dataclasses import dataclass
from typing import final

from scipy.special import betaincinv

from insular import _check
from insular.errors import InvalidArgumentError


@final
@dataclass(frozen=True, kw_only=True)
class RetrievalRate:
    """How often an attacker was right, with an exact interval for its probability."""

    count: int
    """Queries in which it was."""
    n: int
    """Queries."""
    value: float
    """``count / n``; 0 without queries."""
    lower: float
    """Lower end of the interval."""
    upper: float
    """Upper end of the interval."""
    significance: float
    """The interval misses the truth with at most this probability."""
    method: str = "Clopper-Pearson, two-sided"
    """How the interval was computed. It treats queries as independent draws from a fixed bank."""


@final
@dataclass(frozen=True, kw_only=True)
class RetrievalResult:
    """How well an attacker finds the prompt of a released state in a bank of candidates.

    It says something of this bank alone: fewer candidates make every attacker look better.
    """

    attacker: str
    """What was compared."""
    n_queries: int
    """Released states."""
    n_candidates: int
    """Different candidates; duplicates were removed first."""
    n_duplicates: int
    """Candidates that were copies of another and were removed."""
    top_1: RetrievalRate
    """The true prompt is nearest; ties count for the attacker."""
    top_1_untied: RetrievalRate
    """The true prompt is nearest and no other candidate is as near; ties count against it."""
    top_10: RetrievalRate
    """Fewer than 10 candidates are nearer than the true prompt."""
    median_rank: float
    """Median over the queries of 1 plus the candidates nearer than the truth."""
    n_tied: int
    """Queries in which another candidate is exactly as near as the true one."""
    chance: float
    """Top-1 of an attacker who guesses."""
    n_recomputed: int
    """Queries whose whole row was computed again in float64, because float32 could not decide."""

    @property
    def above_chance(self) -> bool:
        """Whether top-1 is above guessing, beyond its interval."""
        return self.top_1.lower > self.chance


def retrieval_rate(count: int, n: int, *, significance: float) -> RetrievalRate:
    """A rate with its Clopper-Pearson interval.

    Guarantees:
        * The interval misses the truth with probability at most ``significance``, for every n.

    Args:
        count: From 0 to n.
        n: Queries; without any the interval is from 0 to 1.
        significance: Of both ends together.

    Returns:
        The rate.

    Raises:
        InvalidArgumentError: If an argument breaks its rule.
    """
    _check.at_least(0, count=count, n=n)
    _check.probability(significance=significance)
    if count > n or significance in (0, 1):
        raise InvalidArgumentError(
            "count must be at most n and significance above 0 and below 1, got "
            f"count={count}, n={n}, significance={significance!r}."
        )
    half = significance / 2
    return RetrievalRate(
        count=count,
        n=n,
        value=count / n if n else 0.0,
        lower=float(betaincinv(count, n - count + 1, half)) if count else 0.0,
        upper=float(betaincinv(count + 1, n - count, 1 - half)) if count < n else 1.0,
        significance=significance,
    )

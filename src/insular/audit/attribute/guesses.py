"""Two guessers on the same records: exact tests and intervals for the difference."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from scipy.stats import binom

from insular import _check
from insular.audit.attribute.results import PairedComparison
from insular.audit.statistics.rates import clopper_pearson, rate_of
from insular.errors import InvalidArgumentError

_EACH = 0.025


def mcnemar_p(only_first: int, only_second: int) -> float:
    """One-sided exact p-value that the first of two guessers is no better than the second.

    ``P(Binomial(b + c, 1/2) >= b)`` for b records that only the first guesses and c that only the
    second does.

    Guarantees:
        * 1 where they differ on no record.

    Args:
        only_first: b.
        only_second: c.

    Returns:
        The p-value.

    Source:
        McNemar (1947), in its exact conditional form.
    """
    _check.at_least(0, only_first=only_first, only_second=only_second)
    return float(binom.sf(only_first - 1, only_first + only_second, 0.5))


def compare_guessers(
    attack: Sequence[bool],
    other: Sequence[bool],
    *,
    baseline: Literal["population", "base model"],
) -> PairedComparison:
    """Compare two guessers record by record.

    Guarantees:
        * The interval of the difference misses it with probability 0.05 at most: both shares of
          one-sided records are bounded exactly, at a quarter of that for each bound.

    Args:
        attack: For each record, whether the attack guesses it.
        other: The same for the baseline, in the same order.
        baseline: Who that is.

    Returns:
        The comparison.

    Raises:
        InvalidArgumentError: If they are of different records.
    """
    if len(attack) != len(other) or not attack:
        raise InvalidArgumentError(
            f"attack and other must be about the same records, got {len(attack)} and {len(other)}."
        )
    n = len(attack)
    more = sum(a and not b for a, b in zip(attack, other, strict=True))
    fewer = sum(b and not a for a, b in zip(attack, other, strict=True))
    up, down = (clopper_pearson(k, n, significance=0.025) for k in (more, fewer))
    return PairedComparison(
        baseline=baseline,
        accuracy=rate_of(sum(other), n, significance=_EACH),
        only_attack=more,
        only_baseline=fewer,
        difference=(more - fewer) / n,
        difference_interval=(up[0] - down[1], up[1] - down[0]),
        p_value=mcnemar_p(more, fewer),
    )


def most_common(values: Sequence[str], *, order: Sequence[str]) -> str:
    """The most common value; of several the first in ``order``.

    Args:
        values: Of the population.
        order: All values that there are.

    Returns:
        The value.
    """
    counts = Counter(values)
    return max(order, key=lambda value: counts[value])

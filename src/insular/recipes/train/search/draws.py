"""How many runs a search makes, drawn from the law that its accountant is told."""

import math
from collections.abc import Iterator
from typing import final

from insular.mechanisms.keystream import Keystream

_LEAST_MASS = 2.0**-64


@final
class RunCount:
    """The law of the number of runs: Poisson, or a truncated negative binomial.

    With shape h > 0 and success probability g, P(K = k) is proportional to
    ``(1 - g)^k prod_{l < k} (l + h) / (l + 1)`` for k from 1; h = 1 is the geometric law, h -> 0
    the logarithmic one, and an infinite h stands for Poisson, which may be 0.

    Guarantees:
        * The mean is ``mean_runs``.
        * The draw depends on the stream alone, never on data.

    Source:
        Papernot and Steinke (2022), "Hyperparameter Tuning with Renyi Differential Privacy",
        Definition 1 and Theorem 6.

    Args:
        mean_runs: Its mean, 1 or more.
        shape: h.
    """

    def __init__(self, *, mean_runs: float, shape: float) -> None:
        self._mean, self._shape = mean_runs, shape

    def draw(self, stream: Keystream) -> int:
        """One number of runs.

        Args:
            stream: Where random words come from.

        Returns:
            It.
        """
        word = int(stream.words(1, purpose="number of runs", step=0)[0])
        left = (word + 0.5) * 2.0**-64
        drawn = 0
        for runs, chance in self.chances():
            left, drawn = left - chance, runs
            if left < 0:
                break
        return drawn

    def chances(self) -> Iterator[tuple[int, float]]:
        """Each number of runs with its probability, up to a tail below 2^-64.

        Yields:
            Number and probability.
        """
        runs = 0 if self._shape == math.inf else 1
        chance = self._first()
        while chance > _LEAST_MASS or runs < self._mean:
            yield runs, chance
            chance *= self._growth(runs)
            runs += 1

    def _first(self) -> float:
        """Probability of the least number."""
        if self._shape == math.inf:
            return math.exp(-self._mean)
        g, h = self._success(), self._shape
        if g == 1:
            return 1.0
        if h == 0:
            return (1 - g) / -math.log(g)
        return h * (1 - g) / math.expm1(-h * math.log(g))

    def _growth(self, runs: int) -> float:
        """Probability of one more run over that of ``runs``."""
        if self._shape == math.inf:
            return self._mean / (runs + 1)
        return (1 - self._success()) * (runs + self._shape) / (runs + 1)

    def _success(self) -> float:
        """The g that gives the mean, by bisection: the mean falls as g grows."""
        if self._mean == 1:
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if self._mean_at(middle) > self._mean else (low, middle)
        return high

    def _mean_at(self, g: float) -> float:
        """Mean for a success probability below 1."""
        if g == 0:
            return math.inf
        if self._shape == 0:
            return (1 / g - 1) / -math.log(g)
        return self._shape * (1 - g) / (g * -math.expm1(self._shape * math.log(g)))


def draw_choices(stream: Keystream, *, n_runs: int, n_candidates: int) -> tuple[int, ...]:
    """Which candidate each run takes, evenly and with repetition.

    Args:
        stream: Where random words come from.
        n_runs: Runs.
        n_candidates: Length of the public list.

    Returns:
        Positions in the list; one is more likely than another by at most 2^-64 of the list.
    """
    words = stream.words(n_runs, purpose="candidates", step=0)
    return tuple(int(word) * n_candidates >> 64 for word in words)

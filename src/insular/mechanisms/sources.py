"""Where noise comes from: OpenDP's secure samplers, or a seeded generator for tests and audits.

Noise is drawn in whole steps of a public grid and added to whole numbers, so that no bit of the
sum shows what was added (Mironov 2012, "On significance of the least significant bits for
differential privacy").
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol, final

from insular import _check
from insular.accounting import NoiseSource
from insular.errors import InvalidArgumentError, MissingDependencyError


class Noise(Protocol):
    """Draws noise."""

    @property
    def source(self) -> NoiseSource:
        """What the event is told."""
        ...

    def laplace(self, scale: float, n_draws: int) -> list[int]:
        """Whole numbers with probability proportional to ``exp(-|x| / scale)``."""
        ...

    def gaussian(self, std: float, n_draws: int) -> list[int]:
        """Whole numbers with probability proportional to ``exp(-x^2 / 2 std^2)``."""
        ...

    def answers(self, true: Sequence[int], truth_prob: float, n_answers: int) -> list[int]:
        """Each answer kept with a probability, else replaced by another one evenly."""
        ...


@final
class SecureNoise:
    """OpenDP's exact samplers on the operating system's randomness.

    Sampling switches on OpenDP's feature ``contrib`` for the process: OpenDP asks for it until a
    proof has been vetted by its own board.

    Guarantees:
        * The probabilities are exact: no floating-point sampler is involved.
        * Two draws share nothing.

    Source:
        Canonne, Kamath and Steinke (2020), "The discrete Gaussian for differential privacy".
    """

    @property
    def source(self) -> NoiseSource:
        """``secure``."""
        return "secure"

    def laplace(self, scale: float, n_draws: int) -> list[int]:
        """Draw from the discrete Laplace.

        Args:
            scale: b, in grid steps.
            n_draws: Numbers to draw.

        Returns:
            The draws.

        Raises:
            MissingDependencyError: If OpenDP is not installed.
        """
        opendp = _opendp()
        measure = opendp.measurements.make_laplace(*_integers("l1_distance", "i64"), scale=scale)
        return measure([0] * n_draws)

    def gaussian(self, std: float, n_draws: int) -> list[int]:
        """Draw from the discrete Gaussian.

        Args:
            std: Standard deviation, in grid steps.
            n_draws: Numbers to draw.

        Returns:
            The draws.

        Raises:
            MissingDependencyError: If OpenDP is not installed.
        """
        opendp = _opendp()
        measure = opendp.measurements.make_gaussian(*_integers("l2_distance", "f64"), scale=std)
        return measure([0] * n_draws)

    def answers(self, true: Sequence[int], truth_prob: float, n_answers: int) -> list[int]:
        """Randomise answers.

        Args:
            true: Index of each true answer.
            truth_prob: Probability of the true answer.
            n_answers: Possible answers.

        Returns:
            Index of each reported answer.

        Raises:
            MissingDependencyError: If OpenDP is not installed.
        """
        opendp = _opendp()
        measure = opendp.measurements.make_randomized_response(
            list(range(n_answers)), truth_prob, T="i32"
        )
        return [measure(answer) for answer in true]


@final
class SeededNoise:
    """A numpy generator: for tests and audits, never for a release that is meant to protect.

    Who knows the seed takes the noise away, and its floating-point draws are not exact. One object
    serves many releases, each with fresh noise; a new object with the same seed repeats them.

    Guarantees:
        * The same seed and the same calls give the same draws.
        * Events say ``seeded``, so an accountant calls their cost an estimate.
    """

    def __init__(self, seed: int) -> None:
        _check.at_least(0, seed=seed)
        from numpy.random import default_rng

        self._generator = default_rng(seed)

    @property
    def source(self) -> NoiseSource:
        """``seeded``."""
        return "seeded"

    def laplace(self, scale: float, n_draws: int) -> list[int]:
        """Draw a Laplace and round it; where the grid is coarse, a discrete Laplace.

        Args:
            scale: b, in grid steps.
            n_draws: Numbers to draw.

        Returns:
            The draws.
        """
        if scale > 2**20:
            return [round(x) for x in self._generator.laplace(0.0, scale, n_draws).tolist()]
        pairs = self._generator.geometric(-math.expm1(-1 / scale), (n_draws, 2)).tolist()
        return [first - second for first, second in pairs]

    def gaussian(self, std: float, n_draws: int) -> list[int]:
        """Draw a Gaussian and round it.

        Args:
            std: Standard deviation, in grid steps.
            n_draws: Numbers to draw.

        Returns:
            The draws.
        """
        return [round(x) for x in self._generator.normal(0.0, std, n_draws).tolist()]

    def answers(self, true: Sequence[int], truth_prob: float, n_answers: int) -> list[int]:
        """Randomise answers.

        Args:
            true: Index of each true answer.
            truth_prob: Probability of the true answer.
            n_answers: Possible answers.

        Returns:
            Index of each reported answer.
        """
        told = (self._generator.random(len(true)) < truth_prob).tolist()
        shifts = self._generator.integers(1, n_answers, len(true)).tolist()
        return [
            answer if truth else (answer + shift) % n_answers
            for answer, truth, shift in zip(true, told, shifts, strict=True)
        ]


SECURE = SecureNoise()
"""The default everywhere."""


def check_noise(noise: object) -> None:
    """Refuse what is not a source of noise.

    Args:
        noise: A source.

    Raises:
        InvalidArgumentError: If it is not one, a bare seed for example.
    """
    if not isinstance(noise, SecureNoise | SeededNoise):
        raise InvalidArgumentError(
            f"noise must be SecureNoise() or SeededNoise(seed), got {type(noise).__name__}."
        )


def _integers(metric: str, distance: str) -> tuple[Any, Any]:
    """OpenDP's domain of integer vectors with a metric."""
    from opendp import domains, metrics

    domain = domains.vector_domain(domains.atom_domain(T="i64"))
    return domain, getattr(metrics, metric)(T=distance)


def _opendp() -> Any:
    """OpenDP with its samplers, loaded when noise is drawn."""
    try:
        import opendp.measurements
        from opendp.mod import enable_features
    except ImportError as error:
        raise MissingDependencyError(
            "secure noise needs OpenDP, which is not installed; install insular[statistics], or "
            "pass noise=SeededNoise(seed) in a test."
        ) from error
    enable_features("contrib")
    return opendp

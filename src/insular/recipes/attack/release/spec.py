"""What one attack on releases is asked to do, as one TOML file can say it. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular import _check

Statistic = Literal["full-vector", "exact-scalar"]
STATISTICS: dict[Statistic, str] = {
    "full-vector": "whole float32 adapters, each projected in float64",
    "exact-scalar": "the projection alone, in real numbers: the ideal mechanism, not the code",
}
"""What is drawn, with one line on it."""


@final
@dataclass(frozen=True, kw_only=True)
class ReleaseSpec:
    """One run of ``insular attack release``."""

    run: str
    """Folder of the audit whose pair is released."""
    stacks: tuple[str, ...] = ()
    """Stacks of that audit; empty for the one under test and its first repair."""
    draws: int = 100_000
    """Releases of each neighbour, of each stack."""
    statistic: Statistic = "full-vector"
    """What is drawn."""
    noise_multiplier: float | None = None
    """Noise standard deviation over C; None for the run that the audit priced."""
    expected_batch_size: float | None = None
    """Divisor of the noisy sum; None for the audit's batch."""
    learning_rate: float = 0.01
    """Of the SGD step."""
    deltas: tuple[float, ...] = (1e-3, 1e-5, 1e-6)
    """Deltas at which a point (epsilon, delta) is tested."""
    significance: float = 0.05
    """Error probability of the run: of all trade-off bounds together, and of all points."""
    shard_draws: int = 10_240
    """Releases of a shard: what a killed run loses at most, for each process."""
    seed: int = 0
    """Every shard's seed follows from it."""

    def __post_init__(self) -> None:
        """Report every setting that breaks its rule, then refuse once.

        Raises:
            InvalidArgumentError: Naming each problem.
        """
        rules = (
            lambda: _check.at_least(4, draws=self.draws),
            lambda: _check.at_least(1, shard_draws=self.shard_draws),
            lambda: _check.at_least(0, seed=self.seed),
            lambda: _check.one_of(STATISTICS, statistic=self.statistic),
            lambda: _check.positive_finite(
                learning_rate=self.learning_rate, significance=self.significance
            ),
            lambda: _check.probability(significance=self.significance),
            lambda: _check.at_least(1, deltas=len(self.deltas)),
            *(lambda delta=delta: _check.probability(deltas=delta) for delta in self.deltas),
            *(
                lambda name=name: _check.positive_finite(**{name: getattr(self, name)})
                for name in ("noise_multiplier", "expected_batch_size")
                if getattr(self, name) is not None
            ),
        )
        twice = len(set(self.stacks)) < len(self.stacks)
        also = ["stacks must be different ones, got one twice."] if twice else []
        _check.every(rules, also=also)

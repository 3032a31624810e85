"""What one audit by one run is asked to do, as one TOML file can say it. Torch-free."""

from dataclasses import dataclass
from typing import final

from insular import _check
from insular.audit.spec import Direction
from insular.recipes.attack.training.spec import DIRECTIONS

MOST_CANARIES = 5_000
"""Each canary has a gradient with a coordinate for every one: 200 MB for so many."""


@final
@dataclass(frozen=True, kw_only=True)
class OneRunSpec:
    """One run of ``insular attack one-run``."""

    run: str
    """Folder of the training run."""
    canaries: int = 1_000
    """Canaries of the one repetition."""
    direction: Direction = "dirac"
    """How long a canary's gradient is: ``dirac`` is the clip norm, ``long`` a hundred times it."""
    guesses: tuple[int, ...] = ()
    """Numbers of guesses, half of them high and half low; each further one is paid for. Empty: the
    number that best shows the excess under the promise, found by simulation before the run."""
    two_sided: bool = False
    """Whether low scores may speak for presence as well, at the price of half the significance."""
    excess: float = 2.0
    """Sensitivity over the promised one that the attack should be able to see."""
    significance: float = 0.05
    """Error probability of all that is refuted, together."""
    seed: int = 0
    """The coins, draws and noise follow from it."""

    def __post_init__(self) -> None:
        """Report every setting that breaks its rule, then refuse once.

        Raises:
            InvalidArgumentError: Naming each problem.
        """
        rules = (
            lambda: _check.at_least(1, canaries=self.canaries),
            lambda: [_check.at_least(1, guesses=n) for n in self.guesses],
            lambda: _check.at_least(0, seed=self.seed),
            lambda: _check.one_of(DIRECTIONS, direction=self.direction),
            lambda: _check.positive_finite(significance=self.significance, excess=self.excess),
            lambda: _check.probability(significance=self.significance),
        )
        also = []
        if self.canaries > MOST_CANARIES:
            also.append(f"canaries must be at most {MOST_CANARIES}, got canaries={self.canaries}.")
        if self.significance == 1:
            also.append("significance must be below 1, got significance=1.")
        if any(n > self.canaries for n in self.guesses):
            also.append(
                f"guesses must be at most the canaries, got guesses={max(self.guesses)} and"
                f" canaries={self.canaries}."
            )
        if len(set(self.guesses)) < len(self.guesses):
            also.append("guesses must name each number once.")
        if self.excess <= 1:
            also.append(f"excess must be above 1, got excess={self.excess!r}.")
        _check.every(rules, also=also)

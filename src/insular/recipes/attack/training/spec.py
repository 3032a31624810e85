"""What one attack on a training run is asked to do, as one TOML file can say it. Torch-free."""

from dataclasses import dataclass
from typing import final, get_args

from insular import _check
from insular.audit.spec import Direction

DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


@final
@dataclass(frozen=True, kw_only=True)
class TrainingAttackSpec:
    """One run of ``insular attack training``."""

    run: str
    """Folder of the training run."""
    canaries: int = 64
    """Canaries of each repetition; with 1, no two scores share anything."""
    repetitions: int = 400
    """How often training is repeated."""
    direction: Direction = "dirac"
    """How long a canary's gradient is: ``dirac`` is the clip norm, ``long`` a hundred times it."""
    excess: float = 2.0
    """Sensitivity over the promised one that the attack should be able to see."""
    significance: float = 0.05
    """Error probability of all that is refuted, together."""
    audit: str = ""
    """Folder of an audit whose pair is played as well; empty for none."""
    stack: str = ""
    """Stack of that audit; empty for the one under test."""
    pair_repetitions: int = 20_000
    """How often training is repeated on the pair, which gives one score each time."""
    shard_games: int = 50
    """Repetitions of a shard of canaries: what a killed run loses at most, for each process."""
    seed: int = 0
    """Every repetition's coins, draws and noise follow from it."""

    def __post_init__(self) -> None:
        """Report every setting that breaks its rule, then refuse once.

        Raises:
            InvalidArgumentError: Naming each problem.
        """
        rules = (
            lambda: _check.at_least(1, canaries=self.canaries, shard_games=self.shard_games),
            lambda: _check.at_least(8, repetitions=self.repetitions),
            lambda: _check.at_least(8, pair_repetitions=self.pair_repetitions),
            lambda: _check.at_least(0, seed=self.seed),
            lambda: _check.one_of(DIRECTIONS, direction=self.direction),
            lambda: _check.positive_finite(significance=self.significance, excess=self.excess),
            lambda: _check.probability(significance=self.significance),
        )
        also = []
        if self.stack and not self.audit:
            also.append("audit must be given with stack, got none; name its folder.")
        if self.excess <= 1:
            also.append(f"excess must be above 1, got excess={self.excess!r}.")
        _check.every(rules, also=also)

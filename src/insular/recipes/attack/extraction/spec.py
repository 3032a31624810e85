"""What ranking planted secrets is asked to do, as one TOML file can say it. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular import _check

Ranking = Literal["auto", "exact", "sampled"]
RANKINGS: dict[Ranking, str] = {
    "auto": "exact where that is cheap: a small space, or a secret in front of all sampled ones",
    "exact": "among all of the space, whatever it takes",
    "sampled": "among candidates drawn evenly from the space",
}
"""How a rank is found, with one line on it."""


@final
@dataclass(frozen=True, kw_only=True)
class ExtractionSpec:
    """One run of ``insular attack extraction``."""

    run: str
    """Training run, adapter or model that is attacked."""
    canaries: str
    """Folder that ``insular attack canaries`` wrote."""
    model: str = ""
    """Base model of an adapter; empty for the one that run or adapter name."""
    rank: Ranking = "auto"
    """How ranks are found."""
    candidates: int = 1000
    """Candidates of a sampled rank."""
    prefixes: int = 10_000
    """Most prefixes that ``auto`` asks the model about for one exact rank."""
    epsilon: float = 0.0
    """Promise for all rows of a secret, for a model without a run that states one; 0 for none."""
    delta: float = 0.0
    """Its delta."""
    significance: float = 0.05
    """Error probability of all that is refuted, together."""
    device: str = "cpu"
    """Where it computes."""
    seed: int = 0
    """Sampled candidates follow from it."""

    def __post_init__(self) -> None:
        """Report every setting that breaks its rule, then refuse once.

        Raises:
            InvalidArgumentError: Naming each problem.
        """
        also = []
        if self.delta and not self.epsilon:
            also.append("epsilon must be > 0 with delta, got epsilon=0; name the promise wholly.")
        if self.significance in (0, 1):
            also.append(
                f"significance must be above 0 and below 1, got significance={self.significance!r}."
            )
        _check.every(
            (
                lambda: _check.one_of(RANKINGS, rank=self.rank),
                lambda: _check.at_least(20, candidates=self.candidates),
                lambda: _check.at_least(1, prefixes=self.prefixes),
                lambda: _check.non_negative_finite(epsilon=self.epsilon),
                lambda: _check.probability(delta=self.delta, significance=self.significance),
                lambda: _check.at_least(0, seed=self.seed),
            ),
            also=also,
        )

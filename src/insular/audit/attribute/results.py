"""What a model tells of an attribute beyond its population. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular.audit.statistics.bounds import Rate

AttributeVerdict = Literal["tells more", "not shown", "undecided"]


@final
@dataclass(frozen=True, kw_only=True)
class AttributeRank:
    """Where the true value of one record stands among all values. The value stands nowhere."""

    id: str
    """The record."""
    lowest: int
    """1 + values that the model finds likelier."""
    highest: int
    """The same, ties in front."""
    base_lowest: int | None
    """For the base model; None without one."""
    base_highest: int | None
    """For the base model; None without one."""

    @property
    def guessed(self) -> bool:
        """Whether the model finds the true value likelier than every other."""
        return self.highest == 1

    @property
    def base_guessed(self) -> bool:
        """The same for the base model."""
        return self.base_highest == 1


@final
@dataclass(frozen=True, kw_only=True)
class PairedComparison:
    """The attack against one baseline, on the same records."""

    baseline: Literal["population", "base model"]
    """Who guesses besides."""
    accuracy: Rate
    """Of the baseline, with 97.5% bounds on each side."""
    only_attack: int
    """Records that only the attack guesses."""
    only_baseline: int
    """Records that only the baseline guesses."""
    difference: float
    """Accuracy of the attack minus the baseline's."""
    difference_interval: tuple[float, float]
    """Exact 95% interval of the difference; conservative."""
    p_value: float
    """Probability of so many more or more if neither guesses better (McNemar, one side)."""


@final
@dataclass(frozen=True, kw_only=True)
class AttributeResult:
    """Attribute inference from a model's likelihoods, against who does not know the model."""

    attacked: str
    """What was attacked."""
    attribute: str
    """Field whose value is guessed."""
    n_values: int
    """Values to choose from."""
    n_records: int
    """Records."""
    population: str
    """Where the population's most common value is from."""
    accuracy: Rate
    """Of the attack, with 97.5% bounds on each side."""
    n_tied: int
    """Records whose true value ties for the first place; counted as not guessed."""
    comparisons: tuple[PairedComparison, ...]
    """With the population, and with the base model where there is one."""
    records: tuple[AttributeRank, ...]
    """Every record, by id."""
    significance: float
    """Error probability of the verdict."""
    smallest_p: float
    """What a test could show at best with so many records."""

    @property
    def verdict(self) -> AttributeVerdict:
        """``tells more`` only where the attack beats every baseline."""
        if all(row.p_value <= self.significance for row in self.comparisons):
            return "tells more"
        return "not shown" if self.smallest_p <= self.significance else "undecided"

    @property
    def exit_code(self) -> int:
        """0: not shown; 1: the model tells more; 2: too few records."""
        return {"not shown": 0, "tells more": 1, "undecided": 2}[self.verdict]

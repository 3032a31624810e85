"""Questions about a privacy budget, and their answers as data."""

from dataclasses import dataclass
from typing import Literal, final

from insular import _check
from insular.accounting import (
    Accountant,
    PoissonGaussianEvent,
    PrivacyCost,
    Refusal,
    Relation,
    RepeatedEvent,
    TradeoffCurve,
    Unit,
)
from insular.errors import InvalidArgumentError

MOST_STEPS = 10**9
MOST_RECORDS = 10**9
NOISE_RANGE = (1e-100, 1e100)


def check_steps(steps: int, *, least: int = 0) -> None:
    """Refuse a number of steps that no run has.

    Raises:
        InvalidArgumentError: With rule, value and remedy.
    """
    _check.at_least(least, steps=steps)
    if steps > MOST_STEPS:
        raise InvalidArgumentError(
            f"steps must be at most {MOST_STEPS}, got {_power(steps)}; account for parts of the"
            " run and add their epsilons."
        )


def check_records_per_owner(records_per_owner: int) -> None:
    """Refuse a number of records that no owner has.

    Raises:
        InvalidArgumentError: With rule, value and remedy.
    """
    _check.at_least(1, records_per_owner=records_per_owner)
    if records_per_owner > MOST_RECORDS:
        raise InvalidArgumentError(
            f"records_per_owner must be at most {MOST_RECORDS}, got {_power(records_per_owner)};"
            " an owner of more is protected by a clip per owner only."
        )


def _power(value: int) -> str:
    """A large integer in few characters."""
    return f"about 10^{len(str(value)) - 1}"


@final
@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """Equal Poisson-sampled Gaussian steps: what a privacy-preserving training run releases."""

    noise_multiplier: float
    """Noise standard deviation over the clip norm."""
    sampling_prob: float
    """Probability with which each unit enters a step."""
    steps: int
    """Steps of the run."""
    relation: Relation = "add_or_remove_one"
    """Which data sets are neighbours."""
    unit: Unit = "record"
    """What is clipped and sampled as one."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        check_steps(self.steps)
        self.event()
        low, high = NOISE_RANGE
        if self.noise_multiplier != 0 and not low <= self.noise_multiplier <= high:
            raise InvalidArgumentError(
                f"noise_multiplier must be 0 or from {low:g} to {high:g}, got noise_multiplier="
                f"{self.noise_multiplier!r}: its square must fit a 64-bit float."
            )

    def event(self) -> RepeatedEvent:
        """The run as the accountants take it.

        Returns:
            The event.
        """
        step = PoissonGaussianEvent(
            noise_multiplier=self.noise_multiplier,
            sampling_prob=self.sampling_prob,
            relation=self.relation,
            unit=self.unit,
        )
        return RepeatedEvent(event=step, count=self.steps)


@final
@dataclass(frozen=True, kw_only=True)
class AttackerBound:
    """What the best attacker can do, whatever it knows besides the record."""

    false_positive_rate: float
    """Share of non-members that it takes for members."""
    true_positive_rate: float
    """Highest share of members that it then recognises."""
    advantage: float
    """Highest true minus false positive rate, at any rate."""
    exact: bool
    """Whether these are closed forms; otherwise they are never below the truth."""


@final
@dataclass(frozen=True, kw_only=True)
class OwnerCost:
    """What a guarantee for one record means for an owner of several, by group privacy."""

    n_records: int
    """Records of the owner, at most."""
    epsilon: float
    """In nats: the record's, times their number."""
    delta: float
    """Grown with it; 1 means that nothing is promised."""
    same_delta_epsilon: float | None
    """Epsilon of the owner at the record's own delta, from a smaller delta for the record; None
    where no delta is small enough or nothing but the pair is known."""


@final
@dataclass(frozen=True, kw_only=True)
class EpsilonResult:
    """What a run spends, by every accountant."""

    run: PlannedRun
    """The run."""
    delta: float
    """Delta of every epsilon."""
    rows: tuple[PrivacyCost | Refusal, ...]
    """One for each accountant."""
    headline: PrivacyCost
    """The guarantee to quote: the tightest accountant that has one."""
    attacker: AttackerBound | Refusal
    """What it means at a false positive rate of 1%."""
    owner: OwnerCost | None
    """What it means for an owner of several records, where that was asked."""


@final
@dataclass(frozen=True, kw_only=True)
class CalibrationSpec:
    """A promise, and the run that is to keep it."""

    target: Literal["epsilon", "advantage", "true_positive_rate"]
    """What the promise is about."""
    value: float
    """At most this."""
    false_positive_rate: float | None
    """Where a true positive rate is promised; None for another target."""
    delta: float
    """Delta of every epsilon."""
    sampling_prob: float
    """Probability with which each unit enters a step."""
    steps: int
    """Steps of the run."""
    relation: Relation = "add_or_remove_one"
    """Which data sets are neighbours."""
    unit: Unit = "record"
    """What is clipped and sampled as one."""


@final
@dataclass(frozen=True, kw_only=True)
class CalibrationRow:
    """The noise that one accountant asks for, checked by two."""

    accountant: Accountant
    """Who looked for it."""
    noise_multiplier: float
    """The least noise on the safe side, within 0.1%."""
    achieved: float
    """The target with this noise, by the same accountant: at most what was promised."""
    costs: tuple[PrivacyCost | Refusal, ...]
    """Epsilon with this noise, computed afresh by PLD and by RDP."""


@final
@dataclass(frozen=True, kw_only=True)
class CalibrationResult:
    """The noise that keeps a promise."""

    spec: CalibrationSpec
    """What was asked."""
    rows: tuple[CalibrationRow | Refusal, ...]
    """PLD first."""

    @property
    def found(self) -> CalibrationRow:
        """The least noise, by the first accountant that has an answer."""
        return next(row for row in self.rows if isinstance(row, CalibrationRow))


@final
@dataclass(frozen=True, kw_only=True)
class CurveResult:
    """Epsilon at several deltas, and the trade-off curve."""

    run: PlannedRun
    """The run."""
    costs: tuple[PrivacyCost | Refusal, ...]
    """PLD at each delta, the largest delta first."""
    deltas: tuple[float, ...]
    """The deltas, in the same order."""
    curve: TradeoffCurve | Refusal
    """True positive rates at the false positive rates that were asked for."""


@final
@dataclass(frozen=True, kw_only=True)
class PairSpec:
    """A measured distance between the clipped sums of two neighbouring batches."""

    distance: float
    """In clip norms C."""
    noise_multiplier: float = 1.0
    """Noise standard deviation over the clip norm."""
    delta: float = 1e-5
    """Delta of every epsilon."""
    relation: Relation = "add_or_remove_one"
    """How the two batches differ."""
    repeat_distance: float = 0.0
    """Distance of an identical repeat, in clip norms C."""
    sampling_prob: float | None = None
    """Probability with which each record enters a step of the run, if there is one."""
    steps: int | None = None
    """Steps of the run, if there is one."""


@final
@dataclass(frozen=True, kw_only=True)
class PairRow:
    """What one sensitivity costs."""

    meaning: Literal["claimed", "measured"]
    """What the sensitivity is."""
    distance: float
    """In clip norms C."""
    ratio: float
    """Over the separable bound."""
    step_epsilon: float
    """Of one Gaussian step that everyone enters, in nats: exact for the pair."""
    step_advantage: float
    """Highest true minus false positive rate of an attacker who sees that step."""
    step_true_positive_rate: float
    """Highest true positive rate of such an attacker at a false positive rate of 1%."""
    run_epsilon: float | None
    """Of the run, if every step had this sensitivity; None without a run."""


@final
@dataclass(frozen=True, kw_only=True)
class PairResult:
    """A measured distance against the claim."""

    spec: PairSpec
    """What was asked."""
    bound: float
    """Separable bound of the relation, in clip norms C."""
    margin: float
    """How far above 1 a ratio must be to exceed it."""
    exceeds: bool
    """Whether the measured ratio does."""
    rows: tuple[PairRow, PairRow]
    """Claimed, measured."""

    @property
    def exit_code(self) -> int:
        """1 if the distance refutes the bound, else 0."""
        return int(self.exceeds)


@final
@dataclass(frozen=True, kw_only=True)
class GroupResult:
    """What a record's guarantee means for an owner."""

    epsilon: float
    """The record's, in nats."""
    delta: float
    """The record's."""
    owner: OwnerCost
    """The owner's."""

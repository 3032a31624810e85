"""What one training run with canaries proves from below. Torch-free."""

from dataclasses import dataclass, replace
from typing import Literal, Self, final

from insular import _check
from insular.accounting import Event, Relation, TradeoffCurve, Unit, pair_epsilon
from insular.audit.spec import Direction
from insular.errors import InvalidArgumentError
from insular.evidence import ArrayRef

OneRunVerdict = Literal["refuted", "not refuted", "too small to be seen"]
ENOUGH = 0.8
"""Chance to see the excess below which a run that shows none decides nothing."""


@final
@dataclass(frozen=True, kw_only=True)
class GuessCounts:
    """How many canaries are guessed, fixed before the scores are seen."""

    highest: int
    """Canaries with the highest scores, guessed to be in the data."""
    lowest: int
    """Canaries with the lowest scores, guessed not to be."""

    def __post_init__(self) -> None:
        """Refuse to guess nothing."""
        _check.at_least(0, highest=self.highest, lowest=self.lowest)
        _check.at_least(1, guesses=self.n)

    @property
    def n(self) -> int:
        """Guesses."""
        return self.highest + self.lowest


@final
@dataclass(frozen=True, kw_only=True)
class Guesses:
    """Guesses about canaries, and how many of them were right."""

    n_canaries: int
    """Canaries, each in the data by a fair coin of its own."""
    n: int
    """Guesses; about the other canaries nothing was said."""
    correct: int
    """Right ones."""

    def __post_init__(self) -> None:
        """Refuse numbers that do not fit together."""
        _check.at_least(1, n_canaries=self.n_canaries, n=self.n)
        _check.at_least(0, correct=self.correct)
        if self.n > self.n_canaries or self.correct > self.n:
            raise InvalidArgumentError(
                "guesses must be at most as many as canaries, and right ones at most as many as"
                f" guesses, got n_canaries={self.n_canaries}, n={self.n} and"
                f" correct={self.correct}."
            )

    @property
    def perfect(self) -> Self:
        """The same number of guesses, all of them right."""
        return replace(self, correct=self.n)


@final
@dataclass(frozen=True, kw_only=True)
class OneRunAttempt:
    """One way to guess, with what it proves at its share of the error probability."""

    counts: GuessCounts
    """Guesses of each kind."""
    reversed: bool
    """Whether low scores were taken to speak for presence."""
    correct: int
    """Right guesses."""
    epsilon_lower_bound: float
    """Epsilon at the bound's delta is at least this, in nats."""
    largest_epsilon: float
    """The same if every guess had been right: so many guesses prove no more."""
    mu_lower_bound: float
    """No Gaussian promise with a smaller mu holds."""
    largest_mu: float
    """The same if every guess had been right."""
    claim_p_value: float | None
    """Most probable that so many guesses are right where the claim holds; None without a claim."""


@final
@dataclass(frozen=True, kw_only=True)
class OneRunBound:
    """What all attempts on one run prove together."""

    n_canaries: int
    """Canaries."""
    n_present: int
    """Those that were in the data."""
    delta: float
    """Delta of the bound on epsilon."""
    significance: float
    """Error probability of the bound on epsilon over all attempts, and again of that on mu, and of
    a refuted claim."""
    attempts: tuple[OneRunAttempt, ...]
    """Each paid for with an equal share of ``significance``."""

    @property
    def best(self) -> OneRunAttempt:
        """The attempt that proves most."""
        return max(self.attempts, key=lambda one: (one.epsilon_lower_bound, one.mu_lower_bound))

    @property
    def epsilon_lower_bound(self) -> float:
        """The largest of the attempts."""
        return self.best.epsilon_lower_bound

    @property
    def largest_epsilon(self) -> float:
        """What a perfect attack could have proven."""
        return max(attempt.largest_epsilon for attempt in self.attempts)

    @property
    def mu_lower_bound(self) -> float:
        """The largest of the attempts."""
        return max(attempt.mu_lower_bound for attempt in self.attempts)

    @property
    def largest_mu(self) -> float:
        """What a perfect attack could have proven."""
        return max(attempt.largest_mu for attempt in self.attempts)

    @property
    def claim_p_value(self) -> float | None:
        """Of the claimed curve, over all attempts; None without a claim."""
        found = [a.claim_p_value for a in self.attempts if a.claim_p_value is not None]
        return min(1.0, len(self.attempts) * min(found)) if found else None

    @property
    def curve_refuted(self) -> bool:
        """Whether the claimed curve is refuted."""
        return self.claim_p_value is not None and self.claim_p_value <= self.significance

    def falsifies(self, claimed: float) -> bool:
        """Whether the one point (``claimed``, ``delta``) is refuted.

        Args:
            claimed: The promised epsilon at this delta, in nats.

        Returns:
            True only if the bound is above it.
        """
        return self.epsilon_lower_bound > claimed


@final
@dataclass(frozen=True, kw_only=True)
class GuessPoint:
    """What another number of guesses would have proven, by itself."""

    n: int
    """Guesses, in the proportion of the attempt."""
    correct: int
    """Right ones."""
    epsilon_lower_bound: float
    """At the run's delta, in nats."""
    largest_epsilon: float
    """If all had been right."""


@final
@dataclass(frozen=True, kw_only=True)
class GuessChance:
    """How likely some number of guesses shows a unit that weighs too much."""

    counts: GuessCounts
    """Guesses of each kind."""
    needed: int | None
    """Right guesses that refute the promised curve; None where all of them would not."""
    chance: float
    """Simulated probability of so many, if a unit weighs the excess, or if the noise is that many
    times smaller: the lesser of both."""
    expected_epsilon: float
    """Bound that a unit which weighs just what a canary weighs is expected to give, in nats."""


@final
@dataclass(frozen=True, kw_only=True)
class OneRunScores:
    """The one repetition: what every canary was given."""

    n_canaries: int
    """Canaries."""
    digest_scores: str
    """Digest of the scores."""
    digest_present: str
    """Digest of the coins."""
    seconds: float
    """Time that it took."""
    arrays: ArrayRef | None = None
    """``scores`` and ``present``: a number and a coin for each canary."""


@final
@dataclass(frozen=True, kw_only=True)
class OneRunResult:
    """A white-box audit of a training run by one repetition with many canaries."""

    run: str
    """Folder of the run."""
    event: Event
    """What the run says that it did: the promise."""
    unit: Unit
    """Whose presence is to be hidden."""
    relation: Relation
    """Neighbouring data sets."""
    steps: int
    """Steps of the repetition."""
    sampler: str
    """Sampler of the run."""
    clip_norm: float
    """Bound C, in gradient units."""
    noise_std: float
    """Standard deviation of the noise on the sum."""
    direction: Direction
    """Of the canaries."""
    ratio: float
    """How far a canary moves a clipped sum, over the sensitivity that is promised."""
    claim: TradeoffCurve
    """The promised curve."""
    claimed_mu: float | None
    """Its mu, where all steps together are one Gaussian; else None."""
    claimed_epsilon: float
    """The promise at the bound's delta, in nats."""
    significance: float
    """Error probability of everything that is refuted, together: half for the point, half for the
    curve."""
    excess: float
    """Sensitivity over the promised one that ``chances`` is for."""
    planned: bool
    """Whether the number of guesses was chosen from the promise; else it was given."""
    chances: tuple[GuessChance, ...]
    """Of each number of guesses that was played."""
    bound: OneRunBound
    """What was proven."""
    points: tuple[GuessPoint, ...]
    """What other numbers of guesses would have proven, each as if it alone had been fixed: for the
    eye, not a proof."""
    played: OneRunScores
    """The repetition's scores."""

    @property
    def chance(self) -> float:
        """Of the number of guesses that shows the excess best."""
        return max(one.chance for one in self.chances)

    @property
    def implied_epsilon(self) -> float | None:
        """The proven mu as an epsilon at the bound's delta, where the promise is Gaussian."""
        if self.claimed_mu is None:
            return None
        return pair_epsilon(self.bound.mu_lower_bound, self.bound.delta)

    @property
    def point_refuted(self) -> bool:
        """Whether the one point (epsilon, delta) is refuted by itself."""
        return self.bound.falsifies(self.claimed_epsilon)

    @property
    def verdict(self) -> OneRunVerdict:
        """Too small to be seen: one run of so many canaries would often not show the excess."""
        if self.bound.curve_refuted or self.point_refuted:
            return "refuted"
        return "not refuted" if self.chance >= ENOUGH else "too small to be seen"

    @property
    def exit_code(self) -> int:
        """0: not refuted; 1: refuted; 2: too small to be seen."""
        return {"not refuted": 0, "refuted": 1, "too small to be seen": 2}[self.verdict]

"""What a sensitivity audit found. Torch-free.

A ratio is the distance of two clipped sums over the separable bound: 1 is what an accountant
assumes. A screen is a search, so its largest ratio is a lower bound of the sensitivity.
"""

from dataclasses import dataclass
from typing import final

from insular.audit.isolation.results import Check
from insular.evidence import ArrayRef

REPEAT_FACTOR = 10.0
"""Distances of an identical repeat that the margin counts in."""


@final
@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One record added to the baseline batch."""

    record: str
    """Its id."""
    n_tokens: int
    """Its length."""
    loss_nats: float
    """Its own loss; NaN where the subject shows none."""
    norm: float
    """Norm of its own unclipped gradient, in gradient units."""
    n_altered: int
    """Records of the baseline whose gradient it changed."""
    largest_change: float
    """Largest change of a baseline record's clipped contribution, in units of the run's C."""
    ratios: tuple[float, ...]
    """Ratio at each radius of the screen."""
    problem: str = ""
    """Why the attempt does not count, or empty; the attempt is kept all the same."""
    gradients: ArrayRef | None = None
    """Saved gradients of the batch with it, or None where only the selected pair's were kept."""

    @property
    def valid(self) -> bool:
        """Whether the attempt counts."""
        return not self.problem


@final
@dataclass(frozen=True, kw_only=True)
class ScreenPart:
    """Some of the candidates, run in one process."""

    norms: tuple[float, ...]
    """Norm of each baseline gradient, in gradient units."""
    digests: tuple[str, ...]
    """Digest of each baseline gradient; equal in every part unless the stack is not repeatable."""
    repeat_ratio: float
    """Ratio between two identical baseline batches, the first and the last of this part, at the
    smallest radius."""
    seconds: float
    """Time of the part, loading excluded."""
    candidates: tuple[Candidate, ...]
    """In the order in which they ran."""
    problem: str = ""
    """Why nothing could be measured, or empty; then there are no candidates."""
    baseline_gradients: ArrayRef | None = None
    """Saved gradients of D, in the first part alone."""


@final
@dataclass(frozen=True, kw_only=True)
class Screen:
    """Every candidate addition to one baseline batch, at several radii. Exploratory."""

    stack: str
    """Name of the stack."""
    baseline: tuple[str, ...]
    """Ids of the baseline batch D."""
    width: int
    """Padded length of every batch, in tokens."""
    clip_norm: float
    """The run's own radius C, in gradient units."""
    radii: tuple[float, ...]
    """Radii at which the saved gradients were clipped, ascending, in gradient units."""
    clipped_shares: tuple[float, ...]
    """Share of all records, baseline and candidates, whose gradient is clipped at each radius."""
    margin: float
    """How far above 1 a ratio exceeds the bound: the protocol's 1e-4 and ten repeats."""
    repeatable: bool
    """Whether each process that took part got the same baseline gradients, to the last bit."""
    baseline_gradients: ArrayRef | None
    """Saved gradients of D."""
    candidates: tuple[Candidate, ...]
    """Every attempt."""
    seconds: float
    """Time of all parts together."""

    @property
    def top(self) -> tuple[int, int]:
        """Position of the candidate with the largest ratio, and of the radius; first of equals."""
        return max(
            (
                (i, j)
                for i, attempt in enumerate(self.candidates)
                if attempt.valid
                for j in range(len(attempt.ratios))
            ),
            key=lambda place: self.candidates[place[0]].ratios[place[1]],
        )

    @property
    def largest(self) -> float:
        """The largest ratio of the screen, over all radii."""
        candidate, radius = self.top
        return self.candidates[candidate].ratios[radius]

    @property
    def chosen(self) -> int:
        """Position of the candidate that is frozen for validation and localisation.

        The one with the largest ratio, if that is above the bound. Where none is, the one that
        moved another record's contribution furthest: there may be a coupling all the same.
        """
        if self.largest > 1 + self.margin:
            return self.top[0]
        valid = [i for i, attempt in enumerate(self.candidates) if attempt.valid]
        return max(valid, key=lambda i: self.candidates[i].largest_change)

    @property
    def selected(self) -> Candidate:
        """The candidate that is frozen for validation and localisation."""
        return self.candidates[self.chosen]

    @property
    def n_valid(self) -> int:
        """Attempts that count."""
        return sum(attempt.valid for attempt in self.candidates)

    def exceeding(self, radius: int) -> tuple[Candidate, ...]:
        """The candidates above the bound at one radius.

        Args:
            radius: Position in ``radii``.

        Returns:
            Them, in the order in which they ran.
        """
        return tuple(
            attempt
            for attempt in self.candidates
            if attempt.valid and attempt.ratios[radius] > 1 + self.margin
        )


@final
@dataclass(frozen=True, kw_only=True)
class ValidatedRadius:
    """The frozen pair at one radius, in one stack."""

    radius: float
    """Clip norm, in gradient units."""
    ratio: float
    """Distance of the clipped sums of D and D with the candidate, over the radius."""
    repeat_ratio: float
    """The same distance between two identical batches: the floor."""
    margin: float
    """How far above 1 the ratio must be to exceed the bound."""
    n_clipped: int
    """Records, of D and the candidate, whose gradient is clipped."""

    @property
    def exceeds(self) -> bool:
        """Whether the pair refutes the separable bound on this path."""
        return self.ratio > 1 + self.margin


@final
@dataclass(frozen=True, kw_only=True)
class ValidatedArm:
    """The frozen pair run afresh in one stack."""

    stack: str
    """Name of the stack."""
    checks: tuple[Check, ...]
    """Conditions of validity, on the batch with the candidate; a failed one is kept."""
    radii: tuple[ValidatedRadius, ...]
    """The run's own radius, then a tenth of it."""
    n_altered: int
    """Records of D whose gradient the candidate changed."""
    largest_change: float
    """Largest change of a record's clipped contribution at the run's own radius, in C."""
    digests: tuple[str, ...]
    """Digest of each gradient of D, then of D with the candidate."""
    seconds: float
    """Time of the arm, loading excluded."""
    gradients: ArrayRef | None = None
    """Saved gradients: ``base`` and ``with``."""

    @property
    def valid(self) -> bool:
        """Whether every check held."""
        return all(check.passed for check in self.checks)

    @property
    def exceeds(self) -> bool:
        """Whether a valid measurement at some radius refutes the separable bound."""
        return self.valid and any(radius.exceeds for radius in self.radii)


@final
@dataclass(frozen=True, kw_only=True)
class GrowthPoint:
    """The selected candidate added to a baseline of another size."""

    n_baseline: int
    """Records of the baseline."""
    ratio: float
    """Ratio at the run's own radius."""
    n_altered: int
    """Baseline records whose gradient changed."""
    gradients: ArrayRef | None = None
    """Saved gradients: ``base`` and ``with``."""

    @property
    def influence_bound(self) -> int:
        """The ratio that the altered records allow: 2m + 1."""
        return 2 * self.n_altered + 1


@final
@dataclass(frozen=True, kw_only=True)
class GrowthCurve:
    """The ratio as the baseline grows."""

    points: tuple[GrowthPoint, ...]
    """By size of the baseline, ascending."""


@final
@dataclass(frozen=True, kw_only=True)
class PriceRow:
    """What one ratio means in epsilon."""

    meaning: str
    """What the ratio is: ``claimed``, ``measured`` or ``influence bound``."""
    ratio: float
    """Sensitivity over C."""
    step_epsilon: float
    """Epsilon of one full-batch Gaussian step of this pair, in nats."""
    run_epsilon: float
    """Epsilon of the whole run if every step had this sensitivity, in nats."""


@final
@dataclass(frozen=True, kw_only=True)
class Price:
    """The ratio as epsilon, for the run's own noise, sampling and steps."""

    noise_multiplier: float
    """Noise standard deviation over C."""
    sampling_prob: float
    """Poisson rate of the run."""
    steps: int
    """Steps of the run."""
    delta: float
    """Delta of every epsilon here."""
    accountant: str
    """What composed the steps."""
    rows: tuple[PriceRow, ...]
    """Claimed, measured, and what the influence bound allows."""


@final
@dataclass(frozen=True, kw_only=True)
class SensitivityResult:
    """A sensitivity audit: screen, validation, growth, price."""

    screen: Screen
    """Every candidate."""
    arms: tuple[ValidatedArm, ...]
    """The frozen pair in the stack under test, then in each repair."""
    growth: tuple[GrowthPoint, ...]
    """By size of the baseline, ascending."""
    price: Price
    """What the validated ratio costs."""

    @property
    def ratio(self) -> float:
        """The validated ratio of the stack under test, at the run's own radius."""
        return self.arms[0].radii[0].ratio

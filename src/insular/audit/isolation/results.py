"""What an isolation audit found in one stack. Torch-free: who reads evidence needs no GPU stack."""

from dataclasses import dataclass
from typing import Literal, final

from insular.audit.spec import AXES, EQUAL_SHAPE_AXES, Axis
from insular.evidence import ArrayRef

AxisVerdict = Literal["isolated", "rounding", "coupled"]
ArmVerdict = Literal["isolated", "coupled", "undecided"]


@final
@dataclass(frozen=True, kw_only=True)
class ExecutionPath:
    """The path that ran. A verdict holds for this path and no other."""

    device: str
    """Device type and name."""
    mode: str
    """Training or evaluation, for the model and for its quantised layers."""
    dtype: str
    """Element type of the activations between layers."""
    operators: dict[str, int]
    """Operators that the dispatcher saw in one forward, with their number of calls."""
    shapes: tuple[tuple[int, int], ...]
    """Batch shapes ``[record, token]`` that were run."""
    threads: int
    """Intra-operation threads."""
    versions: dict[str, str]
    """Versions of the packages that computed."""


@final
@dataclass(frozen=True, kw_only=True)
class SubjectManifest:
    """The stack under test, read from the objects that execute."""

    name: str
    """Name of the stack."""
    engine: str
    """What computes per-record gradients."""
    model: str
    """Name of the model, or of the callable."""
    model_digest: str
    """Digest of its weights, or empty where it is not known."""
    n_params: int
    """Trainable coordinates."""
    trainable: tuple[str, ...]
    """Names of the trainable tensors."""
    untouched: tuple[str, ...]
    """Trainable tensors with gradient exactly 0 for every record, such as LoRA's A at B = 0."""
    replaced: dict[str, int]
    """Class of the frozen linear layers, with their number."""
    physical_batch: int
    """Records in one forward."""
    logical_batch: int
    """Records in one noisy step."""
    loss: str
    """Loss of a record, and its divisor."""
    sampler: str
    """How the batch was drawn."""
    clipping: str
    """Formula that clipped."""
    clip_norm: float
    """Bound C of the clipped gradients, in gradient units."""
    stabiliser: float = 0.0
    """What the clipping adds to each norm."""


@final
@dataclass(frozen=True, kw_only=True)
class Check:
    """One condition without which a measurement does not count."""

    name: str
    """What was checked."""
    passed: bool
    """Whether it held."""
    detail: str
    """What was measured, and the rule, in words."""


@final
@dataclass(frozen=True, kw_only=True)
class Influence:
    """How far one record's results moved when something else changed."""

    record: str
    """Id of the record that stayed the same."""
    forward_max_abs: float | None
    """Largest change of a logit at the record's real positions; None without forward outputs."""
    gradient_relative: float
    """L2 change of the unclipped gradient over its norm."""
    clipped_distance: float
    """L2 change of the clipped gradient, in units of the clip norm."""
    bitwise_equal: bool
    """Whether outputs and gradient are the same to the last bit."""


@final
@dataclass(frozen=True, kw_only=True)
class FirstDifference:
    """The earliest place where a record's computation parts from its base run.

    On axes that change a shape, the earliest that rounding does not explain, if there is one.
    """

    module: str
    """Qualified name of the module whose output differs (or, marked so, its input). Backward: whose
    output's gradient differs; the cause lies between it and the end of the model."""
    phase: Literal["forward", "backward"]
    """In which pass."""
    relative: float
    """Largest change over the largest magnitude of the same row, in that module's output."""
    rounding_bound: float
    """Largest such change that the rounding of this dtype explains."""

    @property
    def explained_by_rounding(self) -> bool:
        """Whether the entry is small enough to be a rounding of another shape."""
        return self.relative <= self.rounding_bound


@final
@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """One changed batch, compared with the base batch."""

    name: str
    """Name of the case, unique in its arm."""
    axis: Axis
    """What was changed."""
    changed: tuple[str, ...]
    """Ids of the records that were changed, removed or moved."""
    brought_in: tuple[str, ...]
    """Ids of the records that took their place."""
    sum_ratio: float | None
    """Distance of the clipped sums over the separable bound (2C to replace, C to add or remove);
    None where the two batches are not neighbours."""
    influences: tuple[Influence, ...]
    """One for each record that stayed."""

    @property
    def worst(self) -> Influence:
        """The record that moved furthest."""
        return max(
            self.influences,
            key=lambda i: (i.clipped_distance, i.gradient_relative, i.forward_max_abs or 0.0),
        )


@final
@dataclass(frozen=True, kw_only=True)
class AxisFinding:
    """The verdict on one axis."""

    axis: Axis
    """What was changed."""
    verdict: AxisVerdict
    """``rounding``: results moved, and the first difference is a rounding of another shape."""
    n_comparisons: int
    """Records compared, over all cases of the axis."""
    n_moved: int
    """Comparisons that were not bitwise equal."""
    floor: float
    """Relative L2 distance of an identical repeat; a movement must exceed ten times this."""
    worst_case: str
    """Case with the largest movement; empty if nothing moved."""
    worst: Influence | None
    """The record that moved furthest."""
    first_difference: FirstDifference | None
    """Where the record that moved furthest parts from its base run: furthest in units of the clip
    norm at equal shape, else relative to its own gradient, so that clipping hides no coupling
    behind a rounding. None if nothing moved or not observable."""


@final
@dataclass(frozen=True, kw_only=True)
class Counterexample:
    """The record that moved furthest, at equal shape where one did, with its gradients."""

    case: str
    """Name of the case."""
    record: str
    """Id of the record."""
    gradients: ArrayRef | None = None
    """``base_gradient``, ``case_gradient``, and both clipped; None before they are saved."""


@final
@dataclass(frozen=True, kw_only=True)
class ArmResult:
    """One stack under audit: what ran, whether it counts, and what moved."""

    arm: str
    """Name of the stack."""
    verdict: ArmVerdict
    """``undecided`` where a check failed."""
    seconds: float
    """Wall-clock time of the arm, model loading excluded."""
    seconds_per_step: float
    """Median time of one forward and backward of a batch of the base batch's shape."""
    path: ExecutionPath
    """The path that ran."""
    manifest: SubjectManifest
    """The stack, read from its objects."""
    checks: tuple[Check, ...]
    """Conditions of validity; a failed one is kept."""
    axes: tuple[AxisFinding, ...]
    """One finding for each axis that applies."""
    cases: tuple[CaseResult, ...]
    """Every comparison."""
    clipped_share: float
    """Share of the base batch's records whose gradient was clipped."""
    mean_loss_nats: float
    """Mean loss of the base batch; NaN where the subject gives none."""
    gradient_digests: dict[str, str]
    """Digest of each base record's gradient, for replay."""
    counterexample: Counterexample | None = None
    """Whose gradients were saved; None if nothing moved."""

    @property
    def worst(self) -> AxisFinding | None:
        """The coupled axis with the largest movement, equal-shape axes first."""
        coupled = [a for a in self.axes if a.verdict == "coupled" and a.worst is not None]
        return max(
            coupled,
            key=lambda a: (
                a.axis in EQUAL_SHAPE_AXES,
                a.worst.clipped_distance if a.worst else 0.0,
                -AXES.index(a.axis),
            ),
            default=None,
        )

    @property
    def failed_checks(self) -> tuple[Check, ...]:
        """The conditions that did not hold."""
        return tuple(check for check in self.checks if not check.passed)

    def axis(self, name: Axis) -> AxisFinding | None:
        """The finding on one axis, or None if the axis was not run."""
        return next((finding for finding in self.axes if finding.axis == name), None)

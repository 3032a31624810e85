"""Hold outlier sets fixed, layer by layer, and see how much of a pair's excess remains.

D is the baseline batch, D' the same with the candidate; both run forward and backward. *Union only
in X*: in D', the candidate's columns reach the common records through the layers X alone; elsewhere
the common records take the union among themselves. *D's masks everywhere* gives the common records,
in D', the unions that D had, and the candidate the unions that D' had.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from torch import Tensor, nn

from insular.audit.isolation.bench import as_array
from insular.audit.isolation.measure import same_values
from insular.audit.localisation.factorial import common_rows, run_factorial
from insular.audit.localisation.intervention_results import Intervention, Interventions, UnionChange
from insular.audit.localisation.places import block_of, kind_of
from insular.audit.sensitivity.contributions import Contributions, altered, largest_change, ratio_at
from insular.audit.sensitivity.saved_gradients import pack_rows
from insular.audit.sensitivity.screen import Keep
from insular.audit.spec import SensitivitySpec
from insular.audit.subjects.subject import Evaluation, Subject, evaluate_seeded
from insular.errors import InvalidArgumentError
from insular.precision.intervention import outlier_rules
from insular.precision.observation import ObservedOutliers, observe_outliers
from insular.precision.outliers import BatchedOutliers, OutlierRule, RecordOutliers
from insular.precision.prescribed import PrescribedOutliers, PrescribedSet, ShieldedOutliers
from insular.records.tokens import TokenisedRecord

N_KINDS = 3
"""Kinds of layer that are tried alone: those into whose unions most columns entered."""
OWN_SETS = "each record's own set everywhere"
"""The words for the repair: record ownership in every layer."""
N_DEPTHS = 3
"""Equal parts of the decoder that are tried alone."""

Log = Mapping[str, ObservedOutliers]
Rules = Mapping[str, OutlierRule]


@final
@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two neighbouring batches on one subject, and how to run and keep them."""

    subject: Subject
    """The stack."""
    model: nn.Module
    """Its model."""
    baseline: tuple[TokenisedRecord, ...]
    """D."""
    candidate: TokenisedRecord
    """What D' has besides, at its end."""
    width: int
    """Padded length of both batches, in tokens."""
    spec: SensitivitySpec
    """Clip norm, seed."""
    keep: Keep
    """Takes the gradients of a pair, under the name of the intervention."""

    @property
    def extended(self) -> tuple[TokenisedRecord, ...]:
        """D'."""
        return (*self.baseline, self.candidate)

    def run(self, records: Sequence[TokenisedRecord], rules: Rules | None = None) -> Evaluation:
        """Evaluate a batch, under other rules in some layers if any are given."""
        if not rules:
            return evaluate_seeded(self.subject, records, width=self.width, seed=self.spec.seed)
        with outlier_rules(self.model, rules):
            return evaluate_seeded(self.subject, records, width=self.width, seed=self.spec.seed)

    def observed(self, records: Sequence[TokenisedRecord]) -> tuple[Evaluation, Log] | None:
        """Evaluate a batch and note the outliers of every layer; None unless in one forward."""
        with observe_outliers(self.model, keep_inputs=True) as log:
            evaluation = self.run(records)
        if len(log.forwards) != 1:
            return None
        unions = {name: seen for name, seen in log.forwards[0].items() if seen.takes_union}
        return evaluation, unions


def intervene(pair: Pair, *, progress: Callable[[str], None]) -> Interventions | None:
    """Run every intervention on a pair.

    Guarantees:
        * No layer is quantised again, and the model is afterwards as it was.
        * A forced set that omits an outlier of a record it is forced on is rejected, and kept with
          the reason.
        * ``exact`` says whether the means of intervening is itself without effect.

    Args:
        pair: The pair.
        progress: Called with a short line before each evaluation.

    Returns:
        The interventions, or None where no layer takes a union, or a batch takes several forwards.
    """
    progress("unions of D and D'")
    base_run, other_run = pair.observed(pair.baseline), pair.observed(pair.extended)
    if base_run is None or other_run is None or not base_run[1]:
        return None
    (base, before), (other, after) = base_run, other_run
    del base_run, other_run
    changes = union_changes(before, after)
    layer = changes[0].layer if changes else ""
    values_equal = bool(layer) and _values_equal(before[layer], after[layer])
    # of a large model, the inputs of all layers would not fit beside the runs that follow
    before, after = _keeping_inputs(before, layer), _keeping_inputs(after, layer)
    batched: Rules = {name: BatchedOutliers(seen.threshold) for name, seen in before.items()}
    progress("the same by the replaced product")
    exact = all(
        same_values(pair.run(records, batched).gradients, native.gradients)
        for records, native in ((pair.baseline, base), (pair.extended, other))
    )
    steps = [_measured(pair, "as it is", base, other, n_layers=len(before))]
    del other
    progress(OWN_SETS)
    owned: Rules = {layer: RecordOutliers(seen.threshold) for layer, seen in before.items()}
    steps.append(_step(pair, OWN_SETS, owned, owned, n_layers=0))
    n_common = len(pair.baseline)
    for name, layers in _groups(list(before), changes).items():
        progress(name)
        rules = {
            layer: batched[layer]
            if layer in layers
            else ShieldedOutliers(seen.threshold, n_shielded=n_common)
            for layer, seen in before.items()
        }
        steps.append(_step(pair, name, None, rules, base=base, n_layers=len(layers)))
    for name, layers in _forced(list(before), changes).items():
        progress(name)
        rules = {
            layer: _prescribed(before[layer], after[layer]) if layer in layers else batched[layer]
            for layer in before
        }
        n_left = len(before) - len(layers)
        steps.append(_step(pair, name, None, rules, base=base, n_layers=n_left))
    factorial = (
        run_factorial(pair, layer, base, before, after, progress=progress) if changes else ()
    )
    return Interventions(
        unions=changes,
        n_layers=len(before),
        exact=exact,
        steps=tuple(steps),
        factorial_layer=layer,
        values_equal=values_equal,
        factorial=factorial,
    )


def union_changes(before: Log, after: Log) -> tuple[UnionChange, ...]:
    """The layers whose union is not the same in two batches.

    Args:
        before: Observations of D.
        after: Observations of D', whose last record is the candidate.

    Returns:
        Them, in order of execution.
    """
    changes = []
    for layer, one in before.items():
        two = after[layer]
        entered, left = two.union & ~one.union, one.union & ~two.union
        if bool(entered.any() or left.any()):
            alone = entered & two.own[-1] & ~two.own[:-1].any(dim=0)
            changes.append(
                UnionChange(
                    layer=layer,
                    n_base=int(one.union.sum()),
                    entered=tuple(entered.nonzero().flatten().tolist()),
                    left=tuple(left.nonzero().flatten().tolist()),
                    by_candidate=int(alone.sum()),
                )
            )
    return tuple(changes)


def _groups(layers: Sequence[str], changes: Sequence[UnionChange]) -> dict[str, set[str]]:
    """Through which layers the candidate reaches the others, by the words for it."""
    groups: dict[str, set[str]] = {}
    entered: dict[str, int] = {}
    for change in changes:
        entered[change.kind] = entered.get(change.kind, 0) + len(change.entered)
    kinds = sorted(entered, key=lambda kind: -entered[kind])[:N_KINDS]
    for kind in kinds:
        groups[f"union only in {_last(kind)}"] = {n for n in layers if kind_of(n) == kind}
    if len(kinds) > 1:
        groups[f"union everywhere but {_last(kinds[0])}"] = {
            name for name in layers if kind_of(name) != kinds[0]
        }
    blocks = sorted({block for name in layers if (block := block_of(name)) is not None})
    if len(blocks) >= N_DEPTHS:
        size = -(-len(blocks) // N_DEPTHS)
        for start in range(0, len(blocks), size):
            part = blocks[start : start + size]
            words = f"union only in blocks {part[0]} to {part[-1]}"
            groups[words] = {name for name in layers if block_of(name) in part}
    return groups


def _forced(layers: Sequence[str], changes: Sequence[UnionChange]) -> dict[str, set[str]]:
    """Which layers get D's masks in D', by the words for it; the union elsewhere."""
    if not changes:
        return {}
    first = changes[0].layer
    return {"D's masks everywhere": set(layers), f"D's mask in {first} alone": {first}}


def _last(kind: str) -> str:
    """The last word of a kind."""
    return kind.rpartition(".")[2]


def _prescribed(before: ObservedOutliers, after: ObservedOutliers) -> PrescribedOutliers:
    """D's union for the common records, the union of D' for the candidate."""
    return PrescribedOutliers(
        [
            PrescribedSet(n_records=before.own.shape[0], columns=_columns(before)),
            PrescribedSet(n_records=1, columns=_columns(after)),
        ],
        threshold=before.threshold,
    )


def _columns(seen: ObservedOutliers) -> Tensor:
    """The union's columns, ascending."""
    return seen.union.nonzero().flatten()


def _step(
    pair: Pair,
    name: str,
    base_rules: Rules | None,
    rules: Rules,
    *,
    n_layers: int,
    base: Evaluation | None = None,
) -> Intervention:
    """Run both batches, each under its rules, and measure; a rejection is kept."""
    try:
        first = pair.run(pair.baseline, base_rules) if base is None else base
        second = pair.run(pair.extended, rules)
    except InvalidArgumentError as error:
        return Intervention(
            name=name,
            ratio=0.0,
            n_altered=0,
            largest_change=0.0,
            n_layers=n_layers,
            problem=str(error),
        )
    return _measured(pair, name, first, second, n_layers=n_layers)


def _measured(
    pair: Pair, name: str, base: Evaluation, other: Evaluation, *, n_layers: int
) -> Intervention:
    """The distances of one pair of evaluations, whose gradients are kept."""
    rows = {"base": as_array(base.gradients), "with": as_array(other.gradients)}
    pair.keep(name, pack_rows(rows))
    one = Contributions(base.gradients, stabiliser=pair.spec.stabiliser)
    two = Contributions(other.gradients, stabiliser=pair.spec.stabiliser)
    return Intervention(
        name=name,
        ratio=ratio_at(one, two, pair.spec.clip_norm),
        n_altered=len(altered(one, two)),
        largest_change=largest_change(one, two, pair.spec.clip_norm),
        n_layers=n_layers,
    )


def _keeping_inputs(log: Log, layer: str) -> dict[str, ObservedOutliers]:
    """The observations, without the inputs of every layer but one."""
    return {
        name: seen if name == layer else replace(seen, inputs=None) for name, seen in log.items()
    }


def _values_equal(before: ObservedOutliers, after: ObservedOutliers) -> bool:
    """Whether the common records' inputs of a layer are the same to the last bit."""
    assert before.inputs is not None and after.inputs is not None
    return same_values(before.inputs, common_rows(after.inputs, before))

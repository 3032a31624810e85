"""Which modules originate influence of other records, and which only pass it on."""

from collections.abc import Callable, Sequence

from torch import Tensor

from insular.audit.localisation._kept_rows import KeptRows
from insular.audit.localisation._own_code import Comparison, OwnCode, Recording
from insular.audit.localisation._tracing import traced_calls
from insular.audit.localisation.results import OUTSIDE, ModuleInfluence, Origins, Phase
from insular.audit.subjects.subject import Evaluation, Subject
from insular.errors import InvalidArgumentError, SubjectError
from insular.records.tokens import TokenisedRecord


def find_origins(
    subject: Subject,
    base: Sequence[TokenisedRecord],
    other: Sequence[TokenisedRecord],
    *,
    kept: Sequence[tuple[int, int]],
    width: int,
    run: Callable[[Sequence[TokenisedRecord], int], Evaluation],
) -> Origins | None:
    """Find where other records' influence on the kept ones enters, forward and backward.

    Evaluates the base batch once and the other twice. The second time everything that crosses a
    module's border is set back to the base batch's values for the kept records, so that each
    module's own code is judged by itself, and an origin does not hide those behind it.

    Guarantees:
        * One module that couples records in one pass is the only one named, in that pass.
        * A model that keeps records apart has no origin.
        * Several origins are all named; the first in the run as it is comes apart.
        * What a module computes outside its submodules is attributed to it, not to them.
        * Observing changes no bit of the first two evaluations, and leaves no hook behind.
        * A change within the rounding of another batch size is no origin.

    Args:
        subject: The stack under test; one forward and one backward an evaluation.
        base: The base batch.
        other: The changed batch.
        kept: Positions of each record that stayed, in ``base`` and in ``other``.
        width: Padded length of both, in tokens.
        run: Evaluates records at a width, always from the same seed.

    Returns:
        What was found, or None if the subject shows no model.

    Raises:
        InvalidArgumentError: If ``kept`` is empty or pairs different records.
        SubjectError: If the subject gives no mask, or runs several backward passes.
    """
    model = subject.traced_model()
    if model is None:
        return None
    if not kept or any(base[b].tokens != other[a].tokens for b, a in kept):
        raise InvalidArgumentError(
            f"kept must pair each record with itself, at least one, got kept={tuple(kept)!r};"
            " give (position before, position after)."
        )
    before = KeptRows(_mask(subject, base, width), [b for b, _ in kept])
    after = KeptRows(_mask(subject, other, width), [a for _, a in kept])
    recording = Recording(before)
    with traced_calls(model, recording.visit):
        run(base, width)
    if recording.repeated:
        raise SubjectError(
            f"subject {subject.name} must run one backward pass an evaluation to be localised,"
            " got several; choose an engine that does, such as hooks."
        )
    natural, pinned = (Comparison(recording, after, pinned=p) for p in (False, True))
    for comparison in (natural, pinned):
        with traced_calls(model, comparison.visit):
            run(other, width)
    return _origins(recording, natural, pinned, ids=tuple(base[b].id for b, _ in kept))


def _mask(subject: Subject, records: Sequence[TokenisedRecord], width: int) -> Tensor:
    """The batch's real positions."""
    mask = subject.mask(records, width=width)
    if mask is None:
        raise SubjectError(
            f"subject {subject.name} must give the mask of a batch whose inside it shows, got"
            " None; implement mask()."
        )
    return mask.bool()


def _origins(
    recording: Recording, natural: Comparison, pinned: Comparison, *, ids: tuple[str, ...]
) -> Origins:
    """The result, from both comparisons."""
    bound = recording.bound()
    names = dict.fromkeys([*recording.calls, *(key for key, _ in natural.codes | pinned.codes)])
    names.pop(OUTSIDE, None)
    order: dict[Phase, tuple[str, ...]] = {
        "forward": (OUTSIDE, *names),
        "backward": (OUTSIDE, *reversed(names)),
    }
    modules = []
    for phase, keys in order.items():
        for key in keys:
            as_it_is = natural.codes.get((key, phase), OwnCode())
            alone = pinned.codes.get((key, phase), OwnCode())
            found = ModuleInfluence(
                module=key,
                phase=phase,
                role=as_it_is.role(bound),
                role_pinned=alone.role(bound),
                records=tuple(ids[k] for k, r in sorted(alone.originates.items()) if r > bound),
                relative=max(alone.originates.values(), default=0.0),
            )
            if (found.role, found.role_pinned) != ("unchanged", "unchanged"):
                modules.append(found)
    observed = (natural.observed & pinned.observed) - recording.edited
    return Origins(
        modules=tuple(modules),
        first=next((m for m in modules if (m.module, m.phase) == natural.first), None),
        observed=tuple(key for key in recording.calls if key in observed),
        unobservable=tuple(
            key for key, returns in recording.calls.items() if returns and key not in observed
        ),
        records=ids,
        rounding_bound=bound,
    )

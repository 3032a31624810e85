"""Where a selected pair's excess comes from: the modules that originate it, and what removes it."""

from collections.abc import Callable, Sequence
from functools import partial

from insular.audit.localisation.interventions import Pair, intervene
from insular.audit.localisation.origins import find_origins
from insular.audit.localisation.results import Localisation
from insular.audit.sensitivity.screen import Keep
from insular.audit.spec import SensitivitySpec
from insular.audit.subjects.subject import Evaluation, Subject, evaluate_seeded
from insular.errors import SubjectError
from insular.records.tokens import TokenisedRecord


def localise(
    subject: Subject,
    baseline: Sequence[TokenisedRecord],
    candidate: TokenisedRecord,
    *,
    width: int,
    spec: SensitivitySpec,
    keep: Keep,
    progress: Callable[[str], None],
) -> Localisation | None:
    """Trace D and D' through every module, then run the pair with outlier sets held fixed.

    Args:
        subject: The stack.
        baseline: The batch D.
        candidate: The record that D' has besides, at its end.
        width: Padded length of both batches, in tokens.
        spec: Clip norm, seed.
        keep: Called with the gradients of each intervention, under its name.
        progress: Called with a short line before each evaluation.

    Returns:
        What was found, or None where no module can be observed.
    """
    model = subject.traced_model()
    if model is None:
        return None
    progress("tracing D and D'")
    origins, problem = None, ""
    try:
        origins = find_origins(
            subject,
            baseline,
            (*baseline, candidate),
            kept=[(i, i) for i in range(len(baseline))],
            width=width,
            run=partial(_run, subject, seed=spec.seed),
        )
    except SubjectError as error:
        problem = str(error)
    pair = Pair(
        subject=subject,
        model=model,
        baseline=tuple(baseline),
        candidate=candidate,
        width=width,
        spec=spec,
        keep=keep,
    )
    return Localisation(
        origins=origins,
        origins_problem=problem,
        interventions=intervene(pair, progress=progress),
    )


def _run(
    subject: Subject, records: Sequence[TokenisedRecord], width: int, *, seed: int
) -> Evaluation:
    """Evaluate a batch for what its modules show."""
    return evaluate_seeded(subject, records, width=width, seed=seed)

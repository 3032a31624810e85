"""The routing census as a task."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from insular.audit.census.results import CensusResult
from insular.evidence import ArrayRef
from insular.recipes.audit.sources import Source
from insular.recipes.audit.spec import AuditSpec
from insular.recipes.parallel import Job
from insular.recipes.tasks import Output, Task

if TYPE_CHECKING:
    from insular.recipes.text import AuditText

N_RECORDS = 16
"""Records of the census, where the text has so many."""
BATCH_SIZES = (2, 4, 8, 16)
"""Physical batch sizes, as far as the records go."""


@final
@dataclass(frozen=True, kw_only=True)
class CensusOutcome:
    """The census, where it applies."""

    found: CensusResult | None
    """None where no layer tests its activations against a threshold."""


def census_task(spec: AuditSpec, source: Source, text: "AuditText") -> Task:
    """The task that holds each record's outlier sets against its batch's.

    Args:
        spec: The audit.
        source: Gives the stack under test.
        text: The records.

    Returns:
        The task.
    """
    return Task(
        job=Job(name="census", work=run_census_task, args=(spec, source, text)),
        slug="census",
        kind=CensusOutcome,
        attach=_as_it_is,
    )


def run_census_task(
    spec: AuditSpec, source: Source, text: "AuditText", *, progress: Callable[[str], None]
) -> Output:
    """Run the first usable records in batches of several sizes, forward only.

    Args:
        spec: The audit.
        source: Gives the stack under test.
        text: The records.
        progress: Called with a short line before each batch size.

    Returns:
        A :class:`CensusOutcome`.
    """
    from insular.audit.census.count import run_census

    sizes = [size for size in BATCH_SIZES if size <= len(text.usable)]
    records = text.usable[: max(sizes)]
    with source.subject(progress) as subject:
        found = run_census(
            subject,
            records,
            width=text.usable_width,
            batch_sizes=sizes,
            seed=spec.seed,
            progress=progress,
        )
    return Output(result=CensusOutcome(found=found))


def _as_it_is(outcome: CensusOutcome, refs: Mapping[str, ArrayRef]) -> CensusOutcome:
    """A census saves no arrays."""
    del refs
    return outcome

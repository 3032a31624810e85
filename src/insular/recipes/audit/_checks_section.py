"""The conditions of validity, and the distances computed a second time."""

from insular.audit.audit_results import AuditResult
from insular.recipes._numbers import cited, counted, short
from insular.recipes.audit import _tables as tables
from insular.recipes.audit._words import Arm
from insular.reports import Block, Code, Inline, Points, Section, paragraph


def checks_section(result: AuditResult, arms: tuple[Arm, ...]) -> Section:
    """The conditions of validity."""
    text = paragraph("A measurement counts only where all checks hold. Failed ones stand first.")
    shown = (
        tables.checks_table(arm, folded=arm is not arms[0] and not arm.result.failed_checks)
        for arm in arms
    )
    return Section(heading="Checks", blocks=(text, *_reconciled(result), *shown))


def _reconciled(result: AuditResult) -> tuple[Block, ...]:
    """Whether the distances came out again from the saved gradients."""
    found = result.reconciliation
    if found is None:
        return ()
    n = cited(counted(found.n_distances, "distance"), "reconciliation", "n_distances")
    start = (n, " were computed again, from the saved gradients alone and by other code")
    unsaved: tuple[Inline, ...] = ()
    if found.n_unsaved:
        unsaved = (
            " The gradients of ",
            cited(str(found.n_unsaved), "reconciliation", "n_unsaved"),
            " more were not kept, so those could not be.",
        )
    tolerance = cited(short(found.tolerance), "reconciliation", "tolerance")
    if found.agrees:
        return (paragraph(*start, "; all agree within ", tolerance, ".", *unsaved),)
    wrong = cited(str(len(found.mismatches)), "reconciliation", "mismatches")
    return (
        paragraph(
            "FAILED: ", *start, "; ", wrong, " differ by more than ", tolerance, ".", *unsaved
        ),
        Points(items=tuple(Code(text=name) for name in found.mismatches)),
    )

"""The release card of an isolation audit: a verdict on a stack, and no epsilon."""

import math

from insular.audit.audit_results import AuditResult
from insular.audit.isolation.results import AxisFinding
from insular.audit.spec import EQUAL_SHAPE_AXES
from insular.evidence import RunManifest
from insular.evidence.card import (
    BaseModel,
    Basic,
    IsolationFact,
    ReleaseCard,
)
from insular.recipes._numbers import amount
from insular.recipes.audit._words import AXIS_WORDS, arms_of, path_sentence
from insular.recipes.audit.spec import PACKAGED_TEXTS, AuditSpec
from insular.recipes.card.parts import completed, deployment, public_name, run_facts
from insular.recipes.card.statements import Statements

_CLAIMS = {"isolated": "holds", "coupled": "does not hold", "undecided": "undecided"}


def audit_card(
    result: AuditResult, spec: AuditSpec, manifest: RunManifest, *, stated: Statements
) -> ReleaseCard:
    """The card of an audit.

    Guarantees:
        * No epsilon: the price in an audit is that of a run which did not happen.
        * No record id, text or digest of the records.

    Args:
        result: What was found.
        spec: What was asked.
        manifest: The run.
        stated: What only a person can say.

    Returns:
        The card.
    """
    arm = result.subject
    return completed(
        headline=_headline(result),
        claim=_CLAIMS[result.verdict],
        basic=Basic(
            name=manifest.name,
            kind="audit",
            description=f"Audit of {_stack(result)}: does one record touch another's clipped"
            " gradient?",
            data_curators=stated.data_curators,
            intended_use=stated.intended_use,
            data_product_type="none: an audit lets nothing out",
            data_product_region=stated.data_product_region,
            data_product_sector=stated.data_product_sector,
            publication_date=stated.publication_date,
        ),
        released=(),
        privacy_loss=None,
        implementation=None,
        isolation=_isolation(result, manifest),
        utility=None,
        lower_bounds=None,
        unprotected_quantities=_unprotected(spec),
        deployment_model=deployment(stated),
        base_model=BaseModel(
            name=public_name(arm.manifest.model),
            sha256=arm.manifest.model_digest or None,
            pretraining_data=stated.pretraining_data,
            guarantee_covers="nothing: an audit promises no epsilon",
        ),
        ledger=None,
        **run_facts(manifest),
    )


def _headline(result: AuditResult) -> str:
    """The verdict in a sentence."""
    arm = result.subject
    where = _stack(result)
    if result.verdict == "undecided":
        checks = ", ".join(f"“{check.name}”" for check in arm.failed_checks)
        return f"Undecided: {where} could not be audited; failed: {checks}."
    if result.verdict == "coupled":
        return f"Coupled stack: on {where}, {_what_moved(arm.worst)}."
    return (
        "Isolated on the path that ran: no record moved another's gradient in"
        f" {n_compared(result)} comparisons at equal shape on {where}."
    )


def _stack(result: AuditResult) -> str:
    """The stack under test."""
    return f"{result.subject.arm} with {public_name(result.subject.manifest.model)}"


def n_compared(result: AuditResult) -> int:
    """Comparisons at equal shape, which a verdict of isolation rests on.

    Args:
        result: The audit.

    Returns:
        Their number; it depends on the batch's size alone.
    """
    return sum(finding.n_comparisons for finding in _equal(result))


def _what_moved(worst: AxisFinding | None) -> str:
    """The largest movement, without naming a record."""
    if worst is None or worst.worst is None:
        return "records moved each other's results"
    return (
        f"the {AXIS_WORDS[worst.axis]} moves the clipped gradient of a record by"
        f" {amount(worst.worst.clipped_distance)} C, so a guarantee that takes records for"
        " independent does not hold"
    )


def _equal(result: AuditResult) -> list[AxisFinding]:
    """The axes that keep every shape."""
    return [finding for finding in result.subject.axes if finding.axis in EQUAL_SHAPE_AXES]


def _isolation(result: AuditResult, manifest: RunManifest) -> IsolationFact:
    """What the audit rests on."""
    equal = _equal(result)
    moved = [finding.worst.clipped_distance if finding.worst else 0.0 for finding in equal]
    found = result.sensitivity
    valid = found is not None and found.arms[0].valid
    ratio = found.ratio if found is not None and valid else None
    return IsolationFact(
        verdict=result.verdict,
        stack=result.subject.arm,
        path=path_sentence(arms_of(result)[0]).plain.partition(": ")[2],
        n_comparisons=n_compared(result),
        largest_movement=max(moved, default=None),
        sensitivity_ratio=None if ratio is None or math.isnan(ratio) else ratio,
        accepted="",
        evidence_sha256=manifest.files["results.json"],
    )


def _unprotected(spec: AuditSpec) -> tuple[str, ...]:
    """What the audit's folder holds in the open."""
    if spec.text in PACKAGED_TEXTS and not spec.subject:
        return (f"all of it; the records are public ({spec.text})",)
    return (
        "every number of the audit, those on this card included: the records were read without"
        " noise",
        "record ids, losses, digests and saved gradients in the run's folder",
    )

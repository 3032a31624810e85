"""The release card of a training run: what left, and whether the guarantee is the one that ran."""

import math
from typing import Literal

from insular.accounting import NoiseSource
from insular.audit.audit_results import AuditResult
from insular.evidence import RunManifest
from insular.evidence.card import (
    AccountantEpsilon,
    BaseModel,
    Basic,
    Claim,
    Implementation,
    IsolationFact,
    LedgerReference,
    LowerBound,
    PrivacyLoss,
    ReleaseCard,
    ReleasedArtifact,
    UtilityFact,
    warning_words,
)
from insular.evidence.ledger.amounts import exact
from insular.recipes._numbers import short
from insular.recipes.budget._words import neighbours, upper
from insular.recipes.card.audit import n_compared
from insular.recipes.card.parts import completed, deployment, public_name, run_facts
from insular.recipes.card.statements import Statements
from insular.recipes.train.results import LedgerEntryRef, TrainResult
from insular.recipes.train.spec import TrainSpec
from insular.training.results import SamplerFacts

_UNPROTECTED = (
    "telemetry of every step: losses, norms, clipped shares",
    "the executed log: realised batches, and the size of the noise that was drawn",
    "counts and digests of the records, in the results and the manifest",
    "the audit of the stack, with its verdict: it read records without noise",
)


def training_card(
    result: TrainResult,
    spec: TrainSpec,
    manifest: RunManifest,
    *,
    stated: Statements,
    audit: AuditResult | None = None,
    lower_bounds: tuple[LowerBound, ...] | None = None,
) -> ReleaseCard:
    """The card of a training run.

    Guarantees:
        * Private facts stay out: realised batches, telemetry, the size of the drawn noise, digests
          of the records, and their number unless it was declared public.
        * The claim holds only if the plan ran, training happened, the noise was secure and covers
          the stack, epsilon is a finite guarantee, and no attack that is given refutes it.

    Args:
        result: What ran.
        spec: What was asked.
        manifest: The run.
        stated: What only a person can say.
        audit: The audit that the run made of its stack; None if it is not there any more.
        lower_bounds: What attacks proved; None where none was run.

    Returns:
        The card.
    """
    isolation, part = _isolation(result, spec, audit), _implementation(result, stated)
    claim, headline = _answer(result, isolation, part, lower_bounds)
    return completed(
        headline=headline,
        claim=claim,
        basic=Basic(
            name=manifest.name,
            kind="training",
            description=f"Adapter of {public_name(result.model)}, trained privately on"
            f" {result.data.name}.",
            data_curators=stated.data_curators,
            intended_use=stated.intended_use,
            data_product_type="Machine learning model: a LoRA adapter",
            data_product_region=stated.data_product_region,
            data_product_sector=stated.data_product_sector,
            publication_date=stated.publication_date,
        ),
        released=tuple(
            ReleasedArtifact(file=one.file, sha256=one.sha256, size_bytes=one.size_bytes)
            for one in result.artifacts
        ),
        privacy_loss=_privacy_loss(result, spec),
        implementation=part,
        isolation=isolation,
        utility=_utility(result),
        lower_bounds=lower_bounds,
        unprotected_quantities=_UNPROTECTED,
        deployment_model=deployment(stated),
        base_model=BaseModel(
            name=public_name(result.model),
            sha256=result.model_digest or None,
            pretraining_data=stated.pretraining_data,
            guarantee_covers="the fine-tuning data only",
        ),
        ledger=_ledger(result.ledger),
        **run_facts(manifest),
    )


def _answer(
    result: TrainResult,
    isolation: IsolationFact,
    part: Implementation,
    bounds: tuple[LowerBound, ...] | None,
) -> tuple[Claim, str]:
    """The claim, and the headline."""
    problems, warning = _problems(result, part), warning_words(isolation, part, bounds)
    if any(bound.refutes for bound in bounds or ()):
        problems.append("an attack found more than what is claimed allows")
    if not problems and isolation.verdict == "undecided":
        why = "whether this stack keeps records apart could not be decided"
        return "undecided", f"Undecided: {why}, so epsilon {_promise(result)} is not proven."
    if problems:
        start = warning or "Does not hold"
        return "does not hold", f"{start}: {'; '.join(problems)}. No epsilon is promised."
    if warning:  # coupled, accepted and covered
        return "holds", (
            f"{warning}, accepted in writing: records move each other here. Epsilon"
            f" {_promise(result)}, holds because the noise is scaled to an influence of"
            f" {short(part.influence)} C."
        )
    return "holds", f"Holds on the path that ran: epsilon {_promise(result)}."


def _promise(result: TrainResult) -> str:
    """The numbers, and for whom."""
    if not result.costs:
        return "without an accountant"
    cost = result.costs[0]
    return (
        f"{upper(cost.epsilon)} at delta {short(cost.delta)}, for"
        f" {neighbours(result.relation, result.unit)} ({cost.accountant.upper()})"
    )


def _problems(result: TrainResult, part: Implementation) -> list[str]:
    """Why the claim does not hold."""
    found, n = [], part.n_differences
    if result.isolation.verdict == "coupled" and part.influence <= 1:
        found.append("the noise does not cover what records do to each other")
    if n:
        found.append(f"what ran was not what was planned ({n} difference{'s' if n > 1 else ''})")
    if not part.training_happened:
        found.append("trainable tensors had no gradient, did not move or were not saved")
    if part.noise_source == "seeded":
        found.append("the noise was seeded, and who knows the seed can take it away")
    elif part.noise_source == "not_drawn":
        found.append("no noise was drawn")
    if not result.costs or not math.isfinite(result.epsilon):
        found.append("no finite epsilon was found")
    elif part.noise_source == "secure" and result.costs[0].standing != "guarantee":
        found.append("epsilon is an estimate and no guarantee")
    return found


def _privacy_loss(result: TrainResult, spec: TrainSpec) -> PrivacyLoss | None:
    """Privacy parameters and unit; n is the declared public number."""
    if not result.costs:
        return None
    n = spec.public_units or result.data.n_units  # without the one, the other was declared public
    cost = result.costs[0]
    return PrivacyLoss(
        variant_name="Approximate DP",
        epsilon=cost.epsilon,
        delta=cost.delta,
        delta_reason=result.delta_reason or None,
        delta_times_units=cost.delta * n,
        delta_times_units_squared=cost.delta * n * n,
        privacy_unit=result.unit,
        privacy_unit_details=_unit_details(result.planned.sampler, result.owner_field),
        number_of_privacy_units=n,
        adjacency=result.relation,
        accountants=tuple(
            AccountantEpsilon(
                accountant=one.accountant,
                epsilon=one.epsilon,
                delta=one.delta,
                standing=one.standing,
                method=one.method,
                caveat=one.caveat,
                version=one.version,
            )
            for one in result.costs
        ),
    )


def _unit_details(sampler: SamplerFacts, owner_field: str) -> str:
    """What makes one unit."""
    if not owner_field:
        return "each record is its own unit: a person with several is protected less"
    words = f"all records with one value of the field {owner_field}"
    if sampler.records_per_unit is None:
        return words
    return f"{words}, protected as a group of at most {sampler.records_per_unit}"


def _implementation(result: TrainResult, stated: Statements) -> Implementation:
    """The algorithm."""
    planned, ran = result.planned, result.executed
    return Implementation(
        mechanisms="DP-SGD: Gaussian noise on the sum of clipped contributions of the drawn units",
        composition=f"{ran.n_releases} noisy sums, each free to depend on those before; "
        + (result.costs[0].method if result.costs else "no accountant"),
        sampler=planned.sampler.kind,
        sampler_parameters=_parameters(planned.sampler),
        clip_norm=planned.clip_norm,
        clipping=result.clipping,
        influence=planned.influence,
        noise_multiplier=planned.noise_multiplier,
        noise_std=planned.noise_std,
        noise_source=_noise_source(result),
        noise=result.noise,
        expected_batch_size=planned.divisor,
        steps=planned.steps,
        n_releases=ran.n_releases,
        n_starts=ran.n_starts,
        n_differences=len(ran.differences),
        training_happened=result.liveness.alive,
        backbone=result.backbone,
        post_processing=result.optimiser,
        preprocessing_and_hyperparameter_tuning=stated.preprocessing_and_hyperparameter_tuning,
        justification=stated.justification,
    )


def _parameters(sampler: SamplerFacts) -> dict[str, float]:
    """The public parameters that this sampler has."""
    named = {
        "sampling_prob": sampler.sampling_prob,
        "max_batch_size": sampler.max_batch_size,
        "slots": sampler.slots,
        "records_per_unit": sampler.records_per_unit,
    }
    return {name: float(value) for name, value in named.items() if value is not None}


def _noise_source(result: TrainResult) -> NoiseSource:
    """Where the noise that ran came from; one seeded step makes it seeded."""
    sources = {s for cost in result.costs for s in cost.noise_sources}
    sources.add(result.planned.noise_source)
    order: tuple[NoiseSource, ...] = ("seeded", "not_drawn", "secure")
    return next(source for source in order if source in sources)


def _isolation(result: TrainResult, spec: TrainSpec, audit: AuditResult | None) -> IsolationFact:
    """The verdict on the stack. How far private records moved stays in the evidence."""
    found = result.isolation
    return IsolationFact(
        verdict=found.verdict,
        stack=spec.backbone,
        path=found.path or None,
        n_comparisons=None if audit is None else n_compared(audit),
        largest_movement=None,
        sensitivity_ratio=None,
        accepted=found.accepted,
        evidence_sha256=found.results_sha256,
    )


def _utility(result: TrainResult) -> UtilityFact | None:
    """Loss on public text: computed from what is released."""
    found = result.utility
    return found and UtilityFact(
        text=public_name(found.text),
        n_records=found.n_records,
        before_nats=found.before_nats,
        after_nats=found.after_nats,
    )


def _ledger(entry: LedgerEntryRef | None) -> LedgerReference | None:
    """The ledger's amounts, exactly."""
    if entry is None:
        return None
    kinds: tuple[Literal["epsilon", "delta"], ...] = ("epsilon", "delta")
    committed = {
        kind: exact(kind, text) if (text := getattr(entry, f"committed_{kind}")) else None
        for kind in kinds
    }
    return LedgerReference(
        ledger=entry.ledger,
        population=entry.population,
        release=entry.release,
        reserved_epsilon=exact("epsilon", entry.reserved_epsilon),
        reserved_delta=exact("delta", entry.reserved_delta),
        committed_epsilon=committed["epsilon"],
        committed_delta=committed["delta"],
        head=entry.head or None,
    )

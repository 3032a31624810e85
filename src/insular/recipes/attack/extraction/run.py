"""``insular attack extraction``: rank planted secrets, hold their ranks against the promise."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from insular.audit.secrets.exposure import group_secrets, random_p
from insular.audit.secrets.exposure_bound import (
    GroupClaim,
    claim_for_rows,
    expected_exposure,
    rank_tests,
)
from insular.audit.secrets.planted import parse_template
from insular.audit.secrets.results import (
    AllowedExposure,
    ExtractionResult,
    SecretRank,
)
from insular.errors import EvidenceError, InvalidArgumentError, RecordError
from insular.evidence import InputFact, RunStore, sha256_of
from insular.recipes.attack.attacked_model import AttackedModel, open_attacked
from insular.recipes.attack.extraction.canaries import PLAN, read_plan
from insular.recipes.attack.extraction.canaries_spec import CanaryPlan
from insular.recipes.attack.extraction.page import extraction_page
from insular.recipes.attack.extraction.spec import ExtractionSpec
from insular.recipes.inputs import Progress, silent
from insular.recipes.run_folder import (
    RESULT,
    begin_or_continue,
    run_status,
    write_run_page,
)
from insular.recipes.train.data import read_training_corpus

KIND = "attack.extraction"


def attack_extraction(
    spec: ExtractionSpec,
    out: Path,
    *,
    command: Sequence[str],
    progress: Progress | None = None,
) -> ExtractionResult:
    """Rank every planted secret in its space and compare with chance and with the promise.

    Guarantees:
        * A training run is attacked only if it learnt from the planted text itself, and only if
          every planted secret fits into the part of its record that was learnt from.
        * A promise that holds is refuted with probability ``significance`` at most.
        * A secret that was ranked is not ranked again after a stop.
        * No file of ``out`` holds a secret: ids, ranks and likelihoods alone.

    Args:
        spec: What to attack.
        out: Folder of the evidence: new, empty, or an unfinished run of the same spec.
        command: The command as typed, for the manifest.
        progress: Called with a line for each secret.

    Returns:
        The result.

    Raises:
        EvidenceError: If the run learnt from another text, or ``out`` holds another run.
        RecordError: If a secret was cut off.
        InvalidArgumentError: If the promise is named twice.
    """
    report = progress or silent
    plan_store, plan = read_plan(Path(spec.canaries))
    report("", f"loading {spec.run}")
    attacked = open_attacked(Path(spec.run), model=spec.model, device=spec.device)
    notes = _check_run(attacked, plan, plan_store)
    if attacked.claim is not None and spec.epsilon:
        raise InvalidArgumentError(
            f"epsilon must be 0 for a run that states its promise, got epsilon={spec.epsilon!r}."
        )
    fact = InputFact(
        name="canaries",
        source=spec.canaries,
        sha256=sha256_of(plan_store.path / f"{PLAN}.json"),
        n_records=len(plan.secrets),
    )
    store = begin_or_continue(
        KIND, out, spec, command=command, inputs=(*attacked.inputs, fact), other="another run"
    )
    with run_status(store, stage="extraction"):
        ranks = _rank_all(spec, attacked, plan, store, report)
        result = judge_secrets(spec, attacked, plan, ranks, notes=notes)
        store.write_result(RESULT, result)
        store.finish("complete")
    write_page(store)
    return result


def judge_secrets(
    spec: ExtractionSpec,
    attacked: AttackedModel,
    plan: CanaryPlan,
    ranks: Sequence[SecretRank],
    *,
    notes: tuple[str, ...] = (),
) -> ExtractionResult:
    """Hold ranks against chance and promise.

    Args:
        spec: The attack.
        attacked: The model, with its promise.
        plan: What was planted.
        ranks: The rank of every secret of the plan.
        notes: What a reader must know besides.

    Returns:
        The result.
    """
    size = parse_template(plan.template).space.size
    by_id = {rank.id: rank for rank in ranks}
    joined = [replace(by_id[secret.id], repeats=secret.repeats) for secret in plan.secrets]
    claim = attacked.claim
    unit, caveat = ("owner", "") if claim is None else (claim.unit, claim.caveat)
    epsilon = claim.epsilon if claim else spec.epsilon or None
    finest = 1 / (spec.candidates + 1) if spec.rank == "sampled" else 1 / size
    planted, tests = [], []
    for repeats in sorted({rank.repeats for rank in joined} - {0}):
        mine = [rank for rank in joined if rank.repeats == repeats]
        rows = _claim_for(attacked, spec, repeats)
        allowed = None
        if rows is not None:
            allowed = AllowedExposure(
                epsilon=rows.epsilon,
                delta=rows.delta,
                how=rows.how,
                mean_bits=expected_exposure(rows, space_size=size),
            )
            tests += rank_tests(mine, rows, finest=finest)
        planted.append(group_secrets(mine, space_size=size, allowed=allowed))
    controls = [rank for rank in joined if rank.repeats == 0]
    return ExtractionResult(
        attacked=attacked.name,
        template=plan.template,
        space_size=size,
        epsilon=epsilon,
        delta=None if epsilon is None else claim.delta if claim else spec.delta,
        unit=unit,
        caveat=caveat,
        secrets=tuple(joined),
        planted=tuple(planted),
        controls=group_secrets(controls, space_size=size, allowed=None),
        control_p=random_p(controls),
        tests=tuple(tests),
        significance=spec.significance,
        notes=notes,
    )


def write_page(store: RunStore) -> Path:
    """Render the page of a finished run from its evidence alone.

    Args:
        store: The run.

    Returns:
        The page's path.
    """
    result = store.read_result(RESULT, ExtractionResult)
    return write_run_page(store, lambda manifest: extraction_page(result, manifest))


def _rank_all(
    spec: ExtractionSpec,
    attacked: AttackedModel,
    plan: CanaryPlan,
    store: RunStore,
    report: Progress,
) -> list[SecretRank]:
    """Every rank, each stored as soon as it is there."""
    from insular.recipes.attack.extraction.rank import rank_secret

    template = parse_template(plan.template)
    found = []
    for i, secret in enumerate(plan.secrets):
        if not store.has_result(secret.id):
            store.write_result(secret.id, rank_secret(attacked.decoder, template, secret, spec))
        found.append(store.read_result(secret.id, SecretRank))
        report("ranks", f"secret {i + 1} of {len(plan.secrets)}")
    report("ranks", "done")
    return found


def _claim_for(attacked: AttackedModel, spec: ExtractionSpec, repeats: int) -> GroupClaim | None:
    """What is promised for all rows of a secret."""
    claim = attacked.claim
    if claim is None:
        if not spec.epsilon:
            return None
        return GroupClaim(
            epsilon=spec.epsilon,
            delta=spec.delta,
            relation="add_or_remove_one",
            how="as named for all rows of a secret",
        )
    return claim_for_rows(
        epsilon=claim.epsilon,
        delta=claim.delta,
        relation=claim.relation,
        n_records=1 if claim.unit == "owner" else repeats,
        event=claim.event,
    )


def _check_run(attacked: AttackedModel, plan: CanaryPlan, store: RunStore) -> tuple[str, ...]:
    """Refuse a run that cannot have learnt the secrets; say what could not be checked."""
    if attacked.run is None:
        return (
            "Whether this model learnt from the planted text cannot be checked: it is no training"
            " run of insular.",
        )
    spec, trained = attacked.run
    planted = replace(spec, text=str(store.path / plan.training_file))
    try:
        learnt = read_training_corpus(planted).digest
    except RecordError:
        learnt = ""
    if learnt != trained.data.sha256:
        raise EvidenceError(
            f"{attacked.name} must have learnt from {planted.text}, got a run on {spec.text} with"
            f" unit={spec.unit}; train on the planted file with --id-field {plan.id_field}."
        )
    template = parse_template(plan.template)
    cut = [
        secret.id
        for secret in plan.secrets
        if secret.repeats
        and len(attacked.decoder.encode(template.prompt(secret.name) + secret.secret)) > spec.tokens
    ]
    if cut:
        raise RecordError(
            f"planted secrets must lie within the {spec.tokens} tokens that {attacked.name} learnt"
            f" of a record, got {cut[0]} cut off, {len(cut)} in all; train with more --tokens or"
            " shorten the template."
        )
    limit = spec.records_per_owner
    most = max((secret.repeats for secret in plan.secrets), default=0)
    if spec.by_owner and limit and most > limit:
        return (
            f"The run used at most {limit} records of an owner, so secrets in more rows than that"
            f" were learnt from {limit} rows only.",
        )
    return ()

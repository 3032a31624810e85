"""``insular attack membership``: does a model's loss tell what it learnt from?"""

from collections.abc import Sequence
from pathlib import Path

from insular.audit.membership.judgement import count_tests, perfect_attack_refutes
from insular.audit.membership.likelihood_ratio import ShadowScores
from insular.audit.membership.results import MembershipClaim, MembershipResult, ScoreBlock
from insular.evidence import InputFact, RunStore, sha256_of
from insular.models.loading import Decoder, load_decoder
from insular.recipes.attack.attacked_model import AttackedModel, open_attacked
from insular.recipes.attack.membership.inputs import AttackInputs, prepare_attack
from insular.recipes.attack.membership.judge import claim_of, judge_scores, scores_of
from insular.recipes.attack.membership.page import membership_page
from insular.recipes.attack.membership.scores import Scoring, gather_blocks, score_blocks
from insular.recipes.attack.membership.shadow import open_shadows, shadow_losses, shadow_use
from insular.recipes.attack.membership.spec import MembershipSpec
from insular.recipes.inputs import Progress, silent
from insular.recipes.run_folder import (
    RESULT,
    begin_or_continue,
    run_status,
    write_run_page,
)

KIND = "attack.membership"


def attack_membership(
    spec: MembershipSpec,
    out: Path,
    *,
    command: Sequence[str],
    progress: Progress | None = None,
) -> MembershipResult:
    """Score members and non-members, and hold what that tells against the promise.

    Guarantees:
        * Scores are joined by record id: the order of the files changes nothing.
        * Nothing is scored before both files are known to be apart.
        * Nothing is trained, and neither model nor files are changed; no file of the run holds
          record text.
        * A block that was scored is not scored again, nor is a shadow model.
        * A shadow run that was trained otherwise than the attacked model, or with the members in
          view, is refused before anything is scored.
        * A promise that holds is refuted with probability ``significance`` at most, if members and
          non-members are independent draws of one kind.

    Args:
        spec: What to attack, with which records.
        out: Folder of the evidence: new, empty, or an unfinished run of the same spec.
        command: The command as typed, for the manifest.
        progress: Called from this process.

    Returns:
        The result.

    Raises:
        RecordError: If the records cannot be read or are not apart, or a shadow's are not known.
        EvidenceError: If the training run cannot be used, or ``out`` holds another run.
        InvalidArgumentError: If a promise is given for a run that has its own.
    """
    report = progress or silent
    report("", f"loading {spec.run}")
    attacked = open_attacked(
        Path(spec.run), model=spec.model, device=spec.device, progress=lambda s: report("", s)
    )
    claim = claim_of(spec, attacked)
    inputs = prepare_attack(spec, attacked, progress=report)
    shadow_runs = open_shadows(spec, attacked, inputs)
    reference = _reference(spec, report)
    store = begin_or_continue(
        KIND,
        out,
        spec,
        command=command,
        inputs=(
            *_facts(spec, attacked, inputs, reference),
            *(shadow.fact for shadow in shadow_runs),
        ),
        other="other files",
    )
    with run_status(store, stage="attack"):
        sides = (inputs.members, inputs.non_members)
        blocks = score_blocks(
            attacked,
            [record for side in sides for record in side.tokens],
            [record for side in sides for record in side.texts],
            store,
            scoring=Scoring(
                lowest_percent=spec.lowest_percent,
                physical_tokens=spec.physical_tokens,
                block_records=spec.block_records,
            ),
            reference=reference,
            progress=report,
        )
        shadows = shadow_losses(spec, inputs, shadow_runs, store, progress=report)
        result = _result_of(spec, store, attacked, inputs, claim, blocks, shadows)
        store.write_result(RESULT, result)
        store.finish("complete")
    write_page(store)
    return result


def write_page(store: RunStore) -> Path:
    """Render the page of a finished run from its evidence alone.

    Args:
        store: The run.

    Returns:
        The page's path.
    """
    result = store.read_result(RESULT, MembershipResult)
    return write_run_page(store, lambda manifest: membership_page(result, manifest))


def _result_of(
    spec: MembershipSpec,
    store: RunStore,
    attacked: AttackedModel,
    inputs: AttackInputs,
    claim: MembershipClaim | None,
    blocks: tuple[ScoreBlock, ...],
    shadows: ShadowScores | None,
) -> MembershipResult:
    """Hold all scores against the promise."""
    ids = [record.id for side in (inputs.members, inputs.non_members) for record in side.texts]
    scores = scores_of(inputs, gather_blocks(blocks, store, ids), shadows)
    n_tests = count_tests(len(scores), len(spec.fprs))
    return MembershipResult(
        name=attacked.name,
        claim=claim,
        members=inputs.members.counts,
        non_members=inputs.non_members.counts,
        by_owner=inputs.by_owner,
        found_in_training=inputs.found_in_training,
        reference=spec.reference or ("its own base model" if attacked.has_base else ""),
        lowest_percent=spec.lowest_percent,
        overlap=inputs.overlap,
        shift=inputs.shift,
        significance=spec.significance,
        n_tests=n_tests,
        able=claim is not None
        and perfect_attack_refutes(
            claim,
            n_members=inputs.members.counts.units,
            n_non_members=inputs.non_members.counts.units,
            wanted_fprs=spec.fprs,
            significance=spec.significance,
            n_tests=n_tests,
        ),
        scores=judge_scores(spec, inputs, scores, claim),
        blocks=blocks,
        seconds=sum(block.seconds for block in blocks),
        shadows=shadow_use(shadows, runs=bool(spec.shadow_runs)),
    )


def _reference(spec: MembershipSpec, report: Progress) -> Decoder | None:
    """The reference model that was named."""
    if not spec.reference:
        return None
    report("", f"loading {spec.reference}")
    return load_decoder(spec.reference, device=spec.device, progress=lambda s: report("", s))


def _facts(
    spec: MembershipSpec,
    attacked: AttackedModel,
    inputs: AttackInputs,
    reference: Decoder | None,
) -> tuple[InputFact, ...]:
    """All that is read, by digest."""
    facts = [*attacked.inputs, *inputs.facts]
    if reference is not None:
        facts.append(InputFact(name="reference", source=spec.reference, sha256=reference.digest))
    if spec.shadow:
        facts.append(
            InputFact(name="shadow", source=spec.shadow, sha256=sha256_of(Path(spec.shadow)))
        )
    return tuple(facts)

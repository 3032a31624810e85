"""``insular attack canaries``: plant secrets of known randomness in a training file."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from insular.audit.secrets.planted import SecretTemplate, draw_secrets, parse_template
from insular.errors import EvidenceError, InvalidArgumentError, RecordError
from insular.evidence import InputFact, RunStore
from insular.recipes.attack.extraction.canaries_spec import CanaryPlan, CanarySpec
from insular.recipes.run_folder import begin_run, run_status
from insular.records import Corpus, read_corpus

KIND = "attack.canaries"
PLAN = "canaries"
TRAINING_FILE = "train.jsonl"


def plant_canaries(spec: CanarySpec, out: Path, *, command: Sequence[str]) -> CanaryPlan:
    """Write a training file with planted secrets, and the plan that says which.

    Guarantees:
        * Every row of the text is kept, with id, owner and text; nothing else of it is.
        * A planted secret stands in as many rows as the plan says, each a record of its own; a
          control stands in none, and no secret stood in the text before.
        * All rows of a secret have one owner.
        * The same spec and text give the same files.

    Args:
        spec: What to plant.
        out: Folder of the file and the plan: new or empty.
        command: The command as typed, for the manifest.

    Returns:
        The plan.

    Raises:
        RecordError: If the text cannot be read, or has an id that a planted row needs.
    """
    corpus = read_corpus(
        spec.text,
        text_field=spec.text_field,
        id_field=spec.id_field or None,
        owner_field=spec.owner_field or None,
        encoding=spec.encoding,
    )
    template = parse_template(spec.template)
    drawn = draw_secrets(template, n_secrets=spec.secrets, repeats=spec.repeat, seed=spec.seed)
    plan = CanaryPlan(
        template=spec.template,
        secrets=drawn,
        training_file=TRAINING_FILE,
        n_rows=corpus.n_records + sum(secret.repeats for secret in drawn),
        n_planted_rows=sum(secret.repeats for secret in drawn),
        text_field=spec.text_field,
        id_field=spec.id_field or "id",
        owner_field=spec.owner_field,
        seed=spec.seed,
    )
    _check_fresh(corpus, plan, template)
    fact = InputFact(
        name="text",
        source=spec.text,
        sha256=corpus.source_digest,
        n_records=corpus.n_records,
    )
    store = begin_run(KIND, out, spec, command=command, inputs=(fact,))
    with run_status(store, stage="canaries"):
        store.write_text(TRAINING_FILE, _rows(corpus, plan, template))
        store.write_result(PLAN, plan)
        store.finish("complete")
    return plan


def read_plan(folder: Path) -> tuple[RunStore, CanaryPlan]:
    """Read a plan after checking that nobody changed it or its text.

    Args:
        folder: What ``plant_canaries`` wrote.

    Returns:
        The run and its plan.

    Raises:
        EvidenceError: If it is no such folder, or was changed.
    """
    store = RunStore.open(folder)
    if store.manifest.kind != KIND or store.manifest.status != "complete":
        raise EvidenceError(
            f"{folder} must hold what insular attack canaries wrote, got a {store.manifest.status}"
            f" run ({store.manifest.kind})."
        )
    store.verify()
    return store, store.read_result(PLAN, CanaryPlan)


def _rows(corpus: Corpus, plan: CanaryPlan, template: SecretTemplate) -> str:
    """All rows as JSON lines: the text's in their order, the planted ones anywhere between."""
    planted = [
        (row, secret.id, template.fill(secret.name, secret.secret))
        for secret in plan.secrets
        for row in plan.row_ids(secret)
    ]
    rng = np.random.default_rng([plan.seed, 0x905])
    order = rng.permutation(len(planted))
    places = set(rng.choice(plan.n_rows, size=len(planted), replace=False).tolist())
    own = iter([(record.id, record.owner, record.text) for record in corpus.records])
    ours = iter([planted[i] for i in order])
    lines = []
    for at in range(plan.n_rows):
        row_id, owner, text = next(ours if at in places else own)
        row = {plan.id_field: row_id, plan.text_field: text}
        if plan.owner_field:
            row[plan.owner_field] = owner
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(lines)


def _check_fresh(corpus: Corpus, plan: CanaryPlan, template: SecretTemplate) -> None:
    """Refuse a text that already has an id, an owner or a secret of the plan."""
    ours = {row for secret in plan.secrets for row in plan.row_ids(secret)}
    names = {secret.id for secret in plan.secrets}
    taken = [r.id for r in corpus.records if r.id in ours or r.owner in names]
    if taken:
        raise RecordError(
            f"corpus {corpus.name} must have no id or owner that a planted row needs, got"
            f" {taken[0]!r}; plant in the text as it was before."
        )
    whole = "\n".join(record.text for record in corpus.records)
    known = [s.id for s in plan.secrets if template.fill(s.name, s.secret) in whole]
    if known:
        raise InvalidArgumentError(
            f"seed must give secrets that the text does not hold, got seed={plan.seed}, whose"
            f" {known[0]} it does; choose another seed."
        )

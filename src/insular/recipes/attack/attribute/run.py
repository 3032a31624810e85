"""``insular attack attribute``: guess an attribute by likelihood, against who knows no model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from insular.audit.attribute.guesses import compare_guessers, most_common
from insular.audit.attribute.results import AttributeRank, AttributeResult
from insular.audit.statistics.rates import rate_of
from insular.evidence import ArrayRef, InputFact, RunStore, sha256_of
from insular.recipes.attack.attacked_model import AttackedModel, open_attacked
from insular.recipes.attack.attribute.page import attribute_page
from insular.recipes.attack.attribute.rows import Row, read_rows
from insular.recipes.attack.attribute.spec import PLACE, AttributeSpec
from insular.recipes.inputs import Progress, silent
from insular.recipes.run_folder import (
    RESULT,
    begin_or_continue,
    run_status,
    write_run_page,
)

if TYPE_CHECKING:
    import numpy as np

    from insular.models.loading import Decoder

KIND = "attack.attribute"


@final
@dataclass(frozen=True, kw_only=True)
class ValueScores:
    """Log-likelihoods of every record with every value, under one model."""

    ids: tuple[str, ...]
    """Records, in the order of the rows."""
    scores: ArrayRef
    """``scores``: a row for each record, a column for each value, in nats."""


def attack_attribute(
    spec: AttributeSpec,
    out: Path,
    *,
    command: Sequence[str],
    progress: Progress | None = None,
) -> AttributeResult:
    """Guess the value whose text is likeliest under the model, and compare with two baselines.

    The baselines are the population's most common value, and the same guess by the base model
    without the adapter.

    Guarantees:
        * The model never sees which value is the true one: every value is written and scored.
        * Scores of both models and the truth are joined by record id.
        * Where the model tells no more than one of the baselines, it is said to tell more with
          probability ``significance`` at most.
        * No file of ``out`` holds a field of a record: ids, ranks and likelihoods alone.

    Args:
        spec: What to guess.
        out: Folder of the evidence: new, empty, or an unfinished run of the same spec.
        command: The command as typed, for the manifest.
        progress: Called with a line before long steps.

    Returns:
        The result.

    Raises:
        RecordError: If a record lacks a field, or its value is not among ``values``.
    """
    report = progress or silent
    rows = read_rows(Path(spec.records), spec, needed=spec.fields)
    others = (
        read_rows(Path(spec.population), spec, needed=(spec.attribute,))
        if (spec.population)
        else rows
    )
    report("", f"loading {spec.run}")
    attacked = open_attacked(Path(spec.run), model=spec.model, device=spec.device)
    store = begin_or_continue(
        KIND,
        out,
        spec,
        command=command,
        inputs=(*attacked.inputs, *_facts(spec, rows, others)),
        other="other records",
    )
    with run_status(store, stage="attribute"):
        report("model", f"scoring {len(rows)} records")
        model = _scored(store, "model", attacked.decoder, spec, rows)
        report("model", "done")
        base = None
        if attacked.has_base:
            report("base", f"scoring {len(rows)} records")
            with attacked.base() as decoder:
                base = _scored(store, "base", decoder, spec, rows)
            report("base", "done")
        result = judge_guesses(spec, attacked, rows, model=model, base=base, others=others)
        store.write_result(RESULT, result)
        store.finish("complete")
    write_page(store)
    return result


def judge_guesses(
    spec: AttributeSpec,
    attacked: AttackedModel,
    rows: Sequence[Row],
    *,
    model: "dict[str, np.ndarray]",
    base: "dict[str, np.ndarray] | None",
    others: Sequence[Row],
) -> AttributeResult:
    """Hold guesses by likelihood against the baselines.

    Args:
        spec: What is guessed.
        attacked: The model.
        rows: The records, with their true values.
        model: Scores of each id.
        base: Scores of the base model; None without one.
        others: Records that give the most common value.

    Returns:
        The result.
    """
    found = []
    for row in rows:
        truth = spec.values.index(row.fields[spec.attribute])
        lowest, highest = _rank(model[row.id], truth)
        before = (None, None) if base is None else _rank(base[row.id], truth)
        found.append(
            AttributeRank(
                id=row.id,
                lowest=lowest,
                highest=highest,
                base_lowest=before[0],
                base_highest=before[1],
            )
        )
    common = most_common([row.fields[spec.attribute] for row in others], order=spec.values)
    guessed = [rank.guessed for rank in found]
    by_population = [row.fields[spec.attribute] == common for row in rows]
    comparisons = [compare_guessers(guessed, by_population, baseline="population")]
    if base is not None:
        by_base = [rank.base_guessed for rank in found]
        comparisons.append(compare_guessers(guessed, by_base, baseline="base model"))
    return AttributeResult(
        attacked=attacked.name,
        attribute=spec.attribute,
        n_values=len(spec.values),
        n_records=len(rows),
        population=(
            f"{len(others)} other records"
            if spec.population
            else "these records themselves, which can only favour the baseline"
        ),
        accuracy=rate_of(sum(guessed), len(rows), significance=0.025),
        n_tied=sum(rank.lowest == 1 < rank.highest for rank in found),
        comparisons=tuple(comparisons),
        records=tuple(found),
        significance=spec.significance,
        smallest_p=0.5 ** len(rows),
    )


def write_page(store: RunStore) -> Path:
    """Render the page of a finished run from its evidence alone.

    Args:
        store: The run.

    Returns:
        The page's path.
    """
    result = store.read_result(RESULT, AttributeResult)
    return write_run_page(store, lambda manifest: attribute_page(result, manifest))


def _scored(
    store: RunStore, name: str, decoder: "Decoder", spec: AttributeSpec, rows: Sequence[Row]
) -> "dict[str, np.ndarray]":
    """Scores by record id: stored ones, or new ones that are stored first."""
    import numpy as np

    from insular.recipes.attack.extraction.scores import score_tokens

    if not store.has_result(f"scores-{name}"):
        texts = [
            PLACE.sub(lambda m, v=value, r=row: v if m[1] == spec.attribute else r.fields[m[1]],
                      spec.template)
            for row in rows
            for value in spec.values
        ]  # fmt: skip
        tokens = [decoder.encode(text) for text in texts]
        scores = score_tokens(decoder, tokens, given=[1] * len(tokens))
        table = np.array([score.log_likelihood_nats for score in scores])
        ref = store.write_arrays(
            f"scores-{name}", {"scores": table.reshape(len(rows), len(spec.values))}
        )
        ids = tuple(row.id for row in rows)
        store.write_result(f"scores-{name}", ValueScores(ids=ids, scores=ref))
    kept = store.read_result(f"scores-{name}", ValueScores)
    table = store.read_arrays(kept.scores)["scores"]
    return dict(zip(kept.ids, table, strict=True))


def _rank(scores: "np.ndarray", truth: int) -> tuple[int, int]:
    """Lowest and highest rank of the true value; equal up to the numeric floor is a tie."""
    from insular.recipes.attack.extraction.scores import TIE_NATS

    gaps = scores - scores[truth]
    lowest = 1 + int((gaps > TIE_NATS).sum())
    return lowest, lowest + int((abs(gaps) <= TIE_NATS).sum()) - 1


def _facts(
    spec: AttributeSpec, rows: Sequence[Row], others: Sequence[Row]
) -> tuple[InputFact, ...]:
    """The files that are read, by digest."""
    files = [("records", spec.records, rows)]
    if spec.population:
        files.append(("population", spec.population, others))
    return tuple(
        InputFact(name=name, source=path, sha256=sha256_of(Path(path)), n_records=len(found))
        for name, path, found in files
    )

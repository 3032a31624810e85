"""Losses under shadow models: read from a file, or computed under training runs."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from insular.audit.membership.likelihood_ratio import (
    ShadowRow,
    ShadowScores,
    gather_shadows,
    uses_own_spread,
)
from insular.audit.membership.shadow_results import ShadowBlock, ShadowUse
from insular.errors import RecordError
from insular.evidence import RunStore
from insular.recipes.attack.attacked_model import open_attacked
from insular.recipes.attack.membership.inputs import AttackInputs
from insular.recipes.attack.membership.scores import record_losses_of
from insular.recipes.attack.membership.shadow_runs import ShadowRun, open_shadows
from insular.recipes.attack.membership.spec import MembershipSpec
from insular.recipes.inputs import Progress

__all__ = ["open_shadows", "read_shadow_rows", "shadow_losses", "shadow_use"]


def shadow_losses(
    spec: MembershipSpec,
    inputs: AttackInputs,
    runs: Sequence[ShadowRun],
    store: RunStore,
    *,
    progress: Progress,
) -> ShadowScores | None:
    """Losses of all records under all shadow models, computed once or read from the file.

    Guarantees:
        * A shadow model whose losses are stored is not loaded again.

    Args:
        spec: The attack.
        inputs: Its records.
        runs: Shadow runs that were checked; none if a file or nothing was named.
        store: The attack's run.
        progress: Called with a line for each shadow model.

    Returns:
        The losses, members first; None without shadow models.

    Raises:
        RecordError: If the file cannot be read.
        InvalidArgumentError: If losses are missing, or models are too few.
    """
    ids = [record.id for side in (inputs.members, inputs.non_members) for record in side.texts]
    if spec.shadow:
        return gather_shadows(read_shadow_rows(Path(spec.shadow)), ids)
    if not runs:
        return None
    rows: list[ShadowRow] = []
    for number, run in enumerate(runs, start=1):
        slug = f"shadow-{number:03d}"
        progress("shadows", f"{number} of {len(runs)}: {run.folder}")
        if not store.has_result(slug):
            _score(spec, inputs, run, store, slug=slug, ids=ids)
        block = store.read_result(slug, ShadowBlock)
        assert block.losses is not None
        arrays = store.read_arrays(block.losses)
        rows += [
            ShadowRow(id=name, shadow=slug, member=bool(inside), loss=float(loss))
            for name, inside, loss in zip(ids, arrays["inside"], arrays["loss"], strict=True)
        ]
    progress("shadows", "done")
    return gather_shadows(rows, ids)


def shadow_use(shadows: ShadowScores | None, *, runs: bool) -> ShadowUse | None:
    """What shadow models could say of the records.

    Args:
        shadows: Their losses, or None.
        runs: Whether they were computed under training runs.

    Returns:
        The counts, or None.
    """
    if shadows is None:
        return None
    n_both = int(shadows.both_sides.sum())
    return ShadowUse(
        n_models=shadows.losses.shape[1],
        runs=runs,
        n_both=n_both,
        n_one_side=len(shadows.losses) - n_both,
        least_inside=int(shadows.n_inside.min()),
        least_outside=int(shadows.n_outside.min()),
        own_spread=uses_own_spread(shadows),
    )


def read_shadow_rows(path: Path) -> tuple[ShadowRow, ...]:
    """Losses under shadow models: one JSON object a line with id, shadow, member and loss.

    Args:
        path: The file.

    Returns:
        The rows.

    Raises:
        RecordError: If the file or a line cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read as UTF-8 text; check the path.") from error
    found = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            row = _row(line)
            if row is None:
                raise RecordError(
                    f"{path.name} line {number}: must be an object with id, shadow, member (true or"
                    " false) and loss (nats per token); correct it."
                )
            found.append(row)
    return tuple(found)


def _row(line: str) -> ShadowRow | None:
    """One line; None if it is no such object."""
    try:
        row = json.loads(line)
        member, loss = row["member"], row["loss"]
        if isinstance(member, bool) and isinstance(loss, int | float):
            name, shadow = str(row["id"]), str(row["shadow"])
            return ShadowRow(id=name, shadow=shadow, member=member, loss=float(loss))
    except (ValueError, KeyError, TypeError):
        pass
    return None


def _score(
    spec: MembershipSpec,
    inputs: AttackInputs,
    run: ShadowRun,
    store: RunStore,
    *,
    slug: str,
    ids: Sequence[str],
) -> None:
    """Load one shadow model, score every record, keep the losses."""
    began = time.perf_counter()
    model = open_attacked(Path(run.folder), model=spec.model, device=spec.device)
    records = [*inputs.members.tokens, *inputs.non_members.tokens]
    found = record_losses_of(model.decoder, records, physical_tokens=spec.physical_tokens)
    block = ShadowBlock(
        run=run.folder,
        sha256=run.fact.sha256 or "",
        ids=tuple(ids),
        seconds=time.perf_counter() - began,
    )
    arrays = {"loss": found.loss, "inside": np.array(run.inside, dtype=bool)}
    store.write_result(slug, replace(block, losses=store.write_arrays(slug, arrays)))

"""Tiny inversions from the command's point of view, and a result made by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from insular.hidden.inversion.results import InversionCell, InversionResult, PromptInversion
from insular.hidden.inversion.spec import InversionSpec
from insular.hidden.utility.intervals import MeanInterval
from insular.models.loading import Decoder
from insular.recipes.hidden.inversion.spec import HiddenInversionSpec
from insular.records.tokens import TokenisedRecord
from recipes.hidden_samples import prompts_file
from recipes.tiny_run import tiny_folder


def tiny_inversion(folder: Path, **changes: object) -> HiddenInversionSpec:
    """Settings of an inversion of a second, its model and text made in ``folder``."""
    model, text = folder / "model", folder / "prompts.jsonl"
    if not model.exists():
        tiny_folder(model)
    if not text.exists():
        prompts_file(text)
    given: dict[str, object] = {
        "model": str(model),
        "text": str(text),
        "id_field": "id",
        "layers": (1,),
        "prompts": 4,
        "tokens": 8,
        "fit": 40,
        "calibration": 20,
        "rank": 8,
    }
    return HiddenInversionSpec(**{**given, **changes})  # pyright: ignore[reportArgumentType]


def tiny_calibration(decoder: Decoder, **_: object) -> list[TokenisedRecord]:
    """Public text of the tiny model."""
    import torch

    del decoder
    generator = torch.Generator().manual_seed(5)
    rows = torch.randint(2, 64, (20, 24), generator=generator).tolist()
    return [TokenisedRecord(id=f"c{i}", owner=f"c{i}", tokens=tuple(r)) for i, r in enumerate(rows)]


def cell_by_hand(*, shown: bool = False, right: bool = True, **changes: Any) -> InversionCell:
    """Two prompts of three tokens; the second has one doubtful token."""
    whole = MeanInterval(
        mean=0.5, low=0.01, high=0.99, standard_error=0.5, n=2, significance=0.05, method="binomial"
    )
    first = PromptInversion(
        record_id="a",
        statuses=("accepted",) * 3,
        correct=(True, right, True),
        true_ranks=(1, 1, 2),
        tried=(4, 4, 4),
        opened=0,
        seconds=0.3,
        recovered_text="<script>seen" if shown else None,
        true_text="<script>seen" if shown else None,
    )
    second = PromptInversion(
        record_id="b",
        statuses=("accepted", "doubtful", "unobserved"),
        correct=(True, False, False),
        true_ranks=(1, 9, None),
        tried=(4, 256, 0),
        opened=1,
        seconds=0.9,
    )
    cell = InversionCell(
        layer=1,
        mechanism="isotropic",
        storage="int8",
        every=2,
        status="reached",
        scale=1.2,
        kl=replace(whole, mean=0.3, low=0.25, high=0.35, n=20, method="normal"),
        budget_nats=0.4,
        rounding=1e-6,
        prompts=(first, second),
        exact_match=whole,
        token_accuracy=whole,
        ranked_first=0.6,
        candidates_per_token=45.3,
        seconds_per_token=0.2,
    )
    return replace(cell, **changes)


def missed_cell(mechanism: str = "dropout", **changes: Any) -> InversionCell:
    """A cell without a release."""
    cell = InversionCell(
        layer=1, mechanism=mechanism, storage="int8", every=2, status="jumps", rounding=1e-6
    )
    return replace(cell, **changes)


def unread_cell(mechanism: str, **changes: Any) -> InversionCell:
    """Prompts of which no token was read."""
    cell = cell_by_hand()
    none = MeanInterval(
        mean=0.0, low=0.0, high=0.7, standard_error=0.0, n=2, significance=0.05, method="binomial"
    )
    prompts = tuple(
        replace(one, statuses=("ambiguous",) * 3, correct=(False,) * 3) for one in cell.prompts
    )
    given: dict[str, Any] = {"exact_match": none, "token_accuracy": none, "prompts": prompts}
    return replace(cell, mechanism=mechanism, **{**given, **changes})


def result_by_hand(
    *cells: InversionCell, shown: bool = False, right: bool = True
) -> InversionResult:
    """These cells; one made by hand if there are none."""
    return InversionResult(
        model="tiny",
        target_kl_nats=0.3,
        spec=InversionSpec(),
        cells=cells or (cell_by_hand(shown=shown, right=right),),
        seed=0,
        notes=("2 prompts of 3 tokens.",),
    )


def without_times(result: InversionResult) -> InversionResult:
    """What must not depend on how a run went."""
    return replace(
        result,
        cells=tuple(
            replace(
                cell,
                seconds_per_token=0.0,
                prompts=tuple(replace(one, seconds=0.0) for one in cell.prompts),
            )
            for cell in result.cells
        ),
    )

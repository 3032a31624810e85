"""Tiny inversions from the command's point of view, and a result made by hand."""

from pathlib import Path

from insular.hidden.intervals import MeanInterval
from insular.hidden.inversion_results import InversionResult, PromptInversion
from insular.hidden.inversion_spec import InversionSpec
from insular.models.loading import Decoder
from insular.recipes.hidden_inversion_spec import HiddenInversionSpec
from insular.records.tokens import TokenisedRecord

from .hidden_samples import prompts_file
from .tiny_run import tiny_folder


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
        "layer": 1,
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


def result_by_hand(*, shown: bool = False, right: bool = True) -> InversionResult:
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
    return InversionResult(
        model="tiny",
        layer=1,
        storage="int8",
        every=2,
        mechanism="isotropic",
        budget_nats=0.3,
        spec=InversionSpec(),
        rounding=1e-6,
        prompts=(first, second),
        exact_match=whole,
        token_accuracy=whole,
        ranked_first=0.6,
        candidates_per_token=45.3,
        seconds_per_token=0.2,
        seed=0,
    )

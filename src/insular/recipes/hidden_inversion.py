"""``insular hidden invert``: read prompts out of stored states, token by token."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np

from insular.errors import AccountingError, InvalidArgumentError
from insular.evidence import InputFact, RunStore
from insular.hidden.intervals import MeanInterval, mean_interval
from insular.hidden.inversion_results import InversionResult, PromptInversion
from insular.hidden.inversion_spec import InversionSpec
from insular.recipes.hidden_inversion_page import inversion_page
from insular.recipes.hidden_inversion_prompts import (
    InversionInputs,
    Trajectory,
    calibration_records,
    generator_of,
    read_inputs,
)
from insular.recipes.hidden_inversion_spec import NO_MECHANISM, HiddenInversionSpec
from insular.recipes.inputs import Progress, silent
from insular.recipes.run_folder import RESULT, begin_run, run_status, write_run_page
from insular.records import TokenisedRecord

if TYPE_CHECKING:
    from insular.hidden.forward import SplitDecoder
    from insular.hidden.inversion import InvertedPrompt
    from insular.hidden.inversion_views import View
    from insular.hidden.mechanisms import Release
    from insular.hidden.token_table import TokenTable
    from insular.models.loading import Decoder

__all__ = ["KIND", "calibration_records", "invert_hidden", "write_page"]

KIND = "hidden.invert"


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Bench:
    """What all prompts share."""

    spec: HiddenInversionSpec
    decoder: "Decoder"
    split: "SplitDecoder"
    table: "TokenTable"
    release: "Release | None"


def invert_hidden(
    spec: HiddenInversionSpec,
    out: Path,
    *,
    command: Sequence[str],
    progress: Progress | None = None,
) -> InversionResult:
    """Invert the stored states of prompts and count what was read.

    Guarantees:
        * No file of ``out`` holds text or tokens unless ``show_text`` is set.
        * No inverted prompt shaped the token table, the mechanism or its scale.
        * Noise is drawn anew for each position of each prompt.

    Args:
        spec: What to invert.
        out: Folder of the evidence: new or empty.
        command: The command as typed, for the manifest.
        progress: Called with a line for each prompt.

    Returns:
        The result.

    Raises:
        InvalidArgumentError: If the layer is none of the model's, or there is nothing to invert.
    """
    from insular.hidden.forward import SplitDecoder
    from insular.hidden.token_table_cache import cached_token_table
    from insular.models.loading import load_decoder

    report = progress or silent

    def tell(line: str) -> None:
        report("", line)

    tell(f"loading {spec.model}")
    decoder = load_decoder(spec.model, progress=tell)
    split = SplitDecoder(decoder.model)
    split.check_layers(spec.layer)
    calibration = calibration_records(decoder, progress=tell)
    reserved = frozenset(one.id for one in calibration)
    inputs = read_inputs(spec, decoder, split, reserved=reserved, progress=tell)
    if not inputs.trajectories:
        raise InvalidArgumentError(f"states {spec.states} must hold a matrix, got none.")
    facts = (inputs.fact, InputFact(name="model", source=spec.model, sha256=decoder.digest))
    store = begin_run(KIND, out, spec, command=command, inputs=facts)
    with run_status(store, stage="inversion"):
        table = cached_token_table(
            split, calibration, layer=spec.layer, model_digest=decoder.digest, progress=tell
        )
        bench = _Bench(
            spec=spec,
            decoder=decoder,
            split=split,
            table=table,
            release=_release(spec, decoder, split, inputs),
        )
        result = _judged(bench, _invert_all(bench, inputs, report))
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
    result = store.read_result(RESULT, InversionResult)
    return write_run_page(store, lambda manifest: inversion_page(result, manifest))


def _release(
    spec: HiddenInversionSpec, decoder: "Decoder", split: "SplitDecoder", inputs: InversionInputs
) -> "Release | None":
    """The mechanism, fitted here or read."""
    from insular.hidden.mechanisms import load_release

    if spec.release:
        return load_release(spec.release)
    if spec.mechanism == NO_MECHANISM:
        return None
    if spec.states:
        raise InvalidArgumentError(
            "mechanism must come from a file with states, since it was applied before; give"
            " --release."
        )
    return _fitted(spec, decoder, split, inputs)


def _fitted(
    spec: HiddenInversionSpec, decoder: "Decoder", split: "SplitDecoder", inputs: InversionInputs
) -> "Release":
    """A mechanism fitted on some other prompts and scaled on yet others."""
    import torch

    from insular.hidden.calibration import calibrate_scale
    from insular.hidden.gradients import hidden_gradients
    from insular.hidden.prompts import HeldPrompts, hold_prompts, prompt_digest
    from insular.hidden.release_geometry import release_geometry
    from insular.recipes.hidden_mechanisms import mechanism_named
    from insular.recipes.hidden_spec import SweepSpec

    def held(records: Sequence[TokenisedRecord]) -> HeldPrompts:
        return hold_prompts(
            split,
            records,
            layers=[spec.layer],
            labels="none",
            pad_token_id=decoder.pad_token_id,
        )

    fitted = held(inputs.others[: spec.fit])
    gradients = hidden_gradients(
        split, fitted, layer=spec.layer, kind="true", labels_per_prompt=4, seed=spec.seed
    )
    defaults = SweepSpec(rank=spec.rank)
    geometry = release_geometry(
        fitted.states(spec.layer).double(),
        gradients.rows.double(),
        fisher_shrinkage=defaults.shrinkage,
        state_shrinkage=defaults.shrinkage,
    )
    nominal = mechanism_named(spec.mechanism, defaults).fit(geometry, budget_nats=spec.kl_nats)

    def sampler(
        states: torch.Tensor, /, *, generator: torch.Generator, scale: float = 1.0
    ) -> torch.Tensor:
        return nominal.scaled(scale**2).sample(states, generator=generator)

    found = calibrate_scale(
        split,
        held(inputs.others[spec.fit :]),
        layer=spec.layer,
        sampler=sampler,
        target_kl_nats=spec.kl_nats,
        evaluation_digests=[prompt_digest(one.truth or ()) for one in inputs.trajectories],
        seed=spec.seed,
        tolerance=0.05,
    )
    if found.scale is None:
        raise AccountingError(
            f"{spec.mechanism} must cost a measured KL of {spec.kl_nats:g} nats at layer "
            f"{spec.layer}, and cannot ({found.status}); choose another --kl or --mechanism."
        )
    return nominal.scaled(found.scale**2)


def _invert_all(bench: _Bench, inputs: InversionInputs, report: Progress) -> list[PromptInversion]:
    """Every prompt, with one ranking for all: it depends on noise and storage alone."""
    from insular.hidden.inversion import invert_states
    from insular.hidden.inversion_views import ranking_covariance
    from insular.hidden.token_ranking import TokenRanking

    spec = bench.spec
    search = InversionSpec(prior=spec.prior, beam=spec.beam, max_candidates=spec.max_candidates)
    found, ranking = [], None
    for at, one in enumerate(inputs.trajectories):
        view = _view(bench, one, at)
        if ranking is None:
            ranking = TokenRanking(bench.table, added=ranking_covariance(view))
        inverted = invert_states(bench.split, view, ranking=ranking, spec=search, truth=one.truth)
        found.append(_prompt(bench, one, inverted))
        report("prompts", f"prompt {at + 1} of {len(inputs.trajectories)}")
    report("prompts", "done")
    return found


def _view(bench: _Bench, one: Trajectory, at: int) -> "View":
    """A prompt's states as released and stored."""
    from insular.hidden.inversion_views import make_view
    from insular.hidden.storage import Storage

    spec, states = bench.spec, one.states
    if bench.release is not None and not spec.states:
        states = bench.release.sample(states, generator=generator_of(spec.seed, at)).float()
    stored = Storage(format=spec.storage, every=spec.every).store(states)
    return make_view(stored, rounding=bench.table.rounding, release=bench.release)


def _prompt(bench: _Bench, one: Trajectory, inverted: "InvertedPrompt") -> PromptInversion:
    """What is written of one prompt."""
    tokens, shown = bench.decoder.tokenizer, bench.spec.show_text
    correct = None
    if one.truth is not None:
        correct = tuple(a == b for a, b in zip(inverted.tokens, one.truth, strict=True))
    return PromptInversion(
        record_id=one.id,
        statuses=inverted.statuses,
        correct=correct,
        true_ranks=inverted.ranks,
        tried=inverted.tried,
        opened=inverted.opened,
        seconds=inverted.seconds,
        recovered_text=tokens.decode(list(inverted.tokens)) if shown and tokens else None,
        true_text=tokens.decode(list(one.truth)) if shown and tokens and one.truth else None,
    )


def _judged(bench: _Bench, prompts: list[PromptInversion]) -> InversionResult:
    """Counts, intervals and what a reader must know."""
    spec, release = bench.spec, bench.release
    known = [one.correct for one in prompts if one.correct]
    ranks = [rank for one in prompts for rank in one.true_ranks if rank is not None]
    tried = [n for one in prompts for n in one.tried]
    notes = []
    if spec.mechanism != NO_MECHANISM or spec.release:
        notes.append(
            "The mechanism is scaled at the last token of a prompt and applied to every position."
        )
    return InversionResult(
        model=spec.model,
        layer=spec.layer,
        storage=spec.storage,
        every=spec.every,
        mechanism=NO_MECHANISM if release is None else release.mechanism.kind,
        budget_nats=None if release is None else release.budget_nats,
        spec=InversionSpec(prior=spec.prior, beam=spec.beam, max_candidates=spec.max_candidates),
        rounding=bench.table.rounding,
        prompts=tuple(prompts),
        exact_match=_interval([float(all(one)) for one in known], spec, exact=True),
        token_accuracy=_interval([sum(one) / len(one) for one in known], spec, exact=False),
        ranked_first=sum(rank == 1 for rank in ranks) / len(ranks) if ranks else None,
        candidates_per_token=sum(tried) / max(len(tried), 1),
        seconds_per_token=statistics.median(one.seconds / max(one.n_tokens, 1) for one in prompts),
        seed=spec.seed,
        notes=tuple(notes),
    )


def _interval(
    values: list[float], spec: HiddenInversionSpec, *, exact: bool
) -> MeanInterval | None:
    """A mean over prompts; None for fewer than two."""
    if len(values) < 2:
        return None
    return mean_interval(
        np.array(values),
        significance=spec.significance,
        method="binomial" if exact else "bootstrap",
        seed=spec.seed,
    )

"""Extraction: rows against each prompt alone, duplicates, resuming, and what dominates."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hidden.decoder_samples import records, repeated, split
from insular.errors import EvidenceError, InvalidArgumentError
from insular.evidence import RunStore, collect_manifest
from insular.hidden.states.extraction import Extraction, extract_states, read_states
from insular.hidden.states.extraction_spec import ExtractionSpec
from insular.hidden.states.forward import SplitDecoder
from insular.records.batches import collate
from models.families import HIDDEN, tiny

SPEC = ExtractionSpec(layers=(0, 1), batch_tokens=24, shard_prompts=3)


def new_store(path: Path) -> RunStore:
    return RunStore.create(
        path, collect_manifest("hidden.test", "test", command=(), inputs=(), seed=None)
    )


def extract(spec: ExtractionSpec = SPEC, **options: object) -> Extraction:
    options = {"model_digest": "m"} | options
    return extract_states(split(), records(), spec, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_leaves_no_row_and_a_row_depends_on_its_own_prompt(side: str) -> None:
    decoder, rows = split(), records()
    spec = ExtractionSpec(
        layers=(1, 0),
        positions="all",
        batch_tokens=30,
        shard_prompts=3,
        padding_side=side,  # type: ignore[arg-type]
    )
    every = extract_states(decoder, rows, spec, model_digest="m")
    last = extract(ExtractionSpec(layers=(1,), padding_side=side))  # type: ignore[arg-type]
    alone = [decoder.states(collate([one], pad_token_id=0), layers=[1])[1][0] for one in rows]
    assert every.states(1).shape == (sum(len(one.tokens) for one in rows), HIDDEN)
    assert torch.allclose(every.states(1), torch.cat(alone), atol=1e-5)
    assert torch.allclose(last.states(1), torch.stack([one[-1] for one in alone]), atol=1e-5)
    assert every.result.rows_by_prompt == tuple(len(one.tokens) for one in rows)
    assert last.result.rows_by_prompt == (1,) * len(rows)


def test_what_is_stored_is_what_was_extracted(tmp_path: Path) -> None:
    store = new_store(tmp_path / "run")
    found = extract(store=store)
    store.finish("complete")
    again = read_states(RunStore.open(tmp_path / "run"))
    assert again.result == found.result
    assert len(again.result.shards) == 3
    for layer in (0, 1):
        assert torch.equal(again.states(layer), found.states(layer))
        assert torch.equal(extract().states(layer), found.states(layer))


def test_an_interrupted_extraction_goes_on_at_its_first_missing_shard(tmp_path: Path) -> None:
    whole = new_store(tmp_path / "whole")
    extract(store=whole)
    store = new_store(tmp_path / "killed")
    said: list[str] = []

    def stop(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(store=store, progress=stop)
    calls = []
    handle = split()._blocks[0].register_forward_hook(lambda *_: calls.append(1))
    extract(store=RunStore.open(tmp_path / "killed"))
    resumed = len(calls)
    extract()
    handle.remove()
    assert 0 < resumed < len(calls) - resumed
    files = {name: path for name, path in whole.manifest.files.items()}
    assert RunStore.open(tmp_path / "killed").manifest.files == files


@pytest.mark.parametrize("change", ["model", "prompts", "settings"])
def test_a_shard_of_other_inputs_is_refused(tmp_path: Path, change: str) -> None:
    store = new_store(tmp_path / "run")
    extract(store=store)
    rows = records(seed=1) if change == "prompts" else records()
    spec = ExtractionSpec(layers=(0, 1), shard_prompts=3) if change == "settings" else SPEC
    with pytest.raises(EvidenceError, match="other settings, prompts or another model"):
        extract_states(
            split(), rows, spec, model_digest="n" if change == "model" else "m", store=store
        )


def test_repeated_prompts_are_reported_whether_removed_or_kept() -> None:
    rows = [*records(), repeated(records()[2], "copy")]
    removed = extract_states(split(), rows, SPEC, model_digest="m")
    kept = extract_states(
        split(), rows, ExtractionSpec(layers=(0,), duplicates="keep"), model_digest="m"
    )
    assert removed.result.duplicate_ids == kept.result.duplicate_ids == ("copy",)
    assert removed.states(0).shape[0] == 8
    assert kept.states(0).shape[0] == 9
    assert torch.allclose(kept.states(0)[2], kept.states(0)[8], atol=1e-6)


def test_a_planted_massive_coordinate_is_found_and_a_clean_model_has_none() -> None:
    assert all(facts.massive == () for facts in extract().result.facts)
    model = tiny("gpt2")
    with torch.no_grad():
        model.transformer.h[0].mlp.c_proj.bias[7] += 300.0  # type: ignore[union-attr,index]
    planted = extract_states(SplitDecoder(model), records(), SPEC, model_digest="m")
    (found,) = planted.result.facts[0].massive
    states = planted.states(0).numpy().astype(np.float64)
    root = np.sqrt((states**2).mean(axis=0))
    assert found.coordinate == 7
    assert found.root_mean_square == pytest.approx(root[7])
    assert found.over_median == pytest.approx(root[7] / np.median(root))


def test_first_tokens_are_told_from_the_others() -> None:
    decoder, rows = split(), records()
    facts = extract().result.facts[1]
    norms = [
        decoder.states(collate([one], pad_token_id=0), layers=[1])[1][0].double().norm(dim=1)
        for one in rows
    ]
    first = float(torch.stack([one[0] for one in norms]).mean())
    others = float(torch.cat([one[1:] for one in norms]).mean())
    assert facts.first_token_norm == pytest.approx(first, rel=1e-5)
    assert facts.other_token_norm == pytest.approx(others, rel=1e-5)


def test_first_tokens_can_be_dropped() -> None:
    every = extract(ExtractionSpec(layers=(1,), positions="all"))
    some = extract(ExtractionSpec(layers=(1,), positions="all", first_tokens="drop"))
    starts = np.cumsum([0, *every.result.rows_by_prompt[:-1]])
    assert torch.equal(
        some.states(1), torch.tensor(np.delete(every.states(1).numpy(), starts, axis=0))
    )
    assert some.result.rows_by_prompt == tuple(n - 1 for n in every.result.rows_by_prompt)
    assert some.result.facts[0].first_token_norm == every.result.facts[0].first_token_norm
    with pytest.raises(InvalidArgumentError, match="needs positions='all'"):
        ExtractionSpec(layers=(1,), first_tokens="drop")


def test_bfloat16_states_are_stored_exactly() -> None:
    decoder = SplitDecoder(tiny("llama").bfloat16())
    found = extract_states(decoder, records(), ExtractionSpec(layers=(0,)), model_digest="m")
    assert found.result.dtype == "bfloat16"
    assert torch.equal(found.states(0), found.states(0).bfloat16().float())


def test_settings_are_checked() -> None:
    for wrong in ({"layers": ()}, {"layers": (1, 1)}, {"layers": (-1,)}):
        with pytest.raises(InvalidArgumentError, match="layers"):
            ExtractionSpec(**wrong)
    with pytest.raises(InvalidArgumentError, match="layers must be from 0 to 1"):
        extract(ExtractionSpec(layers=(2,)))
    with pytest.raises(InvalidArgumentError, match="one of the extracted layers"):
        extract(ExtractionSpec(layers=(0,))).states(1)

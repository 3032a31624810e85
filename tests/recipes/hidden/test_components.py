"""Parts of a layer's states, their rounding, and what the page says of both."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from insular.evidence import RunManifest, collect_manifest, encode
from insular.hidden.states.numerics_results import NumericsResult
from insular.recipes.hidden.bench import bench_of, forget_bench
from insular.recipes.hidden.geometry._components_words import (
    OPPOSITE,
    carrier_sentence,
    component_sentences,
    rounding_sentence,
)
from insular.recipes.hidden.geometry.components import (
    N_CERTIFIED,
    certified_prompts,
    nearest_distances,
    run_components,
    run_numerics,
)
from insular.recipes.hidden.geometry.components_results import ComponentsResult
from insular.recipes.hidden.geometry.run import layers_page, measure_layers, state_sentences
from insular.recipes.hidden.sweep.results import LayersResult
from insular.records import TokenisedRecord
from insular.reports import Number, Table
from recipes.components_samples import certificate, parts
from recipes.hidden_samples import layer_of, tiny_sweep
from recipes.page_text import table, visible

COMMAND = ("insular", "hidden", "geometry")
PROJECTED = "Which part of the state the prediction lives in"
ROUNDED = "How far rounding moves a state"


@pytest.fixture(scope="module")
def manifest() -> RunManifest:
    return collect_manifest("hidden.geometry", "run", command=COMMAND, inputs=(), seed=0)


def layers_result(*components: ComponentsResult, numerics: NumericsResult | None) -> LayersResult:
    return LayersResult(
        model="smollm2",
        model_digest="1" * 64,
        text="wikipedia",
        n_candidates=300,
        n_queries=100,
        layers=(layer_of(3),),
        components=components,
        numerics=numerics,
    )


def test_no_part_is_named_where_the_intervals_of_the_two_kls_overlap() -> None:
    assert parts(uncentred=(1.0, 1.1)).carrier(centred=False) is None
    assert parts(uncentred=(1.0, 1.5)).carrier(centred=False) == "inside"
    assert parts(uncentred=(1.5, 1.0)).carrier(centred=False) == "outside"


def test_centrings_that_name_opposite_parts_are_reported_and_others_are_not() -> None:
    opposite = parts(uncentred=(4.0, 0.6), centred=(0.3, 1.0))
    assert opposite.centring_decides
    assert component_sentences(opposite)[-1] == OPPOSITE
    assert carrier_sentence(opposite).endswith(OPPOSITE)
    for same in (parts(), parts(centred=(1.0, 1.1)), parts(uncentred=(1.0, 1.0))):
        assert not same.centring_decides
        assert OPPOSITE not in " ".join((*component_sentences(same), carrier_sentence(same)))


def test_both_centrings_are_stated_each_beside_the_random_directions() -> None:
    first, second = component_sentences(parts(uncentred=(4.0, 1.0), centred=(1.0, 0.25)))
    assert "8 directions" in first and "leave 50% of" in first and "80% stay (83.3%)" in first
    assert "(random directions: 16.7%)" in first
    assert second == "About zero it is 20% (16.7%) and 50% (83.3%)."


@pytest.mark.parametrize(
    ("zero", "mean", "words"),
    [
        (0.6, 0.5, "by either centring"),
        (0.6, 0.2, "about the mean these prompts do not tell"),
        (0.2, 0.6, "about zero these prompts do not tell"),
        (0.1, 0.2, "These prompts do not tell that"),
    ],
)
def test_directions_that_lose_no_more_than_random_ones_are_not_said_to(
    zero: float, mean: float, words: str
) -> None:
    assert words in carrier_sentence(parts(uncentred=(4.0, zero), centred=(4.0, mean)))


def test_a_move_counts_twice_against_the_nearest_prompt() -> None:
    found = parts(nearest=0.25)
    broken = rounding_sentence(certificate(coarse=0.125), found)
    assert "Twice the move is not below that: alone, in bfloat16." in broken
    fine = rounding_sentence(certificate(coarse=0.124), found)
    assert "No such move takes one prompt for another" in fine
    cached = rounding_sentence(certificate(cache=0.3, coarse=None), found)
    assert "token by token, with a cache." in cached and "bfloat16" not in cached


def test_the_nearest_distance_is_that_of_the_slow_search_even_beside_massive_coordinates() -> None:
    bank = torch.randn(12, 5, generator=torch.Generator().manual_seed(0)).double()
    bank[:, 2] += 1e7
    slow = [
        min(
            float((bank[i] - bank[j]).norm() / max(bank[i].norm(), bank[j].norm()))
            for j in range(12)
            if j != i
        )
        for i in range(4)
    ]
    found = nearest_distances(bank, n_queries=4)
    assert found.tolist() == pytest.approx(slow, rel=1e-9)


def test_certified_prompts_go_from_the_shortest_to_the_longest_and_lack_what_follows() -> None:
    records = [
        TokenisedRecord(id=str(i), owner=str(i), tokens=tuple(range(5 + (7 * i) % 20)))
        for i in range(20)
    ]
    found = certified_prompts(records)
    lengths = [len(one.tokens) for one in found]
    assert len({one.id for one in found}) == N_CERTIFIED
    assert (lengths[0], lengths[-1]) == (4, 23) and lengths == sorted(lengths)
    assert len(certified_prompts(records[:2])) == 2


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LayersResult]:
    folder = tmp_path_factory.mktemp("components")
    return folder, measure_layers(tiny_sweep(folder), folder / "run", command=COMMAND)


def test_every_layer_has_both_centrings_both_protocols_and_a_random_control(
    run: tuple[Path, LayersResult],
) -> None:
    folder, result = run
    spec = tiny_sweep(folder)
    assert [found.layer for found in result.components] == list(spec.layers)
    for found in result.components:
        for each in (found.uncentred, found.centred):
            assert each.rank == found.transplants.rank == spec.rank
            kinds = {(one.protocol, one.part, one.basis) for one in each.entries}
            assert len(kinds) == len(each.entries) == 8
            assert all(one.kl_nats.n == spec.calibration for one in each.entries)
        assert (found.uncentred.centred, found.centred.centred) == (False, True)
        assert 0 < found.nearest_relative <= found.nearest_median_relative
        assert found.n_nearest == spec.queries
    assert result.numerics is not None
    assert {shift.layer for shift in result.numerics.shifts} == set(spec.layers)
    assert result.numerics.shift("repeat", 0).max_relative == 0
    assert result.numerics.shift("incremental", 0).max_relative < 1e-4


def test_a_task_that_runs_again_finds_the_same(run: tuple[Path, LayersResult]) -> None:
    folder, result = run
    spec, states = tiny_sweep(folder), folder / "run" / "states"
    try:
        again = run_components(spec, states, 0, progress=lambda line: None).result
        certified = run_numerics(spec, states, progress=lambda line: None).result
        calibrated = bench_of(spec, states).calibration.digests
        assert not set(calibrated) & set(bench_of(spec, states).at(0).identities)
    finally:
        forget_bench()
    assert again == result.components[0]
    assert certified == result.numerics


def test_the_page_shows_each_part_beside_random_directions_and_each_way_beside_the_nearest_prompt(
    manifest: RunManifest,
) -> None:
    result = layers_result(parts(), numerics=certificate())
    page = layers_page(result, manifest)
    blocks = {section.heading: section.blocks for section in page.sections}
    rows = table(blocks[PROJECTED], "Centring is a choice")
    assert len(rows) == 8 and {row[2] for row in rows} == {"zero", "mean"}
    assert rows[0][:6] == [
        "3", "remaining layers", "zero", "top 8 directions", "4 (3.6 to 4.4)", "5 (4.5 to 5.5)"
    ]  # fmt: skip
    assert len(table(blocks[PROJECTED], "from another prompt's state")) == 2
    ways = table(blocks[ROUNDED], "How far rounding moves a state")
    assert [row[-1] for row in ways] == ["yes", "yes", "yes", "no"]
    assert "cpu, float32, eager attention and 1 thread alone" in visible(blocks[ROUNDED])


def test_numbers_of_the_new_sections_point_at_where_they_stand(manifest: RunManifest) -> None:

    result = layers_result(parts(), numerics=certificate())

    evidence = json.loads(encode(result))
    sections = [
        s for s in layers_page(result, manifest).sections if s.heading in (PROJECTED, ROUNDED)
    ]
    cells = [
        cell
        for section in sections
        for block in section.blocks
        if isinstance(block, Table)
        for row in block.rows
        for cell in row
        if isinstance(cell, Number)
    ]
    assert len(cells) == 8 * 2 + 2 * 2 + 4 * 3
    for cell in cells:
        at = evidence
        for step in cell.source.partition("#/")[2].split("/"):
            at = at[int(step)] if isinstance(at, list) else at[step]
        value = at["mean"] if isinstance(at, dict) else at
        shown = float(cell.text.split(" ")[0].rstrip("%")) / (100 if "%" in cell.text else 1)
        assert shown == pytest.approx(value, rel=0.01)


def test_a_run_without_them_has_neither_section(manifest: RunManifest) -> None:
    old = layers_result(numerics=None)
    headings = {section.heading for section in layers_page(old, manifest).sections}
    assert not headings & {PROJECTED, ROUNDED}
    assert state_sentences(old) == ()
    assert len(state_sentences(replace(old, components=(parts(),)))) == 1

"""What the page and the terminal say of a sweep."""

import io
import re
from pathlib import Path

import pytest

from insular.evidence import RunManifest, collect_manifest
from insular.recipes.hidden.spec import MECHANISM_KINDS
from insular.recipes.hidden.sweep._words import FAMILIES, STATUS, answer_sentences, share
from insular.recipes.hidden.sweep.page import sweep_page
from insular.recipes.hidden.sweep.results import SweepResult
from insular.recipes.hidden.sweep.summary import sweep_blocks
from insular.reports import Block, Page, Table, render
from insular.reports.terminal import results_console
from recipes.hidden_samples import cell_of, missed_cell, mixed_result, result_of
from recipes.page_text import figures, table, visible

PERFECT = cell_of("worst-case", 0.1, agreement=0.9, found=(2, 3, 4), epsilon=20.0)


@pytest.fixture(scope="module")
def manifest() -> RunManifest:
    return collect_manifest("hidden.sweep", "run", command=("insular",), inputs=(), seed=0)


@pytest.fixture(scope="module")
def page(manifest: RunManifest) -> Page:
    return sweep_page(mixed_result(), manifest)


def blocks(page: Page, heading: str) -> tuple[Block, ...]:
    return next(section.blocks for section in page.sections if section.heading == heading)


def lead(page: Page) -> str:
    return visible(page.lead)


def terminal(result: SweepResult) -> str:
    stream = io.StringIO()
    console = results_console(stream)
    for block in sweep_blocks(result):
        console.print(block)
    return stream.getvalue()


def words(text: str) -> str:
    return " ".join(re.sub("[│┌┐└┘─]", " ", text).split())


def test_the_first_paragraphs_say_for_each_layer_which_release_to_take_or_that_there_is_none(
    manifest: RunManifest,
) -> None:
    other = cell_of("isotropic", 1.0, layer=7, agreement=0.3, found=(30, 20, 25))
    better = cell_of("isotropic", 0.05, agreement=0.95, found=(9,))
    found = sweep_page(result_of(PERFECT, better, other, layers=(3, 7)), manifest)
    assert found.verdict == "Not every layer has a useful and private release"
    assert found.verdict_kind == "bad"
    assert lead(found).startswith(
        "Layer 3: isotropic at a measured KL of 0.05 nats keeps the most likely next token of 95% "
        "of prompts, and the best attacker finds 9% of them among 300 candidates. That is useful "
        "and private. Layer 7: no release is both useful and private. The nearest: isotropic at a "
        "measured KL of 1 nats keeps the most likely next token of 30% of prompts"
    )
    assert "at least 50% of prompts keep" in lead(found)
    assert "2 of 3 releases that reached their KL are both" in lead(found)
    assert "by their 95% intervals, 2 could be" in lead(found)


def test_each_exit_code_has_a_verdict_and_its_colour(manifest: RunManifest) -> None:
    good = sweep_page(result_of(PERFECT), manifest)
    assert good.verdict == "Each layer has a useful and private release"
    bad = sweep_page(mixed_result(), manifest)
    assert bad.verdict == "No release is both useful and private"
    nothing = sweep_page(result_of(missed_cell("dropout", 0.1, "jumps")), manifest)
    assert nothing.verdict == "Nothing was measured"
    assert "Layer 3: no mechanism reached a target; nothing was attacked." in lead(nothing)
    assert [page.verdict_kind for page in (good, bad, nothing)] == ["good", "bad", "open"]


def test_every_statistic_of_a_layer_stands_beside_its_null_and_its_split_halves(
    page: Page,
) -> None:
    rows = table(blocks(page, "Layers before any release"), "without structure")
    geometry = mixed_result().layers[0].geometry
    numbers = [
        getattr(geometry, name)
        for name in (
            "fisher_energy",
            "coupling",
            "effective_rank",
            "euclidean_gain",
            "adaptive_gain",
            "projector_bound",
        )
    ]
    assert len(rows) == len(numbers)
    for row, number in zip(rows, numbers, strict=True):
        assert row[2] == f"{number.value:.3g}"
        assert row[3] == f"{number.halves[0]:.3g}, {number.halves[1]:.3g}"
        assert row[4].startswith(f"{number.null.mean:.3g} ({number.null.lowest:.3g} to ")
        assert row[5] == "yes"


def test_top_1_never_stands_without_the_size_of_the_bank(page: Page) -> None:
    assert lead(page).count("among 300 candidates") == 2
    everywhere = [block for section in page.sections for block in section.blocks]
    shown = figures(everywhere)
    assert len(shown) == 2
    assert all("300 candidates" in figure.caption for figure in shown)
    tables = [block for block in everywhere if isinstance(block, Table)]
    for one in tables:
        if "Aware" in one.columns or "Top-1 or KL" in one.columns:
            assert "300 candidates" in one.caption
    risk = visible(blocks(page, "Use against risk"))
    assert "finds 100% of the prompts among 300 candidates" in risk
    said = words(terminal(mixed_result()))
    assert said.count("among 300 candidates") == 3


def test_cells_say_why_they_were_not_attacked_and_which_epsilon_is_infinite(page: Page) -> None:
    rows = table(blocks(page, "Every cell"), "Every cell")
    found = {(row[1], row[2]): row for row in rows}
    assert len(rows) == len(mixed_result().cells)
    assert found["isotropic", "0.1"][3] == "0.1 (0.09 to 0.11)"
    assert found["isotropic", "0.1"][4:8] == ["0.800", "0.600", "0.500", "0.600"]
    assert found["isotropic", "0.1"][8:] == ["0.62", "600"]
    assert found["complement", "0.1"][9] == "infinite"
    assert found["quantization", "0.1"][8:] == ["", "none"]
    assert found["dropout", "0.1"][3] == "not reached: its KL jumps over the target"
    assert found["generalized-eigen", "0.1"][3] == "not fitted"
    said = visible(blocks(page, "Every cell"))
    assert "generalized-eigen at layer 3 was not fitted: rank must be at most 7." in said


def test_winners_of_which_nothing_differs_are_not_listed(manifest: RunManifest) -> None:
    same = [cell_of(name, 0.1, found=(100,)) for name in ("isotropic", "worst-case", "complement")]
    found = sweep_page(result_of(*same), manifest)
    assert table(blocks(found, "Best mechanisms"), "At equal KL") == [
        ["3", "measured KL", "0.1", "no difference", "1", "3"]
    ]
    assert "no difference" in terminal(result_of(*same))
    rows = table(blocks(sweep_page(mixed_result(), manifest), "Best mechanisms"), "At equal KL")
    assert rows[0][:4] == ["3", "measured KL", "0.1", "worst-case, isotropic"]
    assert rows[-1][1:4] == ["epsilon", "100", "worst-case"]


def test_a_prediction_that_fails_says_which_assumption_does(page: Page) -> None:
    said = visible(blocks(page, "What was predicted before any attack"))
    assert "wrong by at most 0.05 for isotropic noise and 0.18 for other Gaussian noise." in said
    assert "does not hold here" in said


def test_a_prediction_that_holds_says_so(manifest: RunManifest) -> None:
    exact = cell_of("isotropic", 0.1, found=(60, 60, 60), predicted_top1=0.61)
    said = visible(
        blocks(sweep_page(result_of(exact), manifest), "What was predicted before any attack")
    )
    assert "wrong by at most 0.01 for isotropic noise." in said and "hold" not in said


def test_the_page_says_what_an_attack_that_fails_does_not_show(page: Page) -> None:
    said = visible(blocks(page, "What was done"))
    assert "An attack that fails proves no privacy" in said
    assert "nothing here is compared at equal noise" in said
    assert "keep it as you keep the text" in said


def test_pages_with_nothing_to_draw_are_pages(manifest: RunManifest) -> None:
    for result in (
        result_of(missed_cell("dropout", 0.1, "jumps")),
        result_of(cell_of("quantization", 0.1)),
        result_of(PERFECT),
    ):
        assert "<html" in render(sweep_page(result, manifest))


@pytest.mark.parametrize(
    "result",
    [
        mixed_result(),
        result_of(PERFECT),
        result_of(missed_cell("dropout", 0.1, "too_weak")),
        result_of(cell_of("generalized-eigen-floor", 0.123456), PERFECT, layers=(3,)),
    ],
)
def test_the_terminal_says_the_same_in_80_columns(result: SweepResult) -> None:
    printed = terminal(result)
    assert max(map(len, printed.splitlines())) <= 80
    said = words(printed)
    for sentence in answer_sentences(result):
        assert sentence in said
    assert "Every record" not in said and "G_mah" in said


def test_the_terminal_shows_each_number_beside_its_null() -> None:
    row = next(line for line in terminal(mixed_result()).splitlines() if line.startswith("     3"))
    assert row.split() == ["3", "0.990", "4.05", "2.02", "0.81", "0.41"]


def test_every_mechanism_and_status_has_words() -> None:
    assert set(FAMILIES) == set(MECHANISM_KINDS)
    assert set(STATUS) == {"too_weak", "too_strong", "jumps", "not fitted"}


def test_shares_have_three_digits() -> None:
    assert [share(x) for x in (0.0, 0.07, 0.004, 0.9667, 1.0)] == [
        "0%",
        "7%",
        "0.4%",
        "96.7%",
        "100%",
    ]


def test_the_page_of_a_run_does_not_depend_on_its_folder(manifest: RunManifest) -> None:
    assert str(Path.cwd()) not in render(sweep_page(mixed_result(), manifest))

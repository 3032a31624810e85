from dataclasses import replace
from io import StringIO

import pytest
from rich.cells import cell_len

from insular.recipes.audit.summary import isolation_summary, summary_blocks
from insular.reports.terminal import results_console
from recipes.part_samples import sensitivity
from recipes.samples import CALLABLE, CLEAN, COUPLED, UNDECIDED, WHOLE


def printed(result) -> str:
    console = results_console(StringIO())
    for block in summary_blocks(isolation_summary(result, run_folder="runs/one")):
        console.print(block)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("result", [COUPLED, CLEAN, UNDECIDED, CALLABLE, WHOLE])
def test_fits_80_columns(result):
    assert max(map(cell_len, printed(result).splitlines())) <= 80


def test_coupled_shows_verdict_path_counter_example_and_repairs():
    text = printed(COUPLED)
    assert "COUPLED" in text.splitlines()[0]
    for words in ("wikipedia:40:1", "0.43 C", "56 of 56 comparisons", "bitsandbytes 0.50.1",
                  "llm-int8-record-owned", "4.10 s", "insular replay runs/one"):  # fmt: skip
        assert words in text


def test_the_first_paragraph_is_the_answer():
    summary = isolation_summary(CLEAN, run_folder="runs/one")
    assert summary.paragraphs[0].startswith("On the path that ran, no record moved another's")
    assert summary.kind == "good"
    assert summary.worst == ()


def test_undecided_names_the_failed_check_and_shows_no_counter_example():
    summary = isolation_summary(UNDECIDED, run_folder="runs/one")
    assert summary.kind == "open"
    assert summary.worst == ()
    assert summary.failed_checks == (
        "opacus: sum of gradients: differs from the batch's backward by 3.0e-01, at most 1e-04"
        " allowed",
    )


def test_rounding_is_told_from_coupling():
    rows = {row[0]: row for row in isolation_summary(COUPLED, run_folder="r").arms}
    assert rows["llm-int8"][2:4] == ("content", "0.43")
    assert rows["bf16"][2:4] == ("shape (rounding)", "8.4e-06")
    assert rows["singleton"][2:4] == ("nothing", "0")


def test_an_added_record_has_its_price_and_the_influence_its_place():
    summary = isolation_summary(WHOLE, run_folder="runs/one")
    assert summary.paragraphs[2].startswith("Adding record wikipedia:118:2 moved the clipped sum")
    assert summary.paragraphs[2].endswith("costs epsilon 6.98 at delta 1e-5 instead of 4.38.")
    assert summary.paragraphs[3].startswith(
        "Influence on the other records first enters at model.layers.0.mlp.down_proj (forward)"
    )
    assert "separable bound" not in " ".join(summary.paragraphs)


def test_a_failed_validation_is_among_the_failed_checks():
    assert WHOLE.sensitivity is not None
    broken = sensitivity(("llm-int8", "nf4"), failed={"nf4": "operators"})
    summary = isolation_summary(replace(WHOLE, sensitivity=broken), run_folder="runs/one")
    assert summary.failed_checks == ("pair in nf4: operators: 3.1e-01, too much.",)


def test_a_clean_stack_says_how_far_its_furthest_candidate_came():
    found = sensitivity(("float32",), ratio=0.9999)
    summary = isolation_summary(replace(CLEAN, sensitivity=found), run_folder="runs/one")
    assert "0.999900\u00a0C, not more than an accountant assumes" in summary.paragraphs[-1]

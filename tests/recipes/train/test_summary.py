from dataclasses import replace
from io import StringIO

import pytest
from rich.cells import cell_len

from insular.recipes.train.page import train_page
from insular.recipes.train.summary import summary_blocks, train_summary
from insular.reports.terminal import results_console
from recipes.train_samples import (
    CLEAN,
    DEAD,
    DIFFERENCES,
    MANIFEST,
    OWNERS,
    RESUMED,
    SEEDED,
    VARIANTS,
)

EACH = pytest.mark.parametrize("result", VARIANTS.values(), ids=VARIANTS)


def printed(result) -> str:
    console = results_console(StringIO())
    for block in summary_blocks(train_summary(result, run_folder="runs/one")):
        console.print(block, soft_wrap=isinstance(block, str))
    return console.file.getvalue()  # type: ignore[attr-defined]


def flat(result) -> str:
    return " ".join(printed(result).replace("│", " ").split())


@EACH
def test_fits_80_columns(result):
    assert max(map(cell_len, printed(result).splitlines())) <= 80


@EACH
def test_says_first_what_the_page_says_first(result):
    found, page = train_summary(result, run_folder="r"), train_page(result, MANIFEST)
    assert found.paragraphs[0] == page.lead[0].plain
    assert (found.word, found.kind) == (page.verdict, page.verdict_kind)


@EACH
def test_shows_no_telemetry(result):
    text = printed(result)
    for step in result.telemetry[:20]:
        assert f"{step.signal_norm:.3g}" not in text
        assert step.loss_nats is None or f"{step.loss_nats:.3f}" not in text


def test_clean_shows_what_ran_and_what_is_next():
    text = flat(CLEAN)
    for words in ("GUARANTEE AS PLANNED", "3.00 (PLD); 3.66 (RDP) at delta 1e-5",
                  "Poisson sampling from 1000 records, with probability 0.016",
                  "200, planned 200; 0 differences", "isolated, cpu", "120 tensors, all alive",
                  "3.418 to 3.405 nats per token", "customers: epsilon 2.998400 committed",
                  "may leave adapter/adapter_model.safetensors",
                  "Next: insular card runs/one", "Next: insular report runs/one"):  # fmt: skip
        assert words in text
    assert "Before the adapter leaves" not in text


def test_a_folder_with_a_space_is_quoted():
    steps = train_summary(CLEAN, run_folder="my runs/x").next_steps
    assert steps == ("insular card 'my runs/x'", "insular report 'my runs/x'")


def test_differences_after_the_first_are_warnings_and_many_are_counted():
    assert train_summary(DIFFERENCES, run_folder="r").warnings[:2] == (
        "there were 203 releases, planned 200; the event counts all of them.",
        "Epsilon is 9.7312, above the target of 3.",
    )
    many = replace(DIFFERENCES.executed, differences=tuple(f"number {i}." for i in range(9)))
    lines = train_summary(replace(DIFFERENCES, executed=many), run_folder="r").warnings
    assert lines[:5] == (*(f"number {i}." for i in range(1, 5)), "4 more differences are on the"
                         " page.")  # fmt: skip


def test_owners_shared_texts_and_a_missing_ledger_are_warned_of():
    assert train_summary(OWNERS, run_folder="r").warnings == (
        "12 texts in the data of more than one owner: what such a text says is not hidden.",
        "One owner has 13.1% of the records.",
        "No ledger keeps this run and others on the same text within one budget.",
    )


def test_resumed_says_what_a_stop_has_cost():
    (line,) = train_summary(RESUMED, run_folder="r").warnings
    assert line.startswith("The run was started 3 times. 2 releases were made for steps")


def test_seeded_promises_and_clears_nothing():
    text = flat(SEEDED)
    assert "NOTHING IS PROTECTED" in text
    assert "no promise 3.00 (PLD)" in text
    assert "may leave" not in text
    assert "not cleared adapter/adapter_config.json" in text


def test_dead_tensors_are_named_by_number():
    assert "120 tensors, NOT all alive" in flat(DEAD)
    assert train_summary(DEAD, run_folder="r").kind == "bad"

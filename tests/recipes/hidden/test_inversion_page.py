"""What page and terminal say of an inversion."""

import io
import re
from dataclasses import replace

import pytest

from insular.evidence import RunManifest, collect_manifest
from insular.hidden.inversion.results import InversionResult
from insular.recipes.hidden.inversion._words import answer_sentences, verdict_words
from insular.recipes.hidden.inversion.page import inversion_page
from insular.recipes.hidden.inversion.summary import inversion_blocks
from insular.reports import Block, Page, render
from insular.reports.terminal import results_console
from recipes.inversion_samples import cell_by_hand, missed_cell, result_by_hand, unread_cell
from recipes.page_text import figures, table, visible


@pytest.fixture(scope="module")
def manifest() -> RunManifest:
    return collect_manifest("hidden.invert", "x", command=("insular",), inputs=(), seed=0)


def mixed() -> InversionResult:
    """Clean states, two mechanisms of which one protects, and one that could not be made."""
    clean = cell_by_hand(mechanism="none", status="clean", kl=None, budget_nats=None, scale=None)
    whole = tuple(
        replace(one, correct=(True,) * 3, statuses=("accepted",) * 3) for one in clean.prompts
    )
    return result_by_hand(
        replace(clean, prompts=whole),
        cell_by_hand(),
        cell_by_hand(storage="bf16"),
        unread_cell("worst-case"),
        missed_cell(),
        missed_cell("complement", status="not fitted", reason="rank must be at most 7."),
    )


def blocks(page: Page, heading: str) -> tuple[Block, ...]:
    return next(section.blocks for section in page.sections if section.heading == heading)


def terminal(result: InversionResult) -> str:
    stream = io.StringIO()
    console = results_console(stream)
    for block in inversion_blocks(result):
        console.print(block)
    return stream.getvalue()


def test_the_answer_says_what_was_read_and_under_which_release() -> None:
    text = " ".join(answer_sentences(result_by_hand()))
    assert "layer 1 of tiny" in text and "int8, positions 0, 2, 4, ..." in text
    assert "isotropic at a measured KL of 0.3 nats" in text
    assert "1 of 2 prompts read exactly" in text
    assert "No wrong token was accepted." in text
    assert text.endswith("2 prompts of 3 tokens.")
    wrong = result_by_hand(right=False)
    assert verdict_words(wrong) == "No prompt was read exactly"
    assert wrong.exit_code == 0
    assert "1 wrong token looked right" in " ".join(answer_sentences(wrong))


def test_without_truth_only_certainty_is_claimed() -> None:
    whole = cell_by_hand()
    blind = replace(
        whole,
        prompts=tuple(replace(one, correct=None) for one in whole.prompts),
        exact_match=None,
        token_accuracy=None,
        ranked_first=None,
    )
    result = result_by_hand(blind)
    assert (blind.n_exact, result.silent_errors, result.exit_code) == (None, None, 1)
    assert verdict_words(result) == "1 of 2 prompts read, none in doubt"
    assert result_by_hand(replace(blind, prompts=blind.prompts[1:])).exit_code == 2
    # a prompt without tokens is none that was read
    empty = replace(blind.prompts[0], statuses=())
    assert result_by_hand(replace(blind, prompts=(empty,))).exit_code == 2


def test_the_first_paragraph_says_how_many_prompts_were_read_in_the_worst_cell(
    manifest: RunManifest,
) -> None:
    page = inversion_page(mixed(), manifest)
    assert page.verdict == "Prompts read in 3 of 4 cells"
    first = page.lead[0].plain
    assert first.startswith("Of 4 cells, most was read from states of layer 1 of tiny, clean")
    assert "2 of 2 prompts read exactly" in first


def test_the_lead_says_for_each_mechanism_what_protects(manifest: RunManifest) -> None:
    said = visible(inversion_page(mixed(), manifest).lead)
    assert "Clean states: 100.0% of prompts." in said
    assert (
        "Read behind a mechanism at a measured KL of 0.3 nats: 50.0% of prompts with isotropic."
        in said
    )
    assert "No prompt was read behind worst-case at a measured KL of 0.3 nats" in said
    assert "2 releases could not be made" in said


def test_every_cell_is_a_row_with_intervals_or_says_why_it_is_empty(manifest: RunManifest) -> None:
    found = blocks(inversion_page(mixed(), manifest), "What was read")
    rows = table(found, "What was read, by layer")
    assert [row[1] for row in rows] == [
        "clean", "isotropic", "isotropic", "worst-case", "dropout", "complement",
    ]  # fmt: skip
    assert rows[0][2] == "int8, every 2" and rows[0][3] == "0"
    assert rows[1][3] == "0.3 (0.25 to 0.35)" and rows[1][4] == "50.0 (1.0 to 99.0)"
    assert rows[1][6:] == ["60.0%", "45.3", "0.200"]
    assert rows[4][3:] == ["not reached: its KL jumps over the target", "", "", "", "", ""]
    assert "not fitted: rank must be at most 7." in visible(found)
    sure = table(found, "How sure")
    assert sure[0][3:7] == ["6", "0", "0", "0"] and sure[1][3:7] == ["4", "0", "1", "1"]
    assert [row[7] for row in sure] == ["0"] * 4


def test_several_cells_are_drawn_by_release_and_one_alone_is_not(manifest: RunManifest) -> None:
    several = blocks(inversion_page(mixed(), manifest), "What was read")
    (drawn,) = figures(several)
    assert "worst-case" in drawn.svg and "bf16" in drawn.svg
    assert not figures(blocks(inversion_page(result_by_hand(), manifest), "What was read"))


def test_at_most_four_cells_are_drawn_along_the_prompt(manifest: RunManifest) -> None:
    cells = [cell_by_hand(layer=layer) for layer in range(6)]
    cells[2] = unread_cell("isotropic", layer=2)
    found = blocks(inversion_page(result_by_hand(*cells), manifest), "Along the prompt")
    captions = [one.caption for one in figures(found)]
    assert len(captions) == 4 and not any("Layer 2" in one for one in captions)
    assert "4 of 6 cells" in visible(found)
    alike = [unread_cell("isotropic", layer=layer) for layer in range(6)]
    found = blocks(inversion_page(result_by_hand(*alike), manifest), "Along the prompt")
    assert len(figures(found)) == 1
    alone = blocks(inversion_page(result_by_hand(), manifest), "Along the prompt")
    assert figures(alone)[0].caption.startswith("Share of tokens read right")


def test_every_prompt_is_listed_and_folded(manifest: RunManifest) -> None:
    found = blocks(inversion_page(mixed(), manifest), "Every prompt")
    assert len(table(found, "Every prompt")) == 8
    assert "<details" in render(inversion_page(mixed(), manifest))


def test_the_page_escapes_text_and_holds_it_only_if_shown(manifest: RunManifest) -> None:
    shown = render(inversion_page(result_by_hand(shown=True), manifest))
    assert "&lt;script&gt;seen" in shown and "<script>seen" not in shown
    assert "It holds text" in shown
    hidden = render(inversion_page(result_by_hand(), manifest))
    assert "Recovered text" not in hidden
    assert "No record text is on this page." in hidden


def test_the_terminal_has_a_row_for_each_cell_within_80_columns() -> None:
    long = [cell_by_hand(mechanism="diagonal-inverse-fisher", layer=27), *mixed().cells]
    said = terminal(result_by_hand(*long))
    assert max(map(len, said.splitlines())) <= 80
    assert len(re.findall(r"^ *(?:27|1)  ", said, flags=re.MULTILINE)) == 7
    assert "50 (1-99)" in said and "jumps" in said
    assert "Exact, %" not in terminal(result_by_hand())


def test_nothing_to_attack_is_no_finding(manifest: RunManifest) -> None:
    found = result_by_hand(missed_cell())
    assert (found.exit_code, found.worst, verdict_words(found)) == (2, None, "Nothing was attacked")
    said = visible(inversion_page(found, manifest).lead)
    assert "dropout at layer 1: not reached: its KL jumps over the target." in said

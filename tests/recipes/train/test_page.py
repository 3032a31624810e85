import html as markup
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest

from insular.accounting import PoissonGaussianEvent, RepeatedEvent
from insular.evidence import encode
from insular.recipes.train.page import train_page
from insular.recipes.train.results import TrainResult
from insular.reports import render
from insular.training.results import SamplerFacts
from recipes.browser import needs_chromium, scroll_width
from recipes.train_samples import (
    CLEAN,
    COUPLED,
    DEAD,
    DIFFERENCES,
    MANIFEST,
    OWNERS,
    RESUMED,
    SEEDED,
    TENSORS,
    UNCOVERED,
    UNDECIDED,
    VARIANTS,
    cost,
    run_event,
)
from reports.html_check import Checked

EACH = pytest.mark.parametrize("name", VARIANTS)
BROKEN = ("differences", "seeded", "uncovered", "undecided")


@cache
def page(result: TrainResult):
    return train_page(result, MANIFEST)


def answer(result: TrainResult) -> str:
    return page(result).lead[0].plain


def lead(result: TrainResult) -> str:
    return " ".join(part.plain for part in page(result).lead)


@cache
def visible(result: TrainResult) -> str:
    """The text of the page, without its tags."""
    body = render(page(result)).partition("<body>")[2]
    body = re.sub(r"<sup>.*?</sup>|<[^>]*>", "", body)
    return " ".join(markup.unescape(body).split())


def headings(result: TrainResult) -> list[str]:
    return [section.heading for section in page(result).sections]


def test_first_paragraph_of_a_clean_run():
    assert answer(CLEAN) == (
        "This adapter is (3.00, 1e-5)-differentially private for each record: 200 of 200 planned"
        " releases ran as planned, on a stack that kept records apart."
    )
    assert page(CLEAN).verdict == "Guarantee as planned"


def test_first_paragraph_where_owners_are_protected():
    assert "-differentially private for each owner: 200 of 200" in answer(OWNERS)
    assert "each owner (field customer)" in lead(OWNERS)
    assert "one owner more or less" in lead(OWNERS)


def test_epsilon_is_never_rounded_down():
    result = replace(CLEAN, costs=(cost("pld", 3.0001),))
    assert "(3.01, 1e-5)" in answer(result)


def test_first_paragraph_of_a_run_that_was_not_the_planned_one():
    assert answer(DIFFERENCES) == (
        "The planned guarantee is not the one that ran: log and plan differ in 2 points, the first:"
        " noise_std was 0.0372 in 53 of 203 releases, first in release 151; it should be 0.0744. By"
        " the log alone, what ran costs (9.74, 1e-5)."
    )
    assert headings(DIFFERENCES)[0] == "What ran against the plan"
    assert "150 × poisson gaussian (noise 0.744, q 0.016); 53 ×" in visible(DIFFERENCES)


def test_first_paragraph_of_a_run_in_which_nothing_was_learnt():
    assert answer(DEAD) == (
        "Training did not happen as it should: of 120 trainable tensors, 12 had no gradient from"
        " any record, 1 did not move. What ran is paid for all the same: (3.00, 1e-5)."
    )
    assert headings(DEAD)[0] == "Whether training happened"
    text = visible(DEAD)
    assert "12: " in text
    assert TENSORS[7] in text
    assert TENSORS[8] not in text
    assert "and 4 more" in text


def test_an_adapter_with_other_values_than_were_trained_is_not_cleared():
    liveness = replace(CLEAN.liveness, saved_differs=TENSORS[:2])
    result = replace(CLEAN, liveness=liveness)
    assert "2 are not in the saved adapter as trained" in answer(result)
    assert "Made by the run, not cleared." in visible(result)


def test_first_paragraph_of_a_coupled_stack_that_was_accepted():
    assert answer(COUPLED) == (
        "Records are coupled on this stack; that was accepted (“the int8 kernels are what we serve;"
        " approved by privacy review”), and the noise is scaled to 7\u00a0C, the furthest that one"
        " of them can then move the sum. So this adapter is (3.00, 1e-5)-differentially private for"
        " each record: 200 of 200 planned releases ran as planned."
    )
    assert page(COUPLED).verdict_kind == "good"
    assert "can change the contributions of m = 3 others" in visible(COUPLED)


def test_a_coupled_stack_whose_noise_does_not_cover_it_promises_nothing():
    assert answer(UNCOVERED).startswith("Nothing is promised: records are coupled on this stack")


def test_seeded_noise_protects_nothing_and_says_so_first():
    assert answer(SEEDED) == (
        "Nothing is protected: the noise came from a seed, and whoever knows the seed can take it"
        " away. This is a run for a test; do not release its adapter as private."
    )


def test_one_seeded_release_is_enough():
    seeded = RepeatedEvent(event=run_event("record", "seeded"), count=1)
    result = replace(CLEAN, executed=replace(CLEAN.executed, event=seeded))
    assert answer(result).startswith("Nothing is protected")


def test_what_takes_the_guarantee_away_stands_first_and_the_rest_after_it():
    result = replace(
        SEEDED,
        executed=replace(SEEDED.executed, differences=DIFFERENCES.executed.differences),
        liveness=DEAD.liveness,
    )
    starts = [part.plain.partition(" ")[0] for part in page(result).lead[:3]]
    assert starts == ["Nothing", "The", "Training"]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (replace(CLEAN, costs=(cost("pld", math.inf),)), "Nothing is protected: what ran costs"),
        (replace(CLEAN, costs=()), "no accountant has counted what ran"),
        (
            replace(CLEAN, costs=(cost("gdp-clt", 1.7, standing="estimate", caveat="a limit"),)),
            "is an estimate; a limit",
        ),
        (
            replace(
                CLEAN, executed=replace(CLEAN.executed, event=run_event("record", "not_drawn"))
            ),
            "by the log, no noise was drawn",
        ),
    ],
)
def test_no_number_is_called_private_without_noise_and_an_accountant(result, words):
    assert words in answer(result)
    assert page(result).verdict_kind == "bad"
    assert "differentially private" not in visible(result)


def test_an_undecided_stack_proves_nothing():
    assert page(UNDECIDED).verdict_kind == "open"
    assert answer(UNDECIDED).endswith("so (3.00, 1e-5) is not proven.")


@pytest.mark.parametrize("name", BROKEN)
def test_files_are_cleared_only_where_the_guarantee_holds(name):
    assert "nothing is cleared to leave" in visible(VARIANTS[name])
    assert "May leave: " not in visible(VARIANTS[name])
    assert "differentially private" not in visible(VARIANTS[name])
    assert "Meant to be protected" in lead(VARIANTS[name])
    assert "May leave: " in visible(CLEAN)


@EACH
def test_the_first_screen_has_path_and_what_is_not_covered(name):
    text = lead(VARIANTS[name])
    assert "cpu; model train; Linear train x 210; bfloat16" in text
    assert "operators" not in text
    assert "A CPU verdict says nothing of CUDA." in text
    assert "Not covered: what the base model smollm2 learnt before; telemetry, log" in text


def test_shared_texts_are_not_covered():
    assert "12 texts are in the data of more than one owner: what such a text says" in lead(OWNERS)
    one = replace(CLEAN, data=replace(CLEAN.data, duplicates_across_owners=1))
    assert "1 text is in more than one record" in lead(one)
    assert "hidden" not in lead(CLEAN)


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        (
            SamplerFacts(
                kind="truncated_poisson", n_units=50, sampling_prob=0.2, max_batch_size=12
            ),
            "truncated Poisson sampling from 50 records, with probability 0.2, at most 12 kept",
        ),
        (
            SamplerFacts(kind="shuffled", n_units=50, slots=5),
            "shuffled batches from 50 records, 5 batches a pass",
        ),
        (SamplerFacts(kind="full_batch", n_units=50), "full batches, without sampling"),
        (
            SamplerFacts(kind="poisson", n_units=50, sampling_prob=0.2, records_per_unit=4),
            "from 50 records, with probability 0.2, each owner a group of at most 4 records",
        ),
    ],
)
def test_every_sampler_has_its_words(sampler, words):
    assert words in lead(replace(CLEAN, planned=replace(CLEAN.planned, sampler=sampler)))


def test_the_promise_has_its_costs_its_delta_and_its_meaning():
    text = visible(CLEAN)
    assert "PLD, the promise2.9984guarantee" in text
    assert "1/n = 0.001 and 1/n^2 = 1e-06" in text
    assert "at most 20.06 times as probable with one record in the data as without" in text
    assert "no promise: see above" in visible(SEEDED)
    other = replace(CLEAN, relation="replace_one")
    assert "with another record in its place" in visible(other)


def test_a_run_that_was_resumed_says_what_that_cost():
    text = visible(RESUMED)
    assert "The run was started 3 times. 2 releases were made for steps that a stop had" in text
    assert "The run has 2 steps fewer than planned." in text
    assert "was started" not in visible(CLEAN)


def test_the_noise_arithmetic_is_that_of_the_plan():
    text = visible(CLEAN)
    assert "s C √d = 0.744 × 0.1 × √460800 = 50.5" in text
    assert "0.001 × 50.5 / 16 = 0.00316, for plain SGD" in text
    assert "s C √d = 5.21 × 0.1 × √460800 = 354" in visible(COUPLED)


def test_utility_has_nats_and_perplexity():
    assert "Base model3.418230.51" in visible(CLEAN)
    assert "0.0131 nats per token lower" in visible(CLEAN)
    assert "Not measured" in visible(replace(CLEAN, utility=None))


@EACH
def test_telemetry_is_marked_private_and_this_page_too(name):
    found = page(VARIANTS[name])
    section = next(s for s in found.sections if s.heading.startswith("Inside the run"))
    assert section.heading == "Inside the run: private, outside the guarantee"
    captions = [block.caption for block in section.blocks if hasattr(block, "svg")]
    assert len(captions) == 3
    assert all(caption.startswith("Private, outside the guarantee.") for caption in captions)
    assert "This page is private" in found.footer


def test_gradients_that_are_not_finite_are_counted():
    steps = (replace(CLEAN.telemetry[0], n_non_finite=2), *CLEAN.telemetry[1:])
    assert "2 contributions had a gradient that is not finite" in visible(
        replace(CLEAN, telemetry=steps)
    )


def test_a_run_without_telemetry_and_without_releases_has_a_page():
    nothing = replace(
        CLEAN.executed, n_releases=0, n_steps=0, event=run_event("record", n=0), n_empty=0,
        differences=("there were 0 releases, planned 200: the run is not finished.",),
        noise_rms_over_std=math.nan,
    )  # fmt: skip
    result = replace(CLEAN, executed=nothing, telemetry=(), epsilon_path=(), artifacts=())
    text = visible(result)
    assert "No step was recorded." in text
    assert "Nothing was made that may leave." in text


def test_what_may_leave_and_what_must_not():
    text = visible(CLEAN)
    for one in CLEAN.artifacts:
        assert one.file in text
        assert one.sha256 in text
    inside = text.partition("of the run that must stay.")[2].partition("What may be said")[0]
    for file in ("releases.jsonl", "telemetry.jsonl", "results.json", "report.html"):
        assert file in inside
    assert "adapter/" not in inside
    assert "run.toml" not in inside


def test_the_ledger_and_its_absence():
    text = visible(CLEAN)
    assert "epsilon 2.998400, delta 0.00001" in text
    assert f"7:{'f3' * 32}" in text
    assert "epsilons of several runs add up" in visible(OWNERS)
    assert CLEAN.ledger is not None
    open_ = replace(CLEAN.ledger, committed_epsilon="", committed_delta="")
    assert "the whole reservation stays" in visible(replace(CLEAN, ledger=open_))


def test_commands_name_the_run():
    html = render(train_page(CLEAN, MANIFEST, run_folder="my runs/x"))
    for command in ("insular card", "insular report"):
        assert f"{command} &#39;my runs/x&#39;</code>" in html
    assert "insular train --config &#39;my runs/x/run.toml&#39;</code>" in html
    assert "insular train --text tickets.jsonl --epsilon 3</code>" in html
    assert "insular report runs/train-20260102-030405</code>" in render(page(CLEAN))


@EACH
def test_every_link_leads_to_a_place_in_the_evidence(name):
    html = render(page(VARIANTS[name]))
    evidence = {"results.json": json.loads(encode(VARIANTS[name]))}
    links = re.findall(r'<a class="number" href="([^"]+)"', html)
    assert len(links) > 40
    for link in links:
        file, _, pointer = link.partition("#")
        assert file in {*MANIFEST.files, "audit/report.html"}
        value = evidence.get(file, {})
        for key in pointer.split("/")[1:]:
            value = value[int(key)] if isinstance(value, list) else value[key]


@EACH
def test_pages_are_well_formed_small_and_run_no_script(name):
    html = render(page(VARIANTS[name]))
    checked = Checked(html)
    assert "script" not in checked.tags
    assert checked.tags.count("svg") == 4
    assert len(html) < 200_000


def test_equal_results_give_equal_bytes():
    pages = [render(train_page(CLEAN, MANIFEST)) for _ in range(2)]
    assert pages[0] == pages[1]


def test_names_are_escaped():
    evil = "<script>alert(1)</script>"
    result = replace(
        DIFFERENCES,
        model=evil,
        owner_field=evil,
        noise=evil,
        isolation=replace(COUPLED.isolation, accepted=evil, folder=evil, sentence=evil),
        planned=replace(CLEAN.planned, influence=7.0),
        executed=replace(DIFFERENCES.executed, differences=(evil,)),
        liveness=replace(DEAD.liveness, unmoved=(evil,)),
        data=replace(CLEAN.data, name=evil),
        artifacts=tuple(replace(one, file=evil) for one in CLEAN.artifacts),
    )
    html = render(page(result))
    Checked(html)
    assert "<script" not in html
    assert html.count("&lt;script&gt;") > 8


def test_a_log_of_one_release_is_one_mechanism():
    step = PoissonGaussianEvent(
        noise_multiplier=1.0, sampling_prob=0.5, relation="add_or_remove_one", unit="record",
        noise_source="secure",
    )  # fmt: skip
    result = replace(CLEAN, executed=replace(CLEAN.executed, event=step))
    assert "1 × poisson gaussian (noise 1, q 0.5)" in visible(result)


@needs_chromium
@pytest.mark.parametrize("width", [360, 768, 1366])
def test_nothing_scrolls_sideways(tmp_path, width):
    text = render(page(replace(DEAD, ledger=CLEAN.ledger)))
    assert scroll_width(text, tmp_path, width=width) <= width


def test_reading_evidence_into_a_page_needs_no_gpu_stack():
    code = (
        "import sys, insular.recipes.train.page, insular.recipes.train.summary;"
        "print([n for n in ('torch', 'transformers', 'matplotlib') if n in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"

import html as markup
import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from insular.audit.audit_results import AuditResult
from insular.evidence import encode
from insular.recipes.audit.page import isolation_page
from insular.reports import Page, Points, render
from recipes.browser import needs_chromium, scroll_width
from recipes.samples import CALLABLE, CLEAN, COUPLED, MANIFEST, ROUNDING, UNDECIDED, WHOLE, arm

RESULTS = {
    "coupled": COUPLED,
    "clean": CLEAN,
    "undecided": UNDECIDED,
    "callable": CALLABLE,
    "whole": WHOLE,
}


def answer(result: AuditResult) -> str:
    return isolation_page(result, MANIFEST).lead[0].plain


def lead(page: Page) -> str:
    return " ".join(part.plain for part in page.lead)


def visible(result: AuditResult) -> str:
    """The text of the page, without its tags."""
    body = render(isolation_page(result, MANIFEST)).partition("<body>")[2]
    return markup.unescape(re.sub(r"<sup>.*?</sup>|<[^>]*>", "", body))


def headings(page: Page) -> list[str]:
    return [section.heading for section in page.sections]


def test_first_paragraph_of_a_coupled_stack():
    assert answer(COUPLED) == (
        "These 8 records are not independent on this stack: replacing record wikipedia:12:3 moves"
        " the clipped gradient of record wikipedia:40:1 by 0.43 C, although no tensor changed its"
        " shape."
    )


def test_first_paragraph_of_a_clean_stack():
    assert answer(CLEAN) == (
        "On the path that ran, no record moved another's gradient: 77 comparisons at equal shape"
        " are equal to the last bit."
    )


def test_first_paragraph_of_an_undecided_stack_says_what_was_seen_all_the_same():
    first = answer(UNDECIDED)
    assert first.startswith(
        "This stack could not be audited: the check “sum of gradients” failed: differs from the"
        " batch's backward by 3.0e-01, at most 1e-04 allowed."
    )
    coupled = [finding.axis for finding in UNDECIDED.subject.axes if finding.verdict == "coupled"]
    assert coupled
    assert f"records moved each other ({', '.join(coupled)})" in first


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        ("length", "replacing record wikipedia:12:3 by a shorter one moves"),
        ("order", "reversing the order of the records moves"),
        ("presence", "removing record wikipedia:12:3 moves"),
        ("shape", "another batch shape (shape-alone-0) moves"),
    ],
)
def test_the_sentence_names_what_was_changed(axis, words):
    result = replace(COUPLED, subject=arm("x", distances={axis: 0.2}, coupled=True))
    assert words in answer(result)
    assert ("no tensor changed its shape" in answer(result)) == (axis == "length")


def test_a_movement_that_clipping_hides_is_named_where_it_shows():
    subject = COUPLED.subject
    worst = subject.axes[0].worst
    assert worst is not None
    hidden = replace(worst, clipped_distance=0.0, gradient_relative=0.0)
    axes = (replace(subject.axes[0], worst=hidden),)
    result = replace(COUPLED, subject=replace(subject, axes=axes))
    assert "moves the logits of record wikipedia:40:1 by up to 2.67" in answer(result)


def test_an_isolated_stack_on_a_backend_that_does_not_repeat_is_not_called_bitwise_equal():
    axes = tuple(replace(axis, floor=2e-7) for axis in CLEAN.subject.axes)
    result = replace(CLEAN, subject=replace(CLEAN.subject, axes=axes))
    assert "equal to the last bit" not in answer(result)
    assert "no more than identical repeats do" in answer(result)


def test_the_first_screen_has_path_price_and_repair():
    text = lead(isolation_page(COUPLED, MANIFEST))
    assert "for the path that ran and no other: cpu (model train; Linear8bitLt train x 210)" in text
    assert "float32 activations" in text
    assert "A CPU verdict says nothing of CUDA." in text
    assert "0.715 times the separable bound" in text
    assert "The fastest is bf16: 0.98 s a step, 0.60 times" in text


def test_a_verdict_on_cuda_does_not_speak_of_the_cpu():
    result = replace(CLEAN, subject=arm("x", device="cuda (H200)"))
    assert "A CPU verdict" not in lead(isolation_page(result, MANIFEST))


def test_rounding_of_another_shape_is_said_to_be_no_content():
    text = lead(isolation_page(CLEAN, MANIFEST))
    assert "by up to 8.4e-06 C. That is not another record's content." in text
    assert "the padded length and the batch size" in text
    assert "must be public or fixed" in text


def test_a_ratio_above_one_refutes_the_bound_and_one_below_says_nothing():
    assert "refutes the bound" in lead(isolation_page(CALLABLE, MANIFEST))
    text = lead(isolation_page(COUPLED, MANIFEST))
    assert "refutes" not in text
    assert "says nothing of the worst case" in text


def test_the_influence_bound_is_that_of_the_physical_batch():
    text = visible(COUPLED)
    assert "up to 16 C and 15 C, which is 8 and 15 times what the accountant assumes" in text


def test_an_undecided_audit_gives_no_price_and_shows_its_checks_first():
    page = isolation_page(UNDECIDED, MANIFEST)
    assert headings(page)[0] == "Checks"
    assert "No price can be given" in lead(page)
    assert "Counter-example" not in headings(page)
    assert "It holds for" not in lead(page)
    html = render(page)
    assert html.index("FAILED") < html.index(">held<")


def test_a_repair_that_changes_the_loss_is_said_to_be_another_model():
    fast = arm("llm-int8-threshold-0", distances=ROUNDING, step=0.5, loss=3.702)
    text = lead(isolation_page(replace(COUPLED, repairs=(fast, *COUPLED.repairs)), MANIFEST))
    assert "0.290 nats higher, so it is noticeably another model" in text
    assert "The fastest that nearly keeps the loss is bf16" in text


@pytest.mark.parametrize(
    ("repairs", "words"),
    [
        ((), "No repair was tried."),
        ((arm("a", distances={"content": 0.1}, coupled=True),), "None of the repairs"),
        ((arm("a"),), "The one repair that was tried, on the same records, was isolated."),
        (
            (arm("a"), arm("b", distances={"order": 1.0}, coupled=True)),
            "Of 2 repairs that were tried on the same records, 1 was isolated.",
        ),
    ],
)
def test_how_many_repairs_were_proven(repairs, words):
    assert words in lead(isolation_page(replace(COUPLED, repairs=repairs), MANIFEST))


@pytest.mark.parametrize("name", RESULTS)
def test_what_was_not_tested_is_always_there(name):
    page = isolation_page(RESULTS[name], MANIFEST)
    section = next(s for s in page.sections if s.heading == "What was not tested")
    assert isinstance(section.blocks[0], Points)
    text = visible(RESULTS[name])
    for words in ("Other devices", "Other shapes", "drawn", "accounting", "adversary", "no proof"):
        assert words in text


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("model train; Linear8bitLt eval x 2", "Other random draws"),
        ("model eval; Linear8bitLt train x 2", "ran in evaluation mode"),
        ("unknown", "does not say in which mode it ran"),
    ],
)
def test_dropout_was_tested_only_where_the_model_trained(mode, words):
    result = replace(CLEAN, subject=arm("x", mode=mode))
    assert words in visible(result)


def test_a_callable_says_what_it_does_not_show():
    text = visible(CALLABLE)
    assert "this stack shows none, so only gradients were compared" in text
    assert "Checks that do not apply to this stack: independent autograd." in text
    assert "No difference was located" in text
    assert "(mode not stated)" in text


@pytest.mark.parametrize("name", RESULTS)
def test_every_link_leads_to_a_place_in_the_evidence(name):
    html = render(isolation_page(RESULTS[name], MANIFEST))
    evidence = {"results.json": json.loads(encode(RESULTS[name])), "run.toml": {}}
    links = re.findall(r'<a class="number" href="([^"]+)"', html)
    assert len(links) > 50
    for link in links:
        file, _, pointer = link.partition("#")
        value = evidence[file]
        for key in pointer.split("/")[1:]:
            value = value[int(key)] if isinstance(value, list) else value[key]


@pytest.mark.parametrize("name", RESULTS)
def test_the_pages_are_of_bounded_size_and_run_no_script(name):
    html = render(isolation_page(RESULTS[name], MANIFEST))
    assert "<script" not in html
    assert len(html) < (650_000 if name == "whole" else 400_000)


def test_record_ids_and_names_are_escaped():
    evil = "<script>alert(1)</script>"
    subject = COUPLED.subject
    worst = subject.axes[0].worst
    assert worst is not None
    axes = (replace(subject.axes[0], worst=replace(worst, record=evil)), *subject.axes[1:])
    case = replace(subject.cases[0], changed=(evil,), brought_in=(evil,))
    result = replace(
        COUPLED,
        subject=replace(subject, arm=evil, axes=axes, cases=(case, *subject.cases[1:])),
        record_ids=(evil, *COUPLED.record_ids[1:]),
    )
    manifest = replace(MANIFEST, name="a b", command=("insular", "audit", "--text", evil))
    html = render(isolation_page(result, manifest))
    assert "<script" not in html
    assert html.count("&lt;script&gt;") > 10
    assert "insular replay &#39;runs/a b&#39;" in html


def test_commands_repeat_the_run():
    html = render(isolation_page(COUPLED, MANIFEST))
    assert "insular audit --model smollm2 --stack llm-int8</code>" in html
    assert html.count("insular replay runs/isolation-20260102-030405</code>") == 2
    assert "insular replay elsewhere/x" in render(
        isolation_page(COUPLED, MANIFEST, run_folder="elsewhere/x")
    )


def test_numbers_that_are_not_numbers_do_not_stop_the_page():
    subject = COUPLED.subject
    worst = subject.axes[0].worst
    assert worst is not None
    broken = replace(worst, clipped_distance=float("nan"), gradient_relative=float("inf"))
    axes = (replace(subject.axes[0], worst=broken), *subject.axes[1:])
    subject = replace(subject, axes=axes, seconds_per_step=0.0, mean_loss_nats=float("nan"))
    assert "not a number" in render(isolation_page(replace(COUPLED, subject=subject), MANIFEST))


@needs_chromium
@pytest.mark.parametrize("width", [360, 390, 768, 1366])
def test_nothing_scrolls_sideways(tmp_path, width):
    long = replace(COUPLED.subject, arm="a-stack-with-a-long-name-" * 4)
    page = render(isolation_page(replace(WHOLE, subject=long), MANIFEST))
    assert scroll_width(page, tmp_path, width=width) <= width


def test_reading_evidence_into_a_page_needs_no_gpu_stack():
    code = (
        "import sys, insular.recipes.audit.page, insular.recipes.audit.summary;"
        "print([n for n in ('torch', 'transformers', 'matplotlib') if n in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"

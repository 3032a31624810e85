"""The four figures of a training run: what every figure promises, and what these promise."""

import math
import re
from collections import Counter

import pytest

from insular.errors import InvalidArgumentError
from insular.reports import (
    EpsilonPoint,
    Figure,
    StepClipping,
    StepLoss,
    StepNorms,
    training_clipping_figure,
    training_epsilon_figure,
    training_loss_figure,
    training_noise_figure,
)

from .figure_texts import texts, unreadable
from .training_figure_samples import LONG, PROMISE, TRAINING, clipping, spent

EACH = pytest.mark.parametrize("sample", TRAINING.values(), ids=TRAINING)
STEPWISE = pytest.mark.parametrize("name", LONG)


@EACH
def test_equal_rows_give_equal_text_in_any_order(sample):
    assert sample.drawn() == sample.svg
    turned = sample.draw(tuple(reversed(sample.rows)), **sample.options)
    lines = r'<path d="(M[^"]*)"[^>]*stroke: currentColor'
    assert re.findall(lines, turned) == re.findall(lines, sample.svg)


@pytest.mark.parametrize("sample", LONG.values())
def test_small_readable_and_in_the_colours_of_the_page(sample):
    svg = sample.svg
    Figure(svg=svg, caption="", alt="")
    assert len(svg) < 48_000
    assert unreadable(svg) == []
    assert "currentColor" in svg
    assert not re.search(r"#[0-9a-f]{6}\b", re.sub(r"var\([^)]*\)", "", svg))


@STEPWISE
def test_a_figure_of_steps_says_that_it_is_private(name):
    assert "private: outside the guarantee" in texts(TRAINING[f"training {name}"].svg)


@STEPWISE
def test_many_steps_are_thinned_and_the_axis_says_so(name):
    assert "step (each point: the mean of 42 steps)" in texts(LONG[name].svg)
    assert "step" in texts(TRAINING[f"training {name}"].svg)


def test_the_mean_of_a_thinned_point_is_that_of_its_steps():
    rows = tuple(StepLoss(step=i, loss_nats=float(i % 2)) for i in range(480))
    ys = re.findall(r'<use [^>]* y="([\d.]+)"', training_loss_figure(rows))
    assert Counter(ys).most_common(1)[0][1] >= 240


@pytest.mark.parametrize("loss", [None, math.nan, math.inf])
def test_a_step_without_a_finite_loss_has_no_point(loss):
    rows = [StepLoss(step=i, loss_nats=3.0 + i / 100) for i in range(10)]
    with_gap = [*rows, StepLoss(step=10, loss_nats=loss)]
    assert training_loss_figure(with_gap).count("<use") - training_loss_figure(rows).count(
        "<use"
    ) in (0, 1, 2)  # ticks alone may differ
    assert unreadable(training_loss_figure([StepLoss(step=0, loss_nats=loss)])) == []


def test_clipping_always_shows_the_bound():
    rows = [StepClipping(step=i, clipped_share=1.0, median_norm=50.0) for i in range(5)]
    found = texts(training_clipping_figure(rows, clip_norm=0.003))
    assert "C = 3e-3" in found
    assert {"0", "50", "100"} <= set(found)


def test_one_step_and_no_one_drawn_can_be_drawn():
    nobody = StepClipping(step=0, clipped_share=None, median_norm=None)
    assert unreadable(training_clipping_figure([nobody], clip_norm=1.0)) == []
    silent = StepNorms(step=0, signal_norm=0.0, noise_norm=0.0)
    assert unreadable(training_noise_figure([silent])) == []
    one = EpsilonPoint(n_releases=1, epsilon=0.5)
    svg = training_epsilon_figure([one], promise=0.5, target=None, n_releases=1)
    assert unreadable(svg) == []


def test_signal_and_noise_have_their_ratio():
    found = texts(TRAINING["training noise"].svg)
    assert {"signal", "noise", "signal / noise", "length of the sum"} <= set(found)


def test_epsilon_names_promise_and_target_rounded_up_and_ends_at_the_last_release():
    found = texts(TRAINING["training epsilon"].svg)
    assert {"spent", "promise 2.83", "target 3"} <= set(found)
    assert "200" in found
    later = (*spent(100, 200), EpsilonPoint(n_releases=400, epsilon=900.0))
    assert "900" not in " ".join(texts(training_epsilon_figure(later, **PROMISE)))


def test_no_target_and_an_infinite_promise_have_no_line():
    rows = (EpsilonPoint(n_releases=10, epsilon=math.inf),)
    found = texts(training_epsilon_figure(rows, promise=math.inf, target=None, n_releases=10))
    assert not [text for text in found if text.startswith(("promise", "target", "spent"))]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: training_loss_figure([StepLoss(step=-1, loss_nats=1.0)]), "step must be"),
        (
            lambda: training_clipping_figure(
                [StepClipping(step=0, clipped_share=1.5, median_norm=1.0)], clip_norm=1.0
            ),
            "clipped_share must be from 0 to 1, got clipped_share=1.5",
        ),
        (
            lambda: training_clipping_figure(
                [StepClipping(step=0, clipped_share=1.0, median_norm=-1.0)], clip_norm=1.0
            ),
            "median_norm must be >= 0, got median_norm=-1.0",
        ),
        (lambda: training_clipping_figure(clipping(2), clip_norm=0.0), "clip_norm must be finite"),
        (
            lambda: training_noise_figure(
                [StepNorms(step=0, signal_norm=math.nan, noise_norm=1.0)]
            ),
            "signal_norm must be finite and >= 0",
        ),
        (
            lambda: training_epsilon_figure(spent(1), promise=-1.0, target=None, n_releases=1),
            "epsilon must be >= 0, got epsilon=-1.0",
        ),
        (
            lambda: training_epsilon_figure(spent(1), promise=1.0, target=None, n_releases=0),
            "n_releases must be an integer >= 1",
        ),
    ],
)
def test_bad_rows_are_refused(draw, message):
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        draw()

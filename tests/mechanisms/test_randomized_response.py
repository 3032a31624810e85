"""Randomised response: its cost, its answers, and what they tell together."""

import math

import numpy as np
import pytest

from insular.accounting import spend
from insular.errors import InvalidArgumentError
from insular.mechanisms import Noise, RandomizedResponse, SecureNoise, SeededNoise

YES_NO = RandomizedResponse(categories=("yes", "no"), truth_prob=0.75, unit="owner")


def test_three_quarters_costs_ln_3() -> None:
    assert YES_NO.epsilon == pytest.approx(math.log(3), rel=1e-12)
    release = YES_NO.release(["yes", "no", "no"])
    assert spend(release.event, delta=0.0).epsilon == pytest.approx(math.log(3), rel=1e-12)
    assert isinstance(release.value, tuple)
    assert len(release.value) == 3
    assert set(release.value) <= {"yes", "no"}
    assert (release.unit, release.relation, release.noise_scale) == ("owner", "replace_one", 0.25)


@pytest.mark.parametrize("k", [2, 3, 7, 49])
def test_k_answers(k: int) -> None:
    names = tuple(f"c{i}" for i in range(k))
    for prob in (1 / k, 0.9):
        mechanism = RandomizedResponse(categories=names, truth_prob=prob, unit="record")
        expected = math.log(prob * (k - 1) / (1 - prob))
        assert mechanism.epsilon == pytest.approx(expected, abs=1e-12)
        release = mechanism.release([names[0]])
        assert spend(release.event, delta=0.0).epsilon == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("noise", [SeededNoise(4), SecureNoise()], ids=["seeded", "secure"])
def test_other_answers_come_evenly(noise: Noise) -> None:
    """10,000 answers: five deviations of each share, false alarm below 1e-5 for the four."""
    names = ("a", "b", "c", "d")
    mechanism = RandomizedResponse(categories=names, truth_prob=0.4, unit="record")
    value = mechanism.release(["c"] * 10_000, noise=noise).value
    assert isinstance(value, tuple)
    for name in names:
        prob = 0.4 if name == "c" else 0.2
        assert value.count(name) / 10_000 == pytest.approx(prob, abs=5 * math.sqrt(prob / 1e4))


def test_the_estimate_and_its_standard_error_are_unbiased() -> None:
    """2,000 surveys of 100: the mean of each within five of its own standard errors."""
    noise, generator = SeededNoise(9), np.random.default_rng(9)
    mechanism = RandomizedResponse(categories=("a", "b", "c"), truth_prob=0.6, unit="record")
    found = []
    for _ in range(2000):
        answers = generator.choice(["a", "b", "c"], size=100, p=[0.3, 0.6, 0.1])
        value = mechanism.release(answers.tolist(), noise=noise).value
        assert isinstance(value, tuple)
        estimate = mechanism.estimate(value, category="a")
        found.append((estimate.frequency, estimate.standard_error**2))
    frequencies, variances = np.array(found).T
    assert frequencies.mean() == pytest.approx(0.3, abs=5 * frequencies.std() / math.sqrt(2000))
    # a sample variance of 2,000 has a relative deviation of 3.2 %
    assert variances.mean() == pytest.approx(frequencies.var(), rel=0.16)


def test_estimate_by_hand() -> None:
    estimate = YES_NO.estimate(["yes"] * 50 + ["no"] * 50, category="yes")
    assert (estimate.frequency, estimate.n_reports) == (0.5, 100)
    assert estimate.standard_error == pytest.approx(math.sqrt(0.25 / 99) / 0.5)
    assert YES_NO.estimate(["no", "no"], category="yes").frequency == -0.5


def test_nobody_answers() -> None:
    assert YES_NO.release([]).value == ()
    assert YES_NO.release([], noise=SeededNoise(1)).value == ()


def test_refusals() -> None:
    with pytest.raises(InvalidArgumentError, match="position 1 .counted from 0.") as caught:
        YES_NO.release(["yes", "secret diagnosis"])
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidArgumentError, match="at least 1 over 2 answers and below 1"):
        RandomizedResponse(categories=("a", "b"), truth_prob=1.0, unit="record")
    with pytest.raises(InvalidArgumentError, match="at least 1 over 3 answers"):
        RandomizedResponse(categories=("a", "b", "c"), truth_prob=0.2, unit="record")
    with pytest.raises(InvalidArgumentError, match="at least 2 distinct names"):
        RandomizedResponse(categories=("a", "a"), truth_prob=0.7, unit="record")
    even = RandomizedResponse(categories=("a", "b"), truth_prob=0.5, unit="record")
    with pytest.raises(InvalidArgumentError, match="pure noise"):
        even.estimate(["a", "b"], category="a")
    with pytest.raises(InvalidArgumentError, match="at least 2, got 1"):
        YES_NO.estimate(["yes"], category="yes")
    with pytest.raises(InvalidArgumentError, match="category must be one of yes, no"):
        YES_NO.estimate(["yes", "no"], category="maybe")

"""A statistical check of the promise itself, and a planted bug that it must catch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from insular.mechanisms import Mean, Noise, Query, SecureNoise, SeededNoise
from mechanisms.table import ROWS, Row

SIGNIFICANCE = 1e-7
"""Of one Clopper-Pearson bound. A sound mechanism fails one check with probability below 4e-7 (two
directions of two bounds), and one of the table with probability below 1e-5."""
DRAWS = 6_000


@pytest.fixture(autouse=True)
def noised_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show the two noisy numbers of a private mean: its ratio hides most of what they tell."""
    finish = Mean.finish

    def shown(query: Query, noisy: list[int]) -> Any:
        return finish(query, noisy) if len(noisy) == 1 else dict(enumerate(noisy))

    monkeypatch.setattr(Mean, "finish", shown)


def features(value: Any) -> tuple[float, ...]:
    """A release as numbers."""
    if isinstance(value, dict):
        return tuple(value.values())
    if isinstance(value, tuple):
        return tuple(float(sum(map(ord, answer))) for answer in value)
    return (float(value),)


def excess(release: Callable[[Any, Noise], Any], row: Row, noise: Noise, n_draws: int) -> float:
    """How far the likeliest-looking set of outputs certainly breaks the promise; negative if not.

    Half of the draws choose the set, the other half are counted in it.
    """
    draws = [
        np.array([features(release(data, noise).value) for _ in range(n_draws)])
        for data in (row.data, row.neighbor)
    ]
    worst = -np.inf
    for one, other in ((draws[0], draws[1]), (draws[1], draws[0])):
        half = n_draws // 2
        direction = one[:half].mean(axis=0) - other[:half].mean(axis=0)
        scores = [draw @ direction for draw in (one, other)]
        inside = chosen_set(scores[0][:half], scores[1][:half], row)
        held = [int(inside(score[half:]).sum()) for score in scores]
        n = n_draws - half
        low = beta.ppf(SIGNIFICANCE, held[0], n - held[0] + 1) if held[0] else 0.0
        high = beta.ppf(1 - SIGNIFICANCE, held[1] + 1, n - held[1]) if held[1] < n else 1.0
        worst = max(worst, low - np.exp(row.epsilon) * high - row.delta)
    return float(worst)


def chosen_set(one: np.ndarray, other: np.ndarray, row: Row) -> Callable[[Any], Any]:
    """The cells of a histogram, along the line between the means, that break the promise most."""
    edges = np.unique(np.quantile(np.concatenate([one, other]), np.linspace(0, 1, 21)))
    edges[0], edges[-1] = -np.inf, np.inf
    if len(edges) < 3:
        edges = np.array([-np.inf, (one.mean() + other.mean()) / 2, np.inf])
    p, q = (np.histogram(x, edges)[0] for x in (one, other))
    # the ratio rises along the direction, so the cells above one are taken together
    gains = np.cumsum((p - np.exp(row.epsilon) * q)[::-1])
    edge = edges[len(p) - 1 - int(np.argmax(gains))]
    return lambda scores: scores >= edge


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_set_of_outputs_breaks_the_promise(row: Row) -> None:
    assert excess(row.release, row, SeededNoise(2024), DRAWS) <= 0


@pytest.mark.parametrize("name", ["laplace-count", "discrete-laplace-count", "randomized-response"])
def test_secure_noise_keeps_the_promise(name: str) -> None:
    row = next(row for row in ROWS if row.name == name)
    assert excess(row.release, row, SecureNoise(), 2_000) <= 0


class LessNoise:
    """A planted bug: a source that gives a fraction of the noise that it is asked for."""

    def __init__(self, inner: SeededNoise, fraction: float) -> None:
        self.inner, self.fraction, self.source = inner, fraction, inner.source

    def laplace(self, scale: float, n_draws: int) -> list[int]:
        return self.inner.laplace(scale * self.fraction, n_draws)

    def gaussian(self, std: float, n_draws: int) -> list[int]:
        return self.inner.gaussian(std * self.fraction, n_draws)

    def answers(self, true: Any, truth_prob: float, n_answers: int) -> list[int]:
        return self.inner.answers(true, 1 - (1 - truth_prob) * self.fraction, n_answers)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_half_the_noise_is_caught(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("additive", "randomized_response"):
        monkeypatch.setattr(f"insular.mechanisms.{module}.check_noise", lambda noise: None)
    # the classical calibration gives nearly twice what is needed, so half of that is still private
    noise = LessNoise(SeededNoise(2024), 0.5 if row.tight else 0.25)
    assert excess(row.release, row, noise, DRAWS) > 0

"""Every mechanism, once: a new one joins here and inherits the contract and the privacy check."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from insular.accounting import Relation
from insular.mechanisms import (
    AnalyticGaussian,
    ClassicalGaussian,
    Count,
    DeclaredValue,
    DiscreteLaplace,
    Histogram,
    Laplace,
    Mean,
    Noise,
    RandomizedResponse,
    Release,
    Sum,
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One mechanism on one query, with two neighbours that use up its sensitivity."""

    name: str
    release: Callable[[Any, Noise], Release]
    data: Any
    neighbor: Any
    epsilon: float
    delta: float
    tight: bool = True  # the accounted epsilon is the one asked for, not below it


def additive(mechanism: Any, query: Any) -> Callable[[Any, Noise], Release]:
    return lambda values, noise: mechanism.release(query, values, noise=noise)


def keys(relation: Relation) -> dict[str, Any]:
    return {"relation": relation, "unit": "record"}


ADD, REPLACE = keys("add_or_remove_one"), keys("replace_one")
YES_NO = RandomizedResponse(categories=("yes", "no"), truth_prob=0.75, unit="record")
FOUR = RandomizedResponse(categories=("a", "b", "c", "d"), truth_prob=0.5, unit="record")
ANALYTIC = AnalyticGaussian(epsilon=0.5, delta=0.05)

ROWS = (
    Row(
        name="laplace-count",
        release=additive(Laplace(epsilon=0.5), Count(**ADD)),
        data=[True] * 100,
        neighbor=[True] * 101,
        epsilon=0.5,
        delta=0.0,
    ),
    Row(
        name="laplace-sum",
        release=additive(Laplace(epsilon=1.0), Sum(lower=-3.0, upper=5.0, **REPLACE)),
        data=[-9.0, 1.0],
        neighbor=[9.0, 1.0],
        epsilon=1.0,
        delta=0.0,
    ),
    Row(
        name="laplace-public-mean",
        release=additive(Laplace(epsilon=0.5), Mean(lower=0, upper=100, n_units=3, **REPLACE)),
        data=[0, 50, 50],
        neighbor=[100, 50, 50],
        epsilon=0.5,
        delta=0.0,
    ),
    Row(
        name="laplace-private-mean",
        release=additive(Laplace(epsilon=2.0), Mean(lower=0, upper=100, **ADD)),
        data=[],
        neighbor=[100.0],
        epsilon=2.0,
        delta=0.0,
    ),
    Row(
        name="laplace-histogram",
        release=additive(
            Laplace(epsilon=1.0), Histogram(categories=("a", "b"), unseen="other", **REPLACE)
        ),
        data=["a", "a", "b"],
        neighbor=["a", "a", "z"],
        epsilon=1.0,
        delta=0.0,
    ),
    Row(
        name="laplace-declared",
        release=additive(Laplace(epsilon=0.5), DeclaredValue(declared_sensitivity=0.3, **ADD)),
        data=7.0,
        neighbor=7.3,
        epsilon=0.5,
        delta=0.0,
    ),
    Row(
        name="discrete-laplace-count",
        release=additive(DiscreteLaplace(epsilon=0.5), Count(**REPLACE)),
        data=[True, False, True],
        neighbor=[True, True, True],
        epsilon=0.5,
        delta=0.0,
    ),
    Row(
        name="analytic-gaussian-count",
        release=additive(ANALYTIC, Count(**ADD)),
        data=[True] * 9,
        neighbor=[True] * 8,
        epsilon=0.5,
        delta=0.05,
    ),
    Row(
        name="analytic-gaussian-histogram",
        release=additive(ANALYTIC, Histogram(categories=("a", "b"), unseen="refuse", **REPLACE)),
        data=["a", "a"],
        neighbor=["a", "b"],
        epsilon=0.5,
        delta=0.05,
    ),
    Row(
        name="analytic-gaussian-private-mean",
        release=additive(ANALYTIC, Mean(lower=-1.0, upper=1.0, **ADD)),
        data=[1.0],
        neighbor=[],
        epsilon=0.5,
        delta=0.05,
    ),
    Row(
        name="classical-gaussian-sum",
        release=additive(
            ClassicalGaussian(epsilon=0.9, delta=0.05), Sum(lower=0.0, upper=4.0, **ADD)
        ),
        data=[1.0],
        neighbor=[1.0, 4.0],
        epsilon=0.9,
        delta=0.05,
        tight=False,
    ),
    Row(
        name="randomized-response",
        release=lambda answers, noise: YES_NO.release(answers, noise=noise),
        data=["yes"],
        neighbor=["no"],
        epsilon=1.0986122886681098,
        delta=0.0,
    ),
    Row(
        name="randomized-response-of-four",
        release=lambda answers, noise: FOUR.release(answers, noise=noise),
        data=["a"],
        neighbor=["c"],
        epsilon=1.0986122886681098,
        delta=0.0,
    ),
)

"""Events: data that evidence can hold, with their rules."""

import math

import pytest

from insular.accounting import (
    ComposedEvent,
    GaussianEvent,
    GroupedPoissonGaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    RepeatedEvent,
    TruncatedPoissonGaussianEvent,
)
from insular.accounting.events import mechanisms_of, parts_of
from insular.errors import AccountingError, InvalidArgumentError
from insular.evidence import decode, encode

GAUSSIAN = GaussianEvent(
    noise_multiplier=2.0, relation="add_or_remove_one", unit="owner", noise_source="secure"
)
LAPLACE = LaplaceEvent(noise_multiplier=2.0, relation="replace_one", unit="record")
RESPONSE = RandomizedResponseEvent(truth_prob=0.75, unit="record", noise_source="seeded")
SAMPLED = PoissonGaussianEvent(
    noise_multiplier=1.0, sampling_prob=0.01, relation="add_or_remove_one", unit="owner"
)
TRUNCATED = TruncatedPoissonGaussianEvent(
    noise_multiplier=1.0,
    sampling_prob=0.01,
    max_batch_size=8,
    n_units=100,
    relation="add_or_remove_one",
    unit="owner",
)
GROUPED = GroupedPoissonGaussianEvent(
    noise_multiplier=1.0, sampling_prob=0.01, records_per_unit=3, noise_source="secure"
)
ALL = ComposedEvent(
    events=(
        GAUSSIAN,
        LAPLACE,
        RESPONSE,
        RepeatedEvent(event=SAMPLED, count=600),
        TRUNCATED,
        GROUPED,
        RepeatAndSelectEvent(event=RepeatedEvent(event=SAMPLED, count=3), mean_runs=10.0),
        ComposedEvent(events=()),
    )
)


def test_every_event_survives_evidence() -> None:
    assert decode(ComposedEvent, encode(ALL)) == ALL


def test_counts_multiply_and_what_never_ran_is_left_out() -> None:
    twice = RepeatedEvent(event=RepeatedEvent(event=SAMPLED, count=3), count=2)
    never = RepeatedEvent(event=GAUSSIAN, count=0)
    event = ComposedEvent(events=(twice, never, LAPLACE))
    assert list(parts_of(event)) == [(SAMPLED, 6), (LAPLACE, 1)]
    assert mechanisms_of(event) == (SAMPLED, LAPLACE)


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(AccountingError, match=r"one of insular's events, got str"):
        list(parts_of("gaussian"))  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize("kind", [GaussianEvent, LaplaceEvent])
def test_bad_noise(kind: type, bad: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"noise_multiplier must be finite and >= 0"):
        kind(noise_multiplier=bad, relation="replace_one", unit="record")


@pytest.mark.parametrize("bad", [1.25, -0.1, math.nan, 10**300, "0.1"])
def test_a_batch_larger_than_the_data_is_named(bad: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"sampling_prob must be from 0 to 1.*no larger"):
        PoissonGaussianEvent(
            noise_multiplier=1.0,
            sampling_prob=bad,  # type: ignore[arg-type]
            relation="replace_one",
            unit="record",
        )


def test_bad_words_and_counts() -> None:
    with pytest.raises(InvalidArgumentError, match=r"unit must be one of record, owner"):
        GaussianEvent(noise_multiplier=1.0, relation="replace_one", unit="row")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"count must be an integer >= 0"):
        RepeatedEvent(event=GAUSSIAN, count=-1)
    with pytest.raises(InvalidArgumentError, match=r"relation of a randomised response"):
        RandomizedResponseEvent(truth_prob=0.7, unit="record", relation="add_or_remove_one")  # type: ignore[arg-type]
    grouped = {"noise_multiplier": 1.0, "sampling_prob": 0.1, "records_per_unit": 3}
    for field, bad, rule in (
        ("relation", "replace_one", "relation must be one of add_or_remove_one"),
        ("unit", "record", "unit must be one of owner"),
        ("records_per_unit", 0, "records_per_unit must be an integer >= 1"),
        ("sampling_prob", 1.5, "sampling_prob must be from 0 to 1"),
    ):
        with pytest.raises(InvalidArgumentError, match=rule):
            GroupedPoissonGaussianEvent(**(grouped | {field: bad}))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"mean_runs must be at least 1"):
        RepeatAndSelectEvent(event=GAUSSIAN, mean_runs=0.5)

"""What every mechanism of the table promises."""

import copy
from typing import Any

import pytest

from insular.accounting import ComposedEvent, spend
from insular.errors import InvalidArgumentError
from insular.mechanisms import SecureNoise, SeededNoise
from mechanisms.table import ROWS, Row

each = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


@each
def test_the_event_costs_what_was_asked_for(row: Row) -> None:
    event = row.release(row.data, SecureNoise()).event
    cost = spend(event, delta=row.delta)
    assert cost.epsilon <= row.epsilon * (1 + 1e-9)
    if row.tight:
        assert cost.epsilon >= row.epsilon * (1 - 1e-6)
    assert cost.standing == "guarantee"
    assert cost.noise_sources == ("secure",)


@each
def test_a_seeded_release_is_an_estimate(row: Row) -> None:
    release = row.release(row.data, SeededNoise(1))
    assert release.noise_source == "seeded"
    assert spend(release.event, delta=row.delta).standing == "estimate"


@each
def test_same_seed_same_value(row: Row) -> None:
    first, second = SeededNoise(5), SeededNoise(5)
    runs = [[row.release(row.data, noise) for _ in range(3)] for noise in (first, second)]
    assert runs[0] == runs[1]


@each
def test_one_seeded_source_never_repeats_its_noise(row: Row) -> None:
    noise = SeededNoise(5)
    # 60 equal releases: below 1e-7 for the likeliest single value, truth at p = 3/4
    assert len({str(row.release(row.data, noise).value) for _ in range(60)}) > 1


@each
def test_secure_releases_differ(row: Row) -> None:
    assert len({str(row.release(row.data, SecureNoise()).value) for _ in range(60)}) > 1


@each
def test_a_release_changes_nothing(row: Row) -> None:
    data = copy.deepcopy(row.data)
    events = {row.release(data, SecureNoise()).event for _ in range(2)}
    assert data == row.data
    assert len(events) == 1
    (event,) = events
    assert spend(event, delta=row.delta) == spend(event, delta=row.delta)


@each
def test_neighbors_have_the_same_event_and_noise(row: Row) -> None:
    one, other = (row.release(data, SeededNoise(3)) for data in (row.data, row.neighbor))
    fields = (
        "event",
        "noise_scale",
        "sensitivity",
        "scale_unit",
        "relation",
        "unit",
        "expected_error",
    )
    assert [getattr(one, f) for f in fields] == [getattr(other, f) for f in fields]
    assert one.event.relation == one.relation
    assert one.event.unit == one.unit


@each
def test_two_releases_cost_at_most_twice_epsilon_and_delta(row: Row) -> None:
    events = tuple(row.release(row.data, SecureNoise()).event for _ in range(2))
    cost = spend(ComposedEvent(events=events), delta=2 * row.delta)
    assert cost.epsilon <= 2 * row.epsilon * (1 + 1e-9)


@each
@pytest.mark.parametrize("noise", [7, None, "secure"])
def test_a_bare_seed_is_no_source_of_noise(row: Row, noise: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"noise must be SecureNoise\(\) or SeededNoise"):
        row.release(row.data, noise)

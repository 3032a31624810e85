"""A family of small dataclasses that use every type which evidence may hold."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from hypothesis import strategies as st

from insular.evidence import ArrayRef, RunManifest, collect_manifest


@dataclass(frozen=True, kw_only=True)
class Distance:
    value: float
    axis: Literal["content", "shape"]
    record: str | None = None

    def __post_init__(self) -> None:
        if self.value == -7.0:
            raise ValueError("value must not be -7.")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    name: str
    isolated: bool
    n: int
    floor: float
    rows: tuple[Distance, ...]
    worst: Distance | None = None
    pair: tuple[int, str] = (0, "")
    floors: dict[str, float]
    by_axis: dict[str, Distance]
    at_utc: datetime
    free: int | str | float | None = None


@dataclass(frozen=True, kw_only=True)
class WithArrays:
    ratio: float
    gradients: ArrayRef


VERDICT = Verdict(
    name="tiny",
    isolated=False,
    n=3,
    floor=1e-7,
    rows=(Distance(value=1.49, axis="content", record="r37"),),
    floors={"float32": 0.0},
    by_axis={},
    at_utc=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
)

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
numbers = st.floats() | st.sampled_from([-0.0, 5e-324, 1.7976931348623157e308, 0.1 + 0.2])
distances = st.builds(
    Distance,
    value=numbers.filter(lambda number: number != -7.0),
    axis=st.sampled_from(["content", "shape"]),
    record=st.none() | texts,
)
verdicts = st.builds(
    Verdict,
    name=texts,
    isolated=st.booleans(),
    n=st.integers(),
    floor=numbers,
    rows=st.lists(distances, max_size=3).map(tuple),
    worst=st.none() | distances,
    pair=st.tuples(st.integers(), texts),
    floors=st.dictionaries(texts, numbers, max_size=3),
    by_axis=st.dictionaries(texts, distances, max_size=3),
    at_utc=st.datetimes(timezones=st.just(UTC)).map(lambda time: time.replace(fold=0)),
    free=st.none() | st.integers() | numbers | texts.filter(lambda t: t not in NAMED),
)
NAMED = ("NaN", "Infinity", "-Infinity")


def manifest(name: str = "tiny") -> RunManifest:
    """A manifest of this machine, now."""
    return collect_manifest(
        "audit.isolation", name, command=("insular", "audit"), inputs=(), seed=0
    )


def same_bits(a: object, b: object) -> bool:
    """Equality that tells -0.0 from 0.0, 1 from 1.0 and takes NaN as equal to NaN."""
    return type(a) is type(b) and repr(a) == repr(b)

"""Two results of one kind, number by number."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from insular.audit.audit_results import AuditResult
from insular.audit.isolation.results import ExecutionPath, SubjectManifest

_LEFT_OUT = ("seconds", "seconds_per_step", "gradients", "baseline_gradients")
"""Fields that no repetition gives again: times, and where arrays are."""
_NOT_MEASURED = (ExecutionPath, SubjectManifest)
"""Classes that say what ran, and hold no measurement."""


def numbers(value: Any, *, place: str = "") -> Iterator[tuple[str, object]]:
    """Every number, digest and truth value of a result, with its place in words.

    Args:
        value: A result, or a part of one.
        place: What stands before every place.

    Yields:
        Place and value; times and references to arrays are left out.
    """
    if isinstance(value, _NOT_MEASURED):
        return
    if is_dataclass(value):
        for field in fields(value):
            if field.name not in _LEFT_OUT:
                yield from numbers(getattr(value, field.name), place=_inside(place, field.name))
    elif isinstance(value, tuple | list):
        for i, item in enumerate(value):
            name = next(
                (getattr(item, key) for key in ("name", "record", "module") if hasattr(item, key)),
                str(i),
            )
            yield from numbers(item, place=_inside(place, name))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, place=_inside(place, key))
    else:
        yield place, value


def measured(result: AuditResult) -> dict[str, list[tuple[str, object]]]:
    """What an audit measured, by arm and part.

    Args:
        result: The audit.

    Returns:
        Numbers with their places, by the name of the arm or part.
    """
    arms = {arm.arm: list(numbers(arm.cases)) for arm in (result.subject, *result.repairs)}
    parts = {
        name: list(numbers(part))
        for name in ("sensitivity", "census", "localisation")
        if (part := getattr(result, name)) is not None
    }
    return {**arms, **parts}


def _inside(place: str, name: object) -> str:
    """A place in a place."""
    return f"{place}, {name}" if place else str(name)

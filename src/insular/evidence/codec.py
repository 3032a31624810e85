"""Strict JSON for frozen dataclasses: what is written is what will be read."""

import dataclasses
import json
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from insular.errors import EvidenceError

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator, ValidationError

T = TypeVar("T")

_NAMED_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|\+00:00)", re.ASCII)
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?", re.ASCII)
_MOST_DIGITS = 200
"""Longest text of a decimal: the exact sum of any amounts fits."""
_RULES = {
    "missing": "is missing",
    "unexpected_keyword_argument": "is not a known field",
    "dataclass_type": "must be an object",
}


def encode(value: object) -> str:
    """The JSON text of a dataclass instance.

    Guarantees:
        * ``decode(type(value), encode(value))`` equals ``value``, floats bit for bit. A value
          for which this would not hold is refused.
        * NaN and the infinities are the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``
          in float fields, so every JSON reader can read the text.
        * A ``Decimal`` is the text of its exact value, such as ``"0.10"``, never a binary float.
        * Keys stand in field order, indented by two spaces, with a newline at the end.

    Args:
        value: A dataclass instance of numbers, decimals, strings, booleans, None, UTC times,
            tuples, dictionaries with string keys, and dataclasses of these.

    Returns:
        The text.

    Raises:
        EvidenceError: If a field holds what its annotation does not allow, or has no JSON form.
    """
    return json.dumps(encode_json(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def encode_json(value: object) -> dict[str, Any]:
    """The same content as ``encode``, as dictionaries, lists and scalars.

    Args:
        value: A dataclass instance, as for ``encode``.

    Returns:
        What ``json.dumps`` can write without losing anything.

    Raises:
        EvidenceError: As for ``encode``.
    """
    name = type(value).__name__
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise EvidenceError(f"evidence must be a dataclass instance, got {name}.")
    content = plain(value, at=name)
    if not same(value, decode(type(value), json.dumps(content), source=name)):
        raise EvidenceError(
            f"{name} would not be read back as it is; use tuples instead of lists and keep the "
            'text "NaN" or "Infinity" out of a field that is float or str.'
        )
    return content


def decode(cls: type[T], text: str | bytes, *, source: str = "evidence") -> T:
    """Read a dataclass from JSON text, refusing all that is not exactly as declared.

    Guarantees:
        * An unknown, missing or repeated field is refused at any depth.
        * Types are strict: no text becomes a number, no number a boolean. An integer is read
          where a float is declared.
        * A number that a float cannot hold, a bare ``NaN`` and a time outside UTC are refused.
        * A decimal is read from plain digits in quotes alone: no number, exponent or infinity.
        * The error is one line with source, field and rule, and never quotes a value.

    Args:
        cls: The dataclass.
        text: JSON, as text or UTF-8 bytes.
        source: What the error calls this text, such as a file name.

    Returns:
        An instance of ``cls``.

    Raises:
        EvidenceError: If the text is not JSON, or not this dataclass.
    """
    from pydantic_core import ValidationError

    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError:
            raise EvidenceError(f"{source} is not UTF-8 text.") from None
    parse_json(text, source=source)
    try:
        return _validator(cls).validate_json(text, strict=True)
    except ValidationError as error:
        raise EvidenceError(f"{source}: {_explain(error, cls)}") from None


def parse_json(text: str, *, source: str) -> Any:
    """Parse JSON text in which a repeated key, ``NaN`` or ``Infinity`` is an error.

    Args:
        text: The text.
        source: What the error calls this text.

    Returns:
        Dictionaries, lists and scalars.

    Raises:
        EvidenceError: If the text is not such JSON.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise EvidenceError(f"{source}: a key is repeated in one object.")
        return found

    def refuse(constant: str) -> NoReturn:
        raise EvidenceError(f'{source}: {constant} must be written as the string "{constant}".')

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise EvidenceError(f"{source} is not JSON: {error.msg} at {place}.") from None
    except (RecursionError, ValueError):
        raise EvidenceError(f"{source} is not JSON: too deep, or a number too long.") from None


def plain(value: object, *, at: str, name_floats: bool = True) -> Any:
    """Dictionaries, lists and scalars that hold what ``value`` holds.

    Args:
        value: A dataclass, or what one may hold.
        at: Where it stands, for the error.
        name_floats: Write NaN and the infinities as text.

    Returns:
        The plain form.

    Raises:
        EvidenceError: If something in it has no such form.
    """
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value) or not name_floats:
            return float(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return _decimal_text(value, at=at)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, tuple | list):
        return [
            plain(item, at=f"{at}[{i}]", name_floats=name_floats) for i, item in enumerate(value)
        ]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {k: plain(v, at=f"{at}.{k}", name_floats=name_floats) for k, v in value.items()}
    kind = "datetime without a time zone" if isinstance(value, datetime) else type(value).__name__
    raise EvidenceError(f"{at}: {kind} has no form in evidence; convert it first.")


def _decimal_text(value: Decimal, *, at: str) -> str:
    """The exact value in plain digits."""
    # the exponent is looked at first: written out, a large one would fill the memory
    if not value.is_finite() or abs(value.adjusted()) > _MOST_DIGITS:
        raise EvidenceError(f"{at}: a decimal must be finite and of at most {_MOST_DIGITS} digits.")
    return format(value, "f")


@lru_cache(maxsize=256)
def _validator(cls: type) -> "SchemaValidator":
    """The compiled reader of one dataclass."""
    from pydantic import TypeAdapter  # slow to import, so only when evidence is read or written
    from pydantic_core import SchemaValidator

    return SchemaValidator(_strict(TypeAdapter(cls).core_schema))


def _strict(schema: Any) -> Any:
    """A core schema in which dataclasses forbid extras and scalars have one form each."""
    from pydantic_core import core_schema

    # A standard dataclass carries no pydantic settings and nested ones inherit none, so the rules
    # are put into each node.
    if isinstance(schema, list | tuple):
        return type(schema)(_strict(item) for item in schema)
    if not isinstance(schema, dict):
        return schema
    keep = ("default", "metadata", "expected")
    node = {key: item if key in keep else _strict(item) for key, item in schema.items()}
    match node.get("type"):
        case "float":
            return core_schema.no_info_before_validator_function(_read_float, node)  # pyright: ignore[reportArgumentType]
        case "decimal":
            return core_schema.no_info_before_validator_function(_read_decimal, node)  # pyright: ignore[reportArgumentType]
        case "datetime":
            return core_schema.no_info_before_validator_function(_read_time, node)  # pyright: ignore[reportArgumentType]
        case "dataclass-args":
            node["extra_behavior"] = "forbid"
        case "union":
            node["custom_error_type"] = "union"
            node["custom_error_message"] = "Input should be one of the types that the field allows"
    return node


def _read_float(value: object) -> object:
    """Read the three names, and refuse a number that would become infinite."""
    if isinstance(value, str):
        return _NAMED_FLOATS.get(value, value)
    if isinstance(value, int | float):
        try:
            finite = math.isfinite(value)
        except OverflowError:
            finite = False
        if not finite:
            raise ValueError("must fit a 64-bit float.")
    return value


def _read_decimal(value: object) -> Decimal:
    """Read plain digits in quotes only; pydantic also reads numbers and exponents."""
    if not isinstance(value, str) or len(value) > _MOST_DIGITS or not _DECIMAL.fullmatch(value):
        raise ValueError('must be a decimal as text in plain digits, such as "0.1".')
    return Decimal(value)


def _read_time(value: object) -> object:
    """Read one form of time only; pydantic also reads numbers, bare dates and other zones."""
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise ValueError("must be an ISO-8601 time in UTC, such as 2026-01-02T03:04:05Z.")
    return datetime.fromisoformat(value).replace(tzinfo=UTC)


def same(a: Any, b: Any) -> bool:
    """Whether one value holds what another does: the same classes, the same bits.

    Args:
        a: What was written.
        b: What was read. It may be a float where ``a`` is the equal integer.

    Returns:
        True if nothing was lost.
    """
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or float(a).hex() == float(b).hex()
    if type(a) is not type(b):
        return isinstance(a, int) and isinstance(b, float) and a == b
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return a == b


def _explain(error: "ValidationError", cls: type) -> str:
    """The first problem as one clear line, without any value."""
    problems = error.errors(include_input=False, include_url=False, include_context=False)
    first = problems[0]
    rule = _RULES.get(first["type"], first["msg"]).removeprefix("Value error, ")
    rule = rule.replace("Input should be", "must be").rstrip(".")
    joint = " " if rule.startswith(("must", "is ")) else ": "
    more = f" (the first of {len(problems)} problems)" if len(problems) > 1 else ""
    return f"{_path(first['loc']) or cls.__name__}{joint}{rule}{more}."


def _path(parts: Iterable[int | str]) -> str:
    """A field's place, such as ``rows[3].distance``, on one line and of bounded length."""
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in parts).lstrip(".")
    printable = "".join(c if c.isprintable() else "?" for c in path)
    return printable if len(printable) <= 120 else printable[:117] + "..."

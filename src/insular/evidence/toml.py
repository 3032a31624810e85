"""Dataclasses as TOML, for the settings file that repeats a run."""

import json
import math
import re
import tomllib
from collections.abc import Iterator
from typing import Any, TypeVar

from insular.errors import EvidenceError
from insular.evidence.codec import decode, plain, same

T = TypeVar("T")

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(value: object) -> str:
    """The TOML text of a dataclass, or of nested dictionaries.

    Guarantees:
        * ``from_toml(type(value), to_toml(value))`` equals a dataclass ``value``, floats bit for
          bit. A value for which this would not hold is refused.
        * A field that is None is left out, since TOML has no such value.

    Args:
        value: A dataclass instance as for ``encode``, or a dictionary with string keys.

    Returns:
        The text: settings first, then one table for each nested dataclass.

    Raises:
        EvidenceError: If something in it has no form in TOML, or None would be read back as
            another default.
    """
    name = type(value).__name__
    content = _without_none(plain(value, at=name, name_floats=False), at=name)
    if not isinstance(content, dict):
        raise EvidenceError(f"a TOML file must be a dataclass or a dictionary, got {name}.")
    text = "\n".join(_table(content, ())).strip("\n") + "\n"
    if not isinstance(value, dict) and not same(value, from_toml(type(value), text, source=name)):
        raise EvidenceError(
            f"{name} would not be read back as it is; a field may be None only if that is its "
            "default."
        )
    return text


def from_toml(cls: type[T], text: str, *, source: str = "run.toml") -> T:
    """Read a dataclass from TOML text, as strictly as ``decode`` does.

    Guarantees:
        * An unknown or missing key is refused at any depth, and so is a value of another type.
        * The error is one line with source, key and rule, and never quotes a value.

    Args:
        cls: The dataclass.
        text: TOML.
        source: What the error calls this text, such as a file name.

    Returns:
        An instance of ``cls``.

    Raises:
        EvidenceError: If the text is not TOML, or not this dataclass.
    """
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise EvidenceError(f"{source} is not TOML: {error}.") from None
    value = decode(cls, json.dumps(plain(content, at=source)), source=source)
    for key in _turned_to_text(content, value, at=""):
        raise EvidenceError(f"{source}: {key} must be a text in quotes.")
    return value


def _without_none(value: Any, *, at: str) -> Any:
    """Leave out keys that are None; a list cannot leave anything out."""
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if item is not None}
        return {key: _without_none(item, at=f"{at}.{key}") for key, item in kept.items()}
    if isinstance(value, list):
        if None in value:
            raise EvidenceError(f"{at}: a list in TOML cannot hold None.")
        return [_without_none(item, at=f"{at}[{i}]") for i, item in enumerate(value)]
    return value


def _table(content: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """The lines of one table: its own settings, then its sub-tables."""
    for key, item in content.items():
        if not isinstance(item, dict) and not _is_tables(item):
            yield f"{_key(key)} = {_inline(item)}"
    for key, item in content.items():
        name = ".".join(map(_key, (*path, key)))
        if isinstance(item, dict):
            yield from ("", f"[{name}]", *_table(item, (*path, key)))
        elif _is_tables(item):
            for table in item:
                yield from ("", f"[[{name}]]", *_table(table, (*path, key)))


def _is_tables(item: Any) -> bool:
    """Whether a value is a list of tables, which TOML writes under repeated headers."""
    return isinstance(item, list) and bool(item) and all(isinstance(i, dict) for i in item)


def _inline(value: Any) -> str:
    """A value that stands behind an equals sign."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case list():
            return f"[{', '.join(map(_inline, value))}]"
        case dict():
            return (
                f"{{{', '.join(f'{_key(key)} = {_inline(item)}' for key, item in value.items())}}}"
            )
        case float() if not math.isfinite(value):
            return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return repr(value)


def _key(key: str) -> str:
    """A key, in quotes where it needs them."""
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _text(value: str) -> str:
    """A basic string; JSON's escapes are TOML's, except that TOML also escapes delete."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise EvidenceError("a TOML file cannot hold half of a surrogate pair.") from None
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _turned_to_text(content: Any, value: Any, *, at: str) -> Iterator[str]:
    """The keys whose number or time was read as the text that stands for it in JSON."""
    if isinstance(content, dict):
        for key, item in content.items():
            read = value[key] if isinstance(value, dict) else getattr(value, key)
            yield from _turned_to_text(item, read, at=f"{at}.{key}".lstrip("."))
    elif isinstance(content, list):
        for i, (item, read) in enumerate(zip(content, value, strict=True)):
            yield from _turned_to_text(item, read, at=f"{at}[{i}]")
    elif isinstance(value, str) and not isinstance(content, str):
        yield at

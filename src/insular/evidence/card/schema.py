"""The JSON Schema of the card, made from its dataclasses and the docstrings under their fields."""

import ast
import dataclasses
import inspect
import json
from datetime import datetime
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from insular.evidence.card.card import SCHEMA_VERSION, ReleaseCard
from insular.evidence.files import write_atomic

SCHEMA_FILE = f"schema-{SCHEMA_VERSION}.json"
_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]},
    Decimal: {"type": "string", "pattern": r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"},
    datetime: {"type": "string", "format": "date-time", "pattern": "(Z|[+]00:00)$"},
    NoneType: {"type": "null"},
}


def schema_text() -> str:
    """The JSON Schema (draft 2020-12) that the package ships.

    Guarantees:
        * Each field has a description, and these are the docstrings of the dataclasses.
        * Every card that ``encode`` writes is valid under it.

    Returns:
        The text of ``schema-1.json``.
    """
    return (files("insular.evidence.card") / SCHEMA_FILE).read_text(encoding="utf-8")


def write_schema() -> None:
    """Make the shipped file anew, for who changes a field or its docstring."""
    write_atomic(Path(__file__).with_name(SCHEMA_FILE), generated_text())


def generated_text() -> str:
    """The schema as the dataclasses give it.

    Returns:
        What the shipped file must hold.
    """
    definitions: dict[str, Any] = {}
    _define(ReleaseCard, definitions)
    card = definitions.pop(ReleaseCard.__name__)
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"insular release card, version {SCHEMA_VERSION}",
        **card,
        "$defs": dict(sorted(definitions.items())),
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _define(cls: type, definitions: dict[str, Any]) -> None:
    """Add a dataclass, and those that it holds."""
    hints, meanings = get_type_hints(cls), field_docstrings(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    definitions[cls.__name__] = {
        "type": "object",
        "description": (inspect.getdoc(cls) or "").partition("\n")[0],
        "properties": {
            name: {"description": meanings[name], **_form(hints[name], definitions)}
            for name in names
        },
        "required": names,
        "additionalProperties": False,
    }


def _form(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of one annotation."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if hint.__name__ not in definitions:
            _define(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, UnionType):
        forms = [_form(argument, definitions) for argument in arguments]
        return {"anyOf": [part for form in forms for part in form.get("anyOf", [form])]}
    if origin is tuple and arguments[1:] == (...,):
        return {"type": "array", "items": _form(arguments[0], definitions)}
    if origin is dict and arguments[0] is str:
        return {"type": "object", "additionalProperties": _form(arguments[1], definitions)}
    raise TypeError(f"a card has no schema for {hint!r}.")


def field_docstrings(cls: type) -> dict[str, str]:
    """The docstring under each field of a class, on one line.

    Args:
        cls: A dataclass whose source is there.

    Returns:
        Them by field; a field without one is left out.
    """
    body = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = below.value if isinstance(below, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                found[field.target.id] = " ".join(text.value.split())
    return found

"""Command-line options made of a settings dataclass: the field's name, type, default, docstring."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer

from insular.errors import InvalidArgumentError

T = TypeVar("T")


def with_options(
    spec: type[Any], *, options: Mapping[str, str] | None = None, without: Collection[str] = ()
) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that adds one option for each field of ``spec`` to a command.

    The command takes them as ``**given``; ``settings`` makes the dataclass of them. A tuple of
    names or numbers is one text with commas on the command line.

    Args:
        spec: A frozen dataclass whose fields have defaults and docstrings.
        options: Names of options that are not their field's, by field.
        without: Fields that get no option, and keep their default.

    Returns:
        The decorator.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        help_of = field_docs(spec)
        added = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_shown(field.default),
                annotation=Annotated[
                    type(_shown(field.default)),
                    typer.Option(
                        f"--{(options or {}).get(field.name, field.name).replace('_', '-')}",
                        help=help_of[field.name],
                    ),
                ],
            )
            for field in fields(spec)
            if field.name not in without
        ]
        keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own[1:]]
        command.__signature__ = inspect.Signature([own[0], *added, *keyword])  # pyright: ignore[reportFunctionMemberAccess]
        command.__annotations__ = {p.name: p.annotation for p in (own[0], *added, *keyword)}
        return command

    return decorate


def settings(
    spec: type[T], given: dict[str, Any], context: typer.Context, config: Path | None
) -> T:
    """The settings: all from the options, or from a file with the typed options on top.

    Args:
        spec: The dataclass.
        given: Value of each option.
        context: Which of them were typed.
        config: A TOML file, or None.

    Returns:
        The settings.

    Raises:
        InvalidArgumentError: If the file cannot be read, or a setting breaks its rule.
    """
    kinds = {field.name: _item_type(field.type) for field in fields(spec)}  # pyright: ignore[reportArgumentType]
    values = {
        name: value if kinds[name] is None else items(name, value, kinds[name])
        for name, value in given.items()
    }
    if config is None:
        return spec(**values)
    from insular.evidence import from_toml

    try:
        content = config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InvalidArgumentError(f"config {config} cannot be read: {reason}.") from error
    typed = {name: value for name, value in values.items() if _was_typed(context, name)}
    return replace(from_toml(spec, content, source=str(config)), **typed)  # pyright: ignore[reportArgumentType]


def field_docs(spec: type[Any]) -> dict[str, str]:
    """The docstring under each field of a dataclass, on one line.

    Args:
        spec: The dataclass.

    Returns:
        Text by field name.
    """
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(spec))).body
    assert isinstance(node, ast.ClassDef)
    found: dict[str, str] = {}
    for field, doc in zip(node.body, node.body[1:], strict=False):
        match field, doc:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=text)):
                found[name] = " ".join(str(text).replace("``", "").split())
            case _:
                continue
    return found


def _shown(default: Any) -> Any:
    """A default as the command line takes it."""
    return ",".join(f"{item}" for item in default) if isinstance(default, tuple) else default


def _item_type(annotation: Any) -> Any:
    """What a tuple of any length holds, names as text; None for any other type."""
    kinds = get_args(annotation) if get_origin(annotation) is tuple else ()
    if len(kinds) != 2 or kinds[1] is not Ellipsis:
        return None
    return str if get_origin(kinds[0]) is Literal else kinds[0]


def names(value: str) -> tuple[str, ...]:
    """Names separated by commas.

    Args:
        value: As typed.

    Returns:
        Them, without white space around and without empty ones.
    """
    return tuple(name.strip() for name in value.split(",") if name.strip())


def items(name: str, value: str, kind: Any) -> tuple[Any, ...]:
    """Names or numbers separated by commas.

    Args:
        name: The setting, for the error.
        value: As typed.
        kind: ``int``, ``float`` or ``str``.

    Returns:
        The items.

    Raises:
        InvalidArgumentError: If one is no number.
    """
    try:
        return tuple(kind(item) for item in names(value))
    except ValueError as error:
        raise InvalidArgumentError(
            f"{name} must be {'whole ' if kind is int else ''}numbers separated by commas, got "
            f"{name}={value!r}."
        ) from error


def _was_typed(context: typer.Context, name: str) -> bool:
    """Whether an option was given on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"

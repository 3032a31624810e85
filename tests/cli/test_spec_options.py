"""Options made of a dataclass: tuples of names and numbers are one text with commas."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from insular.cli.spec_options import settings, with_options
from insular.errors import InvalidArgumentError


@dataclass(frozen=True, kw_only=True)
class Spec:
    """Settings of all kinds."""

    places: tuple[int, ...] = (3, 15)
    """Whole numbers."""
    kl_nats: tuple[float, ...] = (0.01, 1.0)
    """Numbers."""
    words: tuple[str, ...] = ()
    """Names."""
    formats: tuple[Literal["a", "b"], ...] = ("a",)
    """Names out of a few."""
    size: int = 2
    """One number."""


app = typer.Typer()
found: list[Spec] = []


@app.command()
@with_options(Spec, options={"kl_nats": "kl"})
def command(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option()] = None,
    **given: Any,
) -> None:
    """Keep the settings."""
    found.append(settings(Spec, given, context, config))


def parsed(*arguments: str) -> Spec:
    """What a command with these options is told."""
    found.clear()
    result = CliRunner().invoke(app, arguments)
    if result.exception is not None:
        raise result.exception
    return found[0]


def test_defaults_come_back_as_they_were() -> None:
    assert parsed() == Spec()


def test_tuples_are_read_with_their_own_kind() -> None:
    spec = parsed("--places", "0, 7", "--kl", "0.1,3,1e-2", "--words", "a, b ,", "--formats", "b")
    assert spec == Spec(places=(0, 7), kl_nats=(0.1, 3.0, 0.01), words=("a", "b"), formats=("b",))
    assert all(type(place) is int for place in spec.places)
    assert all(type(kl) is float for kl in spec.kl_nats)


def test_an_empty_text_is_an_empty_tuple() -> None:
    assert parsed("--places", "", "--kl", "").places == ()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--places", "1,two", "places must be whole numbers separated by commas, got .*'1,two'"),
        ("--places", "1.5", "places must be whole numbers separated by commas"),
        ("--kl", "0.1;3", "kl_nats must be numbers separated by commas, got kl_nats='0.1;3'"),
    ],
)
def test_what_is_no_number_is_refused(option: str, value: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        parsed(option, value)


def test_typed_tuples_replace_those_of_a_file_and_others_stay(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("places = [1]\nkl_nats = [0.5, 2.0]\nwords = ['x']\nsize = 9\n")
    assert parsed("--config", str(file), "--kl", "4") == Spec(
        places=(1,), kl_nats=(4.0,), words=("x",), size=9
    )

"""What a page is made of: text, numbers that know their evidence, tables, figures, commands."""

import re
from dataclasses import dataclass
from typing import final
from urllib.parse import quote
from xml.etree import ElementTree

from insular.errors import InvalidArgumentError

_SOURCE = re.compile(r"[A-Za-z0-9_-][\w.-]*(/[A-Za-z0-9_-][\w.-]*)*(#(/[^\s/]*)*)?", re.ASCII)
_UNSAFE_ELEMENTS = ("script", "style", "foreignObject", "image", "a", "iframe")
_OUTSIDE = re.compile(r"url\(\s*['\"]?(?!#)")


@final
@dataclass(frozen=True, kw_only=True)
class Number:
    """A number, and the place in the evidence that it was read from."""

    text: str
    """The number as printed, with its unit."""
    source: str
    """File in the run folder and JSON pointer, such as ``results.json#/subject/seconds``."""

    def __post_init__(self) -> None:
        """Refuse a source that leaves the run folder or is no link to a file.

        Raises:
            InvalidArgumentError: If it does.
        """
        if not _SOURCE.fullmatch(self.source):
            raise InvalidArgumentError(
                "source must be a file in the run folder with an optional JSON pointer, got"
                f" source={self.source!r}."
            )

    @property
    def href(self) -> str:
        """The source as a relative link."""
        return quote(self.source, safe="/#~")


@final
@dataclass(frozen=True, kw_only=True)
class Code:
    """An id, a module or a file name: set in a fixed-width face."""

    text: str
    """What it says."""


Inline = str | Number | Code
"""What a line of text may hold."""
Cell = Inline | tuple[Inline, ...]
"""What a table's cell may hold."""


@final
@dataclass(frozen=True, kw_only=True)
class Paragraph:
    """Running text."""

    parts: tuple[Inline, ...]
    """Its pieces, joined without a space."""

    @property
    def plain(self) -> str:
        """The text alone, for a terminal or a ticket."""
        return "".join(part if isinstance(part, str) else part.text for part in self.parts)


@final
@dataclass(frozen=True, kw_only=True)
class Points:
    """A list of short statements."""

    items: tuple[Cell, ...]
    """One for each point."""


@final
@dataclass(frozen=True, kw_only=True)
class Facts:
    """Names and what they stand for."""

    pairs: tuple[tuple[str, Cell], ...]
    """Name and value."""
    source: str = ""
    """Where in the evidence they come from; empty if nowhere."""


@final
@dataclass(frozen=True, kw_only=True)
class Command:
    """A shell line to copy."""

    text: str
    """The line."""


@final
@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under named columns."""

    caption: str
    """What to see in it."""
    columns: tuple[str, ...]
    """Column heads, with units."""
    rows: tuple[tuple[Cell, ...], ...]
    """One cell for each column."""
    numeric: tuple[int, ...] = ()
    """Positions of the columns that hold numbers, which are set to the right."""
    folded: bool = False
    """Whether only the caption shows until the reader opens it."""
    source: str = ""
    """Where in the evidence the rows come from; empty if nowhere."""

    def __post_init__(self) -> None:
        """Refuse a row that does not fit its columns.

        Raises:
            InvalidArgumentError: If one does not.
        """
        for i, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise InvalidArgumentError(
                    f"rows must have one cell for each of {len(self.columns)} columns, got"
                    f" {len(row)} in row {i}."
                )


@final
@dataclass(frozen=True, kw_only=True)
class Figure:
    """A drawing."""

    svg: str
    """An ``<svg>`` element that refers to nothing outside itself."""
    caption: str
    """What to see in it."""
    alt: str
    """The same for who cannot see it."""
    source: str = ""
    """Where in the evidence its numbers come from; empty if nowhere."""

    def __post_init__(self) -> None:
        """Refuse a drawing that is not SVG, runs a script or loads something.

        Raises:
            InvalidArgumentError: If it does.
        """
        try:
            elements = list(ElementTree.fromstring(self.svg).iter())
        except ElementTree.ParseError:
            elements = []
        names = [str(element.tag).rpartition("}")[2] for element in elements]
        values = [(k, v) for element in elements for k, v in element.attrib.items()]
        unsafe = (
            any(name in _UNSAFE_ELEMENTS for name in names)
            or any(key.lower().startswith("on") for key, _ in values)
            or any(key.endswith("href") and not value.startswith("#") for key, value in values)
            or any(_OUTSIDE.search(value) for _, value in values)
        )
        if names[:1] != ["svg"] or unsafe:
            raise InvalidArgumentError(
                "svg must be one <svg> element without scripts, handlers and links to the outside."
            )


Block = Paragraph | Points | Facts | Command | Table | Figure
"""What a section may hold."""


def paragraph(*parts: Inline) -> Paragraph:
    """A paragraph from its pieces.

    Args:
        *parts: Text, numbers and code, joined without a space.

    Returns:
        The paragraph.
    """
    return Paragraph(parts=parts)

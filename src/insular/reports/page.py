"""One self-contained HTML page: a laboratory report that needs no script and no network."""

from dataclasses import dataclass, field
from typing import Literal, final

from insular import _check
from insular.reports.blocks import Block, Number, Paragraph

VerdictKind = Literal["good", "bad", "open"]
"""Whether the claim holds, does not hold, or could not be decided."""


@final
@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading and what stands below it."""

    heading: str
    """What the section answers."""
    blocks: tuple[Block, ...]
    """Its content, in order."""


@final
@dataclass(frozen=True, kw_only=True)
class EvidenceFile:
    """A file beside the page."""

    name: str
    """Path in the run folder."""
    sha256: str
    """Its digest."""

    @property
    def link(self) -> Number:
        """The name, as a link to the file."""
        return Number(text=self.name, source=self.name)


@final
@dataclass(frozen=True, kw_only=True)
class Page:
    """The content of a page, without its looks."""

    title: str
    """What was examined."""
    verdict: str
    """The answer, in a word or two."""
    verdict_kind: VerdictKind
    """What the answer means for the claim."""
    lead: tuple[Paragraph, ...]
    """The first screen; its first paragraph answers the reader's question in a sentence."""
    sections: tuple[Section, ...]
    """The rest."""
    evidence: tuple[EvidenceFile, ...] = ()
    """The files that the numbers come from."""
    footer: str = ""
    """Which run made the page."""

    def __post_init__(self) -> None:
        """Refuse an unknown kind of verdict."""
        _check.one_of(("good", "bad", "open"), verdict_kind=self.verdict_kind)


@final
@dataclass
class _Notes:
    """The footnotes of a page: each source once, numbered as it first appears."""

    sources: dict[str, int] = field(default_factory=dict)

    def number(self, source: str) -> int:
        """The footnote of a source."""
        return self.sources.setdefault(source, len(self.sources) + 1)

    def links(self) -> list[Number]:
        """Every source as a link, in order."""
        return [Number(text=source, source=source) for source in self.sources]


def render(page: Page) -> str:
    """Write a page as one HTML file.

    Guarantees:
        * Everything is escaped; only a figure's checked SVG is put in as it is.
        * The file holds no script and loads nothing: its own policy forbids both.
        * Each number links to its evidence; one in running text also has a footnote, so that
          paper shows where it comes from.
        * Equal pages give equal bytes.

    Args:
        page: The content.

    Returns:
        The file.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup, escape

    environment = Environment(
        loader=PackageLoader("insular.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["text"] = lambda value: isinstance(value, str)
    environment.tests["several"] = lambda value: isinstance(value, tuple)
    environment.filters["kind"] = lambda value: type(value).__name__
    environment.filters["drawing"] = lambda figure: Markup(figure.svg)
    # long dotted names break after a dot, and can still be copied whole
    environment.filters["breakable"] = lambda text: escape(text).replace(".", Markup(".<wbr>"))
    return environment.get_template("page.html.j2").render(page=page, notes=_Notes())

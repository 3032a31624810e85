"""Reports: results as text for a terminal, as figures, and as one self-contained HTML page."""

from insular.reports.blocks import (
    Block,
    Cell,
    Code,
    Command,
    Facts,
    Figure,
    Inline,
    Number,
    Paragraph,
    Points,
    Table,
    paragraph,
)
from insular.reports.page import EvidenceFile, Page, Section, VerdictKind, render

__all__ = [
    "Block",
    "Cell",
    "Code",
    "Command",
    "EvidenceFile",
    "Facts",
    "Figure",
    "Inline",
    "Number",
    "Page",
    "Paragraph",
    "Points",
    "Section",
    "Table",
    "VerdictKind",
    "paragraph",
    "render",
]

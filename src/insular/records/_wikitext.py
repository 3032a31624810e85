"""Wiki markup to plain paragraphs: what a reader sees as running text, and nothing else."""

import html
import re
from collections.abc import Iterator

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# The content of these elements is not running text.
_ELEMENTS = (
    "ref|math|gallery|timeline|code|syntaxhighlight|source|pre|score|imagemap|chem|blockquote"
)
_EMPTY_ELEMENT = re.compile(rf"<(?:{_ELEMENTS})\b[^<>]*/>", re.IGNORECASE)
_ELEMENT = re.compile(rf"<({_ELEMENTS})\b[^<>]*>.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_BREAK = re.compile(r"<br\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_EXTERNAL = re.compile(r"\[(?:https?:|ftp:|mailto:|//)[^\s\]]*([^\]]*)\]", re.IGNORECASE)
_LINK = re.compile(r"\[\[((?:[^\[\]]|\[(?!\[)|\](?!\]))*)\]\]")
# File:..., Category:... and, in lower case, the same article in another language.
_NO_LABEL = re.compile(r"\s*(?:(?i:file|image|category|media)|[a-z]{2,3}(?:-[a-z]+)?)\s*:")
_HEADING = re.compile(r"^=+[^\n]*=+[ \t]*$", re.MULTILINE)
_LIST_MARK = re.compile(r"^[*#:;]+[ \t]*", re.MULTILINE)
_EMPHASIS = re.compile(r"'{2,5}")
_MAGIC_WORD = re.compile(r"__[A-Z]+__")
# What a dropped template leaves behind: "( , )" and a space before a full stop.
_EMPTY_BRACKETS = re.compile(r"[(\[][\s,;:–-]*[)\]]")
_LOOSE_SPACE = re.compile(r"\s+([,.;:)])")
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n")


def paragraphs(markup: str) -> Iterator[str]:
    """Strip one article's markup.

    Templates, tables, references, files, categories and headings go; links and emphasis
    leave their label; each list item is a paragraph.

    Args:
        markup: The article as its authors typed it.

    Yields:
        Each paragraph on one line, without markup, never empty.
    """
    text = _COMMENT.sub("", markup)
    text = _ELEMENT.sub("", _EMPTY_ELEMENT.sub("", text))
    text = drop_nested(text, opening="{{", closing="}}")
    text = drop_nested(text, opening="{|", closing="|}")
    text = _labels(_EXTERNAL.sub(r"\1", text))
    text = _HEADING.sub("\n\n", text)
    text = _LIST_MARK.sub("\n\n", text)
    text = _TAG.sub("", _BREAK.sub(" ", text))
    text = _MAGIC_WORD.sub("", _EMPHASIS.sub("", text))
    text = html.unescape(text)
    for part in _PARAGRAPH_END.split(text):
        line = " ".join(_EMPTY_BRACKETS.sub("", part).split())
        line = _LOOSE_SPACE.sub(r"\1", line)
        if line:
            yield line


def drop_nested(text: str, *, opening: str, closing: str) -> str:
    """Remove every balanced pair of marks with all between; a mark without partner stays.

    Args:
        text: The markup.
        opening: Mark that opens a pair.
        closing: Mark that closes it.

    Returns:
        The text without the pairs.
    """
    spans: list[tuple[int, int]] = []
    open_at: list[int] = []
    for mark in re.finditer(f"{re.escape(opening)}|{re.escape(closing)}", text):
        if mark.group() == opening:
            open_at.append(mark.start())
        elif open_at:
            start = open_at.pop()
            # This pair holds the pairs that closed since it opened.
            while spans and spans[-1][0] > start:
                spans.pop()
            spans.append((start, mark.end()))
    kept: list[str] = []
    position = 0
    for start, end in spans:
        kept.append(text[position:start])
        position = end
    return "".join([*kept, text[position:]])


def _labels(text: str) -> str:
    """Replace links by their labels, the innermost first: a file's caption may hold links."""
    while True:
        text, count = _LINK.subn(_label, text)
        if count == 0:
            return text


def _label(link: re.Match[str]) -> str:
    """Return what a link shows."""
    target, _, label = link.group(1).partition("|")
    if _NO_LABEL.match(target):
        return ""
    return (label.rpartition("|")[2] or target).removeprefix(":")

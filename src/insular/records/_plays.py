"""A play's text to utterances: who speaks, and what."""

import re
from collections.abc import Iterator

_BEGIN = re.compile(r"\s*(?:(?:ACT|Act) (?:I|1|FIRST)\b|PROLOGUE\b|INDUCTION\b)")
_HEADING = re.compile(
    r"\s*(?:ACT|Act|SCENE|Scene) (?:[IVX]+|[0-9]+|FIRST|SECOND|THIRD|FOURTH|FIFTH)\b"
)
# A cue stands alone on a line after an empty one: HAMLET. or Ham. or FIRST LORD
_WORD = r"(?:(?:[A-Z][A-Za-z'-]*\.?)|and|of|the|&)"
_CUE = re.compile(rf"{_WORD}(?:,? {_WORD})*[.:]?")
_NO_CUE = frozenset(
    {"exit", "exeunt", "song", "dumb show", "westminster abbey", "the order of the coronation"}
)
# Some directions are never closed: they end with their line.
_DIRECTION = re.compile(r"\[[^\[\]]*\]|\[[^\[\]\n]*$", re.MULTILINE)


def utterances(play: str) -> Iterator[tuple[str, str]]:
    """Split a play into what its speakers say.

    Args:
        play: The whole text; speakers' names stand alone on a line after an empty line.

    Yields:
        Pairs of speaker, in lower case as the play abbreviates the name, and words, without
        stage directions, never empty.
    """
    speaker: str | None = None
    words: list[str] = []
    begun = False
    after_blank = True
    lines = _DIRECTION.sub("", play).splitlines()
    capitals = _cues_are_capitals(lines)
    for line in lines:
        begun = begun or _BEGIN.match(line) is not None
        heading = _HEADING.match(line) is not None
        cue = _cue(line, capitals=capitals) if begun and after_blank and not heading else None
        if cue is not None or heading:
            yield from _spoken(speaker, words)
            speaker, words = cue, []
        elif speaker is not None:
            words.append(line)
        after_blank = not line.strip()
    yield from _spoken(speaker, words)


def _spoken(speaker: str | None, words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield an utterance if there is one."""
    text = "\n".join(line.strip() for line in words if line.strip())
    if speaker is not None and text:
        yield speaker, text


def _cue(line: str, *, capitals: bool) -> str | None:
    """Return the speaker that a line names, or None."""
    line = line.rstrip()
    if len(line) > 40 or not _CUE.fullmatch(line):
        return None
    # In a play with names in capitals, a sentence such as "Stay." is no name.
    if not (_in_capitals(line) if capitals else line.endswith((".", ":"))):
        return None
    name = " ".join(line.rstrip(".:").lower().split())
    return None if name in _NO_CUE else name


def _cues_are_capitals(lines: list[str]) -> bool:
    """Whether a play writes its speakers' names in capitals: most do, three do not."""
    matches = [line.rstrip() for line in lines if _CUE.fullmatch(line.rstrip())]
    return 2 * sum(map(_in_capitals, matches)) > len(matches)


def _in_capitals(line: str) -> bool:
    """Whether most letters are capitals: some names slip, as in LouIS."""
    return sum(map(str.isupper, line)) > sum(map(str.islower, line))

"""What may stand in an entry besides amounts: names, remarks, digests."""

import re
from collections.abc import Sequence

from insular.errors import InvalidArgumentError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,119}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
NOTE_CHARACTERS = 300
"""Longest remark."""


def check_name(**names: str) -> None:
    """Refuse a name that could be misread in a table or a message.

    Raises:
        InvalidArgumentError: Naming the first offender.
    """
    for name, value in names.items():
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            raise InvalidArgumentError(
                f"{name} must be 1 to 120 letters, digits and ._:/@+-, beginning with a letter or "
                f"digit, got {name}={str(value)[:40]!a}."
            )


def check_note(*, note: str) -> None:
    """Refuse a remark that is not one short line.

    Raises:
        InvalidArgumentError: If it is longer, or holds control characters.
    """
    if len(note) > NOTE_CHARACTERS or not note.isprintable():
        raise InvalidArgumentError(
            f"a note must be one line of at most {NOTE_CHARACTERS} printable characters, got "
            f"{len(note)} characters."
        )


def check_artifacts(artifacts: Sequence[str], *, needed: bool) -> tuple[str, ...]:
    """The digests of artifacts, without a ``sha256:`` in front.

    Args:
        artifacts: SHA-256 digests.
        needed: Whether there must be one.

    Returns:
        64 lower-case hexadecimal digits each.

    Raises:
        InvalidArgumentError: If one is no such digest, or stands there twice.
    """
    digests = tuple(text.removeprefix("sha256:").lower() for text in artifacts)
    if not all(_DIGEST.fullmatch(text) for text in digests):
        raise InvalidArgumentError(
            "artifacts must be SHA-256 digests (64 hexadecimal digits), as `sha256sum FILE` gives."
        )
    if len(set(digests)) < len(digests):
        raise InvalidArgumentError("artifacts must be named once each.")
    if needed and not digests:
        raise InvalidArgumentError("artifacts must name at least one digest.")
    return digests

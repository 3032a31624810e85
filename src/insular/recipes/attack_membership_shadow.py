"""Losses under shadow models, read from a file."""

import json
from pathlib import Path

from insular.audit.likelihood_ratio import ShadowRow
from insular.errors import RecordError


def read_shadow_rows(path: Path) -> tuple[ShadowRow, ...]:
    """Losses under shadow models: one JSON object a line with id, shadow, member and loss.

    Args:
        path: The file.

    Returns:
        The rows.

    Raises:
        RecordError: If the file or a line cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read as UTF-8 text; check the path.") from error
    found = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            row = _row(line)
            if row is None:
                raise RecordError(
                    f"{path.name} line {number}: must be an object with id, shadow, member (true or"
                    " false) and loss (nats per token); correct it."
                )
            found.append(row)
    return tuple(found)


def _row(line: str) -> ShadowRow | None:
    """One line; None if it is no such object."""
    try:
        row = json.loads(line)
        member, loss = row["member"], row["loss"]
        if isinstance(member, bool) and isinstance(loss, int | float):
            name, shadow = str(row["id"]), str(row["shadow"])
            return ShadowRow(id=name, shadow=shadow, member=member, loss=float(loss))
    except (ValueError, KeyError, TypeError):
        pass
    return None

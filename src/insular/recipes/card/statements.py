"""What only a person can say on a release card."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import final

from insular.errors import EvidenceError, InvalidArgumentError
from insular.evidence import from_toml


@final
@dataclass(frozen=True, kw_only=True)
class Statements:
    """Facts that no run knows; the fields of the card of the same name say what each means.

    What is left out is shown as not stated.
    """

    data_curators: tuple[str, ...] | None = None
    """Who holds the data."""
    intended_use: str | None = None
    """What the release is for."""
    data_product_region: str | None = None
    """Region."""
    data_product_sector: str | None = None
    """Sector."""
    publication_date: str | None = None
    """Day, as YYYY-MM-DD."""
    preprocessing_and_hyperparameter_tuning: str | None = None
    """What earlier runs on the same data spent."""
    justification: str | None = None
    """Why these parameters."""
    pretraining_data: str | None = None
    """What the base model had seen."""
    trust_assumptions: str | None = None
    """Who must be trusted."""
    access_type: str | None = None
    """Who can use the release."""
    side_channels: str | None = None
    """What else an observer sees."""
    data_security_and_access_control: str | None = None
    """Who can reach the records."""
    data_collection_exposure: str | None = None
    """Who saw the records before."""

    def __post_init__(self) -> None:
        """Refuse a day that is none, and a statement without words.

        Raises:
            InvalidArgumentError: Naming the field.
        """
        if self.publication_date is not None:
            try:
                date.fromisoformat(self.publication_date)
            except ValueError:
                raise InvalidArgumentError(
                    "publication_date must be a day as YYYY-MM-DD."
                ) from None
        for name, value in vars(self).items():
            words = value if isinstance(value, tuple) else (value,)
            if value == () or any(word is not None and not word.strip() for word in words):
                raise InvalidArgumentError(f"{name} must hold words; leave it out if unknown.")


NOTHING_STATED = Statements()
"""No statement."""


def read_statements(file: Path) -> Statements:
    """Read statements from a TOML file.

    Args:
        file: The file.

    Returns:
        Them.

    Raises:
        EvidenceError: If it cannot be read, or holds an unknown key or a wrong type.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise EvidenceError(f"cannot read {file}: {reason}.") from None
    return from_toml(Statements, text, source=str(file))

"""What attribute inference is asked to do, as one TOML file can say it. Torch-free."""

import re
from dataclasses import dataclass
from typing import final

from insular import _check
from insular.errors import InvalidArgumentError

PLACE = re.compile(r"\{([^{}]+)\}")
"""A field in a template."""


@final
@dataclass(frozen=True, kw_only=True)
class AttributeSpec:
    """One run of ``insular attack attribute``."""

    run: str
    """Training run, adapter or model that is attacked."""
    records: str
    """JSON lines with each record's fields and the true value of the attribute."""
    template: str
    """How a record is written, with ``{field}`` for its fields and for the attribute."""
    attribute: str
    """Field that is guessed."""
    values: tuple[str, ...]
    """Every value that it can have."""
    population: str = ""
    """JSON lines of other records, for the most common value; empty for these records."""
    model: str = ""
    """Base model of an adapter; empty for the one that run or adapter name."""
    id_field: str = ""
    """Field of the record id, unique; empty for the number of the line."""
    significance: float = 0.05
    """Error probability of the verdict."""
    device: str = "cpu"
    """Where it computes."""
    seed: int = 0
    """Written to the manifest; nothing is drawn."""

    def __post_init__(self) -> None:
        """Report every setting that breaks its rule, then refuse once.

        Raises:
            InvalidArgumentError: Naming each problem.
        """
        _check.every(
            (
                lambda: _check.at_least(2, values=len(self.values)),
                lambda: _check.probability(significance=self.significance),
                lambda: _check.positive_finite(significance=self.significance),
                lambda: _check.at_least(0, seed=self.seed),
                self._check_template,
                self._check_values,
            )
        )

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that the template names, in its order."""
        return tuple(PLACE.findall(self.template))

    def _check_template(self) -> None:
        """The attribute stands in the template once."""
        if self.fields.count(self.attribute) != 1:
            raise InvalidArgumentError(
                f"template must hold {{{self.attribute}}} exactly once, got"
                f" template={self.template!r}."
            )

    def _check_values(self) -> None:
        """Values are different texts."""
        if len(set(self.values)) < len(self.values) or not all(map(str.strip, self.values)):
            raise InvalidArgumentError("values must be different texts, none blank; got others.")

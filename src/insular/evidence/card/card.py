"""The whole card, and what it may not contradict."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, final

from insular.errors import InvalidArgumentError
from insular.evidence.card.parts import (
    BaseModel,
    Basic,
    CardFile,
    Claim,
    Code,
    DeploymentModel,
    Implementation,
    IsolationFact,
    LedgerReference,
    LowerBound,
    PrivacyLoss,
    ReleasedArtifact,
    UtilityFact,
)

SCHEMA_VERSION = 1
"""Version of the layout of a card; each older one has an upgrade."""


@final
@dataclass(frozen=True, kw_only=True)
class ReleaseCard:
    """A release card: what left a run, what it costs, whether the claim holds, what is not known.

    Guarantees:
        * A card that ``isolation``, ``implementation`` or the noise speak against says so in the
          first words of its first field, and cannot claim to hold. The one exception is a coupled
          stack whose noise covers an influence above 1.
        * ``missing`` names exactly the facts that are None.
    """

    headline: str
    """The answer in one or two sentences. It starts with what is wrong, if anything is."""
    schema_version: Literal[1]
    """Layout of the card."""
    claim: Claim
    """Whether the claim holds: records are isolated, and the guarantee is the one that ran."""
    missing: tuple[str, ...]
    """Facts that nobody stated, by their path."""
    basic: Basic
    """What the run was, and who answers for it."""
    released: tuple[ReleasedArtifact, ...]
    """What left; empty for an audit."""
    privacy_loss: PrivacyLoss | None
    """Privacy parameters and the unit of privacy; None where no epsilon is promised."""
    implementation: Implementation | None
    """The algorithm; None where nothing was trained."""
    isolation: IsolationFact
    """Whether the stack kept records apart."""
    utility: UtilityFact | None
    """Utility on public text; None where it was not measured."""
    lower_bounds: tuple[LowerBound, ...] | None
    """What attacks on the release proved; None where none was run."""
    unprotected_quantities: tuple[str, ...]
    """What the run also holds that no guarantee covers. Keep it where the records are kept."""
    deployment_model: DeploymentModel
    """What the guarantee stands on."""
    base_model: BaseModel
    """The model that was there before."""
    ledger: LedgerReference | None
    """Where the spending is kept; None without a ledger."""
    code: Code
    """What computed."""
    created_utc: datetime
    """Start of the run."""
    evidence: tuple[CardFile, ...]
    """What the card was made from."""

    def __post_init__(self) -> None:
        """Refuse a card that contradicts itself.

        Raises:
            InvalidArgumentError: With the rule that it breaks.
        """
        if self.missing != missing_facts(self):
            raise InvalidArgumentError("missing must name exactly the facts that are null.")
        warning = self.warning
        if not self.headline.startswith(warning):
            raise InvalidArgumentError(f"headline must start with “{warning}”.")
        part = self.implementation
        covered = warning == _COUPLED and part is not None and part.influence > 1
        if self.claim == "holds" and warning and not covered:
            raise InvalidArgumentError("claim must not be “holds” with what the headline says.")

    @property
    def warning(self) -> str:
        """The words that the card must start with; empty if nothing speaks against it."""
        return warning_words(self.isolation, self.implementation, self.lower_bounds)

    @property
    def exit_code(self) -> int:
        """0: the claim holds; 1: it does not; 2: undecided."""
        return {"holds": 0, "does not hold": 1, "undecided": 2}[self.claim]


_COUPLED = "Coupled stack"


def warning_words(
    isolation: IsolationFact,
    implementation: Implementation | None,
    lower_bounds: tuple[LowerBound, ...] | None = None,
) -> str:
    """The words that a card must start with.

    Args:
        isolation: Whether the stack kept records apart.
        implementation: The algorithm; None where nothing was trained.
        lower_bounds: What attacks proved; None where none was run.

    Returns:
        Them, with a capital; empty if nothing speaks against the claim.
    """
    words = ["coupled stack"] if isolation.verdict == "coupled" else []
    if implementation is not None:
        if implementation.n_differences:
            words.append("not what was planned")
        if not implementation.training_happened:
            words.append("training did not happen as stated")
        if implementation.noise_source != "secure":
            words.append("noise that protects nothing")
    if any(bound.refutes for bound in lower_bounds or ()):
        words.append("refuted by an attack")
    joined = ", ".join(words)
    return joined[:1].upper() + joined[1:]


def missing_facts(value: Any, at: str = "") -> tuple[str, ...]:
    """The facts of a card, or of a part of it, that are None.

    Args:
        value: The card, or what one of its fields holds.
        at: Where the part stands in the card; empty for the whole.

    Returns:
        Their paths, such as ``basic.intended_use``.
    """
    return tuple(_missing(value, at))


def _missing(value: Any, path: str) -> Iterator[str]:
    """The paths below one value."""
    if value is None:
        yield path
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _missing(item, f"{path}[{i}]")
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            yield from _missing(inner, f"{path}.{field.name}".lstrip("."))

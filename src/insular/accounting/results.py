"""What an accountant found, with what makes the number valid."""

from dataclasses import dataclass
from typing import Literal, final

from insular.accounting.events import NoiseSource, Unit
from insular.accounting.influence import Relation

Accountant = Literal["pld", "rdp", "rdp-classical", "gdp-clt"]
"""Privacy loss distribution; Renyi with a tight and with the classical conversion; and the
central-limit approximation, which is an estimate."""

ACCOUNTANTS: tuple[Accountant, ...] = ("pld", "rdp", "rdp-classical", "gdp-clt")


@final
@dataclass(frozen=True, kw_only=True)
class PrivacyCost:
    """An (epsilon, delta) pair, and what it rests on."""

    epsilon: float
    """In nats; infinite if nothing is promised."""
    delta: float
    """From 0 to 1."""
    accountant: Accountant
    """Which accountant."""
    method: str
    """How it found the number."""
    version: str
    """Package and version that computed."""
    standing: Literal["guarantee", "estimate"]
    """A guarantee is never below the truth."""
    caveat: str
    """Why it is only an estimate; empty for a guarantee."""
    excess_nats: float | None
    """How far above the truth epsilon may be; None where the accountant cannot say."""
    relation: Relation | None
    """Which data sets are neighbours; None if nothing ran."""
    unit: Unit | None
    """Whose presence is hidden; None if nothing ran."""
    sampler: str
    """The sampler that was assumed."""
    noise_sources: tuple[NoiseSource, ...]
    """Where the noise came from."""


@final
@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An accountant that has no answer, in a comparison."""

    accountant: Accountant
    """Which accountant."""
    reason: str
    """Why."""

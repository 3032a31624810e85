"""What a membership attack read of shadow models. Torch-free."""

from dataclasses import dataclass
from typing import final

from insular.evidence import ArrayRef


@final
@dataclass(frozen=True, kw_only=True)
class ShadowUse:
    """The shadow models of a membership attack, and what they could say of its records."""

    n_models: int
    """Shadow models."""
    runs: bool
    """Whether they are training runs that the attack read, rather than losses that were given."""
    n_both: int
    """Records that two models or more saw, and two or more did not: both sides are known."""
    n_one_side: int
    """Records of which one side only is known."""
    least_inside: int
    """Models that saw the record which the fewest saw."""
    least_outside: int
    """Models that did not see the record which the most saw."""
    own_spread: bool
    """Whether spreads are each record's own; else one for all records, as models are few."""


@final
@dataclass(frozen=True, kw_only=True)
class ShadowBlock:
    """The losses of all records under one shadow model."""

    run: str
    """Folder of its training run."""
    sha256: str
    """Digest of that run's results."""
    ids: tuple[str, ...]
    """The records, in the order of the arrays."""
    seconds: float
    """Time that it took."""
    losses: ArrayRef | None = None
    """``loss`` in nats per token, and ``inside``: whether the model learnt from the record."""

"""What an extraction wrote. Torch-free."""

from dataclasses import dataclass
from typing import final

from insular.evidence import ArrayRef
from insular.hidden.states.extraction_spec import ExtractionSpec


@final
@dataclass(frozen=True, kw_only=True)
class MassiveCoordinate:
    """A coordinate that dwarfs the others."""

    coordinate: int
    """Its place in the state."""
    root_mean_square: float
    """Over the extracted states."""
    over_median: float | None
    """The same over the median coordinate's; None where that is 0."""


@final
@dataclass(frozen=True, kw_only=True)
class LayerFacts:
    """What dominates the states of a layer."""

    layer: int
    """The output of that block, from 0."""
    first_token_norm: float
    """Mean norm at the prompts' first tokens."""
    other_token_norm: float | None
    """Mean norm at all other tokens; None if every prompt has one token."""
    massive: tuple[MassiveCoordinate, ...]
    """Massive coordinates, largest first."""


@final
@dataclass(frozen=True, kw_only=True)
class ExtractionShard:
    """One file of an extraction."""

    input_digest: str
    """SHA-256 over settings, model and prompts: a shard of other inputs is refused."""
    places: tuple[int, ...]
    """Places of its prompts in the extraction, in the order of its rows."""
    arrays: ArrayRef
    """``states-L`` for each layer L, and the sums behind the layer's facts."""


@final
@dataclass(frozen=True, kw_only=True)
class ExtractionResult:
    """States of every prompt at some layers, by reference."""

    spec: ExtractionSpec
    """The settings."""
    input_digest: str
    """SHA-256 over settings, model and prompts."""
    model_digest: str
    """What the caller named the model by."""
    dtype: str
    """What the model computed in; the states are stored as float32, which holds it exactly."""
    device: str
    """Where it ran."""
    attention: str
    """Attention kernel."""
    hidden: int
    """Width of a state."""
    record_ids: tuple[str, ...]
    """Prompts, in the order of the rows."""
    prompt_digests: tuple[str, ...]
    """SHA-256 of each prompt's tokens."""
    lengths_tokens: tuple[int, ...]
    """Tokens of each prompt."""
    duplicate_ids: tuple[str, ...]
    """Records whose prompt came before; they have no rows if they were removed."""
    facts: tuple[LayerFacts, ...]
    """One per layer."""
    shards: tuple[ArrayRef, ...]
    """The files; empty if nothing was stored."""

    @property
    def rows_by_prompt(self) -> tuple[int, ...]:
        """Rows of each prompt: 1, or its tokens, less the first if that was dropped."""
        if self.spec.positions == "last":
            return (1,) * len(self.record_ids)
        dropped = self.spec.first_tokens == "drop"
        return tuple(length - dropped for length in self.lengths_tokens)

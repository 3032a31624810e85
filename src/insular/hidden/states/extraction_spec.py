"""Which states are extracted, and how. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular import _check
from insular.errors import InvalidArgumentError

Positions = Literal["last", "all"]
"""Each prompt's last token, or all its tokens."""
Duplicates = Literal["remove", "keep"]
"""What happens to prompts whose tokens came before. They are reported either way."""
FirstTokens = Literal["keep", "drop"]
"""What happens to prompts' first tokens among all positions: attention sinks, often far longer."""


@final
@dataclass(frozen=True, kw_only=True)
class ExtractionSpec:
    """The settings of one extraction."""

    layers: tuple[int, ...]
    """Outputs of these blocks, from 0, before any final norm."""
    positions: Positions = "last"
    """Which tokens' states."""
    first_tokens: FirstTokens = "keep"
    """What happens to first tokens; ``drop`` needs ``positions="all"``."""
    duplicates: Duplicates = "remove"
    """What happens to repeated prompts."""
    batch_tokens: int = 2048
    """Tokens in a batch, padding included; a longer prompt runs alone."""
    shard_prompts: int = 256
    """Prompts in a file; an interrupted extraction loses at most one file's work."""
    padding_side: Literal["right", "left"] = "right"
    """Where padding goes."""
    massive_factor: float = 10.0
    """A coordinate is massive if its root mean square exceeds the median one so many times."""

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            InvalidArgumentError: If a field breaks its rule.
        """
        if not self.layers or len(set(self.layers)) != len(self.layers):
            raise InvalidArgumentError(
                f"layers must be at least one distinct layer, got layers={self.layers!r}."
            )
        for layer in self.layers:
            _check.at_least(0, layers=layer)
        _check.one_of(("last", "all"), positions=self.positions)
        _check.one_of(("keep", "drop"), first_tokens=self.first_tokens)
        _check.one_of(("remove", "keep"), duplicates=self.duplicates)
        if self.first_tokens == "drop" and self.positions == "last":
            raise InvalidArgumentError(
                "first_tokens='drop' needs positions='all', got positions='last'; leave out "
                "prompts of one token instead."
            )
        _check.one_of(("left", "right"), padding_side=self.padding_side)
        _check.at_least(1, batch_tokens=self.batch_tokens, shard_prompts=self.shard_prompts)
        _check.positive_finite(massive_factor=self.massive_factor)

"""How an inversion searches: widths, margins and what it may try. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular import _check

PriorUse = Literal["auto", "always", "never"]
"""When the language model's next-token probabilities are asked for.

    auto     with noise and at positions without a state; else only where the ranking failed
    always   at every position
    never    not at all
"""


@final
@dataclass(frozen=True, kw_only=True)
class InversionSpec:
    """Settings of a token-by-token inversion."""

    first_candidates: int = 2
    """Tokens that are tried first for each hypothesis, when states are exact."""
    noisy_candidates: int = 64
    """Continuations that are tried at each position, all hypotheses together, under noise."""
    max_candidates: int = 16_384
    """Most tokens that are tried at one position, in growing rounds."""
    beam: int = 8
    """Most hypotheses that are carried on."""
    gap_beam: int = 64
    """The same where the last position had no state and only the prior could choose."""
    margin_nats: float = 10.0
    """A hypothesis this far below the best one is dropped."""
    lookback_tokens: int = 3
    """How far back a choice is opened again when nothing fits."""
    prior: PriorUse = "auto"
    """When the language model is asked."""

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            InvalidArgumentError: If a field breaks its rule.
        """
        _check.at_least(
            2, first_candidates=self.first_candidates, noisy_candidates=self.noisy_candidates
        )
        _check.at_least(self.first_candidates, max_candidates=self.max_candidates)
        _check.at_least(1, beam=self.beam, gap_beam=self.gap_beam)
        _check.at_least(0, lookback_tokens=self.lookback_tokens)
        _check.positive_finite(margin_nats=self.margin_nats)
        _check.one_of(("auto", "always", "never"), prior=self.prior)

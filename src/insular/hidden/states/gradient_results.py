"""What was taken as the Fisher's square root, and how heavy its tail is. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

FisherKind = Literal["true", "empirical"]
"""Whose labels.

    true        drawn from the model's own next-token distribution
    empirical   the data's next token: another matrix, also in scale
"""

OutlierRule = Literal["none", "clip", "unit"]
"""What is done with large gradients.

    none   nothing
    clip   rows longer than a quantile of all norms are shortened to it
    unit   every row that is not 0 is scaled to norm 1
"""


@final
@dataclass(frozen=True, kw_only=True)
class GradientSummary:
    """Facts about one layer's gradients of log p(y | h), taken before any outlier rule."""

    layer: int
    """The output of that block, from 0."""
    kind: FisherKind
    """Whose labels."""
    n_prompts: int
    """Distinct prompts."""
    labels_per_prompt: int
    """Labels drawn for each prompt; 1 for the empirical Fisher."""
    seed: int | None
    """Seed of the labels; None for the empirical Fisher."""
    trace: float
    """Trace of the Fisher: mean squared norm, in nats over squared state units."""
    top_percent_share: float
    """Share of the trace that the largest 1% of prompts (at least one) carries."""
    rule: OutlierRule
    """What was done with large gradients afterwards."""
    clip_norm: float | None
    """Bound of the clipping, a quantile of these norms; None under the other rules."""

"""Clipping: the bound on what one record, or one owner, contributes."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from insular import _check

OPACUS_STABILISER = 1e-6
"""What Opacus adds to a norm before it divides by it."""


@final
@dataclass(frozen=True, kw_only=True)
class FlatClipping:
    """One L2 bound over all coordinates of a contribution."""

    clip_norm: float
    """Bound C, in gradient units. Opacus: ``max_grad_norm``; jax_privacy: ``l2_clip_norm``."""
    stabiliser: float = 0.0
    """Added to each norm; :data:`OPACUS_STABILISER` reproduces Opacus."""

    def __post_init__(self) -> None:
        """Check the bound."""
        _check.positive_finite(clip_norm=self.clip_norm)
        _check.non_negative_finite(stabiliser=self.stabiliser)

    def clip(
        self, gradients: Float[Tensor, "unit param"]
    ) -> tuple[Float[Tensor, "unit param"], Float[Tensor, " unit"]]:
        """Clip each row, as :func:`clip_records` does.

        Args:
            gradients: One flattened gradient per record, or per owner the sum over its records.

        Returns:
            The contributions, and the norms before clipping in float64.
        """
        norms = record_norms(gradients)
        factor = (self.clip_norm / (norms + self.stabiliser)).clamp(max=1.0)
        clipped = (gradients.double() * factor.unsqueeze(1)).to(gradients.dtype)
        finite = norms.isfinite().unsqueeze(1)
        return torch.where(finite, clipped, torch.zeros_like(clipped)), norms


def clip_records(
    gradients: Float[Tensor, "record param"], *, clip_norm: float, stabiliser: float = 0.0
) -> Float[Tensor, "record param"]:
    r"""Scale each record's gradient to L2 norm at most ``clip_norm``.

    Computes :math:`g_i \min(1, C / (\lVert g_i \rVert_2 + e))` for every record i, with the
    stabiliser e.

    Guarantees:
        * Row i of the output depends on row i of the input only.
        * Every finite row has norm at most ``clip_norm``, computed in float64. Rounding back to
          the input dtype may exceed it by a factor 1 + eps.
        * A row with NaN or inf becomes 0.

    Args:
        gradients: One flattened gradient per record.
        clip_norm: Bound C, in gradient units. Finite and > 0. Opacus calls it ``max_grad_norm``,
            jax_privacy ``l2_clip_norm``.
        stabiliser: Added to each norm; :data:`OPACUS_STABILISER` reproduces Opacus.

    Returns:
        The clipped gradients: same shape, dtype and device.

    Raises:
        InvalidArgumentError: If ``clip_norm`` is not finite and > 0, or the stabiliser is negative.

    Source:
        Abadi et al. (2016), Algorithm 1. https://arxiv.org/abs/1607.00133
    """
    return FlatClipping(clip_norm=clip_norm, stabiliser=stabiliser).clip(gradients)[0]


def record_norms(gradients: Float[Tensor, "record param"]) -> Float[Tensor, " record"]:
    """L2 norm of each record's gradient, accumulated in float64.

    A float32 norm over some 10^5 coordinates can be 4e-5 low, enough to lift a clean
    control above its bound.

    Args:
        gradients: One flattened gradient per record.

    Returns:
        Norms in float64; NaN or inf where a coordinate is.
    """
    return torch.linalg.vector_norm(gradients, dim=1, dtype=torch.float64)

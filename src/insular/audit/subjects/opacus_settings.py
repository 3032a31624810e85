"""What Opacus' ``make_private`` set, read from the objects that it returned; imports no Opacus."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from insular.errors import SubjectError

STABILISER = 1e-6
"""What Opacus adds to each norm before it divides by it."""
_FLAT_OPTIMIZERS = ("DPOptimizer", "DistributedDPOptimizer")
"""Opacus' optimizers that clip a record's whole gradient to one constant bound."""


@final
@dataclass(frozen=True, kw_only=True)
class PrivacyEngineFacts:
    """What ``PrivacyEngine.make_private`` set, read from the objects that it returned."""

    clip_norm: float
    """Opacus' ``max_grad_norm``."""
    noise_multiplier: float
    """Standard deviation of the noise over the clip norm."""
    expected_batch_size: int | None
    """Divisor of the noisy sum under a mean; None where there is no divisor."""
    loss_reduction: str
    """``mean`` or ``sum``."""
    sampler: str
    """Class that draws the batches."""
    sample_rate: float
    """Inclusion probability that the accountant is told."""
    poisson: bool
    """Whether the sampler draws every record independently with that probability."""

    @property
    def clipping_text(self) -> str:
        """The clipping, for a manifest."""
        return f"Opacus flat: min(1, C / (|g| + {STABILISER:g})), C = {self.clip_norm:g}"

    @property
    def loss_text(self) -> str:
        """The reduction and its divisor, for a manifest."""
        if self.loss_reduction == "sum":
            return "sum over records, no divisor"
        return f"mean over records, divisor expected_batch_size = {self.expected_batch_size}"

    @property
    def sampler_text(self) -> str:
        """The sampler, for a manifest."""
        kind = "Poisson" if self.poisson else "not Poisson"
        return f"{self.sampler} ({kind}), accounted sample rate {self.sample_rate:.6g}"


def facts_of_privacy_engine(optimizer: Any, data_loader: Any) -> PrivacyEngineFacts:
    """Read the privacy settings from the objects that ``make_private`` returned.

    Args:
        optimizer: Opacus' optimizer.
        data_loader: The loader that draws the batches.

    Returns:
        The settings.

    Raises:
        SubjectError: If the optimizer does not clip flat to a constant bound.
    """
    _require_flat(optimizer)
    sampler = getattr(data_loader, "batch_sampler", None)
    poisson = type(sampler).__name__.endswith("UniformWithReplacementSampler")
    drawn_by = sampler if poisson else getattr(data_loader, "sampler", sampler)
    # without Poisson sampling Opacus accounts for one pass over the loader
    rate = float(sampler.sample_rate) if poisson and sampler else 1.0 / len(data_loader)
    return PrivacyEngineFacts(
        clip_norm=float(optimizer.max_grad_norm),
        noise_multiplier=float(optimizer.noise_multiplier),
        expected_batch_size=optimizer.expected_batch_size,
        loss_reduction=optimizer.loss_reduction,
        sampler=type(drawn_by).__name__,
        sample_rate=rate,
        poisson=poisson,
    )


def privacy_engine_clipper(optimizer: Any) -> Callable[[Tensor], Tensor]:
    r"""Clip as an Opacus optimizer clips: :math:`g \min(1, C / (\lVert g \rVert + 10^{-6}))`.

    Norms are taken in the gradient's dtype, per tensor of the optimizer and then over tensors, as
    Opacus does. The bound is read at each call, so that a scheduler's change is seen.

    Args:
        optimizer: Opacus' optimizer, flat clipping.

    Returns:
        A function from ``[record, param]`` gradients to clipped ones.

    Raises:
        SubjectError: If the optimizer does not clip flat to a constant bound.
    """
    _require_flat(optimizer)

    def clip(gradients: Float[Tensor, "record param"]) -> Float[Tensor, "record param"]:
        sizes = [parameter.numel() for parameter in optimizer.params]
        if sum(sizes) != gradients.shape[1]:
            raise SubjectError(
                f"gradients must have the optimizer's {sum(sizes)} coordinates, got"
                f" {gradients.shape[1]}; give it the model's trainable parameters and no others."
            )
        norms = [part.norm(2, dim=-1) for part in gradients.split(sizes, dim=1)]
        norm = torch.stack(norms, dim=1).norm(2, dim=1)
        factor = (optimizer.max_grad_norm / (norm + STABILISER)).clamp(max=1.0)
        return factor.unsqueeze(1) * gradients

    return clip


def _require_flat(optimizer: Any) -> None:
    """Refuse an optimizer whose clipping is another formula."""
    if type(optimizer).__name__ not in _FLAT_OPTIMIZERS:
        raise SubjectError(
            f"optimizer must be Opacus' {' or '.join(_FLAT_OPTIMIZERS)}, got"
            f' {type(optimizer).__name__}; call make_private with clipping="flat".'
        )

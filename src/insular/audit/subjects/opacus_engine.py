"""Opacus' per-record gradients and its clipped sum.

The only module that imports Opacus, and only when something here is called.
"""

import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from insular.errors import MissingDependencyError, SubjectError
from insular.models.structure import trainable
from insular.records.batches import TokenBatch

ForwardLosses = Callable[[nn.Module, TokenBatch, Any], tuple[Tensor, Tensor]]
"""Logits and per-record losses, with their graph, of a model, a batch and a loss's name."""


@final
@dataclass(frozen=True, kw_only=True)
class OpacusRun:
    """What one batch gave: the realised forward and each record's gradient."""

    gradients: Float[Tensor, "record param"]
    """Gradient of each record's loss, trainable parameters flattened in registration order."""
    losses: Float[Tensor, " record"]
    """Loss of each record."""
    logits: Float[Tensor, "record token vocab"]
    """Forward outputs, detached."""
    batch_gradient: Float[Tensor, " param"]
    """What the same backward left in the parameters' own gradient: the sum over records."""


@final
class OpacusGradients:
    """Per-record gradients by Opacus' ``GradSampleModule``.

    Opacus records only layers in training mode, so the layers that own a trainable parameter are
    put into it for the forward; no other layer changes its mode, a quantised one least of all.

    Guarantees:
        * A bare model comes back without hooks, with the modes and ``.grad`` that it had.
        * A model that Opacus wrapped already is used as it is, whatever its loss reduction; its
          pending per-record gradients are forgotten.

    Args:
        forward_losses: Computes ``(logits, losses)`` of a model, a batch and a loss's name.
    """

    name = "opacus"

    def __init__(self, forward_losses: ForwardLosses) -> None:
        self._forward_losses = forward_losses

    def compute(
        self, model: nn.Module, batch: TokenBatch, *, loss: str = "record_mean"
    ) -> OpacusRun:
        """Run one batch forward and backward under Opacus' hooks.

        Args:
            model: The model, or the ``GradSampleModule`` around it.
            batch: The records, in order.
            loss: Passed to ``forward_losses``.

        Returns:
            Gradients and outputs.

        Raises:
            MissingDependencyError: If Opacus is not installed.
            SubjectError: If Opacus leaves a trainable parameter without per-record gradients.
        """
        parameters = trainable(model)
        with opacus_hooks(model) as wrapped:
            logits, losses = self._forward_losses(wrapped, batch, loss)
            factor = opacus_backward(wrapped, losses)
            gradients = record_gradients(parameters, n_records=batch.n_records)
            summed = [
                torch.zeros_like(p) if p.grad is None else p.grad for p in parameters.values()
            ]
        return OpacusRun(
            gradients=gradients,
            losses=losses.detach(),
            logits=logits.detach(),
            batch_gradient=torch.cat([grad.flatten() for grad in summed]) * factor,
        )


@contextmanager
def opacus_hooks(model: nn.Module) -> Iterator[nn.Module]:
    """Attach Opacus to a model for the ``with`` block, or use what is attached already.

    Inside the block the layers that own a trainable parameter are in training mode. Gradients and
    per-record gradients start empty, and at the end ``.grad`` is what it was.

    Args:
        model: A bare model, or a ``GradSampleModule``.

    Yields:
        The ``GradSampleModule``.

    Raises:
        SubjectError: If the model carries Opacus' hooks but is not their wrapper.
    """
    wrapper = _opacus("grad_sample").GradSampleModule
    attached = isinstance(model, wrapper)
    if not attached and hasattr(model, "autograd_grad_sample_hooks"):
        raise SubjectError(
            f"model {type(model).__name__} must not carry Opacus' hooks itself;"
            " pass the GradSampleModule that make_private returned."
        )
    parameters = [p for p in model.parameters() if p.requires_grad]
    before = [p.grad for p in parameters]
    wrapped: Any = model if attached else wrapper(model, loss_reduction="sum")
    try:
        _clear(parameters)
        with _train_recorded_layers(model):
            yield wrapped
    finally:
        _clear(parameters)
        for parameter, grad in zip(parameters, before, strict=True):
            parameter.grad = grad
        if not attached:
            wrapped.to_standard_module()


@contextmanager
def hooks_disabled(wrapped: nn.Module) -> Iterator[None]:
    """Let autograd pass through a ``GradSampleModule`` without per-record gradients.

    Args:
        wrapped: The module that ``make_private`` returned.

    Yields:
        Nothing.
    """
    switch: Any = wrapped
    switch.disable_hooks()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Full backward hook is firing")
            yield
    finally:
        switch.enable_hooks()


def opacus_backward(wrapped: nn.Module, losses: Float[Tensor, " record"]) -> float:
    """Run the backward pass in the reduction that the wrapper was told.

    Args:
        wrapped: A ``GradSampleModule``.
        losses: One loss per record.

    Returns:
        What to multiply ``.grad`` by to get the sum over records.
    """
    mean = getattr(wrapped, "loss_reduction", "sum") == "mean"
    with warnings.catch_warnings():
        # A hooked layer may well take an input without gradient, such as a frozen embedding's.
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        (losses.mean() if mean else losses.sum()).backward()
    return float(len(losses)) if mean else 1.0


def record_gradients(
    parameters: dict[str, nn.Parameter], *, n_records: int
) -> Float[Tensor, "record param"]:
    """Read and flatten what Opacus left on the parameters.

    Args:
        parameters: Name to trainable parameter, in the order of the coordinates.
        n_records: Records expected, over all forwards since the last step.

    Returns:
        One row per record.

    Raises:
        SubjectError: If a parameter has none, or not one per record.
    """
    rows = []
    for name, parameter in parameters.items():
        found = getattr(parameter, "grad_sample", None)
        if isinstance(found, list):
            found = torch.cat(found)
        if found is None or found.shape[0] != n_records:
            got = "none" if found is None else str(found.shape[0])
            raise SubjectError(
                f"Opacus must give {n_records} per-record gradients for every trainable parameter,"
                f" got {got} for {name}; freeze it, or choose another engine."
            )
        rows.append(found.detach().reshape(n_records, -1))
    return torch.cat(rows, dim=1)


def opacus_clipped_sum(
    parameters: dict[str, nn.Parameter], *, clip_norm: float
) -> Float[Tensor, " param"]:
    """Let Opacus' own optimizer clip and add up the gradients that lie on the parameters.

    Args:
        parameters: Name to trainable parameter, with per-record gradients.
        clip_norm: Opacus' ``max_grad_norm``.

    Returns:
        The sum before noise, in the parameters' dtype and in their order.
    """
    values = list(parameters.values())
    optimizer = _opacus("optimizers").DPOptimizer(
        torch.optim.SGD(values, lr=1.0),
        noise_multiplier=1.0,
        max_grad_norm=clip_norm,
        expected_batch_size=1,
        loss_reduction="sum",
    )
    optimizer.clip_and_accumulate()
    clipped = torch.cat([parameter.summed_grad.flatten() for parameter in optimizer.params])
    for parameter in optimizer.params:
        del parameter.summed_grad
    return clipped


def _opacus(module: str) -> Any:
    """A module of Opacus, or the error that names the extra."""
    try:
        return importlib.import_module(f"opacus.{module}")
    except ImportError as error:
        raise MissingDependencyError(
            "engine opacus needs the package opacus, which is not installed;"
            " run pip install insular[opacus]."
        ) from error


def _clear(parameters: list[nn.Parameter]) -> None:
    """Forget gradients and per-record gradients."""
    for parameter in parameters:
        parameter.grad = None
        parameter.grad_sample = None  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def _train_recorded_layers(model: nn.Module) -> Iterator[None]:
    """Put the layers that own a trainable parameter into training mode, and no other."""
    owners = [
        module
        for module in model.modules()
        if not module.training and any(p.requires_grad for p in module.parameters(recurse=False))
    ]
    for module in owners:
        module.training = True
    try:
        yield
    finally:
        for module in owners:
            module.training = False

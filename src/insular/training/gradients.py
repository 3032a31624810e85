"""Per-record gradients of the trainable parameters: by hooks, by torch.func, by a plain loop.

hooks   one backward pass; trainable linear layers (what LoRA has); any frozen arithmetic
func    torch.func, any trainable module; the frozen arithmetic must support vmap
loop    one backward per record on the same forward; slow and obvious: the oracle
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from insular.errors import ModelError
from insular.models.structure import trainable
from insular.records.batches import TokenBatch
from insular.training._hooks import (
    Collected,
    check_reached,
    collector,
    linear_owners,
    past_its_layer,
    tapped,
)
from insular.training.losses import LossName, record_losses


@final
@dataclass(frozen=True, kw_only=True)
class RecordGradients:
    """What one batch gave: the realised forward and each record's gradient."""

    gradients: Float[Tensor, "record param"]
    """Gradient of each record's loss, parameters flattened in the order of ``trainable``."""
    losses: Float[Tensor, " record"]
    """Loss of each record, in nats."""
    logits: Float[Tensor, "record token vocab"]
    """Forward outputs, detached."""
    batch_gradient: Float[Tensor, " param"]
    """What the same backward left in the parameters' own gradient: the sum over records."""


@final
@dataclass(frozen=True, kw_only=True)
class TrainingGradients:
    """What a training step needs of one batch, and nothing else."""

    gradients: Float[Tensor, "record param"]
    """Gradient of each record's loss, bit for bit that of :class:`RecordGradients`."""
    losses: Float[Tensor, " record"]
    """Loss of each record, in nats."""


class GradientEngine(ABC):
    """Computes per-record gradients of a causal language model."""

    name: str

    @abstractmethod
    def compute(self, model: nn.Module, batch: TokenBatch, *, loss: LossName) -> RecordGradients:
        """Run one batch forward and backward.

        Args:
            model: Called as ``model(input_ids=, attention_mask=, position_ids=)``.
            batch: The records, in order.
            loss: Which per-record loss.

        Returns:
            Gradients and outputs.

        Raises:
            ModelError: If a trainable parameter cannot be covered.
        """

    def for_training(
        self, model: nn.Module, batch: TokenBatch, *, loss: LossName
    ) -> TrainingGradients:
        """Run one batch forward and backward for its per-record gradients alone.

        Guarantees:
            * Gradients and losses are bit for bit those of :meth:`compute`.

        Args:
            model: As for :meth:`compute`.
            batch: The records, in order.
            loss: Which per-record loss.

        Returns:
            Gradients and losses.
        """
        found = self.compute(model, batch, loss=loss)
        return TrainingGradients(gradients=found.gradients, losses=found.losses)


def forward_losses(
    model: nn.Module, batch: TokenBatch, loss: LossName
) -> tuple[Float[Tensor, "record token vocab"], Float[Tensor, " record"]]:
    """One forward of the batch and its per-record losses.

    Args:
        model: The causal language model.
        batch: The records.
        loss: Which per-record loss.

    Returns:
        Logits and losses, attached to the graph.
    """
    logits = model(
        input_ids=batch.input_ids,
        attention_mask=batch.attention_mask,
        position_ids=batch.position_ids,
        use_cache=False,
    ).logits
    return logits, record_losses(logits, batch.labels, loss=loss)


@final
class HookGradients(GradientEngine):
    """One backward pass; each trainable linear layer's input and output gradient give the rest.

    A record's contribution is a product over its own real rows, so neither batch size nor padding
    changes the shape of that product. Parameters used twice, or shared by two layers, accumulate.
    A parameter whose gradient does not all come from its layers is refused at each step.
    """

    name = "hooks"

    def compute(self, model: nn.Module, batch: TokenBatch, *, loss: LossName) -> RecordGradients:
        """Run forward and backward under hooks."""
        parameters = _some_trainable(model)
        layers = linear_owners(model, parameters)
        collected = Collected(parameters, batch)
        handles = [
            layer.register_forward_hook(collector(names, collected))
            for layer, names in layers.items()
        ]
        try:
            logits, losses = forward_losses(model, batch, loss)
            summed = _backward(losses.sum(), list(parameters.values()))
        finally:
            for handle in handles:
                handle.remove()
        check_reached(collected.named, summed)
        return RecordGradients(
            gradients=collected.flat,
            losses=losses.detach(),
            logits=logits.detach(),
            batch_gradient=summed,
        )

    def for_training(
        self, model: nn.Module, batch: TokenBatch, *, loss: LossName
    ) -> TrainingGradients:
        """Run forward and backward with taps: no parameter's own gradient, no kept logits."""
        parameters = _some_trainable(model)
        collected = Collected(parameters, batch)
        with tapped(linear_owners(model, parameters), collected):
            losses = forward_losses(model, batch, loss)[1]
            left = torch.autograd.grad(losses.sum(), list(parameters.values()), allow_unused=True)
        for name, found in zip(parameters, left, strict=True):
            if found is not None and found.any():
                raise past_its_layer(name)
        return TrainingGradients(gradients=collected.flat, losses=losses.detach())


@final
class LoopGradients(GradientEngine):
    """One backward per record on the same realised forward. Slow, and obviously right."""

    name = "loop"

    def compute(self, model: nn.Module, batch: TokenBatch, *, loss: LossName) -> RecordGradients:
        """Differentiate each record's loss in turn, then their sum."""
        parameters = list(_some_trainable(model).values())
        logits, losses = forward_losses(model, batch, loss)
        rows = [_backward(one, parameters, retain_graph=True) for one in losses]
        return RecordGradients(
            gradients=torch.stack(rows),
            losses=losses.detach(),
            logits=logits.detach(),
            batch_gradient=_backward(losses.sum(), parameters),
        )


def weighted_gradients(
    model: nn.Module,
    batch: TokenBatch,
    weights: Float[Tensor, "combination record"],
    *,
    loss: LossName,
) -> Float[Tensor, "combination param"]:
    r"""Gradients of :math:`\sum_r w_{kr} \ell_r` by plain autograd, on one realised forward.

    The independent oracle of a per-record engine: a few combinations check all records at once.

    Args:
        model: The causal language model.
        batch: The records.
        weights: One row per combination.
        loss: Which per-record loss.

    Returns:
        One flattened gradient per combination.

    Raises:
        ModelError: If nothing is trainable.
    """
    parameters = list(_some_trainable(model).values())
    _, losses = forward_losses(model, batch, loss)
    sums = weights.to(losses) @ losses
    return torch.stack([_backward(one, parameters, retain_graph=True) for one in sums])


@final
class FuncGradients(GradientEngine):
    """torch.func: every record is differentiated by itself, all of them in one vmapped call."""

    name = "func"

    def compute(self, model: nn.Module, batch: TokenBatch, *, loss: LossName) -> RecordGradients:
        """Vectorise the single-record gradient over the batch."""
        if loss != "record_mean":
            raise ModelError(
                f"the func engine computes each record by itself, got loss={loss!r};"
                " choose record_mean, or the hooks engine."
            )
        parameters = _some_trainable(model)
        values = {name: p.detach() for name, p in parameters.items()}
        one = _single_record(model)
        gradients, (losses, logits) = torch.func.vmap(
            torch.func.grad(one, has_aux=True), in_dims=(None, 0, 0, 0, 0)
        )(
            values,
            batch.input_ids,
            batch.attention_mask,
            batch.position_ids,
            batch.labels,
        )
        flat = torch.cat([gradients[name].flatten(1) for name in parameters], dim=1)
        return RecordGradients(
            gradients=flat, losses=losses, logits=logits, batch_gradient=flat.sum(dim=0)
        )


ENGINES: dict[str, type[GradientEngine]] = {
    engine.name: engine for engine in (HookGradients, FuncGradients, LoopGradients)
}


def _some_trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The trainable parameters, of which there must be one."""
    parameters = trainable(model)
    if not parameters:
        raise ModelError(
            f"{type(model).__name__} has no trainable parameter; add adapters or unfreeze a layer."
        )
    return parameters


def _single_record(model: nn.Module) -> Callable[..., tuple[Tensor, tuple[Tensor, Tensor]]]:
    """The loss of one record as a function of the trainable values."""

    def one(
        values: dict[str, Tensor], tokens: Tensor, mask: Tensor, positions: Tensor, labels: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        inputs = {
            "input_ids": tokens.unsqueeze(0),
            "attention_mask": mask.unsqueeze(0),
            "position_ids": positions.unsqueeze(0),
            "use_cache": False,
        }
        logits = torch.func.functional_call(model, values, args=(), kwargs=inputs).logits
        loss = record_losses(logits, labels.unsqueeze(0))[0]
        return loss, (loss.detach(), logits[0].detach())

    return one


def _backward(
    loss: Tensor, parameters: list[nn.Parameter], *, retain_graph: bool = False
) -> Float[Tensor, " param"]:
    """The flattened gradient of a scalar; parameters that it does not reach count as 0."""
    found = torch.autograd.grad(loss, parameters, retain_graph=retain_graph, allow_unused=True)
    return torch.cat(
        [
            torch.zeros_like(p).flatten() if g is None else g.flatten()
            for p, g in zip(parameters, found, strict=True)
        ]
    )

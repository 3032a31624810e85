"""A logical batch to the clipped sum of its units' gradients, one physical batch at a time."""

from collections import Counter
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from insular.models.structure import trainable
from insular.training.batching import Batching, PhysicalBatch, Units, physical_batches
from insular.training.clipping import FlatClipping
from insular.training.gradients import GradientEngine


@final
@dataclass(frozen=True, kw_only=True)
class ClippedSum:
    """What one logical batch adds up to, before noise. Private, all of it."""

    value: Float[Tensor, " param"]
    """Sum of the clipped contributions, float32, parameters in the order of ``trainable``."""
    norms: Float[Tensor, " unit"]
    """Length of each unit's contribution before clipping, float64, in the order of the units."""
    losses: Float[Tensor, " record"]
    """Loss of each record in nats, unit by unit."""
    clip_norm: float
    """Bound C that was applied to each unit."""
    n_clipped: int
    """Units whose contribution was scaled down."""
    n_non_finite: int
    """Units that had NaN or inf, and so contributed zero."""

    @property
    def n_units(self) -> int:
        """Units in the sum, those that contributed zero included."""
        return len(self.norms)

    @property
    def n_records(self) -> int:
        """Their records."""
        return len(self.losses)


def clipped_sum(
    model: nn.Module,
    units: Units,
    *,
    engine: GradientEngine,
    clipping: FlatClipping,
    batching: Batching,
) -> ClippedSum:
    r"""Sum of the units' clipped gradients.

    Computes :math:`\sum_u c(\sum_{r \in u} \nabla \ell_r)` with the clipping c, over the units u
    and their records r; each loss is the mean over the record's own targets. Units of one record
    give record-level privacy, units of all records of an owner user-level privacy.

    Guarantees:
        * A unit's part of the sum has norm at most C, up to one float32 rounding.
        * A unit with NaN or inf contributes exactly zero and is counted; a record without a target
          contributes zero.
        * Units are added in an order that the split into physical batches does not move. Where
          records are isolated and products do not round by their number of rows, the sum is bit
          for bit the same for every ``max_tokens`` that holds each record's padded width. The
          latter fails for products of a few rows only, which padding avoids; measured, not known.
        * No unit drawn gives zeros of the right size, without running the model.
        * At any time there is one physical batch of per-record gradients and one open unit.

    Args:
        model: The model in the modes in which it was audited. Its ``.grad`` is left alone.
        units: The records of each drawn unit.
        engine: Computes per-record gradients.
        clipping: Bound of a unit.
        batching: Physical batches.

    Returns:
        The sum and what led to it.

    Raises:
        InvalidArgumentError: If the units cannot be batched.
        ModelError: If the engine cannot cover a trainable parameter.
    """
    parameters = list(trainable(model).values())
    value = torch.zeros(
        sum(p.numel() for p in parameters),
        dtype=torch.float32,
        device=parameters[0].device if parameters else "cpu",
    )
    norms = torch.zeros(len(units), dtype=torch.float64, device=value.device)
    losses = torch.zeros(sum(map(len, units)))
    open_units = _OpenUnit(units)
    for batch in physical_batches(units, batching=batching):
        found = engine.for_training(model, batch.tokens, loss="record_mean")
        losses[list(batch.rows)] = found.losses.float().cpu()
        open_units.close(batch, found.gradients, clipping=clipping, value=value, norms=norms)
        del found  # its gradients must go before the next batch's come
    norms = norms.cpu()
    finite = norms.isfinite()
    return ClippedSum(
        value=value,
        norms=norms,
        losses=losses,
        clip_norm=clipping.clip_norm,
        n_clipped=int(((norms + clipping.stabiliser > clipping.clip_norm) & finite).sum()),
        n_non_finite=int((~finite).sum()),
    )


@final
class _OpenUnit:
    """Adds up the records of the one unit that is begun and not finished."""

    def __init__(self, units: Units) -> None:
        self._left = Counter({unit: len(records) for unit, records in enumerate(units)})
        self._sum: Tensor | None = None

    def close(
        self,
        batch: PhysicalBatch,
        gradients: Float[Tensor, "record param"],
        *,
        clipping: FlatClipping,
        value: Float[Tensor, " param"],
        norms: Float[Tensor, " unit"],
    ) -> None:
        """Add the contribution of each unit that is complete with this batch to ``value``."""
        for row, unit in enumerate(batch.units):
            gradient = gradients[row]
            self._sum = gradient if self._sum is None else self._sum + gradient
            self._left[unit] -= 1
            if not self._left[unit]:
                # float32 before the bound is applied: rounding to it afterwards could exceed it
                contribution, norm = clipping.clip(self._sum.float().unsqueeze(0))
                value += contribution[0]
                norms[unit] = norm[0]
                self._sum = None
        if self._sum is not None:
            self._sum = self._sum.clone()  # a view would keep the whole batch alive

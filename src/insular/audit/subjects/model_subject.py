"""A causal language model under test, with whatever computes its per-record gradients."""

from collections.abc import Callable, Sequence
from typing import Protocol, final

import torch
from torch import Tensor, nn

from insular.audit.subjects.subject import Evaluation, Subject, SubjectFacts
from insular.records.batches import TokenBatch, collate
from insular.records.tokens import TokenisedRecord


class _ModelRun(Protocol):
    """What a gradient engine returns."""

    @property
    def gradients(self) -> Tensor: ...
    @property
    def losses(self) -> Tensor: ...
    @property
    def logits(self) -> Tensor: ...
    @property
    def batch_gradient(self) -> Tensor: ...


Engine = Callable[[nn.Module, TokenBatch], _ModelRun]
"""Computes per-record gradients of a causal language model."""
Oracle = Callable[[nn.Module, TokenBatch, Tensor], Tensor]
"""Gradients of weighted sums of a batch's losses, by independent autograd."""


@final
class ModelSubject(Subject):
    """A causal language model with a per-record gradient engine.

    Args:
        name: Name of the stack.
        model: The model, with its trainable parameters.
        engine: Computes per-record gradients.
        oracle: Independent autograd on the same realised batch, or None.
        clip: The stack's clipping.
        facts: Read from the model when asked, so that they are what executes.
        pad_token_id: Token of the padding.
        padding_side: Where padding goes.
        physical_batch: Records in one forward; 0 for the whole batch. 1 isolates by construction.
        prepare: Called before each evaluation; sets the layers' modes.
    """

    def __init__(
        self,
        name: str,
        model: nn.Module,
        *,
        engine: Engine,
        oracle: Oracle | None,
        clip: Callable[[Tensor], Tensor],
        facts: Callable[[nn.Module], SubjectFacts],
        pad_token_id: int,
        padding_side: str = "right",
        physical_batch: int = 0,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.model = model
        self._engine = engine
        self._oracle = oracle
        self._clip = clip
        self._facts = facts
        self._pad_token_id = pad_token_id
        self._padding_side = padding_side
        self._physical_batch = physical_batch
        self._prepare = prepare

    def evaluate(self, records: Sequence[TokenisedRecord], *, width: int) -> Evaluation:
        """Run the engine on the batch, in physical batches."""
        batches = self._batches(records, width)
        runs = []
        for batch in batches:
            self._set_modes()
            runs.append(self._engine(self.model, batch))
        return Evaluation(
            gradients=torch.cat([run.gradients.detach() for run in runs]),
            logits=_stack([run.logits for run in runs], width, 0.0),
            losses=torch.cat([run.losses for run in runs]),
            batch_gradient=torch.stack([run.batch_gradient for run in runs]).sum(dim=0),
            mask=_stack([batch.attention_mask for batch in batches], width, False),
        )

    def forward(self, records: Sequence[TokenisedRecord], *, width: int) -> None:
        """Run the model on the batch without gradients, in the physical batches of a step.

        Args:
            records: The batch, in order.
            width: Padded length, in tokens.
        """
        for batch in self._batches(records, width):
            self._set_modes()
            with torch.no_grad():
                self.model(
                    input_ids=batch.input_ids,
                    attention_mask=batch.attention_mask,
                    position_ids=batch.position_ids,
                    use_cache=False,
                )

    def reference(
        self, records: Sequence[TokenisedRecord], weights: Tensor, *, width: int
    ) -> Tensor | None:
        """Run the oracle on the same physical batches."""
        if self._oracle is None:
            return None
        total, done = None, 0
        for batch in self._batches(records, width):
            self._set_modes()
            share = weights[:, done : done + batch.n_records]
            part = self._oracle(self.model, batch, share)
            total = part if total is None else total + part
            done += batch.n_records
        return total

    def clip(self, gradients: Tensor) -> Tensor:
        """Clip as the stack does."""
        return self._clip(gradients)

    def facts(self) -> SubjectFacts:
        """Read the model."""
        return self._facts(self.model)

    def traced_model(self) -> nn.Module | None:
        """The model, unless it runs in several forwards."""
        return None if self._physical_batch else self.model

    def mask(self, records: Sequence[TokenisedRecord], *, width: int) -> Tensor:
        """The attention mask of the batch."""
        masks = [batch.attention_mask for batch in self._batches(records, width)]
        return _stack(masks, width, False)

    def _set_modes(self) -> None:
        if self._prepare is not None:
            self._prepare()

    def _batches(self, records: Sequence[TokenisedRecord], width: int) -> list[TokenBatch]:
        """The physical batches, in order."""
        size = self._physical_batch or len(records)
        return [
            collate(
                records[start : start + size],
                pad_token_id=self._pad_token_id,
                # a record alone needs no padding, and must not learn the others' length
                width=len(records[start].tokens) if size == 1 else width,
                padding_side="left" if self._padding_side == "left" else "right",
                device=next(self.model.parameters()).device,
            )
            for start in range(0, len(records), size)
        ]


def _stack(tensors: list[Tensor], width: int, fill: float | bool) -> Tensor:
    """Concatenate along records after padding each to one width on the right."""
    padded = []
    for tensor in tensors:
        if tensor.shape[1] < width:
            extra = (tensor.shape[0], width - tensor.shape[1], *tensor.shape[2:])
            tensor = torch.cat([tensor, tensor.new_full(extra, fill)], dim=1)
        padded.append(tensor)
    return torch.cat(padded) if len(padded) > 1 else padded[0]

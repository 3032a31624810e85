"""The thing under test: a batch of records in, one gradient per record out."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from insular.errors import SubjectError
from insular.records.batches import TokenBatch, collate
from insular.records.tokens import TokenisedRecord


@final
@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a subject computed for one batch."""

    gradients: Float[Tensor, "record param"]
    """Unclipped gradient of each record, in batch order."""
    logits: Float[Tensor, "record token vocab"] | None = None
    """Forward outputs, or None where the subject shows none."""
    losses: Float[Tensor, " record"] | None = None
    """Loss of each record in nats, or None."""
    batch_gradient: Float[Tensor, " param"] | None = None
    """Gradient of the summed loss from the same backward pass, or None."""
    mask: Tensor | None = None
    """Real positions of the batch, ``[record, token]``, or None."""


@final
@dataclass(frozen=True, kw_only=True)
class SubjectFacts:
    """What a subject says of itself, read from its objects."""

    engine: str
    """What computes per-record gradients."""
    model: str
    """Name of the model, or of the callable."""
    model_digest: str = ""
    """Digest of the weights, or empty."""
    trainable: tuple[tuple[str, int], ...] = ()
    """Trainable tensors, in the order of the gradient's coordinates, with their sizes."""
    replaced: dict[str, int] | None = None
    """Classes of frozen linear layers, with their number."""
    mode: str = "unknown"
    """Training or evaluation."""
    dtype: str = "unknown"
    """Element type of the activations between layers."""
    loss: str = "unknown"
    """Loss of a record, and its divisor."""
    sampler: str = "none: the audit chooses the batch"
    """How the batch was drawn."""
    clipping: str = "min(1, C / |g|), applied by the audit"
    """Formula that clips."""
    physical_batch: int = 0
    """Largest number of records in one forward; 0 for as many as the batch has."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the packages that compute."""
    expected_operators: dict[str, int] = field(default_factory=dict)
    """Operators that one forward and backward of one physical batch must run, with their number."""


class Subject(ABC):
    """A training stack that turns a batch of records into per-record gradients.

    Guarantees:
        * Records go in and gradients come out in the same order.
    """

    name: str

    @abstractmethod
    def evaluate(self, records: Sequence[TokenisedRecord], *, width: int) -> Evaluation:
        """Run one forward and backward.

        Args:
            records: The batch, in order.
            width: Padded length, in tokens.

        Returns:
            Gradients, and what else the subject shows.

        Raises:
            SubjectError: If the stack breaks the protocol.
        """

    @abstractmethod
    def facts(self) -> SubjectFacts:
        """What the stack is, read from its objects."""

    def clip(self, gradients: Tensor) -> Tensor | None:
        """The stack's own clipping, or None where the audit must clip.

        Args:
            gradients: One row per record.

        Returns:
            Clipped gradients, or None.
        """
        del gradients
        return None

    def reference(
        self, records: Sequence[TokenisedRecord], weights: Tensor, *, width: int
    ) -> Tensor | None:
        """Gradients of weighted sums of the records' losses, by independent autograd.

        Args:
            records: The batch, in order.
            weights: One row per sum, ``[combination, record]``.
            width: Padded length, in tokens.

        Returns:
            One row per sum, or None where the stack cannot be differentiated from outside.
        """
        del records, weights, width
        return None

    def traced_model(self) -> nn.Module | None:
        """The module whose inner outputs may be observed, or None."""
        return None

    def mask(self, records: Sequence[TokenisedRecord], *, width: int) -> Tensor | None:
        """Real positions of a batch, ``[record, token]``, or None where the subject has none.

        Args:
            records: The batch, in order.
            width: Padded length, in tokens.

        Returns:
            The mask.
        """
        del records, width
        return None


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


@final
class CallableSubject(Subject):
    """Any stack, as a function from a batch to a ``[record, param]`` tensor.

    The function's only parameter is named ``batch`` (it gets a
    :class:`~insular.records.batches.TokenBatch`) or ``texts`` (it gets a list of strings).

    Args:
        function: The stack under test.
        name: Its name in evidence.
        decode: Token ids to text, for ``texts``.
        pad_token_id: Token of the padding, for ``batch``.
    """

    def __init__(
        self,
        function: Callable[..., Tensor],
        *,
        name: str,
        decode: Callable[[Sequence[int]], str] | None = None,
        pad_token_id: int = 0,
    ) -> None:
        self.name = name
        self._function = function
        self._decode = decode
        self._pad_token_id = pad_token_id
        self._size: int | None = None
        self.takes = parameter_kind(function, name=name)

    def evaluate(self, records: Sequence[TokenisedRecord], *, width: int) -> Evaluation:
        """Call the function, and check what comes back."""
        mask = None
        if self.takes == "texts":
            if self._decode is None:
                raise SubjectError(
                    f"subject {self.name} takes texts, and needs decode= to turn tokens into text."
                )
            result = self._function([self._decode(record.tokens) for record in records])
        else:
            batch = collate(records, pad_token_id=self._pad_token_id, width=width)
            mask = batch.attention_mask
            result = self._function(batch)
        return Evaluation(gradients=self._checked(result, len(records)), mask=mask)

    def facts(self) -> SubjectFacts:
        """The little that a function shows."""
        return SubjectFacts(
            engine="callable",
            model=self.name,
            trainable=(("gradient", self._size),) if self._size else (),
        )

    def _checked(self, result: object, n_records: int) -> Tensor:
        """Refuse anything but a float ``[record, param]`` tensor of constant width."""
        if not isinstance(result, Tensor) or not result.is_floating_point():
            kind = result.dtype if isinstance(result, Tensor) else type(result).__name__
            raise SubjectError(
                f"subject {self.name} must return a float tensor [record, param], got {kind}."
            )
        if result.dim() != 2 or result.shape[0] != n_records:
            raise SubjectError(
                f"subject {self.name} must return one row per record, shape"
                f" [{n_records}, param], got {list(result.shape)}; stack the records' gradients."
            )
        if self._size not in (None, result.shape[1]):
            raise SubjectError(
                f"subject {self.name} must return the same number of coordinates each time, got"
                f" {result.shape[1]} after {self._size}."
            )
        self._size = result.shape[1]
        return result.detach()


def parameter_kind(function: Callable[..., object], *, name: str) -> str:
    """Whether a callable takes a ``batch`` or ``texts``, by its parameter's name.

    Args:
        function: The callable.
        name: What the error calls it.

    Returns:
        ``"batch"`` or ``"texts"``.

    Raises:
        SubjectError: If it is neither.
    """
    if not callable(function):
        raise SubjectError(
            f"subject {name} must be callable, got {type(function).__name__};"
            " return a function from your factory."
        )
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 1 or parameters[0] not in ("batch", "texts"):
        raise SubjectError(
            f"subject {name} must take one parameter named batch or texts, got"
            f" ({', '.join(parameters)})."
        )
    return parameters[0]


def _stack(tensors: list[Tensor], width: int, fill: float | bool) -> Tensor:
    """Concatenate along records after padding each to one width on the right."""
    padded = []
    for tensor in tensors:
        if tensor.shape[1] < width:
            extra = (tensor.shape[0], width - tensor.shape[1], *tensor.shape[2:])
            tensor = torch.cat([tensor, tensor.new_full(extra, fill)], dim=1)
        padded.append(tensor)
    return torch.cat(padded) if len(padded) > 1 else padded[0]

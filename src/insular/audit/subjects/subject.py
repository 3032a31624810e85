"""The thing under test: a batch of records in, one gradient per record out."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

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
    clip_norm: float | None = None
    """Bound C of the stack's own clipping, or None where the audit chooses it."""
    stabiliser: float = 0.0
    """What the stack's own clipping adds to each norm."""
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


def evaluate_seeded(
    subject: Subject, records: Sequence[TokenisedRecord], *, width: int, seed: int
) -> Evaluation:
    """Evaluate after setting the seed, and leave the global generators as they were.

    Args:
        subject: The stack under test.
        records: The batch, in order.
        width: Padded length, in tokens.
        seed: Seed of whatever the stack draws.

    Returns:
        What the subject computed.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return subject.evaluate(records, width=width)

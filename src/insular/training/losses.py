"""Next-token losses: one that each record owns, and the batch-wide mean that couples lengths."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from insular.records.batches import IGNORED_LABEL

LossName = Literal["record_mean", "token_mean"]
LOSSES: tuple[LossName, ...] = ("record_mean", "token_mean")


def record_losses(
    logits: Float[Tensor, "record token vocab"],
    labels: Int[Tensor, "record token"],
    *,
    loss: LossName = "record_mean",
) -> Float[Tensor, " record"]:
    r"""The next-token loss of each record, in nats.

    ``record_mean`` is :math:`\ell_r = \frac{1}{n_r} \sum_t -\log p(y_{rt})` over the record's own
    :math:`n_r` targets. ``token_mean`` is what a batch-wide token mean becomes under a
    per-sample-gradient wrapper that multiplies by the batch size B:
    :math:`\ell_r = \frac{B}{\sum_s n_s} \sum_t -\log p(y_{rt})`.

    Guarantees:
        * Under ``record_mean`` a record's loss reads that record's logits and labels only.
        * Under ``token_mean`` a record's loss depends on how many tokens the others have.
        * A record without any target has loss 0 and no gradient.

    Args:
        logits: Scores of the next token at each position.
        labels: Token at each position, unshifted; ``-100`` where it is no target.
        loss: Which divisor.

    Returns:
        One loss per record.
    """
    targets = labels[:, 1:]
    # the last position predicts nothing; leaving it in saves two copies of all logits
    padded = torch.nn.functional.pad(targets, (0, 1), value=IGNORED_LABEL)
    scores = torch.nn.functional.cross_entropy(
        logits.float().flatten(0, 1),
        padded.flatten(),
        ignore_index=IGNORED_LABEL,
        reduction="none",
    ).view(padded.shape)[:, :-1]
    counts = (targets != IGNORED_LABEL).sum(dim=1)
    if loss == "record_mean":
        return scores.sum(dim=1) / counts.clamp(min=1)
    return scores.sum(dim=1) * (logits.shape[0] / counts.sum().clamp(min=1))

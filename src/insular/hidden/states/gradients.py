"""Gradients of the next token's log-probability with respect to the state: roots of the Fisher."""

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from insular import _check
from insular.errors import InvalidArgumentError, ModelError
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.gradient_results import FisherKind, GradientSummary, OutlierRule
from insular.hidden.states.kept import KeptForward
from insular.hidden.states.prompts import HeldPrompts


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HiddenGradients:
    """Gradients of log p(y | h) for each prompt and label, with what they are."""

    by_prompt: Float[Tensor, "record label hidden"]
    """The gradients, float32, after the outlier rule."""
    labels: Int[Tensor, "record label"]
    """The labels."""
    summary: GradientSummary
    """Facts from before the outlier rule."""

    @property
    def rows(self) -> Float[Tensor, "row hidden"]:
        """All gradients, a prompt's labels next to each other: F = rows' rows / number of rows."""
        return self.by_prompt.flatten(0, 1)


def hidden_gradients(
    decoder: SplitDecoder,
    prompts: HeldPrompts,
    *,
    layer: int,
    kind: FisherKind,
    labels_per_prompt: int = 1,
    seed: int | None = None,
    rule: OutlierRule = "none",
    clip_quantile: float = 0.99,
) -> HiddenGradients:
    r"""Compute :math:`g = \nabla_h \log p(y \mid h)` at each prompt's last position.

    One backward of the sum over prompts gives every prompt's gradient, since no prompt reads
    another's state. The head's share of it is :math:`W_y - \sum_v p_v W_v`, so a further label
    costs one pass through the blocks and none through the vocabulary.

    Guarantees:
        * Row i depends on prompt i and its label alone, as one backward per record would give.
        * The true Fisher's labels depend on seed, prompts and draws alone, not on the layer.
        * No parameter's gradient is written.

    Args:
        decoder: The decoder, with a plain linear head.
        prompts: Held prompts; with labels for the empirical Fisher.
        layer: Where the gradient is taken.
        kind: Labels from the model (``true``) or from the data (``empirical``).
        labels_per_prompt: Labels drawn for each prompt under ``true``.
        seed: Seed of the labels; needed under ``true``, refused otherwise.
        rule: What happens to large gradients.
        clip_quantile: Quantile of the norms that ``clip`` shortens to.

    Returns:
        The gradients.

    Raises:
        InvalidArgumentError: If an option breaks its rule or does not fit the kind.
    """
    _check.one_of(("true", "empirical"), kind=kind)
    _check.at_least(1, labels_per_prompt=labels_per_prompt)
    if kind == "true":
        labels = sampled_labels(prompts, labels_per_prompt=labels_per_prompt, seed=seed)
    else:
        labels = _data_labels(prompts, labels_per_prompt=labels_per_prompt, seed=seed)
    width = prompts.batches[0].states[prompts.layers[0]].shape[1]
    found = torch.empty(*labels.shape, width, device=labels.device)
    for kept, places in zip(prompts.batches, prompts.rows, strict=True):
        rows = torch.tensor(places, device=labels.device)
        found[rows] = label_gradients(decoder, kept, labels[rows], layer=layer)
    limited, clip_norm = limit_norms(found.flatten(0, 1), rule, clip_quantile=clip_quantile)
    squared = found.double().square().sum(dim=2).mean(dim=1).cpu().numpy()
    summary = GradientSummary(
        layer=layer,
        kind=kind,
        n_prompts=prompts.n_prompts,
        labels_per_prompt=labels_per_prompt,
        seed=seed,
        trace=float(squared.mean()),
        top_percent_share=_top_share(squared),
        rule=rule,
        clip_norm=clip_norm,
    )
    return HiddenGradients(by_prompt=limited.view_as(found), labels=labels, summary=summary)


def label_gradients(
    decoder: SplitDecoder,
    kept: KeptForward,
    labels: Int[Tensor, "record label"],
    *,
    layer: int,
) -> Float[Tensor, "record label hidden"]:
    """The gradients of one batch: one tail forward, one backward per label.

    Args:
        decoder: The decoder, with a plain linear head.
        kept: The batch's forward.
        labels: Labels of each record.
        layer: Where the gradient is taken.

    Returns:
        Gradients of log p(y | h), float32.
    """
    weight = _head_weight(decoder)
    states = kept.states[layer].detach().clone().requires_grad_()
    with torch.enable_grad():
        features = decoder.features(states, kept, layer=layer)
    with torch.no_grad():
        probabilities = torch.softmax(decoder.head(features).float(), dim=1)
        mean_row = probabilities.to(weight.dtype) @ weight
    found = []
    for column in range(labels.shape[1]):
        share = weight[labels[:, column]] - mean_row  # of the head: grad of z_y - logsumexp(z)
        more = column + 1 < labels.shape[1]
        (gradient,) = torch.autograd.grad(features, states, share, retain_graph=more)
        found.append(gradient.float())
    return torch.stack(found, dim=1)


@torch.no_grad()
def sampled_labels(
    prompts: HeldPrompts, *, labels_per_prompt: int, seed: int | None
) -> Int[Tensor, "record label"]:
    """Draw next tokens from the unchanged model.

    Args:
        prompts: Held prompts.
        labels_per_prompt: Draws of each prompt, with replacement.
        seed: Seed of the draws.

    Returns:
        The labels, in the order of the prompts.

    Raises:
        InvalidArgumentError: If there is no seed.
    """
    if seed is None:
        raise InvalidArgumentError(
            "seed must be given to draw labels from the model, got seed=None."
        )
    _check.at_least(0, seed=seed)
    device = prompts.batches[0].logits.device
    generator = torch.Generator(device).manual_seed(seed)
    # one number per prompt and draw, in prompt order: batching cannot change a label
    places = torch.rand(
        prompts.n_prompts,
        labels_per_prompt,
        generator=generator,
        device=device,
        dtype=torch.float64,
    )
    labels = torch.empty(places.shape, dtype=torch.int64, device=device)
    for kept, rows in zip(prompts.batches, prompts.rows, strict=True):
        index = torch.tensor(rows, device=device)
        ladder = torch.softmax(kept.logits.double(), dim=1).cumsum(dim=1)
        wanted = places[index] * ladder[:, -1:]
        labels[index] = torch.searchsorted(ladder, wanted, right=True).clamp(
            max=ladder.shape[1] - 1
        )
    return labels


def limit_norms(
    gradients: Float[Tensor, "row hidden"], rule: OutlierRule, *, clip_quantile: float = 0.99
) -> tuple[Float[Tensor, "row hidden"], float | None]:
    """Keep a few large gradients from carrying the Fisher.

    Args:
        gradients: One per row.
        rule: What to do.
        clip_quantile: Quantile of the norms that ``clip`` shortens to.

    Returns:
        The gradients, and the bound of the clipping if there was one.

    Raises:
        InvalidArgumentError: If the rule or the quantile is none.
    """
    _check.one_of(("none", "clip", "unit"), rule=rule)
    _check.probability(clip_quantile=clip_quantile)
    if rule == "none":
        return gradients, None
    norms = gradients.double().norm(dim=1, keepdim=True)
    safe = norms.clamp(min=torch.finfo(torch.float64).tiny)
    if rule == "unit":
        return (gradients / safe).to(gradients.dtype), None
    bound = float(np.quantile(norms.cpu().numpy(), clip_quantile))
    return (gradients * (bound / safe).clamp(max=1.0)).to(gradients.dtype), bound


def _data_labels(
    prompts: HeldPrompts, *, labels_per_prompt: int, seed: int | None
) -> Int[Tensor, "record label"]:
    """The data's next tokens, with options that would say otherwise refused."""
    if prompts.labels is None:
        raise InvalidArgumentError(
            "prompts must hold data labels for the empirical Fisher, got none; hold them with "
            "labels='last_token'."
        )
    if labels_per_prompt != 1 or seed is not None:
        raise InvalidArgumentError(
            "the empirical Fisher has one label per prompt and no seed, got "
            f"labels_per_prompt={labels_per_prompt}, seed={seed}; use kind='true' to draw labels."
        )
    return prompts.labels[:, None]


def _head_weight(decoder: SplitDecoder) -> Float[Tensor, "vocab hidden"]:
    """The head's rows, one per token."""
    head = decoder.head
    if type(head) is not nn.Linear:
        raise ModelError(
            f"the output head must be a plain linear layer for gradients, got "
            f"{type(head).__name__}; load the decoder without quantising or adapting its head."
        )
    return head.weight.detach()


def _top_share(squared: np.ndarray) -> float:
    """Share of a sum that the largest 1% of its terms carries."""
    count = max(1, len(squared) // 100)
    total = float(squared.sum())
    return float(np.sort(squared)[-count:].sum()) / total if total > 0 else 0.0

"""How far released states move the next-token distribution, one number per prompt."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from insular.errors import InvalidArgumentError
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.kept import KeptForward
from insular.hidden.states.prompts import HeldPrompts


@runtime_checkable
class Sampler(Protocol):
    """A release mechanism's draw: states in, released states out."""

    def __call__(
        self,
        states: Float[Tensor, "record hidden"],
        /,
        *,
        generator: torch.Generator,
        scale: float = 1.0,
    ) -> Float[Tensor, "record hidden"]:
        """Release states, with the noise's standard deviation multiplied by ``scale``."""
        ...


@final
@dataclass(frozen=True, kw_only=True)
class Divergences:
    """What releasing once did to each prompt."""

    kl_nats: Float64[np.ndarray, " record"]
    """KL of the released next-token distribution from the clean one; inf if scores overflow."""
    agrees: Float64[np.ndarray, " record"]
    """1 where the most likely token is the same, else 0."""
    log_likelihood_change_nats: Float64[np.ndarray, " record"] | None
    """Log-probability of the data's label, released less clean; None without labels."""
    clean_log_likelihood_nats: Float64[np.ndarray, " record"] | None
    """Log-probability of the data's label without release; None without labels."""


def seeded_generator(seed: int, draw: int, device: torch.device) -> torch.Generator:
    """The generator of one draw: the same for every scale, mechanism and layer."""
    word = np.random.SeedSequence([seed, draw]).generate_state(1, np.uint64)[0]
    return torch.Generator(device).manual_seed(int(word >> np.uint64(1)))


def released(
    prompts: HeldPrompts, sampler: Sampler, *, layer: int, seed: int, draw: int, scale: float
) -> Float[Tensor, "record hidden"]:
    """One draw of every prompt's released state."""
    states = prompts.states(layer)
    generator = seeded_generator(seed, draw, states.device)
    found = sampler(states.clone(), generator=generator, scale=scale)
    if not isinstance(found, Tensor) or found.shape != states.shape:
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise InvalidArgumentError(
            f"a mechanism must return states of shape {tuple(states.shape)}, got {shape}."
        )
    return found


@torch.no_grad()
def divergences(
    decoder: SplitDecoder,
    prompts: HeldPrompts,
    states: Float[Tensor, "record hidden"],
    *,
    layer: int,
) -> Divergences:
    """Go on from released states and compare with the unchanged model."""

    def one(kept: KeptForward, rows: Tensor) -> tuple[Tensor, Tensor]:
        return kept.logits, decoder.tail(states[rows], kept, layer=layer)

    return compare(prompts, one)


@torch.no_grad()
def compare(
    prompts: HeldPrompts, logits_of: Callable[[KeptForward, Tensor], tuple[Tensor, Tensor]]
) -> Divergences:
    """Compare two sets of scores batch by batch, so that no more than a batch is held."""
    n = prompts.n_prompts
    found: dict[str, Any] = {name: np.empty(n) for name in ("kl", "same", "change", "clean")}
    for kept, places in zip(prompts.batches, prompts.rows, strict=True):
        rows = torch.tensor(places, device=kept.logits.device)
        labels = None if prompts.labels is None else prompts.labels[rows]
        for name, values in zip(found, _distances(*logits_of(kept, rows), labels), strict=True):
            found[name][list(places)] = values.cpu().numpy()
    labelled = prompts.labels is not None
    return Divergences(
        kl_nats=found["kl"],
        agrees=found["same"],
        log_likelihood_change_nats=found["change"] if labelled else None,
        clean_log_likelihood_nats=found["clean"] if labelled else None,
    )


def _distances(
    clean: Float[Tensor, "record vocab"],
    other: Float[Tensor, "record vocab"],
    labels: Int[Tensor, " record"] | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """KL, agreement, change of the label's log-probability and its clean value, in float64."""
    log_p = torch.log_softmax(clean.double(), dim=1)
    log_q = torch.log_softmax(other.double(), dim=1)
    kl = (log_p.exp() * (log_p - log_q)).sum(dim=1).clamp(min=0.0)
    kl = torch.where(kl.isfinite(), kl, torch.full_like(kl, torch.inf))
    same = (clean.argmax(dim=1) == other.argmax(dim=1)).double()
    if labels is None:
        return kl, same, torch.zeros_like(kl), torch.zeros_like(kl)
    at = labels[:, None]
    clean_label = log_p.gather(1, at).squeeze(1)
    return kl, same, log_q.gather(1, at).squeeze(1) - clean_label, clean_label

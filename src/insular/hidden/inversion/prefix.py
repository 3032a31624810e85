"""Hypothetical prompts with their keys and values, so that one more token costs one position."""

import inspect
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers.cache_utils import DynamicCache

from insular.hidden.states.block_calls import overhearing
from insular.hidden.states.forward import SplitDecoder
from insular.models.structure import find_blocks

_CACHE_ROWS = 16_384  # positions that a batch of candidates may hold in copies of its prefix

KeyValues = tuple[tuple[Tensor, Tensor], ...]
"""Keys and values of each block, ``[hypothesis, head, token, size]``."""


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Prefixes:
    """Hypotheses of one length. Immutable: continuing one makes a new one."""

    tokens: Int[Tensor, "hypothesis token"]
    """What each says."""
    cache: KeyValues
    """Of the blocks up to the layer."""
    whole: KeyValues = ()
    """Of all blocks, for the prior; it may lag behind."""
    n_whole: int = 0
    """Tokens that ``whole`` has seen."""

    @property
    def n_tokens(self) -> int:
        """Length of the hypotheses."""
        return self.tokens.shape[1]

    def __len__(self) -> int:
        """Number of hypotheses."""
        return len(self.tokens)


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Continued:
    """States of hypotheses with one more token each."""

    parents: Int[Tensor, " candidate"]
    """Hypothesis that each continues."""
    tokens: Int[Tensor, " candidate"]
    """The token."""
    states: Float[Tensor, "candidate hidden"]
    """At the layer, at the new position."""
    cache: KeyValues
    """Keys and values of the new position alone."""

    def joined(self, other: "Continued") -> "Continued":
        """These and others."""
        pairs = zip(self.cache, other.cache, strict=True)
        return Continued(
            parents=torch.cat([self.parents, other.parents]),
            tokens=torch.cat([self.tokens, other.tokens]),
            states=torch.cat([self.states, other.states]),
            cache=tuple((torch.cat([a, c]), torch.cat([b, d])) for (a, b), (c, d) in pairs),
        )


@final
class PrefixRunner:
    """Runs hypotheses up to one layer.

    Keys and values stay where the model is; tokens, states and priors are on the CPU, where the
    search keeps its books.

    Guarantees:
        * A continued hypothesis has the state that one forward of all its tokens gives, up to
          rounding.
        * No hypothesis changes another.

    Args:
        decoder: The decoder.
        layer: The output of that block.
    """

    def __init__(self, decoder: SplitDecoder, *, layer: int) -> None:
        decoder.check_layers(layer)
        blocks = find_blocks(decoder.model)
        self.decoder = decoder
        self.layer = layer
        self._blocks = blocks.modules
        self._trunk = decoder.model.get_submodule(blocks.name.rpartition(".")[0])
        parameters = inspect.signature(self._trunk.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"

    def empty(self) -> Prefixes:
        """One hypothesis without a token."""
        return Prefixes(tokens=torch.zeros((1, 0), dtype=torch.long), cache=())

    @torch.no_grad()
    def start(self, tokens: Int[Tensor, "hypothesis token"]) -> Prefixes:
        """Hypotheses of several tokens at once."""
        cache = DynamicCache()
        self._forward(tokens, cache, past=0, layer=self.layer)
        return Prefixes(tokens=tokens.cpu(), cache=_layers(cache, self.layer + 1))

    @torch.no_grad()
    def continued(
        self,
        prefixes: Prefixes,
        parents: Int[Tensor, " candidate"],
        tokens: Int[Tensor, " candidate"],
        *,
        layers: tuple[int, ...] = (),
    ) -> Continued:
        """States of one more token after given hypotheses.

        Args:
            prefixes: The hypotheses.
            parents: Which one each candidate continues.
            tokens: With which token.
            layers: Where to read states instead, joined along the last axis; at most the layer.

        Returns:
            The states, with keys and values.
        """
        size = max(1, _CACHE_ROWS // (prefixes.n_tokens + 16))
        found: list[Continued] = []
        for start in range(0, len(tokens), size):
            rows, new = parents[start : start + size], tokens[start : start + size]
            cache = DynamicCache()
            for index, (keys, values) in enumerate(prefixes.cache):
                cache.update(keys[rows], values[rows], index)
            states = self._forward(
                new[:, None], cache, past=prefixes.n_tokens, layer=self.layer, layers=layers
            )
            last = tuple(
                (keys[:, :, -1:], values[:, :, -1:])
                for keys, values in _layers(cache, self.layer + 1)
            )
            found.append(Continued(parents=rows, tokens=new, states=states, cache=last))
        joined = found[0]
        for part in found[1:]:
            joined = joined.joined(part)
        return joined

    def chosen(
        self, prefixes: Prefixes, continued: Continued, rows: Int[Tensor, " hypothesis"]
    ) -> Prefixes:
        """The hypotheses that some continuations make."""
        parents = continued.parents[rows]
        new = continued.tokens[rows][:, None]
        old = prefixes.cache or tuple(
            (keys[:1, :, :0], values[:1, :, :0]) for keys, values in continued.cache
        )
        return Prefixes(
            tokens=torch.cat([prefixes.tokens[parents], new], dim=1),
            cache=tuple(
                (
                    torch.cat([keys[parents], new_keys[rows]], dim=2),
                    torch.cat([values[parents], new_values[rows]], dim=2),
                )
                for (keys, values), (new_keys, new_values) in zip(old, continued.cache, strict=True)
            ),
            whole=tuple((keys[parents], values[parents]) for keys, values in prefixes.whole),
            n_whole=prefixes.n_whole,
        )

    @torch.no_grad()
    def prior(
        self, prefixes: Prefixes
    ) -> tuple[Prefixes, Float[Tensor, "hypothesis vocab"] | None]:
        """Log-probabilities of the next token.

        Args:
            prefixes: The hypotheses.

        Returns:
            The hypotheses with what was computed for them, and the log-probabilities; None before
            the first token, of which the model says nothing.
        """
        if prefixes.n_tokens == 0:
            return prefixes, None
        seen = min(prefixes.n_whole, prefixes.n_tokens - 1)
        cache = DynamicCache()
        for index, (keys, values) in enumerate(prefixes.whole):
            cache.update(keys[:, :, :seen], values[:, :, :seen], index)
        tokens = prefixes.tokens[:, seen:]
        output = self._trunk(**self._arguments(tokens, cache, past=seen))
        logits = self.decoder.head(output[0][:, -1]).float()
        whole = _layers(cache, self.decoder.n_layers)
        ready = replace(prefixes, whole=whole, n_whole=prefixes.n_tokens)
        return ready, logits.log_softmax(dim=1).cpu()

    def _forward(
        self,
        tokens: Tensor,
        cache: DynamicCache,
        *,
        past: int,
        layer: int,
        layers: tuple[int, ...] = (),
    ) -> Tensor:
        """States of the last position; blocks after the layer do not run."""
        wanted = layers or (layer,)
        with overhearing(self._trunk, self._blocks, layers=wanted, stop=True) as heard:
            self._trunk(**self._arguments(tokens, cache, past=past))
        return torch.cat([heard.outputs[index][:, -1] for index in wanted], dim=1).cpu()

    def _arguments(self, tokens: Tensor, cache: DynamicCache, *, past: int) -> dict[str, object]:
        """What the trunk is called with."""
        rows, new = tokens.shape
        device = self.decoder.device
        positions = torch.arange(past, past + new, device=device)
        return {
            "input_ids": tokens.to(device),
            "attention_mask": torch.ones((rows, past + new), dtype=torch.long, device=device),
            "position_ids": positions.expand(rows, -1),
            "use_cache": True,
            self._cache_name: cache,
        }


def _layers(cache: DynamicCache, n_layers: int) -> KeyValues:
    """Keys and values of the first blocks."""
    return tuple((one.keys, one.values) for one in cache.layers[:n_layers])  # pyright: ignore

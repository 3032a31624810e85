"""A decoder cut at a layer: from tokens to the layer, and from the layer to the next token.

Layer l is the output of block l, counted from 0: transformers' ``hidden_states[l + 1]``, except
for the last layer, where transformers gives the state after the final norm and this the one before.
"""

import inspect
from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache

from insular.errors import InvalidArgumentError, ModelError
from insular.hidden.states._split_check import check_tails, probe_batch
from insular.hidden.states.block_calls import BlockCall, overhearing
from insular.hidden.states.kept import KeptForward, LastRow, kept_cache, last_columns
from insular.models.structure import find_blocks, output_head
from insular.records.batches import TokenBatch


@final
class SplitDecoder:
    """A frozen decoder that can be run up to a layer and on from there.

    Only the last position is run on: by causality no other position depends on its state, so the
    keys and values of the earlier positions are those of one forward without gradients.

    Guarantees:
        * From unchanged states the tail gives the full model's logits, up to rounding: every
          decoder is checked when it is split, and one that differs is refused.
        * Padding, on either side, does not matter.
        * One kept forward serves every layer, label and mechanism; running a tail changes nothing.

    Args:
        model: A causal decoder in eval mode, Llama-like or GPT-2-like.

    Raises:
        ModelError: If it is in training mode or cannot be run in two halves.
    """

    def __init__(self, model: nn.Module) -> None:
        blocks = find_blocks(model)
        self.model = model
        self._blocks = blocks.modules
        self._trunk = model.get_submodule(blocks.name.rpartition(".")[0])
        self._head = output_head(model)
        self._finish: tuple[nn.Module, ...] = ()
        parameters = inspect.signature(self._trunk.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        if model.training:
            raise ModelError(
                f"{type(model).__name__} must be in eval mode to be split; call eval() on it."
            )
        self._check()

    @property
    def n_layers(self) -> int:
        """Number of blocks; layers are 0 to this number less one."""
        return len(self._blocks)

    @property
    def device(self) -> torch.device:
        """Where the head is."""
        return next(self._head.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """What it computes in."""
        return next(self._trunk.parameters()).dtype

    @property
    def attention(self) -> str:
        """Attention kernel of transformers that it runs."""
        return str(getattr(self.model.config, "_attn_implementation", "unknown"))

    @property
    def head(self) -> nn.Module:
        """The output head."""
        return self._head

    @torch.no_grad()
    def states(
        self, batch: TokenBatch, *, layers: Sequence[int]
    ) -> dict[int, Float[Tensor, "record token hidden"]]:
        """States at every position, padding included; later layers are not run.

        Args:
            batch: The prompts.
            layers: Which layers, in any order.

        Returns:
            Layer to states.
        """
        self.check_layers(*layers)
        with overhearing(self._trunk, self._blocks, layers=layers, stop=True) as heard:
            self._run_trunk(batch, cache=None)
        return heard.outputs

    @torch.no_grad()
    def states_by_token(
        self, batch: TokenBatch, *, layers: Sequence[int]
    ) -> dict[int, Float[Tensor, "record token hidden"]]:
        """The same states, run token by token with a growing cache.

        Args:
            batch: The prompts.
            layers: Which layers, in any order.

        Returns:
            Layer to states.
        """
        self.check_layers(*layers)
        cache = DynamicCache()
        steps: dict[int, list[Tensor]] = {layer: [] for layer in layers}
        for token in range(batch.shape[1]):
            with overhearing(self._trunk, self._blocks, layers=layers) as heard:
                self._trunk(
                    input_ids=batch.input_ids[:, token : token + 1],
                    attention_mask=batch.attention_mask[:, : token + 1].long(),
                    position_ids=batch.position_ids[:, token : token + 1],
                    use_cache=True,
                    **{self._cache_name: cache},
                )
            for layer in layers:
                steps[layer].append(heard.outputs[layer])
        return {layer: torch.cat(found, dim=1) for layer, found in steps.items()}

    @torch.no_grad()
    def run(
        self, batch: TokenBatch, *, layers: Sequence[int], trajectories: bool = False
    ) -> KeptForward:
        """Run the prompts once and keep what is needed to go on from the layers.

        Args:
            batch: The prompts.
            layers: Layers to read or to go on from. Keys and values of later blocks are kept.
            trajectories: Whether to keep the states of all positions too.

        Returns:
            The kept forward.
        """
        self.check_layers(*layers)
        wanted = sorted({*layers, self.n_layers - 1})
        last = last_columns(batch)
        rows = torch.arange(len(last), device=last.device)
        whole: dict[int, Tensor] = {}

        def cut(layer: int, hidden: Tensor) -> Tensor:
            if trajectories and layer in layers:
                whole[layer] = hidden
            return hidden[rows, last]

        cache = DynamicCache()
        with overhearing(self._trunk, self._blocks, layers=wanted, cut=cut) as heard:
            self._run_trunk(batch, cache=cache)
        calls = {index: call for index, call in heard.calls.items() if index > min(layers)}
        take = LastRow(last, batch.shape[1])
        return KeptForward(
            batch=batch,
            last=last,
            states={layer: heard.outputs[layer] for layer in layers},
            trajectories=whole,
            logits=self.early_exit(heard.outputs[self.n_layers - 1]),
            calls=calls if trajectories else {},
            last_calls={index: call.mapped(take) for index, call in calls.items()},
            cache=kept_cache(cache, calls, last, width=batch.shape[1]),
        )

    def features(
        self, states: Float[Tensor, "record hidden"], kept: KeptForward, *, layer: int
    ) -> Float[Tensor, "record hidden"]:
        """What the head reads, when the last position goes on from these states.

        Args:
            states: States of the last position, in any dtype.
            kept: The forward of the same prompts.
            layer: Where the states stand.

        Returns:
            The head's inputs; gradients flow back to the states.
        """
        self._check_kept(kept.last_calls, layer)
        hidden = states.to(self.dtype).unsqueeze(1)
        for index in range(layer + 1, self.n_layers):
            hidden = kept.last_calls[index].run(self._blocks[index], hidden, cache=kept.cache)
        return self._finished(hidden.squeeze(1))

    def tail(
        self, states: Float[Tensor, "record hidden"], kept: KeptForward, *, layer: int
    ) -> Float[Tensor, "record vocab"]:
        """Scores of the next token, when the last position goes on from these states.

        Args:
            states: States of the last position, in any dtype.
            kept: The forward of the same prompts.
            layer: Where the states stand.

        Returns:
            The logits; gradients flow back to the states.
        """
        return self._head(self.features(states, kept, layer=layer))

    def tail_of_trajectory(
        self, states: Float[Tensor, "record token hidden"], kept: KeptForward, *, layer: int
    ) -> Float[Tensor, "record vocab"]:
        """Scores of the next token, when every position goes on from these states.

        Args:
            states: States of all positions, padding included, in any dtype.
            kept: The forward of the same prompts, with trajectories.
            layer: Where the states stand.

        Returns:
            The logits after the last real token.
        """
        self._check_kept(kept.calls, layer)
        hidden = states.to(self.dtype)
        for index in range(layer + 1, self.n_layers):
            hidden = kept.calls[index].run(self._blocks[index], hidden, cache=None)
        rows = torch.arange(len(kept.last), device=hidden.device)
        return self._head(self._finished(hidden[rows, kept.last]))

    def early_exit(self, states: Float[Tensor, "record hidden"]) -> Float[Tensor, "record vocab"]:
        """Scores of the next token, if the layer were the last: final norm and head alone.

        Args:
            states: States of any layer, in any dtype.

        Returns:
            The logits.
        """
        return self._head(self._finished(states.to(self.dtype)))

    def check_layers(self, *layers: int) -> None:
        """Refuse layers that the decoder does not have.

        Args:
            layers: Numbers of blocks, from 0.

        Raises:
            InvalidArgumentError: If there is none, or one is out of range.
        """
        if not layers or not all(isinstance(n, int) and 0 <= n < self.n_layers for n in layers):
            raise InvalidArgumentError(
                f"layers must be from 0 to {self.n_layers - 1} (the output of that block), "
                f"got layers={list(layers)!r}."
            )

    def _finished(self, hidden: Tensor) -> Tensor:
        """The parts between the last block and the head."""
        for part in self._finish:
            hidden = part(hidden)
        return hidden

    def _run_trunk(self, batch: TokenBatch, *, cache: DynamicCache | None) -> Any:
        """The decoder without its head, on a padded batch."""
        return self._trunk(
            input_ids=batch.input_ids,
            attention_mask=batch.attention_mask.long(),
            position_ids=batch.position_ids,
            use_cache=cache is not None,
            **({} if cache is None else {self._cache_name: cache}),
        )

    def _check_kept(self, calls: dict[int, BlockCall], layer: int) -> None:
        """Refuse a layer that the kept forward was not made for."""
        self.check_layers(layer)
        if layer + 1 < self.n_layers and layer + 1 not in calls:
            raise InvalidArgumentError(
                f"layer must be one that the forward was kept for, got layer={layer}; name it in "
                "run(layers=...), with trajectories=True to go on from every position."
            )

    def _check(self) -> None:
        """Find what lies between the last block and the head, then run in one piece and in two."""
        try:
            vocabulary = int(self._head.weight.shape[0])  # pyright: ignore
            batch = probe_batch(vocabulary, self.device)
            with (
                torch.no_grad(),
                overhearing(self._trunk, self._blocks, layers=[0]) as heard,
            ):
                logits = self.model(
                    input_ids=batch.input_ids,
                    attention_mask=batch.attention_mask.long(),
                    position_ids=batch.position_ids,
                    use_cache=False,
                ).logits
            self._finish = tuple(self._trunk.get_submodule(part) for part in heard.after)
            check_tails(self, batch, logits)
        except ModelError:
            raise
        except (TypeError, AttributeError, RuntimeError, ValueError, LookupError) as error:
            raise ModelError(
                f"{type(self.model).__name__} cannot be run from a layer on "
                f"({type(error).__name__}); insular splits Llama-like and GPT-2-like decoders."
            ) from error

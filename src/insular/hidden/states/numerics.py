"""A certificate of the states' numerics: batching, padding, caching and bfloat16, one at a time."""

import copy
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.numerics_results import LayerRoom, NumericsResult, StateShift, Way
from insular.hidden.states.prompts import distinct
from insular.records.batches import PaddingSide, TokenBatch, collate
from insular.records.tokens import TokenisedRecord

Trajectories = list[dict[int, Float[Tensor, "_ hidden"]]]
"""For each record, layer to the states of its real tokens."""


def certify_numerics(
    decoder: SplitDecoder,
    records: Sequence[TokenisedRecord],
    *,
    layers: Sequence[int],
    pad_token_id: int = 0,
    extra_padding_tokens: int = 16,
    bfloat16: bool = True,
) -> NumericsResult:
    """Compute the same states in several ways and measure how far they move.

    The reference is each record alone, without padding, in one pass.

    Guarantees:
        * Only one thing differs from the reference at a time, besides the shapes it brings.
        * The decoder is unchanged: bfloat16 runs in a copy.

    Args:
        decoder: The decoder.
        records: A few records of different lengths; duplicates are left out.
        layers: Which layers.
        pad_token_id: Token id that fills up.
        extra_padding_tokens: Padding added to a record alone.
        bfloat16: Whether to copy the model into bfloat16 too.

    Returns:
        Shifts, the room between distinct records, and the path that they hold for.

    Raises:
        InvalidArgumentError: If fewer than two distinct records are given.
    """
    _check.at_least(1, extra_padding_tokens=extra_padding_tokens)
    decoder.check_layers(*layers)
    kept, _ = distinct(records)
    if len(kept) < 2:
        raise InvalidArgumentError(
            f"records must hold at least 2 distinct prompts, got {len(kept)}; give more."
        )

    ways = _ways(
        decoder,
        kept,
        layers,
        pad_token_id=pad_token_id,
        extra_padding_tokens=extra_padding_tokens,
        bfloat16=bfloat16,
    )
    reference = ways["repeat"]()
    shifts = [
        _shift(way, layer, reference, found)
        for way, compute in ways.items()
        for found in [compute()]
        for layer in layers
    ]
    return NumericsResult(
        n_records=len(kept),
        batch_tokens=len(kept) * max(len(one.tokens) for one in kept),
        extra_padding_tokens=extra_padding_tokens,
        device=str(decoder.device),
        dtype=str(decoder.dtype).removeprefix("torch."),
        attention=decoder.attention,
        threads=torch.get_num_threads(),
        shifts=tuple(shifts),
        rooms=tuple(_room(layer, reference) for layer in layers),
        tail_max_abs_logit=_tail_shift(decoder, kept, layers, pad_token_id),
    )


def _ways(
    decoder: SplitDecoder,
    records: Sequence[TokenisedRecord],
    layers: Sequence[int],
    *,
    pad_token_id: int,
    extra_padding_tokens: int,
    bfloat16: bool,
) -> dict[Way, Callable[[], Trajectories]]:
    """Every way to compute the states of the records; the first one is the reference."""

    def alone(one: TokenisedRecord, side: PaddingSide = "right", more: int = 0) -> TokenBatch:
        return _batch([one], decoder, pad_token_id, side=side, width=len(one.tokens) + more)

    def each(side: PaddingSide = "right", more: int = 0) -> Trajectories:
        return [_states(decoder, alone(one, side, more), layers)[0] for one in records]

    def together(side: PaddingSide) -> Trajectories:
        return _states(decoder, _batch(records, decoder, pad_token_id, side=side), layers)

    def by_token() -> Trajectories:
        found = [decoder.states_by_token(alone(one), layers=layers) for one in records]
        return [{layer: states[layer][0] for layer in layers} for states in found]

    def in_bfloat16() -> Trajectories:
        coarse = SplitDecoder(copy.deepcopy(decoder.model).bfloat16())
        return [_states(coarse, alone(one), layers)[0] for one in records]

    ways: dict[Way, Callable[[], Trajectories]] = {
        "repeat": each,
        "batched": lambda: together("right"),
        "batched_left": lambda: together("left"),
        "padded": lambda: each("right", extra_padding_tokens),
        "padded_left": lambda: each("left", extra_padding_tokens),
        "incremental": by_token,
    }
    if bfloat16:
        ways["bfloat16"] = in_bfloat16
    return ways


def _batch(
    records: Sequence[TokenisedRecord],
    decoder: SplitDecoder,
    pad_token_id: int,
    *,
    side: PaddingSide = "right",
    width: int | None = None,
) -> TokenBatch:
    """Records as a batch where the decoder is."""
    return collate(
        records, pad_token_id=pad_token_id, width=width, padding_side=side, device=decoder.device
    )


def _states(decoder: SplitDecoder, batch: TokenBatch, layers: Sequence[int]) -> Trajectories:
    """The real tokens' states of each record."""
    found = decoder.states(batch, layers=layers)
    return [
        {layer: found[layer][row][batch.attention_mask[row]] for layer in layers}
        for row in range(batch.n_records)
    ]


def _shift(way: Way, layer: int, reference: Trajectories, found: Trajectories) -> StateShift:
    """How far one layer's states moved."""
    pairs = [(one[layer], other[layer]) for one, other in zip(reference, found, strict=True)]
    moves = [(one.double() - other.double(), one.double()) for one, other in pairs]
    return StateShift(
        way=way,
        layer=layer,
        max_abs=max(float(move.abs().max()) for move, _ in moves),
        max_relative=max(float((move.norm(dim=1) / one.norm(dim=1)).max()) for move, one in moves),
        n_bitwise_equal=sum(torch.equal(one, other.to(one.dtype)) for one, other in pairs),
    )


def _room(layer: int, reference: Trajectories) -> LayerRoom:
    """The smallest distance of two records' last states."""
    last = torch.stack([states[layer][-1] for states in reference]).double()
    distances = torch.cdist(last, last) / last.norm(dim=1)[:, None]
    distances.fill_diagonal_(torch.inf)
    return LayerRoom(layer=layer, nearest_relative=float(distances.min()))


@torch.no_grad()
def _tail_shift(
    decoder: SplitDecoder,
    records: Sequence[TokenisedRecord],
    layers: Sequence[int],
    pad_token_id: int,
) -> float:
    """Largest difference between a tail's logits and those of the same batch's full forward."""
    kept = decoder.run(_batch(records, decoder, pad_token_id), layers=layers)
    tails = [decoder.tail(kept.states[layer], kept, layer=layer) for layer in layers]
    return max(float((tail - kept.logits).abs().max()) for tail in tails)

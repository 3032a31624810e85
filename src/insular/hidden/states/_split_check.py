"""The check that a decoder can be cut: a small padded batch, in one piece and in two."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from insular.errors import ModelError
from insular.records.batches import TokenBatch, collate
from insular.records.tokens import TokenisedRecord

if TYPE_CHECKING:
    from insular.hidden.states.forward import SplitDecoder

_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6}
_COARSE_TOLERANCE = 0.1  # bfloat16 and float16


def probe_batch(vocabulary: int, device: torch.device) -> TokenBatch:
    """Two records of 5 and 3 tokens that spread over the vocabulary, padded right."""
    tokens = [int(n) for n in torch.linspace(1, vocabulary - 1, 5)]
    records = [
        TokenisedRecord(id="long", owner="long", tokens=tuple(tokens)),
        TokenisedRecord(id="short", owner="short", tokens=tuple(tokens[:1:-1])),
    ]
    return collate(records, pad_token_id=0, device=device)


@torch.no_grad()
def check_tails(decoder: "SplitDecoder", batch: TokenBatch, logits: Tensor) -> None:
    """Refuse a decoder whose tails do not give the full model's logits."""
    layers = sorted({0, decoder.n_layers // 2, decoder.n_layers - 1})
    kept = decoder.run(batch, layers=layers)
    expected = logits[torch.arange(batch.n_records, device=logits.device), kept.last].float()
    tails = [decoder.tail(kept.states[layer], kept, layer=layer) for layer in layers]
    shift = max(float((tail.float() - expected).abs().max()) for tail in tails)
    spread = float(expected.std())
    if not shift <= _TOLERANCE.get(decoder.dtype, _COARSE_TOLERANCE) * spread:
        raise ModelError(
            f"{type(decoder.model).__name__} cannot be run from a layer on: its logits move by "
            f"{shift:.2g} of a spread of {spread:.2g}; insular splits Llama-like and GPT-2-like "
            "decoders whose head follows the final norm."
        )

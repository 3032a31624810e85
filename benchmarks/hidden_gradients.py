"""What per-record gradients of the hidden state cost, over a plain backward to the same layer.

Plain: one forward of the prompts, then one backward of the batch's mean loss to the layer at all
positions, as ``loss.backward()`` would run it. Ours: the kept forward, then the tail of the last
position and one backward that gives every record's own gradient. Medians of interleaved
repetitions, one process.

    python benchmarks/hidden_gradients.py --prompts 16 --tokens 32 --repeats 5
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.gradients import hidden_gradients
from insular.hidden.states.prompts import HeldPrompts, hold_prompts
from insular.models.loading import Decoder, load_decoder
from insular.models.structure import find_blocks
from insular.records import read_packaged
from insular.records.batches import TokenBatch
from insular.records.tokens import TokenisedRecord


def prompts_of(decoder: Decoder, *, count: int, tokens: int) -> list[TokenisedRecord]:
    """Windows of Wikipedia, one token longer than the prompt: the label."""
    text = "\n".join(one.text for one in read_packaged("wikipedia").records[:150])
    ids = decoder.encode(text)
    size = tokens + 1
    return [
        TokenisedRecord(id=str(n), owner=str(n), tokens=tuple(ids[size * n : size * (n + 1)]))
        for n in range(count)
    ]


def plain_backward(model: nn.Module, batch: TokenBatch, labels: Tensor, *, layer: int) -> Tensor:
    """One forward and the mean loss's gradient at the layer, all positions."""
    leaf: list[Tensor] = []

    def hook(_: nn.Module, __: object, output: Tensor) -> Tensor:
        leaf.append(output.detach().requires_grad_())
        return leaf[0]

    handle = find_blocks(model).modules[layer].register_forward_hook(hook)
    try:
        logits = model(
            input_ids=batch.input_ids,
            attention_mask=batch.attention_mask.long(),
            position_ids=batch.position_ids,
            use_cache=False,
            logits_to_keep=1,
        ).logits[:, -1]
    finally:
        handle.remove()
    loss = nn.functional.cross_entropy(logits.float(), labels)
    return torch.autograd.grad(loss, leaf[0])[0]


def interleaved(runs: dict[str, Callable[[], object]], *, repeats: int) -> dict[str, float]:
    """Median seconds of each call, after one warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(repeats + 1):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            if repeat:
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(found) for name, found in seconds.items()}


def main() -> None:
    """Print one line per layer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--layers", type=int, nargs="+", default=[3, 15, 27])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    loaded = load_decoder("smollm2")
    decoder = SplitDecoder(loaded.model)
    records = prompts_of(loaded, count=options.prompts, tokens=options.tokens)

    def hold(layers: list[int]) -> HeldPrompts:
        return hold_prompts(
            decoder,
            records,
            layers=layers,
            labels="last_token",
            batch_tokens=options.prompts * options.tokens,
        )

    held = hold(options.layers)
    (kept,) = held.batches
    assert held.labels is not None
    labels = held.labels[list(held.rows[0])]
    print(f"{options.prompts} prompts x {options.tokens} tokens, {options.threads} thread(s)")
    print(f"{'layer':>5}{'plain s':>10}{'ours s':>10}{'ratio':>8}{'held: ours s':>14}{'ratio':>8}")
    for layer in options.layers:

        def ours(layer: int = layer) -> object:
            return hidden_gradients(decoder, hold([layer]), layer=layer, kind="empirical")

        def again(layer: int = layer) -> object:
            return hidden_gradients(decoder, held, layer=layer, kind="empirical")

        def plain(layer: int = layer) -> object:
            return plain_backward(loaded.model, kept.batch, labels, layer=layer)

        found = interleaved({"plain": plain, "ours": ours, "again": again}, repeats=options.repeats)
        print(
            f"{layer:>5}{found['plain']:>10.3f}{found['ours']:>10.3f}"
            f"{found['ours'] / found['plain']:>8.2f}{found['again']:>14.3f}"
            f"{found['again'] / found['plain']:>8.2f}"
        )


if __name__ == "__main__":
    main()

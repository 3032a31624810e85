"""The private training loop spelled out, on a tiny decoder made on the fly: each part an object.

    python private_loop.py

Replace any line of `main` by your own object with the same methods. `insular train` does the same
through `insular.training.loop.PrivateLoop`, after an audit of the stack and with checkpoints.
"""

import tempfile
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from insular.accounting import spend
from insular.mechanisms.keystream import SecureStream
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import trainable
from insular.records import TokenisedRecord
from insular.training.batching import Batching
from insular.training.clipping import FlatClipping
from insular.training.contributions import clipped_sum
from insular.training.executed_log import ExecutedLog
from insular.training.gradients import HookGradients
from insular.training.noise import GaussianNoise
from insular.training.optimisers import DpAdamW
from insular.training.sampled_events import event_of
from insular.training.sampling import PoissonSampler

STEPS, OWNERS, BATCH, CLIP_NORM, NOISE_MULTIPLIER = 20, 200, 16, 0.1, 2.0


def main() -> None:
    """Twenty private steps, owner by owner, and what they cost by the log alone."""
    config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2)
    model = add_lora(LlamaForCausalLM(config), LoraSpec(rank=2)).eval()
    dice = torch.Generator().manual_seed(0)
    units = [  # two records of each owner, as token ids
        tuple(
            TokenisedRecord(
                id=f"{owner}.{i}",
                owner=str(owner),
                tokens=tuple(torch.randint(2, 32, (12,), generator=dice).tolist()),
            )
            for i in range(2)
        )
        for owner in range(OWNERS)
    ]
    stream = SecureStream()
    sampler = PoissonSampler(OWNERS, sampling_prob=BATCH / OWNERS, stream=stream)
    engine, clipping = HookGradients(), FlatClipping(clip_norm=CLIP_NORM)
    batching = Batching(max_tokens=512, pad_token_id=0)
    noise, noise_std = GaussianNoise(stream), NOISE_MULTIPLIER * CLIP_NORM
    optimiser = DpAdamW(trainable(model), noise_std=noise_std, divisor=BATCH)
    log = ExecutedLog.create(Path(tempfile.mkdtemp()) / "releases.jsonl")
    for step in range(STEPS):
        drawn = [units[number] for number in sampler.draw(step).units]  # may be empty
        total = clipped_sum(model, drawn, engine=engine, clipping=clipping, batching=batching)
        hidden = noise.draw(total.value.numel(), noise_std=noise_std, step=step)
        log.append(  # on disk before the noisy sum is used
            start=1, step=step, sampler=sampler.facts, slot=None, n_units=len(drawn),
            n_records=sum(map(len, drawn)), clip_norm=total.clip_norm, influence=1.0,
            noise_std=hidden.std, noise_rms=hidden.rms, n_params=total.value.numel(),
            divisor=BATCH, noise_source=noise.source,
        )  # fmt: skip
        optimiser.step(noise.add(total.value, hidden) / BATCH, learning_rate=1e-2)
    ran = event_of(
        sampler.facts, n_releases=len(log.entries()), noise_multiplier=NOISE_MULTIPLIER,
        relation="add_or_remove_one", unit="owner", noise_source=noise.source,
    )  # fmt: skip
    cost = spend(ran, delta=1e-4)
    print(f"{len(log.entries())} releases: epsilon {cost.epsilon:.2f} at delta 1e-4, by owner")


if __name__ == "__main__":
    main()

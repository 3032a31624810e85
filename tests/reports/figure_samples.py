"""One drawing of every kind, of about the size that an audit draws; a new kind joins the table."""

from typing import Any

from insular.reports import (
    ArmRatio,
    CensusBar,
    FrontierPoint,
    GrowthPoint,
    IndexPoint,
    InfluencePoint,
    InterventionBar,
    LayerCell,
    PowerPoint,
    PredictedPoint,
    SensitivityPoint,
    TimeBar,
    TradeoffPoint,
    arms_figure,
    census_figure,
    frontier_figure,
    growth_figure,
    index_figure,
    influence_figure,
    intervention_figure,
    layer_map_figure,
    power_figure,
    predicted_figure,
    sensitivity_figure,
    time_figure,
    tradeoff_figure,
)

from .attack_figure_samples import ATTACKS
from .sample import ODD, Sample
from .training_figure_samples import TRAINING

RADII = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 10.0)
BLOCK = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
OPT = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2")


def screen(n: int, radii: tuple[float, ...] = RADII, *, most: float = 1.4) -> tuple[Any, ...]:
    """A screen whose last candidate has the largest ratio at the first clip norm."""
    return tuple(
        SensitivityPoint(
            candidate=f"record-{i}",
            clip_norm=radius,
            ratio=(ratio := most * ((7 * i + 3 * k) % n + 1) / n if k or i < n - 1 else most),
            exceeds=ratio > 1.0001,
            selected=i == n - 1 and k == 0,
        )
        for k, radius in enumerate(radii)
        for i in range(n)
    )


def network(n_layers: int, kinds: tuple[str, ...], *, text: bool = False) -> tuple[Any, ...]:
    """A map on which every seventh tile is blank and every eleventh is an origin."""
    return tuple(
        LayerCell(
            layer=layer,
            kind=kind,
            value=None if (n := layer * len(kinds) + k) % 7 == 0 else n % 17 / 16,
            text=str(n % 17) if text else "",
            origin=n % 11 == 0,
        )
        for layer in range(n_layers)
        for k, kind in enumerate(kinds)
    )


CENSUS = {
    "shade": "records with a foreign column, of 16",
    "ticks": ((0, "0"), (0.5, "8"), (1, "16")),
}
CHANGE = {
    "shade": "relative change of a layer's output",
    "ticks": ((0, "≤ 10⁻⁸"), (0.25, "10⁻⁶"), (0.5, "10⁻⁴"), (0.75, "10⁻²"), (1, "1")),
    "origin": "originates: input unchanged, output changed",
}
SAMPLES = {
    **TRAINING,
    **ATTACKS,
    "influence": Sample(
        influence_figure,
        (
            InfluencePoint(stack="int8 & <co>", change="content", distance=0.43, coupled=True),
            InfluencePoint(stack="int8 & <co>", change="shape", distance=2e-6, coupled=False),
            InfluencePoint(stack=ODD, change="content", distance=0.0, coupled=False),
        ),
        {},
    ),
    "time": Sample(
        time_figure,
        (
            TimeBar(stack="int8", seconds=1.6, outcome="bad", word="coupled"),
            TimeBar(stack=ODD, seconds=0.8, outcome="good", word="isolated"),
            TimeBar(stack="nf4", seconds=3.2, outcome="open", word="undecided"),
        ),
        {},
    ),
    "sensitivity": Sample(
        sensitivity_figure,
        screen(32),
        {"clipped_shares": {radius: 1 - i / 8 for i, radius in enumerate(RADII)}},
    ),
    "arms": Sample(
        arms_figure,
        tuple(
            ArmRatio(stack=stack, clip_norm=radius, ratio=ratio, exceeds=ratio > 1.0001)
            for stack, *ratios in (
                ("native", 1.312094, 1.0512),
                ("singleton", 1.000001, 0.999999),
                (ODD, 1.0, 0.83),
            )
            for radius, ratio in zip((0.01, 1.0), ratios, strict=True)
        ),
        {},
    ),
    "growth": Sample(
        growth_figure,
        tuple(
            GrowthPoint(stack=stack, n_baseline=m, ratio=1 + step * m, exceeds=step > 0)
            for m in (1, 3, 7, 15, 31)
            for stack, step in (("native", 0.027), ("native", 0.011), (ODD, 0.0))
        ),
        {},
    ),
    "census": Sample(
        census_figure,
        tuple(
            CensusBar(physical_batch=batch, share=share, percent=percent)
            for batch, *percents in (
                (2, 12.3, 33, 31),
                (4, 22.0, 51, 53),
                (8, 33.1, 64, 66),
                (16, 44, 81, 80),
            )
            for share, percent in zip(
                (ODD, "foreign outlier columns", "correction work saved by record ownership"),
                percents,
                strict=True,
            )
        ),
        {},
    ),
    "census map": Sample(layer_map_figure, network(30, BLOCK), CENSUS),
    "localisation map": Sample(layer_map_figure, network(30, (*BLOCK[:6], ODD)), CHANGE),
    "small map": Sample(layer_map_figure, network(12, OPT, text=True), CENSUS),
    "intervention": Sample(
        intervention_figure,
        tuple(
            InterventionBar(intervention=name, ratio=ratio, exceeds=ratio > 1.0001)
            for name, ratio in (
                ("union in down_proj only", 1.31012),
                ("masks of D forced in forward and backward", 1.0000004),
                (ODD, 1.352),
            )
        ),
        {"native": 1.312094},
    ),
    "power": Sample(
        power_figure,
        tuple(
            PowerPoint(procedure=name, draws=10**k, epsilon=(4.7 * (1 - 1 / k**power)))
            for name, power in ((ODD, 2), ("one (epsilon, delta) point", 1))
            for k in range(2, 11)
        ),
        {"claimed": 4.3772, "true": 4.7103},
    ),
    "tradeoff": Sample(
        tradeoff_figure,
        tuple(
            TradeoffPoint(
                curve=name, false_positive_rate=rate, true_positive_rate=min(1.0, times * rate)
            )
            for name, times in ((ODD, 2.36), ("measured", 7.0))
            for rate in (1e-4, 1e-3, 0.01, 0.1, 1.0)
        ),
        {"marked": 0.01},
    ),
    "frontier": Sample(
        frontier_figure,
        tuple(
            FrontierPoint(family=name, agreement=0.9 - 0.1 * k, top1=1 - (k / 6) ** power)
            for name, power in ((ODD, 0.6), ("low rank", 4), ("full covariance", 1), ("none", 2))
            for k in range(7)
        ),
        {"agreement": 0.5, "top1": 0.1},
    ),
    "index": Sample(
        index_figure,
        tuple(
            IndexPoint(family=name, recall=k / 6, told=(k / 6) ** power)
            for name, power in ((ODD, 1), ("isotropic", 0.2), ("clean", 0.1))
            for k in range(7)
        ),
        {"chance": 1 / 300},
    ),
    "predicted": Sample(
        predicted_figure,
        tuple(
            PredictedPoint(family=name, predicted=k / 6, measured=(k / 6) ** power)
            for name, power in ((ODD, 1), ("full covariance", 0.8), ("diagonal", 1.3))
            for k in range(7)
        ),
        {},
    ),
}

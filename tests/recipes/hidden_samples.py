"""Tiny sweeps over release mechanisms, and results of sweeps made by hand."""

import json
import random
from pathlib import Path
from typing import Any

from insular.hidden.geometry.results import GeometryNumber, HiddenGeometry, NullRange
from insular.hidden.retrieval.results import RetrievalResult, retrieval_rate
from insular.hidden.states.extraction_results import LayerFacts, MassiveCoordinate
from insular.hidden.states.gradient_results import GradientSummary
from insular.hidden.utility.intervals import MeanInterval
from insular.hidden.utility.results import UtilityResult
from insular.recipes.hidden.spec import SweepSpec
from insular.recipes.hidden.sweep.results import LayerResult, SweepCell, SweepResult
from insular.recipes.hidden.sweep.winners import winners
from recipes.tiny_run import tiny_folder

SECRET = "Zanzibar"
"""A word of every record."""


def prompts_file(path: Path, *, n_records: int = 160) -> Path:
    """Texts of 10 to 14 words, all different, each with the secret word."""
    rng = random.Random(3)
    rows = [
        {
            "id": f"T-{i}",
            "text": " ".join([SECRET, *(f"w{rng.randrange(60)}" for _ in range(9 + i % 5))]),
        }
        for i in range(n_records)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def tiny_sweep(folder: Path, **changes: object) -> SweepSpec:
    """Settings of a sweep of a second, its model and text made in ``folder``."""
    model, text = folder / "model", folder / "prompts.jsonl"
    if not model.exists():
        tiny_folder(model)
    if not text.exists():
        prompts_file(text)
    given: dict[str, object] = {
        "model": str(model),
        "text": str(text),
        "id_field": "id",
        "layers": (0,),
        "mechanisms": ("isotropic", "complement", "dropout"),
        "kl_nats": (0.003, 0.03),
        "tokens": 12,
        "bank": 60,
        "queries": 30,
        "fit": 60,
        "calibration": 20,
        "evaluation": 20,
        "rank": 8,
    }
    return SweepSpec(**{**given, **changes})  # pyright: ignore[reportArgumentType]


def attack_of(found: int, *, attacker: str = "euclidean", n: int = 100) -> RetrievalResult:
    """An attack that found so many of its queries among 300 candidates."""
    rate = retrieval_rate(found, n, significance=0.05)
    return RetrievalResult(
        attacker=attacker,
        n_queries=n,
        n_candidates=300,
        n_duplicates=0,
        top_1=rate,
        top_1_untied=rate,
        top_10=rate,
        median_rank=2.0,
        n_tied=0,
        chance=1 / 300,
        n_recomputed=0,
    )


def interval(mean: float, *, reach: float = 0.1) -> MeanInterval:
    """A mean, with an interval of ``reach`` of it on both sides."""
    return MeanInterval(
        mean=mean,
        low=mean * (1 - reach),
        high=mean * (1 + reach),
        standard_error=mean * reach / 2,
        n=50,
        significance=0.05,
        method="normal",
    )


def cell_of(mechanism: str, kl: float, **changes: Any) -> SweepCell:
    """A cell that reached its KL; ``found`` has counts of 100 by attacker, in turn."""
    layer = changes.pop("layer", 3)
    found: tuple[int, ...] = changes.pop("found", (80, 80, 90))
    found = tuple(found[i % len(found)] for i in range(3))
    names = ("euclidean", "subspace", "aware")
    given: dict[str, Any] = {
        "layer": layer,
        "mechanism": mechanism,
        "gaussian": mechanism not in ("quantization", "dropout"),
        "target_kl_nats": kl,
        "repeat": 0,
        "status": "reached",
        "scale": 1.5,
        "scale_error": 0.1,
        "calibrated_kl_nats": kl,
        "utility": UtilityResult(
            layer=layer,
            scale=1.5,
            n_prompts=50,
            draws=1,
            seed=1,
            prompts_digest="0" * 64,
            kl_nats=interval(changes.pop("measured", kl)),
            kl_median_nats=kl,
            agreement=interval(changes.pop("agreement", 0.8)),
            perplexity=None,
        ),
        "attacks": tuple(attack_of(n, attacker=name) for n, name in zip(found, names, strict=True)),
    }
    return SweepCell(**{**given, **changes})


def missed_cell(mechanism: str, kl: float, status: str, **changes: Any) -> SweepCell:
    """A cell that was not attacked."""
    given: dict[str, Any] = {
        "layer": 3,
        "mechanism": mechanism,
        "gaussian": False,
        "target_kl_nats": kl,
        "repeat": 0,
        "status": status,
    }
    return SweepCell(**{**given, **changes})


def geometry_number(value: float) -> GeometryNumber:
    """A number whose halves and null are numbers of their own."""
    return GeometryNumber(
        value=value,
        halves=(value * 0.91, value * 0.93),
        null=NullRange(
            mean=value / 2,
            lowest=value * 0.41,
            highest=value * 0.62,
            halves_mean=value / 3,
            n_simulations=19,
        ),
    )


def layer_of(layer: int) -> LayerResult:
    """A layer before any release."""
    return LayerResult(
        layer=layer,
        facts=LayerFacts(
            layer=layer,
            first_token_norm=120.0,
            other_token_norm=10.0,
            massive=(MassiveCoordinate(coordinate=3, root_mean_square=50.0, over_median=40.0),),
        ),
        gradients=(
            GradientSummary(
                layer=layer,
                kind="true",
                n_prompts=60,
                labels_per_prompt=4,
                seed=0,
                trace=2.0,
                top_percent_share=0.1,
                rule="none",
                clip_norm=None,
            ),
        ),
        geometry=HiddenGeometry(
            n_states=60,
            n_gradients=240,
            hidden_size=64,
            rank=8,
            fisher_shrinkage=0.05,
            seed=0,
            fisher_energy=geometry_number(0.811),
            coupling=geometry_number(1.21),
            effective_rank=geometry_number(0.322),
            euclidean_gain=geometry_number(213.0),
            adaptive_gain=geometry_number(4.05),
            projector_bound=geometry_number(1.33),
            heaviest_gradients_share=0.16,
            heaviest_states_share=0.1,
            mean_share=0.5,
            heaviest_coordinate_share=0.7,
        ),
        clean=(attack_of(99),),
        gain_needed=((0.01, 1312.0), (1.0, 13.0)),
    )


def result_of(*cells: SweepCell, layers: tuple[int, ...] = (3,), **changes: Any) -> SweepResult:
    """A sweep of these cells."""
    given: dict[str, Any] = {
        "model": "smollm2",
        "model_digest": "1" * 64,
        "text": "wikipedia",
        "n_candidates": 300,
        "n_queries": 100,
        "n_evaluation": 50,
        "agreement": 0.5,
        "top1": 0.1,
        "delta": 1e-5,
        "significance": 0.05,
        "layers": tuple(map(layer_of, layers)),
        "cells": cells,
        "winners": winners(cells),
    }
    return SweepResult(**{**given, **changes})


def mixed_result() -> SweepResult:
    """No release in the middle, every kind of cell, an epsilon that two mechanisms share."""
    return result_of(
        cell_of("isotropic", 0.1, found=(60, 50, 60), epsilon=600.0, predicted_top1=0.62),
        cell_of("isotropic", 1.0, agreement=0.4, found=(5, 4, 5), epsilon=80.0, predicted_top1=0.1),
        cell_of("complement", 0.1, found=(80, 99, 100), predicted_top1=1.0),
        cell_of("worst-case", 0.1, found=(55, 52, 58), epsilon=300.0, predicted_top1=0.4),
        cell_of("worst-case", 1.0, agreement=0.42, found=(4, 3, 30), epsilon=70.0),
        cell_of("quantization", 0.1, found=(90, 80, 90)),
        missed_cell("dropout", 0.1, "jumps"),
        missed_cell("generalized-eigen", 0.1, "not fitted", reason="rank must be at most 7."),
    )

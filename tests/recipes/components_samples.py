"""Parts of a layer's states and a certificate, made by hand."""

from insular.hidden.states.numerics_results import LayerRoom, NumericsResult, StateShift
from insular.hidden.utility.results import (
    ProjectionResult,
    ReplacementEntry,
    TransplantEntry,
    TransplantResult,
)
from insular.recipes.hidden.geometry.components_results import ComponentsResult
from recipes.hidden_samples import interval


def entry(part: str, basis: str, kl: float, *, protocol: str) -> ReplacementEntry:
    """One part, as many next tokens kept as the KL is small."""
    return ReplacementEntry(
        protocol=protocol,
        part=part,
        basis=basis,
        kl_nats=interval(kl),
        kl_median_nats=kl,
        agreement=interval(1 / (1 + kl)),
    )


def projected(inside: float, outside: float, *, centred: bool) -> ProjectionResult:
    """Parts of these KLs; of random directions, 5 nats inside and 0.2 outside."""
    costs = {"given": (inside, outside), "random": (5.0, 0.2)}
    return ProjectionResult(
        layer=3,
        rank=8,
        hidden=64,
        centred=centred,
        seed=0,
        entries=tuple(
            entry(part, basis, kl, protocol=protocol)
            for protocol in ("injection", "readout")
            for basis, kls in costs.items()
            for part, kl in zip(("inside", "outside"), kls, strict=True)
        ),
    )


def parts(
    uncentred: tuple[float, float] = (4.0, 0.6),
    centred: tuple[float, float] = (2.0, 0.5),
    *,
    nearest: float = 0.25,
) -> ComponentsResult:
    """A layer whose parts cost so much: inside, then outside."""
    one = interval(0.5)
    return ComponentsResult(
        layer=3,
        uncentred=projected(*uncentred, centred=False),
        centred=projected(*centred, centred=True),
        transplants=TransplantResult(
            layer=3,
            rank=8,
            seed=0,
            entries=tuple(
                TransplantEntry(
                    part=part,
                    kl_from_own_nats=one,
                    agreement_with_own=one,
                    kl_from_donor_nats=one,
                    agreement_with_donor=one,
                )
                for part in ("inside", "outside")
            ),
        ),
        nearest_relative=nearest,
        nearest_median_relative=2 * nearest,
        n_nearest=60,
    )


def certificate(*, cache: float = 1e-5, coarse: float | None = 0.2) -> NumericsResult:
    """States that moved so far, as a share of their length."""
    moves = {"repeat": 0.0, "batched": 1e-6, "incremental": cache}
    if coarse is not None:
        moves["bfloat16"] = coarse
    return NumericsResult(
        n_records=8,
        batch_tokens=96,
        extra_padding_tokens=16,
        device="cpu",
        dtype="float32",
        attention="eager",
        threads=1,
        shifts=tuple(
            StateShift(way=way, layer=3, max_abs=move, max_relative=move, n_bitwise_equal=0)  # pyright: ignore[reportArgumentType]
            for way, move in moves.items()
        ),
        rooms=(LayerRoom(layer=3, nearest_relative=0.7),),
        tail_max_abs_logit=3e-5,
    )

"""Replace a part of the state and see what the model still predicts: projections, transplants."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.kept import KeptForward
from insular.hidden.states.prompts import HeldPrompts
from insular.hidden.utility._divergence import Divergences, compare, divergences
from insular.hidden.utility.intervals import MeanInterval, mean_interval
from insular.hidden.utility.results import (
    ProjectionResult,
    ReplacementEntry,
    TransplantEntry,
    TransplantResult,
)

Part = Literal["inside", "outside"]
"""Inside the basis' span, or its orthogonal complement."""
PARTS: tuple[Part, ...] = ("inside", "outside")
ReadingProtocol = Literal["injection", "readout"]
"""How a replaced state is read.

    injection   protocol B: the remaining layers run on it; what a release does
    readout     protocol A: final norm and head alone, for the state and its replacement
"""


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Projector:
    r"""Orthogonal projection, about 0 or about a centre: :math:`\mu + P (h - \mu)`.

    Guarantees:
        * Inside and outside parts about 0 add up to the state.
        * Projecting twice changes nothing.
    """

    basis: Float[Tensor, "hidden rank"]
    """Orthonormal columns."""
    part: Part
    """Which part is kept."""
    centre: Float[Tensor, " hidden"] | None
    """Mu; None projects about 0. Large means make the two point opposite ways."""

    def __post_init__(self) -> None:
        """Refuse columns that are not orthonormal.

        Raises:
            InvalidArgumentError: If they are not.
        """
        _check.one_of(PARTS, part=self.part)
        basis = self.basis.double()
        gram = basis.T @ basis
        off = float(
            (gram - torch.eye(gram.shape[0], dtype=gram.dtype, device=gram.device)).abs().max()
        )
        if not off <= 1e-3:
            raise InvalidArgumentError(
                f"basis must have orthonormal columns, got products off by {off:.2g}; "
                "orthonormalise it, as torch.linalg.qr does."
            )

    def __call__(self, states: Float[Tensor, "record hidden"]) -> Float[Tensor, "record hidden"]:
        """Project states.

        Args:
            states: One per row.

        Returns:
            Their kept parts, back at the centre.
        """
        moved = states if self.centre is None else states - self.centre.to(states)
        basis = self.basis.to(states)
        inside = (moved @ basis) @ basis.T
        kept = inside if self.part == "inside" else moved - inside
        return kept if self.centre is None else kept + self.centre.to(states)


def random_basis(
    hidden: int, rank: int, *, generator: torch.Generator
) -> Float[Tensor, "hidden rank"]:
    """Orthonormal columns of a uniformly random subspace.

    Args:
        hidden: Width of the states.
        rank: Number of columns.
        generator: Source of randomness.

    Returns:
        The basis, float32.
    """
    _check.at_least(1, hidden=hidden, rank=rank)
    draw = torch.randn(
        hidden, rank, generator=generator, dtype=torch.float64, device=generator.device
    )
    return torch.linalg.qr(draw).Q.float()


def measure_projections(
    decoder: SplitDecoder,
    prompts: HeldPrompts,
    basis: Float[Tensor, "hidden rank"],
    *,
    layer: int,
    centre: Float[Tensor, " hidden"] | None,
    seed: int,
    protocols: Sequence[ReadingProtocol] = ("injection", "readout"),
    n_random: int = 1,
    significance: float = 0.05,
) -> ProjectionResult:
    """Keep a basis' part of the states, or the rest, beside random bases of the same rank.

    Guarantees:
        * Each protocol is compared with itself on the unchanged state: a basis that spans
          everything costs nothing under both.

    Args:
        decoder: The decoder.
        prompts: Held-out prompts.
        basis: Orthonormal columns, such as the top eigenvectors of the Fisher.
        layer: Where the states are replaced.
        centre: Mu, such as the mean of calibration states; None projects about 0.
        seed: Seed of the random bases.
        protocols: How replaced states are read.
        n_random: Random bases.
        significance: Error probability of each interval.

    Returns:
        KL and top-1 agreement of every combination.

    Raises:
        InvalidArgumentError: If the basis or an option breaks its rule.
    """
    _check.at_least(0, seed=seed, n_random=n_random)
    for protocol in protocols:
        _check.one_of(("injection", "readout"), protocol=protocol)
    hidden, rank = basis.shape
    states = prompts.states(layer)
    generator = torch.Generator(basis.device).manual_seed(seed)
    bases = [("given", basis)] + [
        ("random", random_basis(hidden, rank, generator=generator)) for _ in range(n_random)
    ]
    entries = []
    for protocol in protocols:
        for name, columns in bases:
            for part in PARTS:
                kept = Projector(basis=columns, part=part, centre=centre)(states)
                found = _replaced(decoder, prompts, kept, layer=layer, protocol=protocol)
                kl, agreement = _intervals(found, significance, seed)
                entries.append(
                    ReplacementEntry(
                        protocol=protocol,
                        part=part,
                        basis=name,
                        kl_nats=kl,
                        kl_median_nats=float(np.median(found.kl_nats)),
                        agreement=agreement,
                    )
                )
    return ProjectionResult(
        layer=layer,
        rank=rank,
        hidden=hidden,
        centred=centre is not None,
        seed=seed,
        entries=tuple(entries),
    )


def measure_transplants(
    decoder: SplitDecoder,
    prompts: HeldPrompts,
    basis: Float[Tensor, "hidden rank"],
    *,
    layer: int,
    seed: int,
    significance: float = 0.05,
) -> TransplantResult:
    """Give each state one component of another prompt's, and see whose prediction follows.

    The earlier positions stay the prompt's own.

    Args:
        decoder: The decoder.
        prompts: At least two held-out prompts.
        basis: Orthonormal columns.
        layer: Where the states are replaced.
        seed: Seed of the pairing: a random cycle through all prompts.
        significance: Error probability of each interval.

    Returns:
        KL and top-1 agreement with the prompt's own and with the donor's prediction.
    """
    _check.at_least(0, seed=seed)
    states = prompts.states(layer)
    order = torch.randperm(len(states), generator=torch.Generator().manual_seed(seed))
    donors = torch.empty_like(order)
    donors[order] = order.roll(1)
    donors = donors.to(states.device)
    entries = []
    for part in PARTS:
        mine = Projector(basis=basis, part="outside" if part == "inside" else "inside", centre=None)
        theirs = Projector(basis=basis, part=part, centre=None)
        mixed = mine(states) + theirs(states[donors])
        own = divergences(decoder, prompts, mixed, layer=layer)
        clean = prompts.logits()

        def donor(kept: KeptForward, rows: Tensor) -> tuple[Tensor, Tensor]:
            return clean[donors[rows]], decoder.tail(mixed[rows], kept, layer=layer)  # noqa: B023

        kl_own, same_own = _intervals(own, significance, seed)
        kl_donor, same_donor = _intervals(compare(prompts, donor), significance, seed)
        entries.append(
            TransplantEntry(
                part=part,
                kl_from_own_nats=kl_own,
                agreement_with_own=same_own,
                kl_from_donor_nats=kl_donor,
                agreement_with_donor=same_donor,
            )
        )
    return TransplantResult(layer=layer, rank=basis.shape[1], seed=seed, entries=tuple(entries))


def _replaced(
    decoder: SplitDecoder,
    prompts: HeldPrompts,
    states: Float[Tensor, "record hidden"],
    *,
    layer: int,
    protocol: ReadingProtocol,
) -> Divergences:
    """What replacing the states does under a protocol."""
    if protocol == "injection":
        return divergences(decoder, prompts, states, layer=layer)

    def readout(kept: KeptForward, rows: Tensor) -> tuple[Tensor, Tensor]:
        return decoder.early_exit(kept.states[layer]), decoder.early_exit(states[rows])

    return compare(prompts, readout)


def _intervals(
    found: Divergences, significance: float, seed: int
) -> tuple[MeanInterval, MeanInterval]:
    """KL and agreement with their intervals."""
    return (
        mean_interval(found.kl_nats, significance=significance, seed=seed),
        mean_interval(found.agrees, significance=significance, method="binomial"),
    )

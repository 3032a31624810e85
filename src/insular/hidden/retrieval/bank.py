"""A bank of candidates, made ready for one attacker and for many queries."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from insular.errors import InvalidArgumentError
from insular.hidden.matrices.rows import checked_rows
from insular.hidden.retrieval.attackers import Attacker


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class CandidateBank:
    """Different candidates as an attacker sees them."""

    attacker: Attacker
    """Who sees them."""
    states: Float[Tensor, "candidate hidden"]
    """Clean states, one for each different prompt."""
    kept_at: Int[Tensor, " given"]
    """Row in ``states`` of each candidate that was given."""
    views: tuple[Float[Tensor, "candidate ..."], ...]
    """What the attacker compares, in float64, less its mean over the bank."""
    means: tuple[Float[Tensor, " ..."], ...]
    """The means that were subtracted."""
    fast: Float[Tensor, "candidate seen"]
    """The first view in float32."""
    half_squares: Float[Tensor, " candidate"]
    """Half its squared length, in float32."""

    @property
    def n_candidates(self) -> int:
        """Different candidates."""
        return len(self.states)

    @property
    def n_duplicates(self) -> int:
        """Candidates that were given and are copies of another."""
        return len(self.kept_at) - len(self.states)


def prepare_bank(
    attacker: Attacker,
    states: Float[Tensor, "given hidden"],
    *,
    identities: Sequence[Hashable] | None = None,
) -> CandidateBank:
    """Remove duplicates and compute what the attacker compares.

    The mean is subtracted before distances are taken as ``|a|^2 + |b|^2 - 2 a'b``: a common offset
    would drown the differences in float32.

    Guarantees:
        * Candidates with equal states, or equal identities, are one candidate: the first given.

    Args:
        attacker: Who will search.
        states: Clean states of the candidates.
        identities: What tells prompts apart, such as digests of their text; equal ones are merged
            even if their states differ by rounding.

    Returns:
        The bank.

    Raises:
        InvalidArgumentError: If there is no candidate, or not one identity for each.
    """
    rows = checked_rows(states, name="states", hidden_size=attacker.hidden_size)
    if not len(rows):
        raise InvalidArgumentError("states must hold at least one candidate, got none.")
    if identities is not None and len(identities) != len(rows):
        raise InvalidArgumentError(
            f"identities must be one for each of the {len(rows)} candidates, got {len(identities)}."
        )
    kept_at, firsts = _first_of_each(rows, identities)
    clean = rows[firsts]
    views, means = [], []
    for seen in attacker.see_candidates(clean):
        mean = seen.values.mean(0)
        means.append(mean)
        views.append(seen.values - mean)
    return CandidateBank(
        attacker=attacker,
        states=clean,
        kept_at=kept_at,
        views=tuple(views),
        means=tuple(means),
        fast=views[0].to(torch.float32),
        half_squares=(views[0].square().sum(1) / 2).to(torch.float32),
    )


def _first_of_each(rows: Tensor, identities: Sequence[Hashable] | None) -> tuple[Tensor, Tensor]:
    """For each row the place of its first copy among the kept ones, and the rows to keep."""
    places: dict[Hashable, int] = {}
    kept_at, firsts = [], []
    exact = (rows + 0.0).numpy()  # + 0.0: no negative zeros, so that equal rows have equal bytes
    for at in range(len(rows)):
        keys: list[Hashable] = [exact[at].tobytes()]
        if identities is not None:
            keys.append(("identity", identities[at]))
        place = next((places[key] for key in keys if key in places), len(firsts))
        if place == len(firsts):
            firsts.append(at)
        for key in keys:
            places.setdefault(key, place)
        kept_at.append(place)
    return torch.tensor(kept_at), torch.tensor(firsts)

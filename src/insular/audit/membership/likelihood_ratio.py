"""How likely a record's score is among models that saw it and models that did not. Torch-free."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import log_ndtr
from scipy.stats import fisher_exact

from insular.errors import InvalidArgumentError

Array = np.ndarray
LEAST = 2
"""Shadow models on a side from which a record's mean there is its own."""
OWN_SPREAD = 16
"""Shadow models on a side from which each record's own spread is used; below, all records' one."""


@final
@dataclass(frozen=True, kw_only=True)
class ShadowRow:
    """The loss of one record under one shadow model."""

    id: str
    """The record."""
    shadow: str
    """The shadow model."""
    member: bool
    """Whether that model learnt from the record."""
    loss: float
    """Mean loss per token, in nats."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ShadowScores:
    """Losses of all records under all shadow models."""

    losses: Array
    """Records by shadow models, in nats."""
    inside: Array
    """Whether the model learnt from the record."""

    @property
    def n_inside(self) -> Array:
        """Models that learnt from each record."""
        return self.inside.sum(axis=1)

    @property
    def n_outside(self) -> Array:
        """Models that did not learn from each record."""
        return (~self.inside).sum(axis=1)

    @property
    def both_sides(self) -> Array:
        """Whether each record is in two models at least, and out of two at least."""
        return (self.n_inside >= LEAST) & (self.n_outside >= LEAST)

    @property
    def has_members(self) -> bool:
        """Whether both sides are known for half of the records at least."""
        return 2 * int(self.both_sides.sum()) >= len(self.inside)


def gather_shadows(rows: Sequence[ShadowRow], ids: Sequence[str]) -> ShadowScores:
    """Put shadow losses in the order of the records.

    Guarantees:
        * The order of the rows does not matter, and records that are not wanted are left out.
        * A pair of record and model that is missing or doubled, or a loss that is no number, is one
          error.

    Args:
        rows: One for each record and shadow model.
        ids: The records.

    Returns:
        The losses.

    Raises:
        InvalidArgumentError: If a row is missing, doubled or bad, or a record is out of fewer than
            two models and too few other records are both in and out to stand in for that side.
    """
    wanted = {name: i for i, name in enumerate(ids)}
    shadows = {name: j for j, name in enumerate(sorted({row.shadow for row in rows}))}
    losses = np.full((len(ids), len(shadows)), np.nan)
    inside = np.zeros(losses.shape, dtype=bool)
    seen = np.zeros(losses.shape, dtype=np.int64)
    for row in rows:
        if row.id in wanted:
            at = wanted[row.id], shadows[row.shadow]
            losses[at], inside[at] = row.loss, row.member
            seen[at] += 1
    missing, doubled = int((seen == 0).sum()), int((seen > 1).sum())
    bad = int((~np.isfinite(losses) & (seen > 0)).sum())
    if missing or doubled or bad or not shadows:
        raise InvalidArgumentError(
            "shadow must have exactly one finite loss for each record under each of"
            f" {len(shadows)} models, got {missing} missing, {doubled} doubled and {bad} not"
            " finite; correct the file."
        )
    found = ShadowScores(losses=losses, inside=inside)
    few = int((found.n_outside < LEAST).sum())
    if few and not found.has_members:
        raise InvalidArgumentError(
            "shadow must have at least 2 models that did not learn from each record, got fewer for"
            f" {few} records; train more of them."
        )
    return found


def two_sided_ratio(loss: Array, shadows: ShadowScores) -> Array:
    r"""The log-likelihood ratio of a record's score: among members' over among non-members'.

    :math:`\log N(s; \mu_{in}, \sigma_{in}^2) - \log N(s; \mu_{out}, \sigma_{out}^2)` with
    :math:`s` minus the loss. Needs shadow models that saw the record ("online"). Where fewer than
    two models are on one side of a record, its mean there is that of the other side, moved by the
    mean difference of the records that have both: so all ratios have one scale.

    Guarantees:
        * The mean of a record with both sides depends on its own losses alone; so does a spread, if
          every record has at least ``OWN_SPREAD`` models on that side.

    Args:
        loss: Under the attacked model, in nats.
        shadows: Of the same records.

    Returns:
        One score a record; more speaks for membership.

    Raises:
        InvalidArgumentError: If fewer than half of the records have both sides.

    Source:
        Carlini et al. (2022), Membership inference attacks from first principles, section IV.
    """
    if not shadows.has_members:
        raise InvalidArgumentError(
            "shadow must have at least 2 models that learnt from each record for the two-sided"
            " ratio, got fewer; use the one-sided one."
        )
    means, terms = _means(shadows), []
    for mean, side in zip(means, (shadows.inside, ~shadows.inside), strict=True):
        spread = _spread(shadows.losses, side)
        terms.append(-((loss - mean) ** 2) / (2 * spread**2) - np.log(spread))
    return terms[0] - terms[1]


def one_sided_ratio(loss: Array, shadows: ShadowScores) -> Array:
    r"""How unlikely so low a loss is for a model that did not see the record.

    :math:`\log \Phi((\mu_{out} - \ell) / \sigma_{out})`: all shadow models may be trained before it
    is known which records will be tested ("offline").

    Args:
        loss: Under the attacked model, in nats.
        shadows: Of the same records.

    Returns:
        One score a record; more speaks for membership.

    Source:
        Carlini et al. (2022), section V.
    """
    _, mean = _means(shadows)
    return log_ndtr((mean - loss) / _spread(shadows.losses, ~shadows.inside))


def uses_own_spread(shadows: ShadowScores) -> bool:
    """Whether spreads are each record's own on both sides.

    Args:
        shadows: Losses of all records.

    Returns:
        False where one spread stands for all records, since models are few.
    """
    return min(int(shadows.n_inside.min()), int(shadows.n_outside.min())) >= OWN_SPREAD


def drawn_alike(inside: Array, member: Array) -> float:
    """How likely a shadow model's records are so uneven between members and others, by chance.

    A model that learnt from the members and not from the others tells which is which, whatever the
    attacked model says.

    Args:
        inside: Whether the shadow model learnt from each unit.
        member: Whether the attacked model did.

    Returns:
        The p-value of Fisher's exact test, two-sided.
    """
    table = [
        [int((inside & side).sum()), int((~inside & side).sum())] for side in (member, ~member)
    ]
    result: Any = fisher_exact(table)  # whose stub knows no field
    return float(result.pvalue)


def _means(shadows: ShadowScores) -> tuple[Array, Array]:
    """Mean loss of each record inside and outside; a side that is not known by the other one."""
    inside = _mean(shadows.losses, shadows.inside)
    outside = _mean(shadows.losses, ~shadows.inside)
    if not shadows.has_members:
        return inside, outside
    both = shadows.both_sides
    drop = float((outside[both] - inside[both]).mean())
    return (
        np.where(shadows.n_inside >= LEAST, inside, outside - drop),
        np.where(shadows.n_outside >= LEAST, outside, inside + drop),
    )


def _mean(losses: Array, side: Array) -> Array:
    """Mean of each record's losses on one side; 0 where there are none."""
    return np.where(side, losses, 0.0).sum(axis=1) / np.maximum(side.sum(axis=1), 1)


def _spread(losses: Array, side: Array) -> Array:
    """Standard deviation of each record's losses on one side around its own mean."""
    n = side.sum(axis=1)
    squares = np.where(side, (losses - _mean(losses, side)[:, None]) ** 2, 0.0).sum(axis=1)
    free = np.maximum(n - 1, 0)
    pooled = squares.sum() / max(1, free.sum())
    own = squares / np.maximum(free, 1)
    variance = own if int(n.min()) >= OWN_SPREAD else np.full(len(n), pooled)
    return np.sqrt(np.maximum(variance, 1e-12))

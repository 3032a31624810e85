"""How likely a record's score is among models that saw it and models that did not. Torch-free."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import log_ndtr

from insular.errors import InvalidArgumentError

Array = np.ndarray
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
    def has_members(self) -> bool:
        """Whether every record is in two shadow models at least, so that both sides are known."""
        return bool((self.inside.sum(axis=1) >= 2).all())


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
        InvalidArgumentError: If a row is missing, doubled or bad, or models without a record are
            too few.
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
    few = int(((~inside).sum(axis=1) < 2).sum())
    if few:
        raise InvalidArgumentError(
            "shadow must have at least 2 models that did not learn from each record, got fewer for"
            f" {few} records; train more of them."
        )
    return ShadowScores(losses=losses, inside=inside)


def two_sided_ratio(loss: Array, shadows: ShadowScores) -> Array:
    r"""The log-likelihood ratio of a record's score: among members' over among non-members'.

    :math:`\log N(s; \mu_{in}, \sigma_{in}^2) - \log N(s; \mu_{out}, \sigma_{out}^2)` with
    :math:`s` minus the loss. Needs shadow models that saw the record ("online").

    Guarantees:
        * A record's mean depends on its own losses alone; so does its spread, if there are at least
          ``OWN_SPREAD`` models on that side.

    Args:
        loss: Under the attacked model, in nats.
        shadows: Of the same records.

    Returns:
        One score a record; more speaks for membership.

    Raises:
        InvalidArgumentError: If a record is in fewer than two shadow models.

    Source:
        Carlini et al. (2022), Membership inference attacks from first principles, section IV.
    """
    if not shadows.has_members:
        raise InvalidArgumentError(
            "shadow must have at least 2 models that learnt from each record for the two-sided"
            " ratio, got fewer; use the one-sided one."
        )
    terms = []
    for side in (shadows.inside, ~shadows.inside):
        mean, spread = _moments(shadows.losses, side)
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
    mean, spread = _moments(shadows.losses, ~shadows.inside)
    return log_ndtr((mean - loss) / spread)


def _moments(losses: Array, side: Array) -> tuple[Array, Array]:
    """Mean and spread of each record's losses on one side."""
    n = side.sum(axis=1)
    mean = np.where(side, losses, 0.0).sum(axis=1) / n
    squares = np.where(side, (losses - mean[:, None]) ** 2, 0.0).sum(axis=1)
    pooled = squares.sum() / max(1, (n - 1).sum())
    own = squares / np.maximum(n - 1, 1)
    variance = own if int(n.min()) >= OWN_SPREAD else np.full(len(n), pooled)
    return mean, np.sqrt(np.maximum(variance, 1e-12))

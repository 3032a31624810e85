"""What a promise (epsilon, delta) allows planted secrets to tell: ranks, exposure, how many.

A secret is drawn evenly from R values and planted in rows that one promise covers. Whatever the
model's ranking, at most r values have a rank of r or less, and for the model trained without the
rows the secret is one of them with probability r / R.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from scipy.stats import binom

from insular import _check
from insular.accounting import (
    ComposedEvent,
    Event,
    GaussianEvent,
    GroupedPoissonGaussianEvent,
    PoissonGaussianEvent,
    Relation,
    RepeatedEvent,
    group_privacy,
    spend,
)
from insular.audit.secrets.results import RankTest, SecretRank
from insular.errors import AccountingError

SHARES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Shares of the space that are tested, fixed before any rank is known."""


@final
@dataclass(frozen=True, kw_only=True)
class GroupClaim:
    """A promise for all rows of one secret together."""

    epsilon: float
    """In nats; infinite where nothing is promised."""
    delta: float
    """From 0 to 1."""
    relation: Relation
    """Neighbouring data sets."""
    how: str
    """Where it comes from."""


def rank_probability(share: float, claim: GroupClaim) -> float:
    """The largest probability that a secret ranks in a share of the space.

    ``min(e^eps q + delta, 1 - e^-eps (1 - q - delta))`` for the share q = r / R.

    Guarantees:
        * Holds for every mechanism with the promise and every way to rank.
        * q itself where epsilon and delta are 0; never above 1.

    Args:
        share: q, from 0 to 1.
        claim: The promise for its rows.

    Returns:
        The bound.

    Source:
        The definition of differential privacy, on the event that the secret's rank is r or less,
        for the data with its rows and without them (or with another secret), averaged over it.
    """
    _check.probability(share=share)
    if not math.isfinite(claim.epsilon):
        return 1.0
    if claim.epsilon > 700:
        return 1.0 if share else min(1.0, claim.delta)
    above = math.exp(claim.epsilon) * share + claim.delta
    missed = math.exp(-claim.epsilon) * max(0.0, 1 - share - claim.delta)
    return min(1.0, above, 1 - missed)


def expected_exposure(claim: GroupClaim, *, space_size: int) -> float:
    """The largest expected exposure that a promise allows, in bits.

    ``E <= integral over x from 0 to log2 R of P(rank <= R 2^-x)``, with ``rank_probability``.

    Guarantees:
        * 1 / ln 2 (1 - 1 / R) at epsilon 0, delta 0; log2 R at most; rises with epsilon and delta.

    Args:
        claim: The promise for the secret's rows.
        space_size: R.

    Returns:
        Bits.
    """
    _check.at_least(1, space_size=space_size)
    most = math.log2(space_size)
    if not math.isfinite(claim.epsilon) or claim.epsilon > 700 or claim.delta >= 1:
        return most
    grown, shrunk = math.exp(claim.epsilon), math.exp(-claim.epsilon)
    # certain up to x = certain; then the second bound of rank_probability, then the first
    certain = min(most, -math.log2(1 - claim.delta))
    meet = min(most, math.log2(grown + 1) - math.log2(1 - claim.delta))
    second = (meet - certain) * (1 - shrunk * (1 - claim.delta))
    second += shrunk * (2**-certain - 2**-meet) / math.log(2)
    first = (most - meet) * claim.delta + grown * (2**-meet - 2**-most) / math.log(2)
    return min(most, certain + second + first)


def tail_probability(count: int, n: int, *, share: float, claim: GroupClaim) -> float:
    """The largest probability that ``count`` or more of n secrets rank in a share of the space.

    The smaller of two bounds. Markov's: ``n p / count`` with p of ``rank_probability``. And the
    tail of ``Binomial(n, p*)`` plus ``n delta``, where ``p* = a q / (a q + 1 - q)`` bounds the
    posterior probability of each secret's guess given the model and all earlier secrets, up to a
    part of expectation delta; a is e^eps between secrets (replace_one), e^(2 eps) if the promise
    hides only whether the rows are there.

    Guarantees:
        * Holds however the mechanism couples the secrets: ranks are not taken as independent.
        * 1 for a count of 0; does not rise with the count.

    Args:
        count: Secrets in front.
        n: Secrets.
        share: In front: in this share of the space.
        claim: The promise for the rows of each secret.

    Returns:
        The bound.

    Source:
        The argument of Steinke, Nasr and Jagielski (2023), Privacy auditing with one training run,
        with values of a large space in place of coins, and a union bound for delta.
    """
    if count == 0 or not math.isfinite(claim.epsilon):
        return 1.0
    markov = n * rank_probability(share, claim) / count
    times = 1 if claim.relation == "replace_one" else 2
    odds = math.log(share) - math.log1p(-share) if share < 1 else math.inf
    posterior = 1 / (1 + math.exp(-min(times * claim.epsilon + odds, 700)))
    together = float(binom.sf(count - 1, n, posterior)) + n * claim.delta
    return min(1.0, markov, together)


def rank_tests(
    ranks: Sequence[SecretRank], claim: GroupClaim, *, finest: float
) -> tuple[RankTest, ...]:
    """Test the promise on secrets of one repetition count, at every share that can be seen.

    Guarantees:
        * Each p-value is below any level with at most that probability if the promise holds.
        * A tie counts against the attack: only a secret that is surely in front is counted.

    Args:
        ranks: The secrets.
        claim: The promise for the rows of each.
        finest: Smallest share that the ranking resolves, known before any rank is.

    Returns:
        A test for each share; none where nothing is promised.
    """
    if not math.isfinite(claim.epsilon) or claim.delta >= 1:
        return ()
    found, n = [], len(ranks)
    for share in (share for share in SHARES if share >= finest * (1 - 1e-9)):
        count = sum(rank.share <= share * (1 + 1e-12) for rank in ranks)
        found.append(
            RankTest(
                repeats=ranks[0].repeats,
                share=share,
                count=count,
                n=n,
                probability=rank_probability(share, claim),
                p_value=tail_probability(count, n, share=share, claim=claim),
                smallest_p=tail_probability(n, n, share=share, claim=claim),
            )
        )
    return tuple(found)


def claim_for_rows(
    *, epsilon: float, delta: float, relation: Relation, n_records: int, event: Event | None
) -> GroupClaim:
    """Turn a promise for one record into one for the rows of a secret.

    Guarantees:
        * One row changes nothing.
        * Never better than the truth: the accountant's number for a group of records that enter by
          their own coins where the event is known to be of such steps, else group privacy.

    Args:
        epsilon: Of one record, in nats.
        delta: Of one record.
        relation: Neighbouring data sets.
        n_records: Rows of the secret.
        event: What ran; None where it is not known.

    Returns:
        The promise.
    """
    if n_records == 1:
        return GroupClaim(epsilon=epsilon, delta=delta, relation=relation, how="as promised")
    grouped = None if event is None else _grouped(event, n_records)
    if grouped is not None:
        try:
            found = spend(grouped, delta=delta).epsilon
            return GroupClaim(
                epsilon=found,
                delta=delta,
                relation=relation,
                how=f"accounted for {n_records} records together",
            )
        except AccountingError:
            pass
    more_epsilon, more_delta = group_privacy(epsilon, delta, n_records=n_records)
    return GroupClaim(
        epsilon=more_epsilon if more_delta < 1 else math.inf,
        delta=more_delta,
        relation=relation,
        how=f"group privacy for {n_records} records",
    )


def _grouped(event: Event, n_records: int) -> Event | None:
    """The event as it hides so many records at once; None where no rule is known."""
    match event:
        case RepeatedEvent():
            inner = _grouped(event.event, n_records)
            return None if inner is None else replace(event, event=inner)
        case ComposedEvent():
            parts = [_grouped(part, n_records) for part in event.events]
            known = tuple(part for part in parts if part is not None)
            return ComposedEvent(events=known) if len(known) == len(parts) else None
        case GaussianEvent():
            return replace(event, noise_multiplier=event.noise_multiplier / n_records)
        case PoissonGaussianEvent(relation="add_or_remove_one"):
            if event.sampling_prob == 1:
                return GaussianEvent(
                    noise_multiplier=event.noise_multiplier / n_records,
                    relation="add_or_remove_one",
                    unit="owner",
                    noise_source=event.noise_source,
                )
            return GroupedPoissonGaussianEvent(
                noise_multiplier=event.noise_multiplier,
                sampling_prob=event.sampling_prob,
                records_per_unit=n_records,
                noise_source=event.noise_source,
            )
    return None

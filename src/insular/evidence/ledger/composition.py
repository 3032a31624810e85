"""Whose spends add up: basic composition where units may be shared, parallel where they are not."""

from collections.abc import Sequence
from decimal import Decimal

from insular.evidence.ledger.amounts import ZERO, Amount, gap, shown
from insular.evidence.ledger.results import Account


def exposure(accounts: Sequence[Account], of: Account, *, through: Account | None = None) -> Amount:
    """The most that one unit of a population is charged.

    Its own charges, plus those of every population that may share a unit with it. A unit is in at
    most one population of a partition, so each other partition counts with its largest member:

        E(p) = c(p) + sum over populations without partition + sum over other partitions of max c

    Guarantees:
        * Populations without a partition add up (basic composition).
        * Populations of one partition never add up (parallel composition); epsilon and delta take
          their maxima apart, which can only overstate.

    Args:
        accounts: All populations of the ledger.
        of: The population.
        through: Count this member of its partition instead of the largest.

    Returns:
        Epsilon and delta.

    Source: Dwork and Roth (2014), The Algorithmic Foundations of Differential Privacy, 3.5;
    McSherry (2009), Privacy Integrated Queries, for the parallel case.
    """
    total = of.charged
    largest: dict[str, Amount] = {}
    for other in accounts:
        if other.name == of.name or (other.partition and other.partition == of.partition):
            continue
        if not other.partition:
            total = total.plus(other.charged)
        elif through is None or other.partition != through.partition or other.name == through.name:
            largest[other.partition] = largest.get(other.partition, ZERO).most(other.charged)
    for amount in largest.values():
        total = total.plus(amount)
    return total


def left(accounts: Sequence[Account], of: Account) -> Amount:
    """The most that can be reserved for a population without exceeding any cap.

    Args:
        accounts: All populations of the ledger.
        of: The population.

    Returns:
        Epsilon and delta; nothing where a cap is reached.
    """
    epsilons, deltas = [], []
    for account in accounts:
        if account.name != of.name and of.partition and account.partition == of.partition:
            continue  # shares no unit
        reached = exposure(accounts, account, through=of)
        epsilons.append(gap(account.cap.epsilon, reached.epsilon))
        deltas.append(gap(account.cap.delta, reached.delta))
    zero = Decimal(0)
    return Amount(epsilon=max(zero, min(epsilons)), delta=max(zero, min(deltas)))


def overspend(accounts: Sequence[Account], *, asked: str) -> str:
    """Explain the first cap that these accounts would exceed.

    Args:
        accounts: All populations, as they would stand.
        asked: The population that the charge is for; it is named first.

    Returns:
        One clause, such as ``population support would need epsilon 3.2 of 3.0: over by 0.2``;
        empty if every cap holds.
    """
    for account in sorted(accounts, key=lambda account: account.name != asked):
        needed = exposure(accounts, account)
        for quantity in ("epsilon", "delta"):
            need, cap = getattr(needed, quantity), getattr(account.cap, quantity)
            if need > cap:
                shared = "" if account.name == asked else " (it may share units with this one)"
                return (
                    f"population {account.name}{shared} would need {quantity} {shown(need)} of "
                    f"{shown(cap)}: over by {shown(gap(need, cap))}"
                )
    return ""

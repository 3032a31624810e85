"""Renyi differential privacy of an event, through dp_accounting."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, final

from insular.accounting.counts import NOISE_RANGE
from insular.accounting.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    GroupedPoissonGaussianEvent,
    LaplaceEvent,
    Mechanism,
    PoissonGaussianEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    RepeatedEvent,
    TruncatedPoissonGaussianEvent,
    mechanisms_of,
    parts_of,
)
from insular.accounting.influence import neighboring_relation
from insular.errors import AccountingError, UnsupportedEventError

if TYPE_CHECKING:
    from dp_accounting import DpEvent

Conversion = Literal["tight", "classical"]
"""From a Renyi curve to epsilon: dp_accounting's conversion, or ``r + log(1/delta)/(a - 1)``."""

MAX_PARTS = 40
"""Different mechanisms in one composition; above it an answer would take more than seconds."""

_FRACTIONS = tuple(1 + 0.002 * 1.4**k for k in range(19))
_INTEGERS = (*range(2, 25), *(round(24 * 1.12**k) for k in range(1, 68)))
_ROUNDS = 4
"""Refinements, each by a factor of 8."""
_MAX_SAMPLED_ORDER = 2000.0
"""Largest order of a sampled Gaussian, whose divergence is a sum of as many terms."""


@final
@dataclass(frozen=True, kw_only=True)
class RenyiBound:
    """The best bound over all orders tried."""

    value: float
    """Epsilon or delta."""
    order: float
    """The Renyi order at which it was found; NaN if nothing ran."""


_NOTHING_RAN = RenyiBound(value=0.0, order=math.nan)


class _Tried(NamedTuple):
    """An order, with what the search wants small of it."""

    value: float
    order: float
    divergence: float


def renyi_epsilon(event: Event, delta: float, *, conversion: Conversion = "tight") -> RenyiBound:
    """The least epsilon that the Renyi curve of an event proves at ``delta``.

    Args:
        event: Any event that dp_accounting's Renyi accountant knows.
        delta: From 0, below 1.
        conversion: From the curve to epsilon.

    Returns:
        Epsilon with its order.
    """

    def bound(order: float, divergence: float) -> float:
        if delta == 0:
            return 0.0 if divergence == 0 else math.inf
        classical = divergence - math.log(delta) / (order - 1)
        if conversion == "classical":
            return classical
        if delta**2 > -math.expm1(-divergence):  # total variation, by Bretagnolle and Huber
            return 0.0
        if order <= 1.01:  # dp_accounting's conversion starts above
            return classical + math.log1p(-1 / order) - math.log(order) / (order - 1)
        from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

        return float(compute_epsilon([order], [divergence], delta)[0])

    tried = _search(event, lambda order, divergence: max(0.0, bound(order, divergence)), least=0.0)
    if not tried:
        return _NOTHING_RAN
    best = min(tried)
    return RenyiBound(value=best.value, order=best.order)


def renyi_delta(event: Event, epsilon: float) -> RenyiBound:
    """The least delta that the Renyi curve of an event proves at ``epsilon``.

    Args:
        event: Any event that dp_accounting's Renyi accountant knows.
        epsilon: In nats.

    Returns:
        Delta with its order.
    """

    def log_delta(order: float, divergence: float) -> float:
        """What dp_accounting takes above order 1.01, not cut at 1: it has one valley."""
        return (order - 1) * (divergence - epsilon + math.log1p(-1 / order)) - math.log(order)

    from dp_accounting.rdp.rdp_privacy_accountant import compute_delta

    tried = _search(event, log_delta, least=-math.inf)
    if not tried:
        return _NOTHING_RAN
    orders, divergences = [one.order for one in tried], [one.divergence for one in tried]
    value, order = compute_delta(orders, divergences, epsilon)
    return RenyiBound(value=max(0.0, float(value)), order=float(order))


def _search(event: Event, bound: Callable[[float, float], float], *, least: float) -> list[_Tried]:
    """Whole orders upwards until the bound has passed its valley; between them where it lies.

    dp_accounting's sums of whole orders are finite. Those between may not converge, or end far too
    high near order 1. A divergence never falls with its order, so what a higher order has caps it.

    Args:
        event: What ran.
        bound: From order and divergence to what is to be small.
        least: Nothing can be smaller.

    Returns:
        All that was tried; empty if nothing ran.
    """
    counts = _counted(event)
    if not counts:
        return []
    translated, n_steps = _translate(counts), _steps(event)
    relation = neighboring_relation(mechanisms_of(event)[0].relation)
    divergences: dict[float, float] = {}

    def learn(orders: Sequence[float]) -> None:
        curve = _curve(translated, relation, tuple(orders))
        for order, divergence in zip(orders, curve, strict=True):
            # Rounding of dp_accounting's sum in logs can make a tiny divergence 0 or negative.
            slack = 1e-15 * (order + 10) / (order - 1) * n_steps
            unknown = math.isnan(divergence)
            divergences[order] = math.inf if unknown else max(divergence, 0.0) + slack

    def tried() -> list[_Tried]:
        return [_Tried(bound(order, r), order, r) for order, r in divergences.items()]

    sampled = any(isinstance(part, PoissonGaussianEvent) for part in mechanisms_of(event))
    limit = _MAX_SAMPLED_ORDER if sampled else math.inf
    whole = [float(order) for order in _INTEGERS if order <= limit]
    if any(isinstance(part, RepeatAndSelectEvent) for part in counts):
        # the rule of repeat-and-select combines orders, so it sees them all at once
        learn(sorted({*_FRACTIONS, *whole}))
    else:
        for start in range(0, len(whole), 8):
            learn(whole[start : start + 8])
            so_far = tried()
            if min(so_far).value < so_far[-1].value:
                break
        # near order 1 lies a bound of its own, which needs a divergence there
        learn(_FRACTIONS if min(tried()).order <= whole[1] else _FRACTIONS[::6])
    for _ in range(_ROUNDS):
        so_far = tried()
        if min(so_far).value <= least:
            break
        around = {order for low, high in _valleys(so_far, limit) for order in _between(low, high)}
        if not (more := sorted(around - divergences.keys())):
            break
        learn(more)
    cap = math.inf
    for order in sorted(divergences, reverse=True):
        cap = divergences[order] = min(cap, divergences[order])
    return tried()


def _valleys(found: list[_Tried], limit: float) -> list[tuple[float, float]]:
    """The orders beside each one that no neighbour is below; infinite ones cut a valley in two."""
    ordered = sorted((one.order, one.value) for one in found)
    (first, _), (last, _) = ordered[0], ordered[-1]
    ends = [((1 + first) / 2, math.inf), *ordered, (max(last, min(2 * last, limit)), math.inf)]
    return [
        (low, high)
        for (low, left), (_, here), (high, right) in zip(ends, ends[1:], ends[2:], strict=False)
        if here <= min(left, right) and math.isfinite(here)
    ]


def _between(low: float, high: float) -> list[float]:
    """Seven orders inside an interval; integers, which are faster, where it is wide."""
    inner = [low + (high - low) * k / 8 for k in range(1, 8)]
    return sorted({float(round(o)) for o in inner} - {low, high}) if high - low > 16 else inner


def _steps(event: Event) -> int:
    """Mechanisms that ran, those of one run of a repeat-and-select included."""
    return sum(
        count * (_steps(part.event) if isinstance(part, RepeatAndSelectEvent) else 1)
        for part, count in parts_of(event)
    )


def _curve(event: "DpEvent", relation: object, orders: tuple[float, ...]) -> list[float]:
    """The divergence at each order, from dp_accounting."""
    from dp_accounting import UnsupportedEventError as Refused
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders, relation)  # pyright: ignore[reportArgumentType]
    with _quiet():
        try:
            accountant.compose(event)
        except Refused as error:
            reason = str(error).partition("(")[0].strip().rstrip(":.")
            raise UnsupportedEventError(
                f"the rdp accountant has no rule for this event ({reason}); use accountant='pld'."
            ) from None
    return [float(r) for r in accountant.rdp]


def _counted(event: Event) -> Counter[Mechanism | RepeatAndSelectEvent]:
    """What ran, equal mechanisms together."""
    counts: Counter[Mechanism | RepeatAndSelectEvent] = Counter()
    for part, count in parts_of(event):
        if not isinstance(part, RepeatAndSelectEvent):
            part = replace(part, noise_source="not_drawn")
        if getattr(part, "sampling_prob", 1) > 0:
            counts[part] += count
    if len(counts) > MAX_PARTS:
        raise AccountingError(
            f"a composition may hold at most {MAX_PARTS} different mechanisms for the rdp "
            f"accountant, got {len(counts)}; use accountant='pld', or round the noise "
            "multipliers down to fewer values."
        )
    return counts


def _translate(counts: Counter[Mechanism | RepeatAndSelectEvent]) -> "DpEvent":
    """dp_accounting's event."""
    import dp_accounting as dpa

    return dpa.ComposedDpEvent(
        [dpa.SelfComposedDpEvent(_one(part), count) for part, count in counts.items()]
    )


def _one(event: Event) -> "DpEvent":
    """dp_accounting's event for one event."""
    import dp_accounting as dpa
    from dp_accounting.dp_event import RepeatAndSelectDpEvent

    match event:
        case GaussianEvent():
            return dpa.GaussianDpEvent(_noise(event.noise_multiplier))
        case LaplaceEvent():
            if _noise(event.noise_multiplier) == 0:
                return dpa.NonPrivateDpEvent()
            return dpa.LaplaceDpEvent(_noise(event.noise_multiplier))
        case RandomizedResponseEvent():
            # its parameter is the chance of an answer drawn evenly from all, the true one included
            even = (1 - event.truth_prob) * event.n_answers / (event.n_answers - 1)
            if even > 1:
                raise UnsupportedEventError(
                    "the rdp accountant knows a randomised response only if the true answer is "
                    "at least as likely as any other; use accountant='pld'."
                )
            return dpa.RandomizedResponseDpEvent(even, event.n_answers)
        case PoissonGaussianEvent():
            low, high = NOISE_RANGE
            if event.sampling_prob == 1 or not low <= event.noise_multiplier <= high:
                reach = 1 if event.relation == "add_or_remove_one" else 2
                return dpa.GaussianDpEvent(_noise(event.noise_multiplier / reach))
            inner = dpa.GaussianDpEvent(event.noise_multiplier)
            return dpa.PoissonSampledDpEvent(event.sampling_prob, inner)
        case TruncatedPoissonGaussianEvent() | GroupedPoissonGaussianEvent():
            raise UnsupportedEventError(
                f"the rdp accountant has no rule for {event.kind}; use accountant='pld'."
            )
        case RepeatedEvent():
            return dpa.SelfComposedDpEvent(_one(event.event), event.count)
        case ComposedEvent():
            return dpa.ComposedDpEvent([_one(inner) for inner in event.events])
        case RepeatAndSelectEvent():
            return RepeatAndSelectDpEvent(_one(event.event), event.mean_runs, event.shape)


def _noise(multiplier: float) -> float:
    """The noise as floats can square it: none below 1e-100, 1e100 above it. Never costs less."""
    return 0.0 if multiplier < 1e-100 else min(multiplier, 1e100)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the note that an order did not converge: that order is infinite, so never chosen."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)

"""Epsilon and delta of an event, each with what makes the number valid."""

import math
from importlib.metadata import version

from insular import _check
from insular.accounting.counts import counted, gaussian_mu, pure_epsilon, unprotected
from insular.accounting.events import (
    NOISE_SOURCES,
    Event,
    GroupedPoissonGaussianEvent,
    Mechanism,
    NoiseSource,
    PoissonGaussianEvent,
    RepeatAndSelectEvent,
    TruncatedPoissonGaussianEvent,
    mechanisms_of,
    parts_of,
)
from insular.accounting.pair import check_delta, pair_delta, pair_epsilon
from insular.accounting.pld import LOOSE, TIGHT, PldBound, pld_delta, pld_epsilon
from insular.accounting.renyi import renyi_delta, renyi_epsilon
from insular.accounting.results import ACCOUNTANTS, Accountant, PrivacyCost, Refusal
from insular.errors import AccountingError, UnsupportedEventError

MAX_STEPS = 10**9
"""Steps in one composition; above it the rounding of a 64-bit float is no longer small."""


def spend(event: Event, *, delta: float, accountant: Accountant = "pld") -> PrivacyCost:
    """Epsilon of an event at ``delta``.

    Guarantees:
        * Never below the truth, unless ``standing`` says estimate; never negative, never NaN.
        * ``pld`` is exact where every mechanism is an unsampled Gaussian, else within
          ``excess_nats``; where that is over 1% of epsilon, ``method`` says loose, and over 10%
          there is an error instead of a number.
        * Nothing that ran costs 0, zero steps cost 0, sampling nobody costs 0; no noise is
          infinite.
        * Asking changes nothing: the same question has the same answer.

    Args:
        event: What ran, or will.
        delta: From 0, below 1.
        accountant: Who computes.

    Returns:
        The cost.

    Raises:
        AccountingError: If the event's mechanisms differ in relation or unit.
        UnsupportedEventError: If the accountant has no rule for the event, or ``pld`` no grid
            that is fine enough.
    """
    check_delta(delta)
    _check.one_of(ACCOUNTANTS, accountant=accountant)
    epsilon, method, excess = _epsilon(event, delta, accountant)
    return _cost(event, epsilon, float(delta), accountant, method=method, excess=excess)


def spend_delta(event: Event, *, epsilon: float, accountant: Accountant = "pld") -> PrivacyCost:
    """Delta of an event at ``epsilon``.

    Guarantees:
        * Never below the truth, unless ``standing`` says estimate; from 0 to 1.

    Args:
        event: What ran, or will.
        epsilon: In nats, at or above 0.
        accountant: Who computes.

    Returns:
        The cost.

    Raises:
        UnsupportedEventError: If the accountant has no rule for the event.
    """
    _check.non_negative_finite(epsilon=epsilon)
    _check.one_of(ACCOUNTANTS, accountant=accountant)
    if accountant == "rdp-classical":
        raise UnsupportedEventError(
            "the rdp-classical accountant turns delta into epsilon only; use accountant='rdp'."
        )
    delta, method, excess = _delta(event, epsilon, accountant)
    return _cost(event, float(epsilon), delta, accountant, method=method, excess=excess)


def compare(event: Event, *, delta: float) -> tuple[PrivacyCost | Refusal, ...]:
    """Every accountant on the same event, side by side.

    Args:
        event: What ran, or will.
        delta: From 0, below 1.

    Returns:
        One row for each accountant, in the order of ``ACCOUNTANTS``.
    """
    rows: list[PrivacyCost | Refusal] = []
    for accountant in ACCOUNTANTS:
        try:
            rows.append(spend(event, delta=delta, accountant=accountant))
        except UnsupportedEventError as error:
            rows.append(Refusal(accountant=accountant, reason=str(error)))
    return tuple(rows)


def _epsilon(event: Event, delta: float, accountant: Accountant) -> tuple[float, str, float | None]:
    """Epsilon, how it was found, and its excess."""
    check_event(event)
    if accountant in ("rdp", "rdp-classical"):
        conversion = "tight" if accountant == "rdp" else "classical"
        found = renyi_epsilon(event, delta, conversion=conversion)
        words = {
            "tight": "Canonne, Kamath and Steinke (2020), Proposition 12",
            "classical": "Mironov (2017), Proposition 3",
        }[conversion]
        if math.isnan(found.order):
            return found.value, "nothing was released", None
        return found.value, f"Renyi order {found.order:.4g}; conversion of {words}", None
    counts = counted(event)
    if not counts:
        return 0.0, "nothing was released", 0.0
    if unprotected(counts):
        return math.inf, "a mechanism without noise", 0.0
    if accountant == "gdp-clt":
        mu = _clt_mu(event)
        epsilon = pair_epsilon(mu, delta) if math.isfinite(mu) else math.inf
        return epsilon, "central limit, Bu et al. (2020)", None
    mu = gaussian_mu(counts)
    if mu is not None:
        return pair_epsilon(mu, delta), "exact: the steps are one Gaussian", 0.0
    if delta == 0:
        return pure_epsilon(counts), "exact: the sum of the largest losses", 0.0
    bound = pld_epsilon(counts, delta)
    words = _composed(bound, "epsilon")
    renyi = _renyi_cap(event, delta) if bound.excess > TIGHT * bound.value else math.inf
    if renyi < bound.value:
        excess = max(0.0, bound.excess - bound.value + renyi)
        return renyi, f"{words}; capped by the Renyi bound", excess
    return bound.value, words, bound.excess


def _delta(event: Event, epsilon: float, accountant: Accountant) -> tuple[float, str, float | None]:
    """Delta, how it was found, and the excess of epsilon."""
    check_event(event)
    if accountant == "rdp":
        bound = renyi_delta(event, epsilon)
        if math.isnan(bound.order):
            return bound.value, "nothing was released", None
        return bound.value, f"Renyi order {bound.order:.4g}", None
    counts = counted(event)
    if not counts:
        return 0.0, "nothing was released", 0.0
    if unprotected(counts):
        return 1.0, "a mechanism without noise", 0.0
    if accountant == "gdp-clt":
        mu = _clt_mu(event)
        found = pair_delta(mu, epsilon) if math.isfinite(mu) else 1.0
        return found, "central limit, Bu et al. (2020)", None
    mu = gaussian_mu(counts)
    if mu is not None:
        return pair_delta(mu, epsilon), "exact: the steps are one Gaussian", 0.0
    bound = pld_delta(counts, epsilon)
    return bound.value, _composed(bound, "delta"), None if bound.spacing > 0 else 0.0


def _renyi_cap(event: Event, delta: float) -> float:
    """The Renyi bound, infinite where there is none: where a grid is coarse it can be smaller."""
    try:
        return renyi_epsilon(event, delta).value
    except AccountingError:
        return math.inf


def _composed(bound: PldBound, name: str) -> str:
    """How a privacy loss distribution gave its number."""
    if bound.spacing == 0:
        return "exact: in closed form"
    words = f"privacy loss distribution, rounded up on a grid of {bound.spacing:.2g} nats"
    if bound.excess > LOOSE * bound.value:
        words += f"; loose: {name} may be up to {bound.excess:.2g} above the truth"
    return words


def _cost(
    event: Event,
    epsilon: float,
    delta: float,
    accountant: Accountant,
    *,
    method: str,
    excess: float | None,
) -> PrivacyCost:
    """The numbers with their labels."""
    mechanisms = mechanisms_of(event)
    drawn = {m.noise_source for m in mechanisms}
    sources: tuple[NoiseSource, ...] = tuple(s for s in NOISE_SOURCES if s in drawn)
    caveats = []
    if accountant == "gdp-clt":
        caveats.append("the central limit is not reached in finitely many steps")
    if "seeded" in sources:
        caveats.append("who knows the seed can take the noise away")
    return PrivacyCost(
        epsilon=epsilon,
        delta=delta,
        accountant=accountant,
        method=method,
        version=", ".join(f"{name} {version(name)}" for name in ("dp-accounting", "insular")),
        standing="estimate" if caveats else "guarantee",
        caveat="; ".join(caveats),
        excess_nats=excess,
        relation=mechanisms[0].relation if mechanisms else None,
        unit=mechanisms[0].unit if mechanisms else None,
        sampler=_sampler(mechanisms),
        noise_sources=sources,
    )


def check_event(event: Event) -> None:
    """Refuse a composition of guarantees about different things, or one too long to account for.

    Args:
        event: Any event.

    Raises:
        AccountingError: With the rule, what was found and the remedy.
    """
    mechanisms = mechanisms_of(event)
    for name, values in (
        ("relation", {m.relation for m in mechanisms}),
        ("unit", {m.unit for m in mechanisms}),
    ):
        if len(values) > 1:
            raise AccountingError(
                f"{name} must be the same for all events of a composition, got "
                f"{', '.join(sorted(values))}; account for them apart."
            )
    total = 0
    for part, count in parts_of(event):
        total += count
        if isinstance(part, RepeatAndSelectEvent):
            check_event(part.event)
    if total > MAX_STEPS:
        raise AccountingError(
            f"a composition may hold at most {MAX_STEPS} steps, got {min(total, 10**300):.4g}."
        )


def _sampler(mechanisms: tuple[Mechanism, ...]) -> str:
    """The sampler that the events assume, in words."""
    kinds = []
    if any(isinstance(m, PoissonGaussianEvent) for m in mechanisms):
        kinds.append("Poisson: each unit enters by its own coin")
    if any(isinstance(m, TruncatedPoissonGaussianEvent) for m in mechanisms):
        kinds.append("Poisson, cut to a fixed size at random")
    if any(isinstance(m, GroupedPoissonGaussianEvent) for m in mechanisms):
        kinds.append("Poisson over records: each record of an owner enters by its own coin")
    if len(kinds) < len({type(m) for m in mechanisms}):
        kinds.append("none: every unit enters")
    return "; ".join(kinds) or "none: nothing ran"


def _clt_mu(event: Event) -> float:
    """Distance of the Gaussian that the composition tends to."""
    total = 0.0
    for part, count in counted(event).items():
        mu = gaussian_mu(counted(part))
        if mu is None:
            if not isinstance(part, PoissonGaussianEvent) or part.relation == "replace_one":
                raise UnsupportedEventError(
                    f"the gdp-clt accountant has no rule for {part.kind} under {part.relation}; "
                    "use accountant='pld'."
                )
            try:
                grown = math.expm1(part.noise_multiplier**-2)
            except OverflowError:
                return math.inf
            mu = part.sampling_prob * math.sqrt(grown)
        total = math.hypot(total, math.sqrt(count) * mu)
    return total

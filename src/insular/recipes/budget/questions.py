"""Questions about a planned run's privacy: a spec in, numbers with their standing out."""

from collections.abc import Callable, Sequence
from functools import partial

from insular import _check
from insular.accounting import (
    Accountant,
    CalibratedNoise,
    Event,
    PrivacyCost,
    Refusal,
    Run,
    TradeoffCurve,
    compare,
    noise_for_advantage,
    noise_for_epsilon,
    noise_for_true_positive_rate,
    spend,
    tradeoff_curve,
)
from insular.errors import AccountingError, InvalidArgumentError, UnsupportedEventError
from insular.recipes.budget.pair import FEW, owner_cost
from insular.recipes.budget.results import (
    AttackerBound,
    CalibrationResult,
    CalibrationRow,
    CalibrationSpec,
    CurveResult,
    EpsilonResult,
    PlannedRun,
    check_records_per_owner,
    check_steps,
)

DELTAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
RATES = (0.001, 0.01, 0.05, 0.1, 0.5)
_MOST_VALUES = 20
_DRAWN_RATES = tuple(10 ** (-4 + i / 12) for i in range(49))
"""False positive rates at which the figure's curve is computed."""


def run_epsilon(run: PlannedRun, *, delta: float, records_per_owner: int = 1) -> EpsilonResult:
    """Epsilon of a run by every accountant, and what it means.

    Guarantees:
        * The headline is a guarantee, never an estimate.
        * Zero steps, and sampling nobody, cost 0; asking changes nothing.

    Args:
        run: The run.
        delta: From 0, below 1.
        records_per_owner: Records k of one owner; above 1, the owner's cost is added.

    Returns:
        The rows, the headline and its meaning.

    Raises:
        InvalidArgumentError: If a number breaks its rule.
        UnsupportedEventError: If no accountant has a guarantee.
    """
    check_records_per_owner(records_per_owner)
    if records_per_owner > 1 and run.unit == "owner":
        raise InvalidArgumentError(
            "records_per_owner must be 1 where the unit is owner, got records_per_owner="
            f"{records_per_owner}: a clip per owner covers all of an owner's records already."
        )
    event = run.event()
    rows = compare(event, delta=delta)
    costs = [row for row in rows if isinstance(row, PrivacyCost) and row.standing == "guarantee"]
    if not costs:
        raise UnsupportedEventError(
            "; ".join(row.reason for row in rows if isinstance(row, Refusal))
        )
    owner = None
    if records_per_owner > 1:
        owner = owner_cost(costs[0].epsilon, delta, records_per_owner, event=event)
    return EpsilonResult(
        run=run,
        delta=float(delta),
        rows=rows,
        headline=costs[0],
        attacker=_attacker(event),
        owner=owner,
    )


def calibrated_noise(spec: CalibrationSpec) -> CalibrationResult:
    """The least noise that keeps a promise, by each accountant that can say.

    Guarantees:
        * On the safe side: the target, computed afresh with the returned noise, is kept.

    Args:
        spec: The promise and the run.

    Returns:
        The noise, with epsilon by PLD and by RDP.

    Raises:
        AccountingError: If the promise is out of reach; it says what is in reach.
    """
    check_steps(spec.steps, least=1)
    run = Run(
        sampling_prob=spec.sampling_prob,
        steps=spec.steps,
        relation=spec.relation,
        unit=spec.unit,
    )
    _check.positive_finite(delta=spec.delta)
    rows: list[CalibrationRow | Refusal] = []
    first: AccountingError | None = None
    for accountant, search in _searches(spec, run):
        try:
            found = search()
        except AccountingError as error:
            first = first or error
            rows.append(Refusal(accountant=accountant, reason=str(error)))
            continue
        rows.append(
            CalibrationRow(
                accountant=found.accountant,
                noise_multiplier=found.noise_multiplier,
                achieved=found.achieved,
                costs=compare(found.event, delta=spec.delta)[:2],
            )
        )
    if first is not None and all(isinstance(row, Refusal) for row in rows):
        raise first
    return CalibrationResult(spec=spec, rows=tuple(rows))


def budget_curve(
    run: PlannedRun, *, deltas: Sequence[float] = DELTAS, rates: Sequence[float] = RATES
) -> CurveResult:
    """Epsilon at each delta and the highest true positive rate at each false positive rate.

    Args:
        run: The run.
        deltas: From 0, below 1.
        rates: False positive rates.

    Returns:
        Both.

    Raises:
        InvalidArgumentError: If there are too many or a number breaks its rule.
    """
    for name, values in (("delta", deltas), ("fpr", rates)):
        if not 1 <= len(values) <= _MOST_VALUES:
            raise InvalidArgumentError(
                f"{name} must be given 1 to {_MOST_VALUES} times, got {len(values)} values."
            )
    event = run.event()
    ordered = tuple(sorted({float(delta) for delta in deltas}, reverse=True))
    return CurveResult(
        run=run,
        costs=tuple(_cost(event, delta) for delta in ordered),
        deltas=ordered,
        curve=_curve(event, rates),
    )


def drawn_curve(run: PlannedRun) -> TradeoffCurve:
    """The trade-off curve at as many rates as a figure shows.

    Args:
        run: The run.

    Returns:
        The curve.
    """
    return tradeoff_curve(run.event(), false_positive_rates=_DRAWN_RATES)


def _searches(
    spec: CalibrationSpec, run: Run
) -> list[tuple[Accountant, Callable[[], CalibratedNoise]]]:
    """Each accountant that can look for the noise, and how."""
    if spec.target == "advantage":
        return [("pld", partial(noise_for_advantage, run, target_advantage=spec.value))]
    if spec.target == "true_positive_rate":
        rate = FEW if spec.false_positive_rate is None else spec.false_positive_rate
        search = partial(
            noise_for_true_positive_rate,
            run,
            target_true_positive_rate=spec.value,
            false_positive_rate=rate,
        )
        return [("pld", search)]
    return [(name, partial(_noise_for_epsilon, spec, run, name)) for name in ("pld", "rdp")]


def _noise_for_epsilon(spec: CalibrationSpec, run: Run, accountant: Accountant) -> CalibratedNoise:
    """The noise for a target epsilon."""
    return noise_for_epsilon(run, epsilon=spec.value, delta=spec.delta, accountant=accountant)


def _cost(event: Event, delta: float) -> PrivacyCost | Refusal:
    """Epsilon by PLD, or why there is none."""
    try:
        return spend(event, delta=delta)
    except UnsupportedEventError as error:
        return Refusal(accountant="pld", reason=str(error))


def _curve(event: Event, rates: Sequence[float]) -> TradeoffCurve | Refusal:
    """The trade-off curve, or why there is none."""
    try:
        return tradeoff_curve(event, false_positive_rates=rates)
    except UnsupportedEventError as error:
        return Refusal(accountant="pld", reason=str(error))


def _attacker(event: Event) -> AttackerBound | Refusal:
    """What an attacker can do, or why that is not known."""
    curve = _curve(event, (FEW,))
    if isinstance(curve, Refusal):
        return curve
    return AttackerBound(
        false_positive_rate=FEW,
        true_positive_rate=curve.true_positive_rates[0],
        advantage=curve.advantage,
        exact=curve.exact,
    )

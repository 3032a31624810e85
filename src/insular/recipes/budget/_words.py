"""A budget's numbers in words, rounded so that what is printed is still safe."""

import math
from decimal import ROUND_CEILING, Context
from typing import TYPE_CHECKING

from insular.accounting import Accountant, PrivacyCost, Refusal
from insular.recipes._numbers import short
from insular.recipes.budget.results import AttackerBound, OwnerCost, PlannedRun

if TYPE_CHECKING:
    from rich.console import RenderableType

SHUFFLED = "If your batches were shuffled instead, this is not your number."
ACCOUNTANT_WORDS: dict[Accountant, str] = {
    "pld": "PLD",
    "rdp": "RDP",
    "rdp-classical": "RDP, classical conversion",
    "gdp-clt": "GDP, central limit",
}
RELATION_WORDS = {
    "add_or_remove_one": "one {unit} more or less",
    "replace_one": "one {unit} replaced",
}


def upper(value: float, digits: int = 5) -> str:
    """A bound with few digits, never below itself; ``inf`` where it is infinite.

    Args:
        value: At or above 0.
        digits: Significant digits.

    Returns:
        The text.
    """
    if math.isinf(value):
        return "inf"
    if value == 0:
        return "0"
    # 12 digits first: the last bits of a float are no reason to round up
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(f"{value:.12g}")
    if 1e-4 <= value < 1e7:
        return f"{rounded:f}"
    mantissa, _, exponent = f"{rounded:.{digits - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def rate(value: float) -> str:
    """A bound on a rate in per cent, never below itself and at most 100."""
    return f"{upper(min(100.0, 100 * value), 3)}%"


def factor(epsilon: float) -> str:
    """How many times as likely, ``e^epsilon``."""
    if epsilon > 690:
        return "any number of" if math.isinf(epsilon) else f"10^{math.ceil(epsilon / math.log(10))}"
    return upper(math.exp(epsilon), 4)


def neighbours(relation: str, unit: str) -> str:
    """Which data sets are neighbours."""
    return RELATION_WORDS[relation].format(unit=unit)


def likelihood(epsilon: float, delta: float, *, relation: str, unit: str) -> str:
    """The definition, with its numbers."""
    if math.isinf(epsilon) or delta >= 1:
        return (
            "Nothing is promised: a result may tell for certain which of two neighbours it is from."
        )
    slack = f", plus {short(delta)}" if delta > 0 else ""
    other = "without it" if relation == "add_or_remove_one" else "with another in its place"
    return (
        f"Any result is at most {factor(epsilon)} times as probable with a {unit} as {other}, and"
        f" the other way round{slack}."
    )


def _cut(reason: str, most: int = 90) -> str:
    """A reason that fits a cell; JSON has all of it."""
    return reason if len(reason) <= most else f"{reason[: most - 1].rstrip()}…"


def cost_row(row: PrivacyCost | Refusal) -> tuple[str, str, str, str]:
    """Accountant, epsilon, standing, method."""
    name = ACCOUNTANT_WORDS[row.accountant]
    if isinstance(row, Refusal):
        return name, "none", "no rule", _cut(row.reason)
    if row.standing == "estimate":
        return name, f"{row.epsilon:.5g}", "ESTIMATE", f"{row.caveat}: no guarantee"
    # where nothing ran, no Renyi order was the best one
    how = row.method
    return name, upper(row.epsilon), "guarantee", how


def assumptions(run: PlannedRun, cost: PrivacyCost) -> "RenderableType":
    """What the numbers rest on."""
    from insular.reports import terminal

    sampler = cost.sampler + (f". {SHUFFLED}" if cost.sampler.startswith("Poisson") else "")
    pairs = (
        ("neighbours", f"{neighbours(run.relation, run.unit)} ({run.relation})"),
        ("unit", f"{run.unit}: what is clipped and sampled as one"),
        ("sampler", sampler),
        ("run", f"noise multiplier {run.noise_multiplier:.6g}, sampling probability"
                f" {run.sampling_prob:g}, {run.steps} steps"),
        ("computed by", cost.version),
    )  # fmt: skip
    return terminal.facts(pairs)


def attacker_words(found: AttackerBound | Refusal, *, relation: str, unit: str) -> str:
    """What the best attacker can do."""
    if isinstance(found, Refusal):
        return f"What an attacker can do is not known: {found.reason}"
    false, true = f"{100 * found.false_positive_rate:g}%", rate(found.true_positive_rate)
    words = (
        f"An attacker who takes {false} of absent {unit}s for present finds at most {true} of those"
        " that are"
        if relation == "add_or_remove_one"
        else f"An attacker who wrongly names one of two {unit}s in {false} of trials rightly names"
        f" it in at most {true}"
    )
    return f"{words}; its advantage is at most {rate(found.advantage)}."


def owner_words(owner: OwnerCost, delta: float) -> str:
    """An owner's guarantee."""
    name = f"An owner of {owner.n_records} record{'s' if owner.n_records > 1 else ''}"
    if owner.delta >= 1:
        words = f"{name}: nothing is promised by epsilon {upper(owner.epsilon)} at delta 1"
    else:
        words = f"{name}: epsilon {upper(owner.epsilon)} at delta {upper(owner.delta, 3)}"
    if owner.same_delta_epsilon is not None:
        words += f"; epsilon {upper(owner.same_delta_epsilon)} at delta {short(delta)}, by RDP"
    return f"{words}. By group privacy, which is loose; a clip per owner is usually far better."

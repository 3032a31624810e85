"""What an attack can be expected to find, before it runs. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

Procedure = Literal["trade-off", "epsilon-delta"]


@final
@dataclass(frozen=True, kw_only=True)
class ProcedurePower:
    """One procedure on the releases of an ideal Gaussian step."""

    procedure: Procedure
    """The trade-off bound, or the bound on epsilon at one delta."""
    claimed: float
    """What is tested: mu of the promised step, or its epsilon in nats."""
    expected_bound: float
    """The bound at the expected counts, in the unit of ``claimed``."""
    refutes: float
    """Probability that the claim is refuted."""
    false_positive_rate: float
    """Where the threshold lies, the best one for these draws."""
    draws_needed: int | None
    """Draws of each neighbour that refute with the wanted probability; None: more than 1e12, or
    there is no excess."""
    draws_until_expected: int | None
    """Draws of each neighbour from which the expected bound lies above the claim; None as above."""


@final
@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """The expected bounds of one number of draws."""

    draws: int
    """Draws of each neighbour, half of which are judged."""
    mu: float
    """Expected bound of the trade-off procedure."""
    tradeoff_epsilon: float
    """The same in epsilon, in nats."""
    epsilon: float
    """Expected bound of the (epsilon, delta) procedure, in nats."""


@final
@dataclass(frozen=True, kw_only=True)
class PowerResult:
    """What each procedure can be expected to say about one step whose sensitivity is too large."""

    ratio: float
    """Distance of the two clipped sums over the bound that is promised."""
    noise_multiplier: float
    """Noise standard deviation over the clip norm."""
    delta: float
    """Delta of every epsilon."""
    significance: float
    """Error probability of each procedure."""
    draws: int
    """Draws of each neighbour; half choose the threshold, half are judged."""
    wanted: float
    """Probability of refuting that ``draws_needed`` reaches."""
    claimed_mu: float
    """Mu of the step that is promised."""
    true_mu: float
    """Mu of the step that runs."""
    claimed_epsilon: float
    """What the promised step costs, in nats."""
    true_epsilon: float
    """What the step that runs costs, in nats."""
    procedures: tuple[ProcedurePower, ...]
    """The trade-off bound, then the (epsilon, delta) bound."""
    curve: tuple[CurvePoint, ...]
    """Expected bounds as the draws grow."""

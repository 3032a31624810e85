"""What the constructed witnesses gave on this machine. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

Relation = Literal["replace", "add/remove"]
Witness = Literal["operator", "lora"]

MARGIN = 1e-4
"""How far a ratio may exceed 1 before it counts as an exceedance."""
TOLERANCE = 0.002
"""How far a distance may be from the expected one, in units of the clip norm."""
GRADIENT_TOLERANCE = 1e-6
"""Largest relative difference between the engine's gradients and independent autograd."""


@final
@dataclass(frozen=True, kw_only=True)
class WitnessCase:
    """One neighbouring pair of batches under one arithmetic."""

    witness: Witness
    """``operator``: a trainable scalar bias; ``lora``: a rank-one adapter."""
    arm: str
    """The arithmetic of the frozen layer."""
    mode: Literal["train", "eval"]
    """Mode of the frozen layer. On CPU it decides which operator bitsandbytes runs."""
    relation: Relation
    """How the two batches differ."""
    distance: float
    """L2 distance of the two clipped sums, in gradient units."""
    clip_norm: float
    """Bound C, in gradient units."""
    expected_ratio: float | None
    """Ratio that is expected on this device; None for a control, which must keep the bound."""
    gradient_error: float | None
    """Largest relative difference of a record's gradient from independent autograd; None where
    autograd is the engine."""
    operators: dict[str, int]
    """Operators that the dispatcher saw in the two forwards, with their number of calls."""

    @property
    def ratio(self) -> float:
        """Distance over the separable bound: 2C to replace, C to add or remove."""
        return self.distance / (self.clip_norm * self._bound)

    @property
    def within_bound(self) -> bool:
        """Whether the pair keeps the separable bound, up to :data:`MARGIN`."""
        return self.ratio <= 1.0 + MARGIN

    @property
    def as_expected(self) -> bool:
        """Whether the pair came out as it should."""
        if self.expected_ratio is None:
            return self.within_bound
        return abs(self.ratio - self.expected_ratio) * self._bound <= TOLERANCE

    @property
    def _bound(self) -> float:
        """The separable bound in units of C."""
        return 2.0 if self.relation == "replace" else 1.0


@final
@dataclass(frozen=True, kw_only=True)
class WitnessResult:
    """Whether the constructed witnesses show the coupling here, and the controls do not."""

    device: str
    """Device type that ran. The result holds for it and no other."""
    device_name: str
    """Its name."""
    operator_outputs: tuple[float, float]
    """A common record's output in the stock int8 layer, without and with the outlier elsewhere."""
    operator_gradients: tuple[float, float]
    """The same record's gradient with respect to the bias, without and with the outlier."""
    cases: tuple[WitnessCase, ...]
    """Every pair under every arithmetic."""
    versions: dict[str, str]
    """Versions of the packages that computed."""
    engine: str
    """What computed the adapter's per-record gradients, and clipped them."""

    @property
    def coupled_as_published(self) -> bool:
        """Whether every case that should exceed the bound does, by the expected amount."""
        coupled = [case for case in self.cases if case.expected_ratio is not None]
        return bool(coupled) and all(case.as_expected for case in coupled)

    @property
    def controls_hold(self) -> bool:
        """Whether every control keeps the bound."""
        controls = [case for case in self.cases if case.expected_ratio is None]
        return bool(controls) and all(case.as_expected for case in controls)

    @property
    def gradients_agree(self) -> bool:
        """Whether the engine's gradients equal independent autograd wherever they were compared."""
        errors = [case.gradient_error for case in self.cases if case.gradient_error is not None]
        return all(error <= GRADIENT_TOLERANCE for error in errors)

    @property
    def exit_code(self) -> int:
        """0: the audit's instruments work on this machine; 1: they do not."""
        works = self.coupled_as_published and self.controls_hold and self.gradients_agree
        return 0 if works else 1

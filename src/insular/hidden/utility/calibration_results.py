"""The scale at which a mechanism costs a given measured KL. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular.errors import AccountingError

CalibrationStatus = Literal["reached", "too_weak", "too_strong", "jumps"]
"""How a search ended.

    reached      a scale whose measured KL is the target, within the tolerance
    too_weak     the largest scale still costs less: the noise stays where the model does not look
    too_strong   the smallest scale already costs more, as a projection does
    jumps        the KL jumps over the target: it is no continuous function of the scale
"""


@final
@dataclass(frozen=True, kw_only=True)
class CalibrationStep:
    """One scale that was tried."""

    scale: float
    """Passed to the mechanism."""
    kl_nats: float | None
    """Mean measured KL; None where the scores overflowed."""


@final
@dataclass(frozen=True, kw_only=True)
class CalibrationResult:
    """What a search for a scale found, with its Monte-Carlo error."""

    status: CalibrationStatus
    """How it ended."""
    layer: int
    """The output of that block, from 0."""
    target_kl_nats: float
    """What was wanted."""
    scale: float | None
    """The scale; None unless reached."""
    kl_nats: float | None
    """Measured KL there; None unless reached."""
    kl_standard_error_nats: float | None
    """Its standard error over prompts: what other prompts and draws would move it by."""
    scale_relative_error: float | None
    """The same as a share of the scale, by the slope of log KL there; None without a slope."""
    tolerance: float
    """Accepted relative distance from the target."""
    n_prompts: int
    """Distinct calibration prompts."""
    draws: int
    """Releases of each prompt."""
    seed: int
    """Seed of the draws, the same for every scale."""
    prompt_digests: tuple[str, ...]
    """SHA-256 of each calibration prompt; no evaluation may share one."""
    steps: tuple[CalibrationStep, ...]
    """Every scale that was tried, in order."""

    @property
    def reached(self) -> bool:
        """Whether there is a scale."""
        return self.status == "reached"

    def required_scale(self) -> float:
        """The scale.

        Returns:
            It.

        Raises:
            AccountingError: If the target was not reached, saying why.
        """
        if self.scale is not None:
            return self.scale
        start = f"target_kl_nats={self.target_kl_nats:g} cannot be reached at layer {self.layer}: "
        if self.status == "jumps":
            raise AccountingError(
                f"{start}the measured KL jumps over it; use more draws or a mechanism whose noise "
                "grows evenly with its scale."
            )
        ends = sorted(self.steps, key=lambda step: step.scale)
        end = ends[-1] if self.status == "too_weak" else ends[0]
        cost = "overflows" if end.kl_nats is None else f"costs {end.kl_nats:.3g} nats"
        if self.status == "too_weak":
            raise AccountingError(
                f"{start}scale {end.scale:.3g}, the largest, {cost}; ask for less."
            )
        raise AccountingError(
            f"{start}scale {end.scale:.3g}, the smallest, already {cost}; ask for more."
        )

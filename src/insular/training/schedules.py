"""Learning rates as pure functions of the step: a resumed run needs no state for them."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from insular import _check
from insular.errors import InvalidArgumentError


def _constant(progress: float) -> float:
    """Stay at the peak."""
    return 1.0


def _linear(progress: float) -> float:
    """Fall in a straight line."""
    return 1.0 - progress


def _cosine(progress: float) -> float:
    """Fall as half a cosine."""
    return 0.5 * (1.0 + math.cos(math.pi * progress))


SCHEDULES: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {"constant": _constant, "linear": _linear, "cosine": _cosine}
)
"""Share of the peak at each part, from 0 up to and without 1, of the steps after the warmup."""


def learning_rate_at(
    step: int, *, schedule: str, peak: float, steps: int, warmup_steps: int = 0
) -> float:
    r"""Learning rate of one step.

    With w warmup steps of T, step t has peak :math:`(t + 1) / (w + 1)` while t < w, then the peak
    times 1 (constant), :math:`1 - p` (linear) or :math:`(1 + \cos \pi p) / 2` (cosine), where
    :math:`p = (t - w) / (T - w)`.

    Guarantees:
        * Above 0 and at most ``peak`` in every step: each step costs privacy, so none is spent on
          a rate of 0.
        * Step ``warmup_steps`` has exactly ``peak``.
        * It depends on the arguments alone.

    Args:
        step: From 0, below ``steps``.
        schedule: ``constant``, ``linear`` or ``cosine``.
        peak: Largest rate, finite and > 0.
        steps: Steps of the run.
        warmup_steps: Steps before the peak, below ``steps``.

    Returns:
        The rate.

    Raises:
        InvalidArgumentError: If an argument breaks its rule.
    """
    _check.one_of(SCHEDULES, schedule=schedule)
    _check.positive_finite(peak=peak)
    _check.at_least(0, step=step, warmup_steps=warmup_steps)
    _check.at_least(1, steps=steps)
    if step >= steps or warmup_steps >= steps:
        raise InvalidArgumentError(
            f"step and warmup_steps must be below steps, got step={step}, "
            f"warmup_steps={warmup_steps} and steps={steps}."
        )
    if step < warmup_steps:
        return peak * (step + 1) / (warmup_steps + 1)
    return peak * SCHEDULES[schedule]((step - warmup_steps) / (steps - warmup_steps))

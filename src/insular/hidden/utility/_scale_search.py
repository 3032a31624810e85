"""A bracketed search for the scale whose mean KL is a target. Knows no model and no torch."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import numpy as np
from jaxtyping import Float64

from insular.hidden.utility.calibration_results import CalibrationStatus

_STEP = 0.3
_MOST_STEPS = 60
_NARROWEST = 1e-9
_MARGIN = 0.1


@final
@dataclass(frozen=True, kw_only=True)
class Point:
    """One scale that was tried."""

    log_scale: float
    """Its logarithm."""
    kl: Float64[np.ndarray, " record"]
    """Measured KL of each prompt, in nats; inf where the scores overflow."""

    @property
    def scale(self) -> float:
        """The scale."""
        return math.exp(self.log_scale)

    @property
    def mean(self) -> float:
        """Mean KL, in nats."""
        return float(self.kl.mean())


@final
@dataclass(kw_only=True)
class ScaleSearch:
    """The points of one search, in order."""

    measure: Callable[[float], Float64[np.ndarray, " record"]]
    """KL of each prompt at a scale."""
    target: float
    """Wanted mean, in nats."""
    tolerance: float
    """Accepted relative distance from it."""
    low: float
    """Logarithm of the smallest scale."""
    high: float
    """Logarithm of the largest scale."""
    points: list[Point] = field(default_factory=list)
    """What was tried."""

    def run(self, start: float) -> tuple[CalibrationStatus, Point | None]:
        """Bracket the target, then close in."""
        below, above = self._bracket(start)
        if self._hits(self.points[-1]):
            return "reached", self.points[-1]
        if below is None:
            return "too_strong", None
        if above is None:
            return "too_weak", None
        while len(self.points) < _MOST_STEPS and above.log_scale - below.log_scale > _NARROWEST:
            point = self._try(self._between(below, above))
            if self._hits(point):
                return "reached", point
            if point.mean < self.target:
                below = point
            else:
                above = point
        return "jumps", None

    def relative_error(self, found: Point) -> float | None:
        """The standard error of the mean KL, carried to the scale by the slope of log KL."""
        others = [one for one in self.points if one.mean > 0 and math.isfinite(one.mean)]
        others = [one for one in others if one.log_scale != found.log_scale]
        if not others:
            return None
        near = min(others, key=lambda one: abs(one.log_scale - found.log_scale))
        rise = math.log(near.mean / found.mean) / (near.log_scale - found.log_scale)
        if rise <= 0:
            return None
        error = float(found.kl.std(ddof=1) / math.sqrt(len(found.kl)))
        return error / (found.mean * rise)

    def _bracket(self, start: float) -> tuple[Point | None, Point | None]:
        """The nearest points tried on both sides of the target, stepping ever further."""
        point = self._try(start)
        below, above = (point, None) if point.mean < self.target else (None, point)
        step, following = _STEP, _STEP
        if 0 < point.mean < math.inf:  # the cost of a small scale grows with its square
            step = 0.5 * abs(math.log(self.target / point.mean))
        while not self._hits(point) and (below is None or above is None):
            place = below.log_scale + step if below is not None else point.log_scale - step
            place = min(max(place, self.low), self.high)
            if place == point.log_scale:
                break
            point = self._try(place)
            if point.mean < self.target:
                below = point
            else:
                above = point
            step, following = following, 2 * following
        return below, above

    def _between(self, below: Point, above: Point) -> float:
        """Where a power law puts the target, kept off the ends; the middle if there is none."""
        share = 0.5
        if below.mean > 0 and math.isfinite(above.mean):
            rise = math.log(above.mean / below.mean)
            share = math.log(self.target / below.mean) / rise if rise > 0 else 0.5
        share = min(max(share, _MARGIN), 1 - _MARGIN)
        return below.log_scale + share * (above.log_scale - below.log_scale)

    def _try(self, log_scale: float) -> Point:
        """Measure one scale."""
        kl = np.asarray(self.measure(math.exp(log_scale)), dtype=np.float64)
        point = Point(log_scale=log_scale, kl=np.where(np.isnan(kl), np.inf, kl))
        self.points.append(point)
        return point

    def _hits(self, point: Point) -> bool:
        """Whether a point is near enough."""
        return abs(point.mean - self.target) <= self.tolerance * self.target

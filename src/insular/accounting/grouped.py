"""The privacy curve of records that enter by their own coins, where their owner is hidden.

With the owner, the noisy sum is a Gaussian whose mean moves by as many clip norms as records of
the owner entered, a binomial number; without, one whose mean does not move. dp_accounting has this
pair too, but inverts its loss by recursion on points, takes delta for 0 next to the largest loss,
which is too low, and fails where nothing else is asked. Composition is dp_accounting's as always.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, final

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray

_BLOCK = 1 << 20
"""Numbers held at once: points times records."""
_MAX_NEWTON = 100


@final
@dataclass(frozen=True, kw_only=True)
class GroupedCurve:
    """One direction between a data set with an owner and one without."""

    noise: float
    """Noise standard deviation over the clip norm of one record."""
    sampling_prob: float
    """Of each record; above 0, below 1."""
    n_records: int
    """Records of the owner."""
    direction: Literal["remove", "add"]
    """``remove``: outputs with the owner against without; ``add``: the other way round."""
    tail: float
    """Probability beyond the bounds."""

    def bounds(self) -> tuple[float, float]:
        """As ``Curve.bounds``."""
        from scipy.special import ndtri

        reach = -self.noise * float(ndtri(max(self.tail, 1e-300)))
        if self.direction == "add":
            return -self._loss(reach), -self._loss(-reach)
        # where the owner's records enter, the output lies beyond this with probability tail
        low, high = -reach, self.n_records + reach
        for _ in range(60):
            middle = (low + high) / 2
            if self._entered_above(middle) > self.tail:
                low = middle
            else:
                high = middle
        return self._loss(-reach), self._loss(high)

    def delta(self, epsilons: "Array") -> "Array":
        """As ``Curve.delta``."""
        import numpy as np

        flat = np.asarray(epsilons, dtype=float).ravel()
        blocks = np.array_split(flat, max(1, -(-flat.size * self.n_records // _BLOCK)))
        return np.concatenate([self._delta(b) for b in blocks]).reshape(np.shape(epsilons))

    def _delta(self, epsilons: "Array") -> "Array":
        """The divergence on one block."""
        import numpy as np
        from scipy.special import log_ndtr, ndtr

        remove = self.direction == "remove"
        levels = epsilons if remove else -epsilons
        # at or below this level of the loss is every output, or none
        found = -np.expm1(np.minimum(epsilons, 0.0)) if remove else np.zeros_like(epsilons)
        inside = levels > self._log_none
        epsilons, levels = epsilons[inside], levels[inside]
        gap = np.log(-np.expm1(self._log_none - levels))
        point = self._point(levels + gap)
        moved = (point[:, None] - self._moves) / self.noise
        if remove:
            with_owner = np.exp(self._log_probs + log_ndtr(-moved)).sum(axis=1)
            found[inside] = with_owner - np.exp(levels + gap + log_ndtr(-point / self.noise))
        else:
            with_owner = np.exp(epsilons[:, None] + self._log_probs + log_ndtr(moved)).sum(axis=1)
            found[inside] = -np.expm1(epsilons + self._log_none) * ndtr(point / self.noise)
            found[inside] -= with_owner
        return np.clip(found, 0.0, 1.0)

    def _point(self, targets: "Array") -> "Array":
        """Outputs at which the likelihood ratio of owners whose records enter is exp(target)."""
        import numpy as np

        # its logarithm is convex and rises, so Newton's steps from the right never pass the root

        moves, scale = self._moves, self.noise**2
        # each term alone reaches the target here or to the right
        point = np.min((targets[:, None] - self._log_probs) * scale / moves + moves / 2, axis=1)
        for _ in range(_MAX_NEWTON):
            terms = self._log_probs + moves * (2 * point[:, None] - moves) / (2 * scale)
            top = terms.max(axis=1)
            weights = np.exp(terms - top[:, None])
            total = weights.sum(axis=1)
            step = (top + np.log(total) - targets) * total * scale / (weights @ moves)
            point = point - step
            if np.all(np.abs(step) <= 1e-12 * (self.noise + np.abs(point))):
                break
        return point

    def _loss(self, output: float) -> float:
        """Logarithm of the likelihood ratio, with the owner over without."""
        import numpy as np

        terms = self._moves * (2 * output - self._moves) / (2 * self.noise**2)
        return float(np.logaddexp(self._log_none, np.logaddexp.reduce(self._log_probs + terms)))

    def _entered_above(self, output: float) -> float:
        """Probability that some record entered and the output lies above."""
        import numpy as np
        from scipy.special import log_ndtr

        above = log_ndtr((self._moves - output) / self.noise)
        return float(np.exp(self._log_probs + above).sum())

    @property
    def _log_none(self) -> float:
        """Logarithm of the probability that no record enters."""
        return self.n_records * math.log1p(-self.sampling_prob)

    @cached_property
    def _moves(self) -> "Array":
        """How many records may enter, in clip norms."""
        import numpy as np

        return np.arange(1.0, self.n_records + 1)

    @cached_property
    def _log_probs(self) -> "Array":
        """Logarithms of their probabilities."""
        from scipy.stats import binom

        return binom.logpmf(self._moves, self.n_records, self.sampling_prob)


def grouped_curves(
    noise: float, *, sampling_prob: float, n_records: int, tail: float
) -> tuple[GroupedCurve, GroupedCurve]:
    """The curves to remove an owner and to add one.

    Args:
        noise: Noise standard deviation over the clip norm of one record.
        sampling_prob: Of each record; above 0, below 1.
        n_records: Records of the owner at most; one with fewer moves the mean less.
        tail: Probability that may be counted as an infinite loss.

    Returns:
        Both directions.

    Source:
        Charles et al. (2024), https://arxiv.org/abs/2407.07737, example-level sampling; the
        mixture of Gaussians that dominates: Choquette-Choo et al. (2024), Corollary 4.7.
    """
    return tuple(
        GroupedCurve(
            noise=noise,
            sampling_prob=sampling_prob,
            n_records=n_records,
            direction=direction,
            tail=tail,
        )
        for direction in ("remove", "add")
    )  # pyright: ignore[reportReturnType]

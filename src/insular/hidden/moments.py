"""Mean, covariance and second moment of rows that arrive in batches, in float64."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError
from insular.hidden._rows import checked_rows


@final
class StreamingMoments:
    """Moments of all the rows seen so far, without keeping a row.

    Each batch is centred on its own mean, and the two means are then reconciled (Chan's merge):
    ``M = M_a + M_b + (m_b - m_a)(m_b - m_a)' n_a n_b / (n_a + n_b)``.

    Guarantees:
        * Within rounding of the two-pass result, also where the mean is far larger than the spread.
        * The same for any division into batches, and for ``merge`` in place of ``add``.
        * A refused batch leaves everything as it was.

    Args:
        hidden_size: Numbers in a row.
        full: Whether to keep the matrix; otherwise its diagonal alone.

    Source:
        Chan, Golub and LeVeque (1983), "Algorithms for computing the sample variance".
    """

    def __init__(self, hidden_size: int, *, full: bool = True) -> None:
        _check.at_least(1, hidden_size=hidden_size)
        self._full = full
        self._n = 0
        self._mean = torch.zeros(hidden_size, dtype=torch.float64)
        shape = (hidden_size, hidden_size) if full else (hidden_size,)
        self._scatter = torch.zeros(shape, dtype=torch.float64)

    @property
    def hidden_size(self) -> int:
        """Numbers in a row."""
        return len(self._mean)

    @property
    def n(self) -> int:
        """Rows seen."""
        return self._n

    def add(self, rows: Float[Tensor, "record hidden"]) -> "StreamingMoments":
        """Take in a batch of rows; an empty one changes nothing.

        Args:
            rows: The batch.

        Returns:
            This object.
        """
        batch = checked_rows(rows, name="rows", hidden_size=self.hidden_size).cpu()
        if len(batch):
            mean = batch.mean(0)
            centred = batch - mean
            scatter = centred.T @ centred if self._full else centred.square().sum(0)
            self._reconcile(len(batch), mean, scatter)
        return self

    def merge(self, other: "StreamingMoments") -> "StreamingMoments":
        """Take in the rows that another object has seen.

        Args:
            other: Of the same hidden size, and full if this one is.

        Returns:
            This object.

        Raises:
            InvalidArgumentError: If the two do not fit.
        """
        if (other.hidden_size, other._full) != (self.hidden_size, self._full):
            raise InvalidArgumentError(
                f"other must have hidden_size={self.hidden_size} and full={self._full}, got "
                f"hidden_size={other.hidden_size} and full={other._full}."
            )
        if other.n:
            self._reconcile(other.n, other._mean, other._scatter)
        return self

    @property
    def mean(self) -> Float[Tensor, " hidden"]:
        """Mean row."""
        self._need(1)
        return self._mean.clone()

    @property
    def covariance(self) -> Float[Tensor, "hidden hidden"] | Float[Tensor, " hidden"]:
        """Scatter about the mean over n - 1; its diagonal where ``full`` is false."""
        self._need(2)
        return self._scatter / (self._n - 1)

    @property
    def second_moment(self) -> Float[Tensor, "hidden hidden"] | Float[Tensor, " hidden"]:
        """Mean of ``x x'`` about zero: for gradients, the Fisher matrix; or its diagonal."""
        self._need(1)
        square = torch.outer(self._mean, self._mean) if self._full else self._mean.square()
        return self._scatter / self._n + square

    def _reconcile(self, n: int, mean: Tensor, scatter: Tensor) -> None:
        """Chan's merge."""
        total = self._n + n
        apart = mean - self._mean
        square = torch.outer(apart, apart) if self._full else apart.square()
        self._scatter = self._scatter + scatter + square * (self._n * n / total)
        self._mean = self._mean + apart * (n / total)
        self._n = total

    def _need(self, n: int) -> None:
        """Refuse to speak of too few rows."""
        if self._n < n:
            raise InvalidArgumentError(
                f"moments need at least {n} rows to be read, got {self._n}; add some first."
            )

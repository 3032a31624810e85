"""Positive semidefinite matrices that need not be formed: what each can do; diagonal ones."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError
from insular.hidden.matrices.draws import Draws, normal


class PsdMatrix(ABC):
    """A positive semidefinite matrix S of hidden x hidden, in float64."""

    @property
    @abstractmethod
    def hidden_size(self) -> int:
        """Side of the matrix."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """Directions in which it is above zero."""

    @abstractmethod
    def trace(self) -> float:
        """Sum of the eigenvalues."""

    @abstractmethod
    def diagonal(self) -> Float[Tensor, " hidden"]:
        """Its diagonal."""

    @abstractmethod
    def power(self, exponent: float) -> "PsdMatrix":
        """``S^exponent`` by its eigenvalues; a negative exponent needs full rank."""

    @abstractmethod
    def scaled(self, factor: float) -> "PsdMatrix":
        """``factor * S``, for a factor above 0."""

    @abstractmethod
    def plus_identity(self, amount: float) -> "PsdMatrix":
        """``S + amount I``, for an amount at or above 0."""

    @abstractmethod
    def apply(self, rows: Float[Tensor, "record hidden"]) -> Float[Tensor, "record hidden"]:
        """Each row times S."""

    @abstractmethod
    def sample(self, n: int, *, generator: Draws) -> Float[Tensor, "record hidden"]:
        """Independent Gaussian rows of covariance S."""

    @abstractmethod
    def whiten(self, rows: Float[Tensor, "record hidden"]) -> Float[Tensor, "record rank"]:
        """Coordinates whose squared length is ``x' S^+ x``: what a row is within S's range."""

    @abstractmethod
    def null_part(self, rows: Float[Tensor, "record hidden"]) -> Float[Tensor, "record rank"]:
        """Coordinates of each row in the null space of S, without columns where there is none."""

    def quadratic(self, rows: Float[Tensor, "record hidden"]) -> Float[Tensor, " record"]:
        """``x' S x`` of each row."""
        return (self.apply(rows) * rows).sum(1)

    def dense(self) -> Float[Tensor, "hidden hidden"]:
        """The matrix itself, for small sizes and tests."""
        return self.apply(torch.eye(self.hidden_size, dtype=torch.float64))

    def _need_full_rank(self, what: str) -> None:
        """Refuse an inverse of a singular matrix."""
        if self.rank < self.hidden_size:
            raise InvalidArgumentError(
                f"{what} needs a matrix of full rank {self.hidden_size}, got rank {self.rank}, as "
                "from fewer rows than the hidden size or from a constant coordinate; estimate it "
                "with shrinkage > 0."
            )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class DiagonalMatrix(PsdMatrix):
    """``diag(variances)``."""

    variances: Float[Tensor, " hidden"]
    """The diagonal, at or above 0."""

    @property
    def hidden_size(self) -> int:
        """Side of the matrix."""
        return len(self.variances)

    @property
    def rank(self) -> int:
        """Coordinates in which it is above zero."""
        return int((self.variances > 0).sum())

    def trace(self) -> float:
        """Sum of the diagonal."""
        return float(self.variances.sum())

    def diagonal(self) -> Float[Tensor, " hidden"]:
        """Its diagonal."""
        return self.variances.clone()

    def power(self, exponent: float) -> "DiagonalMatrix":
        """``S^exponent``; a negative exponent needs full rank."""
        if exponent < 0:
            self._need_full_rank(f"the power {exponent}")
        return DiagonalMatrix(variances=self.variances**exponent)

    def scaled(self, factor: float) -> "DiagonalMatrix":
        """``factor * S``, for a factor above 0."""
        _check.positive_finite(factor=factor)
        return DiagonalMatrix(variances=self.variances * factor)

    def plus_identity(self, amount: float) -> "DiagonalMatrix":
        """``S + amount I``, for an amount at or above 0."""
        _check.non_negative_finite(amount=amount)
        return DiagonalMatrix(variances=self.variances + amount)

    def apply(self, rows: Float[Tensor, "record hidden"]) -> Float[Tensor, "record hidden"]:
        """Each row times S."""
        return rows * self.variances

    def sample(self, n: int, *, generator: Draws) -> Float[Tensor, "record hidden"]:
        """Independent Gaussian rows of covariance S."""
        return normal(n, self.hidden_size, generator) * self.variances.sqrt()

    def whiten(self, rows: Float[Tensor, "record hidden"]) -> Float[Tensor, "record rank"]:
        """Coordinates whose squared length is ``x' S^+ x``: what a row is within S's range."""
        kept = self.variances > 0
        return rows[:, kept] * self.variances[kept].rsqrt()

    def null_part(self, rows: Float[Tensor, "record hidden"]) -> Float[Tensor, "record rank"]:
        """Coordinates of each row in the null space of S, without columns where there is none."""
        return rows[:, self.variances == 0]

"""Matrices kept as a spectrum on few directions, estimated from rows.

A matrix of n < d rows is ``V diag(w) V' + rest (I - V V')`` with V of d x n. Powers, traces,
products, samples and distances all follow from V, w and rest, at a cost of n d: no d x d matrix.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError
from insular.hidden.matrices.covariance import PsdMatrix
from insular.hidden.matrices.draws import Draws, normal
from insular.hidden.matrices.rows import checked_rows

EPS = torch.finfo(torch.float64).eps


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SpectralMatrix(PsdMatrix):
    """``V diag(values) V' + rest (I - V V')``."""

    vectors: Float[Tensor, "hidden rank"]
    """V: orthonormal columns, largest value first where a function of this module made it."""
    values: Float[Tensor, " rank"]
    """Eigenvalue of each column, at or above 0."""
    rest: float
    """Eigenvalue of all that is orthogonal to the columns; 0 where they span everything."""

    @property
    def hidden_size(self) -> int:
        """Side of the matrix."""
        return self.vectors.shape[0]

    @property
    def n_rest(self) -> int:
        """Directions of eigenvalue ``rest``."""
        return self.hidden_size - len(self.values)

    @property
    def rank(self) -> int:
        """Directions in which it is above zero."""
        return int((self.values > 0).sum()) + (self.n_rest if self.rest > 0 else 0)

    def trace(self) -> float:
        """Sum of the eigenvalues."""
        return float(self.values.sum()) + self.n_rest * self.rest

    def diagonal(self) -> Float[Tensor, " hidden"]:
        """Its diagonal."""
        return self.vectors.square() @ (self.values - self.rest) + self.rest

    def mapped(
        self, function: Callable[[Float[Tensor, " rank"]], Float[Tensor, " rank"]]
    ) -> "SpectralMatrix":
        """The same directions with ``function`` of every eigenvalue.

        Args:
            function: From eigenvalues to eigenvalues at or above 0.

        Returns:
            The matrix.
        """
        every = function(torch.cat([self.values, torch.tensor([self.rest], dtype=torch.float64)]))
        return SpectralMatrix(
            vectors=self.vectors,
            values=every[:-1].clone(),
            rest=float(every[-1]) if self.n_rest else 0.0,
        )

    def power(self, exponent: float) -> "SpectralMatrix":
        """``S^exponent`` by its eigenvalues; a negative exponent needs full rank."""
        if exponent < 0:
            self._need_full_rank(f"the power {exponent}")
        return self.mapped(lambda values: values**exponent)

    def scaled(self, factor: float) -> "SpectralMatrix":
        """``factor * S``, for a factor above 0."""
        _check.positive_finite(factor=factor)
        return self.mapped(lambda values: values * factor)

    def plus_identity(self, amount: float) -> "SpectralMatrix":
        """``S + amount I``, for an amount at or above 0."""
        _check.non_negative_finite(amount=amount)
        return self.mapped(lambda values: values + amount)

    def apply(self, rows: Float[Tensor, "record hidden"]) -> Float[Tensor, "record hidden"]:
        """Each row times S."""
        inside = ((rows @ self.vectors) * (self.values - self.rest)) @ self.vectors.T
        return inside if self.rest == 0 else inside + self.rest * rows

    def sample(self, n: int, *, generator: Draws) -> Float[Tensor, "record hidden"]:
        """Independent Gaussian rows of covariance S."""
        if self.rest > 0:
            drawn = normal(n, self.hidden_size, generator)
            return self.mapped(torch.sqrt).apply(drawn)
        drawn = normal(n, len(self.values), generator)
        return (drawn * self.values.sqrt()) @ self.vectors.T

    def whiten(self, rows: Float[Tensor, "record hidden"]) -> Float[Tensor, "record rank"]:
        """Coordinates whose squared length is ``x' S^+ x``: what a row is within S's range."""
        shrink = torch.where(self.values > 0, self.values, torch.inf).rsqrt()
        if self.rest == 0:
            kept = self.values > 0
            return (rows @ self.vectors[:, kept]) * shrink[kept]
        outside = self.rest**-0.5
        return outside * rows + ((rows @ self.vectors) * (shrink - outside)) @ self.vectors.T

    def null_part(self, rows: Float[Tensor, "record hidden"]) -> Float[Tensor, "record rank"]:
        """Coordinates of each row in the null space of S, without columns where there is none."""
        if self.rest > 0 or self.rank == self.hidden_size:
            return rows @ self.vectors[:, self.values == 0]
        kept = self.vectors[:, self.values > 0]
        return rows - (rows @ kept) @ kept.T

    def top(self, rank: int) -> Float[Tensor, "hidden rank"]:
        """Eigenvectors of the largest eigenvalues.

        Args:
            rank: How many; the matrix must tell them from the rest.

        Returns:
            Orthonormal columns, largest first.

        Raises:
            InvalidArgumentError: If it does not have so many directions above the rest.
        """
        _check.at_least(1, rank=rank)
        known = int((self.values > self.rest).sum())
        if rank > known:
            raise InvalidArgumentError(
                f"rank must be at most {known}, the directions that the rows determine, got "
                f"rank={rank}; give more rows."
            )
        return self.vectors[:, torch.argsort(self.values, descending=True)[:rank]]


def isotropic_matrix(hidden_size: int, variance: float) -> SpectralMatrix:
    """``variance * I``.

    Args:
        hidden_size: Side of the matrix.
        variance: Of each direction.

    Returns:
        The matrix.
    """
    _check.at_least(1, hidden_size=hidden_size)
    _check.non_negative_finite(variance=variance)
    none = torch.zeros((hidden_size, 0), dtype=torch.float64)
    return SpectralMatrix(vectors=none, values=none[0], rest=variance)


def matrix_from_rows(
    rows: Float[Tensor, "record hidden"], *, shrinkage: float = 0.0
) -> SpectralMatrix:
    """``X'X`` of rows X, shrunk: ``(1 - s) X'X + s tr(X'X)/d I``.

    Scale the rows first: by ``1/sqrt(n)`` for a mean, by ``1/sqrt(n - 1)`` once centred.

    Guarantees:
        * Only n eigenvectors are computed and kept where there are n < d rows.
        * Shrinkage keeps the trace; above 0 it makes the matrix invertible.
        * Directions at the level of rounding count as zero.

    Args:
        rows: Records or differences.
        shrinkage: s, from 0 to 1.

    Returns:
        The matrix, eigenvalues descending.

    Raises:
        InvalidArgumentError: If there is no row, or nothing but zeros.
    """
    found = checked_rows(rows, name="rows")
    n, hidden_size = found.shape
    if n == 0:
        raise InvalidArgumentError("rows must hold at least one row, got none.")
    if n < hidden_size:
        basis, triangle = torch.linalg.qr(found.T)
        vectors, lengths, _ = torch.linalg.svd(triangle)
        kept = lengths > hidden_size * EPS * lengths[0]
        matrix = SpectralMatrix(
            vectors=(basis @ vectors)[:, kept], values=lengths[kept].square(), rest=0.0
        )
        return _shrunk(matrix, shrinkage)
    return matrix_from_dense(found.T @ found, shrinkage=shrinkage)


def matrix_from_dense(
    matrix: Float[Tensor, "hidden hidden"], *, shrinkage: float = 0.0
) -> SpectralMatrix:
    """A dense matrix, shrunk as in ``matrix_from_rows``.

    Args:
        matrix: Symmetric, positive semidefinite within rounding.
        shrinkage: From 0 to 1.

    Returns:
        The matrix, eigenvalues descending.

    Raises:
        InvalidArgumentError: If it is not square, symmetric or positive semidefinite.
    """
    found = checked_rows(matrix, name="matrix", hidden_size=len(matrix))
    size = float(found.abs().max())
    if float((found - found.T).abs().max()) > 1e-9 * size:
        raise InvalidArgumentError("matrix must be symmetric, got one that is not.")
    values, vectors = torch.linalg.eigh((found + found.T) / 2)
    values, vectors = values.flip(0), vectors.flip(1)
    if float(values[-1]) < -1e-9 * size:
        raise InvalidArgumentError(
            "matrix must be positive semidefinite, got the eigenvalue "
            f"{float(values[-1]):.3g} beside {float(values[0]):.3g}."
        )
    kept = values > len(found) * EPS * values[0].clamp(min=0)
    return _shrunk(
        SpectralMatrix(vectors=vectors[:, kept], values=values[kept], rest=0.0), shrinkage
    )


def _shrunk(matrix: SpectralMatrix, shrinkage: float) -> SpectralMatrix:
    """``(1 - s) S + s tr S/d I``; a matrix of zeros is refused."""
    _check.probability(shrinkage=shrinkage)
    trace = matrix.trace()
    if trace == 0:
        raise InvalidArgumentError("rows must not all be zero, got nothing but zeros.")
    share = shrinkage * trace / matrix.hidden_size
    return matrix.mapped(lambda values: (1 - shrinkage) * values + share)

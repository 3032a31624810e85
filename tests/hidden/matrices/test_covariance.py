"""Matrices that are never formed, against dense ones."""

import math

import numpy as np
import pytest
import torch

from hidden.matrix_samples import dense_power, factor, full, normal, seeded, spread_psd
from insular.errors import InvalidArgumentError
from insular.hidden.matrices.covariance import DiagonalMatrix, PsdMatrix
from insular.hidden.matrices.psd_algebra import (
    largest_ratio,
    log_determinant_ratio,
    root_fidelity_trace,
    sandwich,
    trace_of_product,
)
from insular.hidden.matrices.spectral import (
    SpectralMatrix,
    isotropic_matrix,
    matrix_from_dense,
    matrix_from_rows,
)

D = 12


def hollow() -> SpectralMatrix:
    """Zero on three directions and 2 on the others."""
    vectors = torch.linalg.qr(normal(D, 3, seed=5))[0]
    return SpectralMatrix(vectors=vectors, values=torch.zeros(3, dtype=torch.float64), rest=2.0)


KINDS: dict[str, PsdMatrix] = {
    "dense": full(D, seed=1),
    "factor": factor(5, D, seed=2),
    "shrunk factor": factor(5, D, seed=3, shrinkage=0.1),
    "isotropic": isotropic_matrix(D, 1.5),
    "hollow": hollow(),
    "diagonal": DiagonalMatrix(variances=torch.linspace(0.1, 2, D, dtype=torch.float64)),
    "partial diagonal": DiagonalMatrix(variances=torch.eye(D, dtype=torch.float64)[0]),
}
each = pytest.mark.parametrize("matrix", KINDS.values(), ids=KINDS.keys())


@each
def test_every_question_has_the_answer_of_the_dense_matrix(matrix):
    dense, rows = matrix.dense(), normal(7, D, seed=9)
    assert matrix.hidden_size == D
    assert matrix.rank == int(torch.linalg.matrix_rank(dense))
    assert matrix.trace() == pytest.approx(float(dense.trace()))
    assert torch.allclose(matrix.diagonal(), dense.diagonal())
    assert torch.allclose(matrix.apply(rows), rows @ dense)
    assert torch.allclose(matrix.quadratic(rows), ((rows @ dense) * rows).sum(1))
    assert torch.allclose(matrix.scaled(3.0).dense(), 3 * dense)
    assert torch.allclose(matrix.plus_identity(0.5).dense(), dense + 0.5 * torch.eye(D))
    root = matrix.power(0.5).dense()
    assert torch.allclose(root @ root, dense)


@each
def test_whitened_and_null_parts_divide_a_row_exactly(matrix):
    rows, dense = normal(7, D, seed=9), matrix.dense()
    inverse = torch.linalg.pinv(dense, rtol=1e-9)
    white, null = matrix.whiten(rows), matrix.null_part(rows)
    assert torch.allclose(white.square().sum(1), ((rows @ inverse) * rows).sum(1))
    projector = torch.eye(D) - dense @ inverse
    assert torch.allclose(null.square().sum(1), ((rows @ projector) * rows).sum(1))
    assert (null.shape[1] == 0) == (matrix.rank == D)


@each
def test_samples_have_the_covariance(matrix):
    n = 40_000
    found = matrix.sample(n, generator=seeded(0))
    dense = matrix.dense()
    # entry ij has the variance (S_ii S_jj + S_ij^2)/n: 6 of these for 144 entries, below 1e-6
    diagonal = dense.diagonal()
    bound = 6 * ((torch.outer(diagonal, diagonal) + dense.square()) / n).sqrt()
    assert bool(((found.T @ found / n - dense).abs() <= bound + 1e-12).all())


@each
def test_an_inverse_needs_full_rank(matrix):
    if matrix.rank == D:
        assert torch.allclose(matrix.power(-1.0).dense() @ matrix.dense(), torch.eye(D).double())
    else:
        with pytest.raises(InvalidArgumentError, match=f"full rank 12, got rank {matrix.rank}"):
            matrix.power(-1.0)


def test_shrinkage_keeps_the_trace_and_makes_the_matrix_invertible():
    rows = normal(5, 16, seed=0) / 5**0.5
    plain, shrunk = (matrix_from_rows(rows, shrinkage=share) for share in (0.0, 0.25))
    assert plain.rank == 5 and shrunk.rank == 16
    assert shrunk.trace() == pytest.approx(plain.trace())
    assert torch.allclose(
        shrunk.dense(), 0.75 * plain.dense() + 0.25 * plain.trace() / 16 * torch.eye(16)
    )


def test_only_n_eigenvectors_are_kept_where_there_are_n_rows():
    found = matrix_from_rows(normal(6, 3000, seed=0))
    assert found.vectors.shape == (3000, 6)
    doubled = sandwich(found, matrix_from_rows(normal(9, 3000, seed=1), shrinkage=0.1))
    assert doubled.vectors.shape[1] <= 15


def test_hid_01_rank_is_told_and_the_inverse_is_refused_until_it_is_shrunk():
    rows = torch.from_numpy(np.random.default_rng(0).standard_normal((5, 16)))
    rows[:, 3] = 1.0
    centred = (rows - rows.mean(0)) / 2
    plain = matrix_from_rows(centred)
    assert plain.rank == 4 and 16 - plain.rank == 12
    with pytest.raises(InvalidArgumentError, match="full rank 16, got rank 4"):
        plain.power(-0.5)
    shrunk = matrix_from_rows(centred, shrinkage=0.01)
    assert min(float(shrunk.values.min()), shrunk.rest) > 0
    distances = shrunk.whiten(normal(50, 16, seed=1)).square().sum(1)
    assert bool(torch.isfinite(distances).all()) and bool((distances >= 0).all())


@pytest.mark.parametrize("n", [3, 5, 9, 30])
def test_products_equal_the_dense_ones(n):
    d = 20
    first, second = factor(n, d, seed=1, shrinkage=0.05), factor(4, d, seed=2, shrinkage=0.1)
    a, b = first.dense(), second.dense()
    assert torch.allclose(sandwich(first, second).dense(), a @ b @ a)
    assert trace_of_product(first, second) == pytest.approx(float((a @ b).trace()))
    root = dense_power(a, 0.5)
    fidelity = float(dense_power(root @ b @ root, 0.5).trace())
    assert root_fidelity_trace(first, second) == pytest.approx(fidelity)
    under = dense_power(a, -0.5)
    top = float(torch.linalg.eigvalsh(under @ b @ under)[-1])
    assert largest_ratio(second, first) == pytest.approx(top)
    logdet = float(torch.linalg.slogdet(torch.eye(d) + torch.linalg.inv(a) @ b).logabsdet)
    assert log_determinant_ratio(first, second) == pytest.approx(logdet)


def test_products_with_a_diagonal_equal_the_dense_ones():
    noise = DiagonalMatrix(variances=torch.linspace(0.2, 1, 20, dtype=torch.float64))
    signal = factor(4, 20, seed=2, shrinkage=0.1)
    assert trace_of_product(signal, noise) == pytest.approx(
        float((signal.dense() @ noise.dense()).trace())
    )
    logdet = torch.linalg.slogdet(
        torch.eye(20) + torch.linalg.inv(noise.dense()) @ signal.dense()
    ).logabsdet
    assert log_determinant_ratio(noise, signal) == pytest.approx(float(logdet))


def test_singular_products_keep_their_rank():
    found = sandwich(factor(5, 30, seed=1), factor(3, 30, seed=2))
    assert found.rank == 3
    assert torch.allclose(
        found.power(0.5).dense() @ found.power(0.5).dense(), found.dense(), atol=1e-12
    )


def test_small_eigenvalues_keep_their_digits_through_a_product():
    d = 10
    first = matrix_from_dense(spread_psd(d, seed=0, condition=1e7))
    found = sandwich(first.power(-0.5), first)  # the identity
    assert torch.allclose(found.dense(), torch.eye(d).double(), atol=1e-8)
    # a root taken of a squared matrix of condition 1e14 still has full rank
    assert sandwich(first, isotropic_matrix(d, 1.0)).rank == d


def test_the_top_directions_are_those_that_the_rows_determine():
    matrix = factor(4, D, seed=1, shrinkage=0.2)
    top = matrix.top(2)
    energy = torch.linalg.eigvalsh(matrix.dense()).flip(0)[:2]
    assert torch.allclose(matrix.quadratic(top.T), energy)
    with pytest.raises(InvalidArgumentError, match="rank must be at most 4"):
        matrix.top(5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: matrix_from_rows(torch.zeros(3, 2).double()), "must not all be zero"),
        (lambda: matrix_from_rows(torch.zeros(0, 2).double()), "at least one row"),
        (lambda: matrix_from_rows(torch.full((2, 2), math.inf)), "must be finite"),
        (lambda: matrix_from_rows(torch.ones(2, 2), shrinkage=1.5), "shrinkage must be from 0 to"),
        (lambda: matrix_from_dense(torch.tensor([[1.0, 2.0], [0.0, 1.0]])), "must be symmetric"),
        (lambda: matrix_from_dense(-torch.eye(2)), "must be positive semidefinite"),
        (lambda: isotropic_matrix(2, -1.0), "variance must be finite and >= 0"),
        (lambda: isotropic_matrix(2, 1.0).scaled(0.0), "factor must be finite and > 0"),
        (lambda: sandwich(isotropic_matrix(2, 1.0), isotropic_matrix(3, 1.0)), "same hidden size"),
    ],
)
def test_what_is_no_matrix_is_refused(make, message):
    with pytest.raises(InvalidArgumentError, match=message):
        make()

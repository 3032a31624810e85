"""Small matrices and states for the tests of hidden states."""

import torch
from torch import Tensor

from insular.hidden.matrices.spectral import SpectralMatrix, matrix_from_dense, matrix_from_rows


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(n: int, d: int, *, seed: int) -> Tensor:
    return torch.randn((n, d), dtype=torch.float64, generator=seeded(seed))


def spread_psd(d: int, *, seed: int, condition: float = 100.0) -> Tensor:
    """A dense matrix with eigenvalues from 1 down to 1 over ``condition``, in random directions."""
    basis = torch.linalg.qr(normal(d, d, seed=seed))[0]
    values = condition ** -torch.linspace(0, 1, d, dtype=torch.float64)
    return (basis * values) @ basis.T


def dense_power(matrix: Tensor, exponent: float) -> Tensor:
    """The slow, obvious power."""
    values, vectors = torch.linalg.eigh(matrix)
    return (vectors * values.clamp(min=1e-300) ** exponent) @ vectors.T


def full(d: int, *, seed: int, condition: float = 100.0) -> SpectralMatrix:
    return matrix_from_dense(spread_psd(d, seed=seed, condition=condition))


def factor(n: int, d: int, *, seed: int, shrinkage: float = 0.0) -> SpectralMatrix:
    return matrix_from_rows(normal(n, d, seed=seed) / n**0.5, shrinkage=shrinkage)

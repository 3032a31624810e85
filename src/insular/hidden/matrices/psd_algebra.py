"""Products of two semidefinite matrices in the span of their directions, never d x d for n < d."""

import torch
from jaxtyping import Float
from torch import Tensor

from insular.errors import InvalidArgumentError
from insular.hidden.matrices.covariance import PsdMatrix
from insular.hidden.matrices.spectral import EPS, SpectralMatrix


def trace_of_product(first: SpectralMatrix, second: PsdMatrix) -> float:
    """``tr(first second)``.

    Args:
        first: Any spectral matrix.
        second: Any matrix of the same size.

    Returns:
        The trace.
    """
    _same_size(first, second)
    inside = second.quadratic(first.vectors.T)
    return float((first.values - first.rest) @ inside) + first.rest * second.trace()


def sandwich(outer: SpectralMatrix, inner: SpectralMatrix) -> SpectralMatrix:
    """``outer inner outer``.

    Computed as ``T'T`` with ``T = inner^(1/2) outer``, so small eigenvalues keep their digits.

    Guarantees:
        * Exact, the directions outside both spans included.
        * Work and memory follow the number of directions of the two, where these are few.

    Args:
        outer: A root of the Fisher matrix, for example.
        inner: The matrix that it transforms.

    Returns:
        The product, eigenvalues descending in its span.
    """
    span = _joint_span(outer, inner)
    _, lengths, directions = torch.linalg.svd(
        _within(inner.power(0.5), span) @ _within(outer, span), full_matrices=False
    )
    values = torch.where(lengths > len(lengths) * EPS * lengths[:1], lengths, 0.0).square()
    vectors = directions.T if span is None else span @ directions.T
    rest = 0.0 if span is None else outer.rest**2 * inner.rest
    if rest == 0:
        vectors, values = vectors[:, values > 0], values[values > 0]
    return SpectralMatrix(vectors=vectors, values=values, rest=rest)


def root_fidelity_trace(first: SpectralMatrix, second: SpectralMatrix) -> float:
    """``tr (first^(1/2) second first^(1/2))^(1/2)``, as the singular values of the roots' product.

    Args:
        first: A matrix.
        second: Another of the same size.

    Returns:
        The trace.
    """
    span = _joint_span(first, second)
    product = _within(second.power(0.5), span) @ _within(first.power(0.5), span)
    inside = float(torch.linalg.svdvals(product).sum())
    if span is None:
        return inside
    return inside + (first.hidden_size - span.shape[1]) * (first.rest * second.rest) ** 0.5


def largest_ratio(over: SpectralMatrix, under: SpectralMatrix) -> float:
    """The largest ``x' over x / x' under x``.

    Args:
        over: Any matrix.
        under: A matrix of full rank.

    Returns:
        The largest generalised eigenvalue.
    """
    span = _joint_span(over, under)
    product = _within(over.power(0.5), span) @ _within(under.power(-0.5), span)
    inside = float(torch.linalg.svdvals(product)[0].square())
    return inside if span is None else max(inside, over.rest / under.rest)


def log_determinant_ratio(noise: PsdMatrix, signal: SpectralMatrix) -> float:
    """``log det(I + noise^-1 signal)``: twice the information of a Gaussian signal under noise.

    Args:
        noise: A covariance of full rank.
        signal: The covariance of what is hidden.

    Returns:
        The log determinant, in nats.
    """
    _same_size(noise, signal)
    if isinstance(noise, SpectralMatrix):
        product = sandwich(noise.power(-0.5), signal)
        return float(product.values.log1p().sum()) + product.n_rest * float(
            torch.tensor(product.rest, dtype=torch.float64).log1p()
        )
    # noise + rest I is diagonal too; what is left has few directions
    shifted = noise.plus_identity(signal.rest)
    scaled = noise.power(-1.0).apply(shifted.diagonal()[None])[0]
    above = (signal.values - signal.rest).clamp(min=0)
    inner = shifted.power(-0.5).apply((signal.vectors * above.sqrt()).T)
    gram = inner @ inner.T
    eye = torch.eye(len(gram), dtype=torch.float64)
    return float(scaled.log().sum() + torch.linalg.slogdet(eye + gram).logabsdet)


def _joint_span(
    first: SpectralMatrix, second: SpectralMatrix
) -> Float[Tensor, "hidden rank"] | None:
    """Orthonormal columns that span the directions of both, or None for the whole space."""
    _same_size(first, second)
    if len(first.values) + len(second.values) >= first.hidden_size:
        return None
    return torch.linalg.qr(torch.cat([first.vectors, second.vectors], 1))[0]


def _within(matrix: SpectralMatrix, span: Float[Tensor, "hidden rank"] | None) -> Tensor:
    """The matrix in the coordinates of a span that holds its directions."""
    vectors = matrix.vectors if span is None else span.T @ matrix.vectors
    inside = (vectors * (matrix.values - matrix.rest)) @ vectors.T
    return inside + matrix.rest * torch.eye(len(inside), dtype=torch.float64)


def _same_size(first: PsdMatrix, second: PsdMatrix) -> None:
    """Refuse matrices of different sizes."""
    if first.hidden_size != second.hidden_size:
        raise InvalidArgumentError(
            "both matrices must have the same hidden size, got "
            f"{first.hidden_size} and {second.hidden_size}."
        )

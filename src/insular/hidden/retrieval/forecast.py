"""How often an attacker will find each prompt, from the distances between clean states alone."""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from insular.errors import InvalidArgumentError
from insular.hidden.matrices.rows import checked_rows
from insular.hidden.mechanisms.gaussian import GaussianRelease

N_NEAR = 256
"""Nearest candidates that count one by one; the others count in groups of like distance."""
_N_GROUPS = 32


def query_distances(
    release: GaussianRelease,
    states: Float[Tensor, "candidate hidden"],
    *,
    n_queries: int,
) -> Float[Tensor, "query candidate"]:
    """D between the first candidates and all others, in units of the noise.

    Args:
        release: Of full rank.
        states: Clean states of different candidates.
        n_queries: How many of the first ones are queries.

    Returns:
        ``sqrt(x' S^-1 x)``, infinite from each query to itself.

    Raises:
        InvalidArgumentError: If the release leaves directions without noise.
    """
    rows = checked_rows(states, name="states", hidden_size=release.hidden_size)
    if release.covariance.rank < release.hidden_size:
        raise InvalidArgumentError(
            f"release must have noise in all {release.hidden_size} directions, got rank "
            f"{release.covariance.rank}: candidates are infinitely far apart."
        )
    white = release.whiten(rows)
    white = white - white.mean(0)
    squares = white.square().sum(1)
    asked = white[:n_queries]
    apart = squares[:n_queries, None] + squares[None] - 2 * asked @ white.T
    apart[torch.arange(len(asked)), torch.arange(len(asked))] = torch.inf
    return apart.clamp(min=0.0).sqrt()


def forecast_top_1(distances: Float[Tensor, "query candidate"], *, n_nodes: int = 48) -> float:
    r"""Mean top-1 of the attacker who knows the covariance.

    .. math:: \int \phi(z) \prod_j \Phi(D_{ij}/\sqrt 2 - z) \, dz

    averaged over queries i. It is ``predicted_top_1`` where all distances are equal; like that, it
    takes any two wrong candidates to be as correlated as two corners of a regular simplex.

    Guarantees:
        * At equal distances it is ``predicted_top_1``, within 1e-3.

    Args:
        distances: From ``query_distances``.
        n_nodes: Gauss-Hermite nodes.

    Returns:
        The expected share of queries that are found.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    z = torch.tensor(nodes)
    near = min(N_NEAR, distances.shape[1])
    ordered = distances.double().sort(1).values
    scaled = ordered[:, :near] / math.sqrt(2)
    log_found = torch.zeros(len(ordered), len(nodes), dtype=torch.float64)
    for place in range(0, near, 32):
        block = scaled[:, place : place + 32, None] - z
        log_found += torch.special.log_ndtr(block).sum(1)
    for group in ordered[:, near:].tensor_split(_N_GROUPS, 1):
        finite = group[:, : group.shape[1] - int(group.isinf().any())]
        if finite.shape[1]:
            mean = finite.mean(1, keepdim=True) / math.sqrt(2)
            log_found += finite.shape[1] * torch.special.log_ndtr(mean - z)
    found = log_found.exp() @ torch.tensor(weights) / math.sqrt(2 * math.pi)
    return float(found.clamp(max=1.0).mean())

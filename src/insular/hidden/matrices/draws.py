"""Random numbers of a release: seeded for measurements, from a secure stream for protection."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from insular.mechanisms.keystream import Keystream, SecureStream
from insular.mechanisms.normals import WORDS_A_PAIR, standard_normals


@final
class SecureDraws:
    """Draws that nobody can draw again: what a release that is to protect takes as its generator.

    Guarantees:
        * No two calls share a word, so no two releases carry the same noise.
        * No seed of torch, numpy or random has a part in them.

    What it does not give: noise and states are float64 numbers, and the least significant bits of
    their sum can tell what was added (Mironov 2012). Store what is released in float32 or less.

    Args:
        stream: Where words come from; by default a key of the operating system's randomness.
    """

    def __init__(self, stream: Keystream | None = None) -> None:
        self._stream = stream or SecureStream()
        self._n_calls = 0

    def normal(self, n: int) -> Float[Tensor, " number"]:
        """Standard normal numbers.

        Args:
            n: How many.

        Returns:
            They, in float64.
        """
        n_pairs = (n + 1) // 2
        words = self._words(WORDS_A_PAIR * n_pairs).reshape(WORDS_A_PAIR, n_pairs)
        return torch.from_numpy(standard_normals(words))[:n]

    def even(self, n: int) -> Float[Tensor, " number"]:
        """Even numbers from 0, below 1.

        Args:
            n: How many.

        Returns:
            They, in float64, each a multiple of 2^-53.
        """
        return torch.from_numpy((self._words(n) >> 11).astype("float64") * 2.0**-53)

    def _words(self, n: int):  # noqa: ANN202
        """Words that were never given before."""
        self._n_calls += 1
        return self._stream.words(n, purpose="hidden release", step=self._n_calls)


Draws = torch.Generator | SecureDraws
"""What a release draws from."""


def normal(n: int, size: int, draws: Draws) -> Float[Tensor, "{n} {size}"]:
    """Standard normal rows.

    Args:
        n: Rows.
        size: Columns.
        draws: Where from.

    Returns:
        The rows, in float64.
    """
    if isinstance(draws, torch.Generator):
        return torch.randn((n, size), dtype=torch.float64, generator=draws)
    return draws.normal(n * size).reshape(n, size)


def even(n: int, size: int, draws: Draws) -> Float[Tensor, "{n} {size}"]:
    """Rows of even numbers from 0, below 1.

    Args:
        n: Rows.
        size: Columns.
        draws: Where from.

    Returns:
        The rows, in float64.
    """
    if isinstance(draws, torch.Generator):
        return torch.rand((n, size), dtype=torch.float64, generator=draws)
    return draws.even(n * size).reshape(n, size)

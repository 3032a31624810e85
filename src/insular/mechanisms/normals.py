"""Standard normal numbers from even words."""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float64, UInt64

WORDS_A_PAIR = 3
"""Words that two numbers take."""

Turn = Callable[[Float64[np.ndarray, " pair"], Float64[np.ndarray, " pair"]], object]
"""Writes the cosine, or the sine, of its first argument into the second."""


def standard_normals(
    words: UInt64[np.ndarray, "3 pair"],
    *,
    cosine: Turn = lambda angle, found: np.cos(angle, out=found),
    sine: Turn = lambda angle, found: np.sin(angle, out=found),
) -> Float64[np.ndarray, " number"]:
    """Box-Muller: two numbers for each column.

    Guarantees:
        * The law is that of a Gaussian up to float64 arithmetic, an error near 2^-52 of a standard
          deviation; the tail ends at 13.3 standard deviations, which a Gaussian passes with
          probability 2e-40.

    Args:
        words: Even words of 64 bits.
        cosine: A faster cosine, where there is one: numpy's of float64 is slow.
        sine: The same for the sine.

    Returns:
        The numbers.
    """
    # The radius takes 128 bits. With 64, radii above 7 would leave grid cells that no word reaches,
    # once in some 10^11 pairs, and a value beside such a hole tells what was added.
    n_pairs = words.shape[1]
    found = np.empty(2 * n_pairs)
    radius, angle = np.empty(n_pairs), np.empty(n_pairs)
    np.copyto(radius, words[0], casting="unsafe")
    np.copyto(angle, words[1], casting="unsafe")  # for a moment: the low words of the radius
    angle += 0.5
    angle *= 2.0**-64
    radius += angle
    radius *= 2.0**-64  # above 0, at most 1
    np.log(radius, out=radius)
    radius *= -2.0
    np.sqrt(radius, out=radius)
    np.copyto(angle, words[2] >> np.uint64(11), casting="unsafe")
    angle *= 2 * math.pi * 2.0**-53
    cosine(angle, found[:n_pairs])
    sine(angle, found[n_pairs:])
    found[:n_pairs] *= radius
    found[n_pairs:] *= radius
    return found

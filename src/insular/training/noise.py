"""Gaussian noise for a clipped sum, in whole steps of a public grid."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from insular import _check
from insular.accounting import NoiseSource
from insular.errors import InvalidArgumentError
from insular.mechanisms.keystream import Keystream
from insular.mechanisms.normals import WORDS_A_PAIR, standard_normals

GRID_BITS = 30
"""The grid is the power of two at or below the noise's standard deviation over 2 to this."""
_EXACT = 2.0**53
"""Whole numbers below it are exact in float64, and so is their sum."""
_RANGE = (1e-30, 1e30)
"""Standard deviations whose grid and noisy sum a float32 can hold."""


@final
@dataclass(frozen=True, kw_only=True)
class NoiseDraw:
    """The noise of one release, before it is used."""

    values: Float64[np.ndarray, " param"]
    """Noise of each coordinate: whole multiples of ``grid``."""
    grid: float
    """Step of the public grid, a power of two."""
    std: float
    """Standard deviation that was asked for."""
    rms: float
    """Root mean square of ``values``."""


@final
class GaussianNoise:
    """Noise for the sum of clipped contributions, drawn apart from its use.

    The least significant bits of a floating-point sum can show what was added to it (Mironov 2012;
    Holohan and Braghin 2021). Here both the clipped sum and the noise are rounded to whole steps of
    one public grid and added as whole numbers, which float64 does exactly below 2^53. The cast to
    float32 comes afterwards, and sees the noisy sum alone.

    Guarantees:
        * Each coordinate of the noise, and of the noisy sum before the cast, is a whole multiple of
          the grid, whatever the sum's bits.
        * Noise depends on stream, step and start alone: no seed of torch or numpy, no earlier draw.
        * ``rms`` is measured on what is added.

    What it does not give, with numbers:
        * Rounding moves two neighbouring sums apart by at most ``grid sqrt(n_params)`` in L2 norm:
          at 460,800 coordinates, 6.3e-7 of the noise's standard deviation. See ``rounding_excess``.
        * The law is that of a rounded Gaussian up to float64 arithmetic (Box-Muller, an error near
          2^-52 of a standard deviation, so near 2^-21 of the probability of one grid cell), and its
          tail ends at 13.3 standard deviations, which a Gaussian passes with probability 2e-40. No
          exact sampler is involved, and the accountant counts neither.
        * Time and memory access may depend on the values: side channels are not closed.

    Source:
        Mironov (2012), "On significance of the least significant bits for differential privacy";
        Holohan and Braghin (2021), "Secure random sampling in differential privacy".

    Args:
        stream: Where random words come from.
    """

    def __init__(self, stream: Keystream) -> None:
        self._stream = stream

    @property
    def source(self) -> NoiseSource:
        """What events are told."""
        return self._stream.source

    def draw(self, n_params: int, *, noise_std: float, step: int, start: int = 1) -> NoiseDraw:
        """Draw the noise of one release.

        Args:
            n_params: Coordinates.
            noise_std: Standard deviation of each.
            step: Optimiser step, from 0.
            start: Number of this start of the run, from 1.

        Returns:
            The noise with what was measured on it.
        """
        _check.at_least(1, n_params=n_params)
        grid = grid_of(noise_std)
        n_pairs = (n_params + 1) // 2
        words = self._stream.words(WORDS_A_PAIR * n_pairs, purpose="noise", step=step, start=start)
        columns = words.reshape(WORDS_A_PAIR, n_pairs)
        values = standard_normals(columns, cosine=_cosine, sine=_sine)[:n_params]
        values *= noise_std / grid
        np.rint(values, out=values)
        values *= grid
        rms = math.sqrt(float(values @ values) / n_params)
        return NoiseDraw(values=values, grid=grid, std=float(noise_std), rms=rms)

    def add(self, clipped_sum: Float[Tensor, " param"], draw: NoiseDraw) -> Float[Tensor, " param"]:
        """Add drawn noise to a clipped sum.

        Args:
            clipped_sum: On any device.
            draw: Noise of as many coordinates; to be used once.

        Returns:
            The noisy sum in float32, on the same device.

        Raises:
            InvalidArgumentError: If shapes differ, or the sum is not finite, or too large for its
                grid.
        """
        if clipped_sum.shape != draw.values.shape:
            raise InvalidArgumentError(
                "clipped_sum must have one coordinate for each of the noise, got "
                f"{tuple(clipped_sum.shape)} and {draw.values.shape}."
            )
        # float64 on the CPU: not every device has it
        noisy = clipped_sum.detach().to("cpu", torch.float64, copy=True)
        noisy.div_(draw.grid).round_()
        largest = float(noisy.abs().max()) + float(np.abs(draw.values).max()) / draw.grid
        if not largest < _EXACT:
            raise InvalidArgumentError(
                "clipped_sum must be finite and below 2^53 steps of the noise's grid, got "
                f"{largest:.3g} steps of {draw.grid:.3g}; noise_std={draw.std:.3g} is too small "
                "to hide it."
            )
        noisy.mul_(draw.grid).add_(torch.from_numpy(draw.values))
        return noisy.to(torch.float32).to(clipped_sum.device)


def grid_of(noise_std: float) -> float:
    """The public grid of a noise.

    Args:
        noise_std: Standard deviation.

    Returns:
        A power of two, between ``noise_std`` over 2^31 and over 2^30.

    Raises:
        InvalidArgumentError: If it is outside what float32 can hold.
    """
    _check.positive_finite(noise_std=noise_std)
    if not _RANGE[0] <= noise_std <= _RANGE[1]:
        raise InvalidArgumentError(
            f"noise_std must be from {_RANGE[0]:g} to {_RANGE[1]:g}, got noise_std={noise_std!r}; "
            "change the scale of the loss or of the clip norm."
        )
    return 2.0 ** (math.frexp(noise_std)[1] - 1 - GRID_BITS)


def rounding_excess(noise_std: float, *, n_params: int) -> float:
    """By how much rounding to the grid can raise the L2 sensitivity of a sum.

    Args:
        noise_std: Standard deviation of the noise.
        n_params: Coordinates.

    Returns:
        ``grid sqrt(n_params)``, in units of the sum.
    """
    _check.at_least(1, n_params=n_params)
    return grid_of(noise_std) * math.sqrt(n_params)


def _cosine(angle: Float64[np.ndarray, " pair"], found: Float64[np.ndarray, " pair"]) -> None:
    """Torch's, which is several times faster than numpy's."""
    torch.cos(torch.from_numpy(angle), out=torch.from_numpy(found))


def _sine(angle: Float64[np.ndarray, " pair"], found: Float64[np.ndarray, " pair"]) -> None:
    """The same for the sine."""
    torch.sin(torch.from_numpy(angle), out=torch.from_numpy(found))

"""How large the noise of a step is, beside what it hides: its size grows with the model."""

import math

from insular import _check


def sum_noise_rms(noise_multiplier: float, *, clip_norm: float, n_params: int) -> float:
    """Root mean square length of the noise on a clipped sum: ``s C sqrt(d)``.

    Args:
        noise_multiplier: Noise standard deviation over the clip norm, s.
        clip_norm: Bound C of one contribution, in gradient units.
        n_params: Trainable coordinates d.

    Returns:
        The length, in gradient units. The contribution that it hides is at most C long.
    """
    _check.non_negative_finite(noise_multiplier=noise_multiplier)
    _check.positive_finite(clip_norm=clip_norm)
    _check.at_least(1, n_params=n_params)
    return noise_multiplier * clip_norm * math.sqrt(n_params)


def step_noise_rms(
    noise_multiplier: float,
    *,
    clip_norm: float,
    n_params: int,
    learning_rate: float,
    expected_batch_size: float,
) -> float:
    """Root mean square length of the noise in one SGD step: ``eta s C sqrt(d) / b``.

    Args:
        noise_multiplier: Noise standard deviation over the clip norm, s.
        clip_norm: Bound C of one contribution, in gradient units.
        n_params: Trainable coordinates d.
        learning_rate: eta.
        expected_batch_size: Public divisor b of the noisy sum.

    Returns:
        The length, in units of the parameters.
    """
    _check.non_negative_finite(learning_rate=learning_rate)
    _check.positive_finite(expected_batch_size=expected_batch_size)
    noise = sum_noise_rms(noise_multiplier, clip_norm=clip_norm, n_params=n_params)
    return learning_rate * noise / expected_batch_size

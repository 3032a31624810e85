"""Sampling probabilities: their range, and the one that an expected batch needs."""

from insular import _check
from insular.errors import InvalidArgumentError


def check_sampling_prob(sampling_prob: float) -> None:
    """Refuse a sampling probability outside its range, with the usual cause.

    Raises:
        InvalidArgumentError: With rule, value and remedy.
    """
    try:
        _check.probability(sampling_prob=sampling_prob)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"{error} It is the expected batch size over the number of units, so the batch can be "
            "no larger than the data."
        ) from None


def sampling_prob_of(expected_batch_size: float, *, n_units: int) -> float:
    """The probability with which each unit must enter for a batch of this size on average.

    Guarantees:
        * A batch as large as the data gives 1; a larger one is refused, with both numbers.

    Args:
        expected_batch_size: Above 0.
        n_units: Units to choose from; a public number.

    Returns:
        ``expected_batch_size / n_units``.

    Raises:
        InvalidArgumentError: If the batch is larger than the data, or the data empty.
    """
    _check.positive_finite(expected_batch_size=expected_batch_size)
    _check.at_least(0, n_units=n_units)
    if expected_batch_size > n_units:
        raise InvalidArgumentError(
            "expected_batch_size must be at most n_units, got "
            f"expected_batch_size={expected_batch_size!r} and n_units={n_units}: no sampling "
            "probability is above 1; take a smaller batch or more data."
        )
    return expected_batch_size / n_units

"""The noise of a whole model beside that of an adapter, to the digits that the lesson prints."""

import numpy as np
import pytest

from insular.accounting import step_noise_rms, sum_noise_rms
from insular.errors import InvalidArgumentError


def test_a_whole_model_and_an_adapter() -> None:
    whole, adapter = (
        sum_noise_rms(1.0, clip_norm=1.0, n_params=n) for n in (7_000_000_000, 5_000_000)
    )
    assert (round(whole), round(adapter)) == (83_666, 2_236)
    assert round(whole / adapter, 2) == 37.42
    steps = [
        step_noise_rms(1.0, clip_norm=1.0, n_params=n, learning_rate=0.01, expected_batch_size=128)
        for n in (7_000_000_000, 5_000_000)
    ]
    assert [round(step, 2) for step in steps] == [6.54, 0.17]


def test_it_is_the_length_of_drawn_noise() -> None:
    # the relative spread of a length is 1 / sqrt(2 d): 0.0035; 2% is more than five of them
    drawn = np.random.default_rng(0).normal(scale=1.5 * 0.2, size=40_000)
    length = sum_noise_rms(1.5, clip_norm=0.2, n_params=drawn.size)
    assert float(np.linalg.norm(drawn)) == pytest.approx(length, rel=0.02)


@pytest.mark.parametrize("value", [0, -1, 2.5, True])
def test_a_wrong_number_of_coordinates_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match="n_params must be an integer >= 1"):
        sum_noise_rms(1.0, clip_norm=1.0, n_params=value)  # type: ignore[arg-type]

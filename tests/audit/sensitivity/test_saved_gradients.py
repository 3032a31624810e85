"""Saved gradients come back value by value."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from insular.audit.sensitivity.saved_gradients import MOST_RANGES, pack_rows, unpack_rows


@given(seed=st.integers(0, 2**16), n_params=st.integers(1, 40), share=st.floats(0, 1))
def test_unpack_rows_gives_back_every_value(seed, n_params, share):
    rng = np.random.default_rng(seed)
    untouched = rng.random(n_params) < share
    base = rng.normal(size=(2, n_params)).astype(np.float32)
    other = rng.normal(size=(3, n_params)).astype(np.float32)
    base[:, untouched], other[:, untouched] = 0, -0.0
    arrays = pack_rows({"base": base, "with": other})
    assert np.array_equal(unpack_rows(arrays, "base"), base)
    assert np.array_equal(unpack_rows(arrays, "with"), other)
    assert arrays["base"].shape[1] <= n_params - untouched.sum()


def test_a_nan_counts_as_touched():
    rows = np.array([[0.0, np.nan, 0.0]], dtype=np.float32)
    assert np.isnan(unpack_rows(pack_rows({"base": rows}), "base")[0, 1])


def test_scattered_coordinates_are_kept_whole():
    rows = np.zeros((1, 4 * MOST_RANGES), dtype=np.float32)
    rows[0, ::2] = 1
    arrays = pack_rows({"base": rows})
    assert arrays["ranges"].tolist() == [[0, rows.shape[1]]]
    assert np.array_equal(unpack_rows(arrays, "base"), rows)


def test_gradients_of_zeros_take_no_room():
    arrays = pack_rows({"base": np.zeros((2, 9), dtype=np.float32)})
    assert arrays["base"].shape == (2, 0)
    assert unpack_rows(arrays, "base").shape == (2, 9)

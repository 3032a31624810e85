"""Arrays: the same numbers give the same bytes, and other bytes are refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from insular.errors import EvidenceError, InvalidArgumentError
from insular.evidence import ArrayFact
from insular.evidence.arrays import pack, unpack

DTYPES = [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8, np.bool_, np.complex64]


@given(hnp.arrays(st.sampled_from(DTYPES), hnp.array_shapes(min_dims=0, min_side=0)))
def test_reads_back_what_was_packed_bit_for_bit(array):
    ref, data = pack("a", {"x": array})
    back = unpack(ref, data)["x"]
    assert back.dtype == array.dtype and back.shape == array.shape
    assert back.tobytes() == array.tobytes()
    assert not back.flags.writeable


def test_equal_arrays_give_equal_bytes():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    ref, data = pack("a", {"x": array, "y": array[0]})
    variants = {
        "transposed": {"x": np.asfortranarray(array), "y": array[0]},
        "strided": {"x": np.repeat(array, 2, axis=1)[:, ::2], "y": array[0]},
        "reordered": {"y": array[0], "x": array},
        "big endian": {"x": array.astype(">f4"), "y": array[0].astype(">f4")},
    }
    for name, variant in variants.items():
        assert pack("a", variant) == (ref, data), name


def test_reference_names_file_by_digest_and_lists_arrays():
    ref, _ = pack("gradients", {"b": np.zeros(2), "a": np.zeros((1, 0), bool)})
    assert ref.file == f"arrays/gradients-{ref.sha256[:12]}.safetensors"
    assert ref.arrays == (
        ArrayFact(name="a", dtype="bool", shape=(1, 0)),
        ArrayFact(name="b", dtype="float64", shape=(2,)),
    )


def test_flipped_byte_is_refused():
    ref, data = pack("a", {"x": np.zeros(3)})
    with pytest.raises(EvidenceError, match=r"arrays/a-.*\.safetensors was changed: its sha256"):
        unpack(ref, data[:-1] + b"\x01")


def test_reference_to_other_arrays_is_refused():
    ref, data = pack("a", {"x": np.zeros(3)})
    other = replace(ref, arrays=(ArrayFact(name="x", dtype="float64", shape=(4,)),))
    with pytest.raises(EvidenceError, match="holds other arrays than the result says"):
        unpack(other, data)


@pytest.mark.parametrize("dtype", [object, "U3", np.complex128, np.longdouble, "M8[s]"])
def test_dtype_that_the_format_cannot_hold_is_refused(dtype):
    with pytest.raises(InvalidArgumentError, match="arrays must have a dtype of bool, .*got x of"):
        pack("a", {"x": np.zeros(2, dtype)})

"""The integer product equals int64 arithmetic on every path."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from insular.precision import gemm
from insular.precision.gemm import int8_matmul, native_int8_matmul

Path = Callable[[Tensor, Tensor], Tensor]
PATHS: dict[str, Path] = {
    "chosen": int8_matmul,
    "native": lambda codes, weight: torch._int_mm(codes, weight.t()),
    "float": gemm._float_matmul,
}
CPU = torch.device("cpu")


def codes(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-127, 128, shape, generator=generator, dtype=torch.int8)


def check_exact(path: str, left: Tensor, right: Tensor) -> None:
    if path == "native" and torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip("torch's int8 matmul is not used without AVX-512")
    if path == "native" and left.shape[1] == 1:
        path = "chosen"  # torch reads beyond a single inner column, so it is never used there
    product = PATHS[path](left, right)
    assert product.dtype == torch.int32
    assert torch.equal(product.long(), left.long() @ right.long().t())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("hidden", [1, 576, 1023, 1024, 1025, 1536, 4096, 2**17 - 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_extreme_codes_are_exact(path: str, hidden: int, sign: int) -> None:
    left = torch.full((3, hidden), 127, dtype=torch.int8)
    right = torch.full((2, hidden), 127 * sign, dtype=torch.int8)
    check_exact(path, left, right)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("rows", [1, 8, 17, 128])
@pytest.mark.parametrize("hidden", [576, 1536, 4096])
def test_the_result_equals_the_product_in_int64(path: str, rows: int, hidden: int) -> None:
    check_exact(path, codes(rows, hidden, seed=rows), codes(24, hidden, seed=hidden))


@pytest.mark.parametrize("path", PATHS)
@given(
    rows=st.integers(1, 20), hidden=st.integers(1, 2100), out=st.integers(1, 9), seed=st.integers(0)
)
@settings(max_examples=40, deadline=None)
def test_any_shape_is_exact(path: str, rows: int, hidden: int, out: int, seed: int) -> None:
    seed %= 2**31
    check_exact(path, codes(rows, hidden, seed=seed), codes(out, hidden, seed=seed + 1))


@pytest.mark.parametrize("path", PATHS)
def test_no_row_gives_no_row(path: str) -> None:
    check_exact(path, codes(0, 8, seed=0), codes(4, 8, seed=1))


def test_a_float_piece_is_as_long_as_float32_is_exact() -> None:
    assert gemm.EXACT_FLOAT_COLUMNS * 127**2 < 2**24
    assert (gemm.EXACT_FLOAT_COLUMNS + 128) * 127**2 > 2**24


@pytest.mark.parametrize(
    ("capability", "native"), [("AVX512", True), ("AVX2", False), ("DEFAULT", False)]
)
def test_cpu_path_follows_the_processor(
    monkeypatch: pytest.MonkeyPatch, capability: str, native: bool
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert native_int8_matmul(CPU, (4, 576), (576, 576)) is native
    left, right = codes(4, 1536, seed=0), codes(8, 1536, seed=1)
    assert torch.equal(int8_matmul(left, right).long(), left.long() @ right.long().t())


@pytest.mark.parametrize(
    ("left", "right", "native"),
    [
        ((17, 64), (8, 64), True),
        ((16, 64), (8, 64), False),
        ((17, 60), (8, 60), False),
        ((17, 64), (9, 64), False),
    ],
)
def test_cuda_path_follows_the_shapes(
    left: tuple[int, int], right: tuple[int, int], native: bool
) -> None:
    assert native_int8_matmul(torch.device("cuda"), left, right) is native


def test_other_devices_take_the_float_path() -> None:
    assert not native_int8_matmul(torch.device("mps"), (32, 64), (64, 64))

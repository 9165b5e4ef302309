"""The full text of the errors about what is not an array, or not one this machine can read."""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from call_programs import MM, Cases, a, b, check_case

import weft
from weft.ir.errors import ArgumentError, Error, ShapeError, UnsupportedError


class Elsewhere:
    """Speaks DLPack and says on which device its memory is: CUDA is 2, ROCm 10."""

    def __init__(self, kind: int) -> None:
        self.kind = kind

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.kind, 1)

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("memory of another device must not be asked for")


class Refuses:
    """Speaks DLPack, but will not share."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("exports are turned off")


CASES: Cases = {
    "dtype": (
        MM,
        lambda mm: mm(a.astype(np.float64), b),
        ArgumentError,
        (
            "error: argument `A` must be float32, not float64\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   it was called with an array of float64\n"
            "  help:  convert it: A.astype(numpy.float32)"
        ),
    ),
    "dtype_int": (
        MM,
        lambda mm: mm(a, b.astype(np.int32)),
        ArgumentError,
        (
            "error: argument `B` must be float32, not int32\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                  ^\n"
            "  why:   it was called with an array of int32\n"
            "  help:  convert it: B.astype(numpy.float32)"
        ),
    ),
    "device": (
        MM,
        lambda mm: mm(Elsewhere(10), b),
        ArgumentError,
        (
            "error: argument `A` is on another device (DLPack device 10:1)\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   kernels run on CPUs and CUDA GPUs\n"
            "  help:  copy it to the CPU first"
        ),
    ),
    "devices": (
        MM,
        lambda mm: mm(Elsewhere(2), b),
        ArgumentError,
        (
            "error: `A` is on `cuda:1` and `B` on `cpu`\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                  ^\n"
            "  why:   a kernel runs on one device and reads arrays that are there\n"
            "  help:  copy one of them to the other's device, for example B.to('cuda:1')"
        ),
    ),
    "does_not_share": (
        MM,
        lambda mm: mm(Refuses(), b),
        ArgumentError,
        (
            "error: argument `A` is a Refuses that does not share its memory\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   exports are turned off"
        ),
    ),
    "a_list": (
        MM,
        lambda mm: mm(a.tolist(), b),
        ArgumentError,
        (
            "error: argument `A` is a list, not an array\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   arrays come from numpy, torch, or anything with DLPack or the buffer protocol\n"
            "  help:  convert it: numpy.asarray(A, dtype=...)"
        ),
    ),
    "none": (
        MM,
        lambda mm: mm(None, b),
        ArgumentError,
        (
            "error: argument `A` is a NoneType, not an array\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   arrays come from numpy, torch, or anything with DLPack or the buffer protocol\n"
            "  help:  convert it: numpy.asarray(A, dtype=...)"
        ),
    ),
    "a_number": (
        MM,
        lambda mm: mm(1.5, b),
        ArgumentError,
        (
            "error: argument `A` is a float, not an array\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   arrays come from numpy, torch, or anything with DLPack or the buffer protocol\n"
            "  help:  convert it: numpy.asarray(A, dtype=...)"
        ),
    ),
    "a_text": (
        MM,
        lambda mm: mm("a", b),
        ArgumentError,
        (
            "error: argument `A` is a str, not an array\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   arrays come from numpy, torch, or anything with DLPack or the buffer protocol\n"
            "  help:  convert it: numpy.asarray(A, dtype=...)"
        ),
    ),
    "a_class": (
        MM,
        lambda mm: mm(np.ndarray, b),
        ArgumentError,
        (
            "error: argument `A` is a type, not an array\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   arrays come from numpy, torch, or anything with DLPack or the buffer protocol\n"
            "  help:  convert it: numpy.asarray(A, dtype=...)"
        ),
    ),
    "bytes": (
        MM,
        lambda mm: mm(bytes(12), b),
        ArgumentError,
        (
            "error: argument `A` must be float32, not uint8\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   it was called with an array of uint8\n"
            "  help:  convert it: A.astype(numpy.float32)"
        ),
    ),
    "array_of_rank_1": (
        MM,
        lambda mm: mm(array.array("f", [1, 2, 3]), b),
        ShapeError,
        (
            "error: A must have 2 dimensions, got 1\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   A is declared with shape (M, K), the argument has shape (3,)"
        ),
    ),
    "masked": (
        MM,
        lambda mm: mm(np.ma.masked_array(a, a > 0), b),
        ArgumentError,
        (
            "error: argument `A` is a masked array\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   its mask would be ignored\n"
            "  help:  pass x.filled(value)"
        ),
    ),
    "byte_swapped": (
        MM,
        lambda mm: mm(a.astype(">f4"), b),
        ArgumentError,
        (
            "error: argument `A` is byte-swapped (>f4)\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   kernels read numbers in the byte order of the machine\n"
            "  help:  convert it: A.astype(A.dtype.newbyteorder('='))"
        ),
    ),
    "objects": (
        MM,
        lambda mm: mm(a.astype(object), b),
        ArgumentError,
        (
            "error: argument `A` holds object, not numbers\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   arrays of objects, texts, dates and records have no element type here\n"
            "  help:  convert it to a numeric type with astype"
        ),
    ),
    "complex": (
        MM,
        lambda mm: mm(a.astype(np.complex64), b),
        UnsupportedError,
        (
            "error: argument `A` is complex64, which Weft does not compute with\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  help:  use float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64, bool or an integer type"
        ),
    ),
    "long_double": (
        MM,
        lambda mm: mm(a.astype(np.longdouble), b),
        UnsupportedError,
        (
            "error: argument `A` is float128, which Weft does not compute with\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  help:  use float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64, bool or an integer type"
        ),
    ),
    "dates": (
        MM,
        lambda mm: mm(a.astype("M8[s]"), b),
        ArgumentError,
        (
            "error: argument `A` holds datetime64[s], not numbers\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   arrays of objects, texts, dates and records have no element type here\n"
            "  help:  convert it to a numeric type with astype"
        ),
    ),
    "texts": (
        MM,
        lambda mm: mm(a.astype("U3"), b),
        ArgumentError,
        (
            "error: argument `A` holds <U3, not numbers\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   arrays of objects, texts, dates and records have no element type here\n"
            "  help:  convert it to a numeric type with astype"
        ),
    ),
    "records": (
        MM,
        lambda mm: mm(np.zeros((4, 3), [("re", "f4")]), b),
        ArgumentError,
        (
            "error: argument `A` holds [('re', '<f4')], not numbers\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   arrays of objects, texts, dates and records have no element type here\n"
            "  help:  convert it to a numeric type with astype"
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_array_is_told_in_full(name: str) -> None:
    check_case(*CASES[name])


TORCH_CASES: dict[str, tuple[Callable[[Any], Any], type[Error], str]] = {
    "meta_device": (
        lambda torch: torch.empty(4, 3, device="meta"),
        ArgumentError,
        (
            "error: argument `A` is on device `meta`\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   a meta tensor has no data"
        ),
    ),
    "dtype": (
        lambda torch: torch.ones(4, 3, dtype=torch.float64),
        ArgumentError,
        (
            "error: argument `A` must be float32, not float64\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   it was called with a torch tensor of float64\n"
            "  help:  convert it: A.to(torch.float32)"
        ),
    ),
    "needs_gradient": (
        lambda torch: torch.ones(4, 3, requires_grad=True),
        ArgumentError,
        (
            "error: argument `A` requires a gradient\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   the result would not be connected to it\n"
            "  help:  pass A.detach(), or call under torch.no_grad()"
        ),
    ),
    "parameter": (
        lambda torch: torch.nn.Parameter(torch.ones(4, 3)),
        ArgumentError,
        (
            "error: argument `A` requires a gradient\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   the result would not be connected to it\n"
            "  help:  pass A.detach(), or call under torch.no_grad()"
        ),
    ),
    "sparse": (
        lambda torch: torch.ones(4, 3).to_sparse(),
        ArgumentError,
        (
            "error: argument `A` has the layout torch.sparse_coo\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   kernels read dense tensors\n"
            "  help:  A.to_dense()"
        ),
    ),
    "complex": (
        lambda torch: torch.ones(4, 3, dtype=torch.complex64),
        UnsupportedError,
        (
            "error: argument `A` is torch.complex64, which Weft does not compute with\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  help:  use float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64, bool or an integer type"
        ),
    ),
    "rank": (
        lambda torch: torch.ones(3),
        ShapeError,
        (
            "error: A must have 2 dimensions, got 1\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   A is declared with shape (M, K), the argument has shape (3,)"
        ),
    ),
    "sizes_disagree": (
        lambda torch: torch.ones(4, 4),
        ShapeError,
        (
            "error: dimension 0 of B must be 4, got 3\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                  ^\n"
            "  why:   dimension 1 of A says K = 4, and dimension 0 of B is declared as K"
        ),
    ),
}


@pytest.mark.parametrize("name", TORCH_CASES)
def test_a_wrong_torch_argument_is_told_in_full(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, kind, message = TORCH_CASES[name]
    mm = weft.define(MM)
    for _ in range(4):
        with pytest.raises(Error) as caught:
            mm(make(torch), torch.ones(3, 5))
        assert str(caught.value) == message
        assert type(caught.value) is kind
        assert torch.equal(mm(torch.ones(4, 3), torch.ones(3, 5)), torch.full((4, 5), 3.0))

"""The full text of the errors about arrays passed as out=."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from call_programs import CARRIED, MM, STRIDED, TWO, Cases, a, b, check_case, x

import weft
from weft.ir.errors import ArgumentError, ShapeError


def read_only(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    made = np.zeros(shape, np.float32)
    made.flags.writeable = False
    return made


def zero_stride(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    row = np.zeros(shape[-1], np.float32)
    return np.lib.stride_tricks.as_strided(row, shape, (0, 4))


def misaligned(count: int) -> np.ndarray[Any, Any]:
    return np.zeros(4 * count + 1, np.uint8)[1:].view(np.float32)


CASES: Cases = {
    "zero_stride_output": (
        MM,
        lambda mm: mm(a, b, out=zero_stride((4, 5))),
        ArgumentError,
        (
            "error: argument `C` has several elements in one place and cannot be an output\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                         ^\n"
            "  why:   shape (4, 5) with strides (0, 1) visits some addresses more than once\n"
            "  help:  pass a plain array, for example numpy.empty(shape, dtype)"
        ),
    ),
    "overlapping_windows_output": (
        MM,
        lambda mm: mm(a, b, out=np.lib.stride_tricks.as_strided(np.zeros(9, np.float32), (4, 5), (4, 4))),
        ArgumentError,
        (
            "error: argument `C` has several elements in one place and cannot be an output\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                         ^\n"
            "  why:   shape (4, 5) with strides (1, 1) visits some addresses more than once\n"
            "  help:  pass a plain array, for example numpy.empty(shape, dtype)"
        ),
    ),
    "broadcast_output": (
        MM,
        lambda mm: mm(a, b, out=np.broadcast_to(np.zeros(5, np.float32), (4, 5))),
        ArgumentError,
        (
            "error: argument `C` is read-only and cannot be an output\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                         ^\n"
            "  why:   its memory is marked as not writable\n"
            "  help:  pass a writable array: C.copy(), or numpy.empty(shape, dtype)"
        ),
    ),
    "overlap_input_output": (
        MM,
        lambda mm: (lambda q: mm(q, q.copy(), out=q))(np.ones((4, 4), np.float32)),
        ArgumentError,
        (
            "error: output `C` overlaps `A` in memory\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                         ^\n"
            "  why:   elements would be overwritten while they are still to be read\n"
            "  help:  pass a copy of `A`, or another array as out="
        ),
    ),
    "overlap_second_input": (
        MM,
        lambda mm: (lambda q: mm(q[:4], q[4:].T.copy().T, out=q[:4]))(np.ones((8, 4), np.float32)),
        ArgumentError,
        (
            "error: output `C` overlaps `A` in memory\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                         ^\n"
            "  why:   elements would be overwritten while they are still to be read\n"
            "  help:  pass a copy of `A`, or another array as out="
        ),
    ),
    "overlap_reversed": (
        STRIDED,
        lambda strided: (lambda q: strided(q, 1, out=q[::-1]))(np.ones(6, np.float32)),
        ArgumentError,
        (
            "error: output `Y` overlaps `X` in memory\n"
            "  <define>:1      def strided(float(N) X, int S) -> (Y) {\n"
            "                                                     ^\n"
            "  why:   elements would be overwritten while they are still to be read\n"
            "  help:  pass a copy of `X`, or another array as out="
        ),
    ),
    "overlap_outputs": (
        TWO,
        lambda two: (lambda q: two(x, out=(q[:6], q[3:9])))(np.zeros(9, np.float32)),
        ArgumentError,
        (
            "error: outputs `Y` and `Z` overlap in memory\n"
            "  <define>:1      def two(float(N) X) -> (Y, Z) {\n"
            "                                             ^\n"
            "  why:   one would overwrite elements of the other\n"
            "  help:  pass arrays that share no memory"
        ),
    ),
    "read_only_output": (
        MM,
        lambda mm: mm(a, b, out=read_only((4, 5))),
        ArgumentError,
        (
            "error: argument `C` is read-only and cannot be an output\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                         ^\n"
            "  why:   its memory is marked as not writable\n"
            "  help:  pass a writable array: C.copy(), or numpy.empty(shape, dtype)"
        ),
    ),
    "out_count": (
        TWO,
        lambda two: two(x, out=(x.copy(),)),
        ArgumentError,
        (
            "error: two has 2 outputs, out= holds 1\n"
            "  why:   it is two(float32(N) X) -> (Y, Z)\n"
            "  help:  pass out=(Y, Z)"
        ),
    ),
    "out_one_for_two": (
        TWO,
        lambda two: two(x, out=x.copy()),
        ArgumentError,
        (
            "error: two has 2 outputs, out= holds 1\n"
            "  why:   it is two(float32(N) X) -> (Y, Z)\n"
            "  help:  pass out=(Y, Z)"
        ),
    ),
    "out_two_for_one": (
        MM,
        lambda mm: mm(a, b, out=(a, b)),
        ArgumentError,
        (
            "error: mm has 1 output, out= holds 2\n"
            "  why:   it is mm(float32(M,K) A, float32(K,N) B) -> (C)\n"
            "  help:  pass out=(C,)"
        ),
    ),
    "out_shape": (
        MM,
        lambda mm: mm(a, b, out=np.zeros((4, 6), np.float32)),
        ShapeError,
        (
            "error: dimension 1 of C must be 5, got 6\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                         ^\n"
            "  why:   dimension 1 of B says N = 5, and dimension 1 of C is declared as N"
        ),
    ),
    "out_rank": (
        MM,
        lambda mm: mm(a, b, out=np.zeros(4, np.float32)),
        ShapeError,
        (
            "error: C must have 2 dimensions, got 1\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                         ^\n"
            "  why:   C is declared with shape (M, N), the argument has shape (4,)"
        ),
    ),
    "out_dtype": (
        MM,
        lambda mm: mm(a, b, out=np.zeros((4, 5), np.float64)),
        ArgumentError,
        (
            "error: argument `C` must be float32, not float64\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                         ^\n"
            "  why:   it was called with an array of float64\n"
            "  help:  pass numpy.empty((4, 5), dtype=numpy.float32)"
        ),
    ),
    "out_none_among": (
        TWO,
        lambda two: two(x, out=(None, x.copy())),
        ArgumentError,
        (
            "error: argument `Y` is a NoneType, not an array\n"
            "  <define>:1      def two(float(N) X) -> (Y, Z) {\n"
            "                                          ^\n"
            "  why:   arrays come from numpy, torch, or anything with DLPack or the buffer protocol"
        ),
    ),
    "out_text": (
        MM,
        lambda mm: mm(a, b, out="C"),
        ArgumentError,
        (
            "error: argument `C` is a str, not an array\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                         ^\n"
            "  why:   arrays come from numpy, torch, or anything with DLPack or the buffer protocol"
        ),
    ),
    "out_number": (
        MM,
        lambda mm: mm(a, b, out=np.float32(0)),
        ArgumentError,
        (
            "error: argument `C` is a float32, not an array\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                         ^\n"
            "  why:   arrays come from numpy, torch, or anything with DLPack or the buffer protocol"
        ),
    ),
    "out_misaligned": (
        TWO,
        lambda two: two(x, out=(misaligned(6), np.zeros(6, np.float32))),
        ArgumentError,
        (
            "error: argument `Y` is not aligned to its elements and cannot be an output\n"
            "  <define>:1      def two(float(N) X) -> (Y, Z) {\n"
            "                                          ^\n"
            "  why:   elements of float32 take 4 bytes; its address or byte strides (4,) are not multiples of that\n"
            "  help:  pass a plain array, for example numpy.empty(shape, dtype)"
        ),
    ),
    "carried_missing": (
        CARRIED,
        lambda carried: carried(x),
        ArgumentError,
        (
            "error: carried needs `S` passed in\n"
            "  <define>:1      def carried(float(N) X) -> (float(N) S) {\n"
            "                                                       ^\n"
            "  why:   `S` is read before it is written\n"
            "  help:  call carried(..., out=S)"
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_output_is_told_in_full(name: str) -> None:
    check_case(*CASES[name])


def test_torch_outputs_are_checked_too() -> None:
    torch = pytest.importorskip("torch")
    mm = weft.define(MM)
    for out in (torch.zeros(1, 5).expand(4, 5), torch.zeros(4, 5, dtype=torch.float64), torch.zeros(4, 5).to_sparse()):
        with pytest.raises(ArgumentError, match=r"^error: argument `C` "):
            mm(a, b, out=out)
    shared = torch.ones(4, 4)
    with pytest.raises(ArgumentError, match="output `C` overlaps `A` in memory"):
        mm(shared, torch.ones(4, 4), out=shared)
    with pytest.raises(ArgumentError, match="output `C` overlaps `A` in memory"):
        mm(shared.numpy(), np.ones((4, 4), np.float32), out=shared)  # one memory, two frameworks
    assert torch.equal(shared, torch.ones(4, 4))

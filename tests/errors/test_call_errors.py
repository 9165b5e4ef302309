"""The full text of the errors of a call: counts, names, ranks, sizes, numbers, lookups."""

from __future__ import annotations

import numpy as np
import pytest
from call_programs import EIGHT, LATE, LOOKUP, MM, SCALED, SCATTER, STRIDED, Cases, a, b, check_case, table, x

import weft
from weft.ir.errors import ArgumentError, IndexOutOfRange, ShapeError, TargetError

CASES: Cases = {
    "rank": (
        MM,
        lambda mm: mm(a[0], b),
        ShapeError,
        (
            "error: A must have 2 dimensions, got 1\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   A is declared with shape (M, K), the argument has shape (3,)"
        ),
    ),
    "rank_too_many": (
        MM,
        lambda mm: mm(a[None], b),
        ShapeError,
        (
            "error: A must have 2 dimensions, got 3\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   A is declared with shape (M, K), the argument has shape (1, 4, 3)"
        ),
    ),
    "sizes_disagree": (
        MM,
        lambda mm: mm(a, np.ones((4, 5), np.float32)),
        ShapeError,
        (
            "error: dimension 0 of B must be 3, got 4\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                  ^\n"
            "  why:   dimension 1 of A says K = 3, and dimension 0 of B is declared as K"
        ),
    ),
    "lookup_too_large": (
        LOOKUP,
        lambda lookup: lookup(table, np.int32([0, 4, 1])),
        IndexOutOfRange,
        (
            "error: T index out of range in `O(i, d) = T(I(i), d)`: I[1] = 4, but T has 4 rows\n"
            "  <define>:2      O(i,d) = T(I(i),d)\n"
            "                           ^^^^^^^^^\n"
            "  why:   indices count from 0 and stay below the size; negative ones do not count from the end"
        ),
    ),
    "lookup_negative": (
        LOOKUP,
        lambda lookup: lookup(table, np.int32([0, 1, -1])),
        IndexOutOfRange,
        (
            "error: T index out of range in `O(i, d) = T(I(i), d)`: I[2] = -1, but T has 4 rows\n"
            "  <define>:2      O(i,d) = T(I(i),d)\n"
            "                           ^^^^^^^^^\n"
            "  why:   indices count from 0 and stay below the size; negative ones do not count from the end"
        ),
    ),
    "lookup_empty_table": (
        LOOKUP,
        lambda lookup: lookup(table[:0], np.int32([0])),
        IndexOutOfRange,
        (
            "error: T index out of range in `O(i, d) = T(I(i), d)`: I[0] = 0, but T has 0 rows\n"
            "  <define>:2      O(i,d) = T(I(i),d)\n"
            "                           ^^^^^^^^^\n"
            "  why:   indices count from 0 and stay below the size; negative ones do not count from the end"
        ),
    ),
    "scatter_too_large": (
        SCATTER,
        lambda scatter: scatter(x, np.array([0, 1, 2, 3, 4, 6]), x),
        IndexOutOfRange,
        (
            "error: O index out of range in `O(I(i)) +=! X(i)`: I[5] = 6, but O has 6 elements\n"
            "  <define>:2      O(I(i)) +=! X(i)\n"
            "                  ^^^^^^^^^^^^^^^^\n"
            "  why:   indices count from 0 and stay below the size; negative ones do not count from the end"
        ),
    ),
    "lookup_of_a_result": (
        LATE,
        lambda late: late(x, np.float32([1, 3])),
        IndexOutOfRange,
        (
            "error: T index out of range in `O(i) = T(J(i))`: J[1] = 6, but T has 6 elements\n"
            "  <define>:3      O(i) = T(J(i))\n"
            "                         ^^^^^^^\n"
            "  why:   indices count from 0 and stay below the size; negative ones do not count from the end"
        ),
    ),
    "missing": (
        MM,
        lambda mm: mm(a),
        ArgumentError,
        (
            "error: mm misses `B`\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                  ^\n"
            "  why:   it is mm(float32(M,K) A, float32(K,N) B) -> (C)\n"
            "  help:  call mm(A, B)"
        ),
    ),
    "nothing": (
        MM,
        lambda mm: mm(),
        ArgumentError,
        (
            "error: mm misses `A`, `B`\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                    ^\n"
            "  why:   it is mm(float32(M,K) A, float32(K,N) B) -> (C)\n"
            "  help:  call mm(A, B)"
        ),
    ),
    "extra": (
        MM,
        lambda mm: mm(a, b, b),
        ArgumentError,
        (
            "error: mm takes 2 arguments, got 3\n"
            "  why:   it is mm(float32(M,K) A, float32(K,N) B) -> (C)\n"
            "  help:  pass outputs as out="
        ),
    ),
    "far_too_many": (
        MM,
        lambda mm: mm(a, b, b, b),
        ArgumentError,
        ("error: mm takes 2 arguments, got 4\n  why:   it is mm(float32(M,K) A, float32(K,N) B) -> (C)"),
    ),
    "unknown_name": (
        MM,
        lambda mm: mm(a, X=b),
        ArgumentError,
        ("error: mm has no parameter `X`\n  why:   its parameters are A, B\n  help:  outputs are passed as out="),
    ),
    "given_twice": (
        MM,
        lambda mm: mm(a, b, A=a),
        ArgumentError,
        ("error: `A` was given twice\n  why:   once by position and once by name"),
    ),
    "scalar_text": (
        SCALED,
        lambda scaled: scaled(x, "2", 1, True),
        ArgumentError,
        (
            "error: argument `a` must be a number, not a str\n"
            "  <define>:1      def scaled(float(N) X, float a, int n, bool b) -> (Y) {\n"
            "                                               ^\n"
            "  why:   scalars are Python or numpy numbers, or arrays of no dimension"
        ),
    ),
    "scalar_none": (
        SCALED,
        lambda scaled: scaled(x, None, 1, True),
        ArgumentError,
        (
            "error: argument `a` must be a number, not a NoneType\n"
            "  <define>:1      def scaled(float(N) X, float a, int n, bool b) -> (Y) {\n"
            "                                               ^\n"
            "  why:   scalars are Python or numpy numbers, or arrays of no dimension"
        ),
    ),
    "scalar_array": (
        SCALED,
        lambda scaled: scaled(x, x, 1, True),
        ArgumentError,
        (
            "error: argument `a` must be a number, not an array of shape (6,)\n"
            "  <define>:1      def scaled(float(N) X, float a, int n, bool b) -> (Y) {\n"
            "                                               ^\n"
            "  help:  pass one element, x.item()"
        ),
    ),
    "scalar_complex": (
        SCALED,
        lambda scaled: scaled(x, 2j, 1, True),
        ArgumentError,
        (
            "error: argument `a` must be a number, not a complex\n"
            "  <define>:1      def scaled(float(N) X, float a, int n, bool b) -> (Y) {\n"
            "                                               ^\n"
            "  why:   scalars are Python or numpy numbers, or arrays of no dimension"
        ),
    ),
    "scalar_too_large": (
        SCALED,
        lambda scaled: scaled(x, 10**400, 1, True),
        ArgumentError,
        (
            "error: argument `a` is too large for float32\n"
            "  <define>:1      def scaled(float(N) X, float a, int n, bool b) -> (Y) {\n"
            "                                               ^\n"
            "  why:   it is an integer beyond every float"
        ),
    ),
    "integer_fraction": (
        SCALED,
        lambda scaled: scaled(x, 2, 1.5, True),
        ArgumentError,
        (
            "error: argument `n` must be int32, not 1.5\n"
            "  <define>:1      def scaled(float(N) X, float a, int n, bool b) -> (Y) {\n"
            "                                                      ^\n"
            "  why:   it was called with a float\n"
            "  help:  pass a whole number"
        ),
    ),
    "integer_too_large": (
        SCALED,
        lambda scaled: scaled(x, 2, 2**31, True),
        ArgumentError,
        (
            "error: argument `n` does not fit int32\n"
            "  <define>:1      def scaled(float(N) X, float a, int n, bool b) -> (Y) {\n"
            "                                                      ^\n"
            "  why:   2147483648 is not between -2147483648 and 2147483647"
        ),
    ),
    "bool_number": (
        SCALED,
        lambda scaled: scaled(x, 2, 1, 2),
        ArgumentError,
        (
            "error: argument `b` must be bool, not 2\n"
            "  <define>:1      def scaled(float(N) X, float a, int n, bool b) -> (Y) {\n"
            "                                                              ^\n"
            "  why:   it was called with an int\n"
            "  help:  pass True or False"
        ),
    ),
    "constant_zero": (
        STRIDED,
        lambda strided: strided(x, 0),
        ShapeError,
        (
            "error: `S` must be at least 1: it multiplies an index in `X(S*i)`\n"
            "  <define>:2      Y(i) = X(S*i)\n"
            "                         ^^^^^^\n"
            "  why:   with S = 0"
        ),
    ),
    "constant_float": (
        STRIDED,
        lambda strided: strided(x, 2.0),
        ArgumentError,
        (
            "error: argument `S` must be int32, not 2.0\n"
            "  <define>:1      def strided(float(N) X, int S) -> (Y) {\n"
            "                                              ^\n"
            "  why:   it was called with a float\n"
            "  help:  pass a whole number"
        ),
    ),
    "too_small_for_a_range": (
        EIGHT,
        lambda eight: eight(x),
        ShapeError,
        (
            "error: `X(i)` reads outside dimension 0 of `X` (size N): N >= 8 is needed\n"
            "  <define>:2      Y(i) = X(i) where i in 0:8\n"
            "                         ^^^^\n"
            "  why:   with N = 6"
        ),
    ),
    "too_large_to_allocate": (
        STRIDED,
        lambda strided: strided(np.broadcast_to(np.float32(1), (2**50,)), 1),
        TargetError,
        (
            "error: cannot allocate a float32 array of shape (1125899906842624,)\n"
            "  why:   Unable to allocate 4.00 PiB for an array with shape (1125899906842624,) and data type float32"
        ),
    ),
    "stage": (
        MM,
        lambda mm: mm.show("frob", a, b),
        ArgumentError,
        ("error: there is no stage `frob`\n  help:  use one of: tensor, loops, lowered, llvm, asm, cuda, ptx, sass, c"),
    ),
    "show_wrong": (
        MM,
        lambda mm: mm.show("loops", a),
        ArgumentError,
        (
            "error: mm misses `B`\n"
            "  <define>:1      def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
            "                                                  ^\n"
            "  why:   it is mm(float32(M,K) A, float32(K,N) B) -> (C)\n"
            "  help:  call mm(A, B)"
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_call_is_told_in_full(name: str) -> None:
    check_case(*CASES[name])


@pytest.mark.parametrize("bad", [[0, 4], [-1, 0], [0, -(2**31)], [2**31 - 1, 0]])
def test_a_failed_lookup_writes_nothing(bad: list[int]) -> None:
    lookup = weft.define(LOOKUP)
    out = np.zeros((2, 3), np.float32)
    for _ in range(4):  # slow calls first, then fast ones
        out[...] = 7
        with pytest.raises(ShapeError, match="T index out of range"):
            lookup(table, np.int32(bad), out=out)
        assert (out == 7).all()
        lookup(table, np.int32([1, 2]), out=out)
        np.testing.assert_array_equal(out, table[[1, 2]])


def test_a_failed_scatter_writes_nothing() -> None:
    scatter = weft.define(SCATTER)
    out = np.full(6, 7, np.float32)
    with pytest.raises(ShapeError, match="O index out of range"):
        scatter(x, np.array([0, 1, 2, 3, 4, 6]), x, out=out)
    assert (out == 7).all()


def test_checks_off_skips_the_test_of_lookups() -> None:
    checked, unchecked = weft.define(LOOKUP), weft.define(LOOKUP, checks="off")
    rows = np.int32([0, 3, 1])
    np.testing.assert_array_equal(unchecked(table, rows), checked(table, rows))
    assert "assert" in checked.show("loops", table, rows)
    assert "assert" not in unchecked.show("loops", table, rows)
    # Out of range, but inside the memory behind the view: read, not refused.
    np.testing.assert_array_equal(unchecked(table[:2], np.int32([3])), table[3:])

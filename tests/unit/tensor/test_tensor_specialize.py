from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tensor_oracles import all_ways, program_of

from weft.ir.errors import ShapeError
from weft.ir.expr import Const, idx
from weft.ir.visit import walk
from weft.tensor.specialize import solve_sizes, specialize

MATMUL = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k)*B(k,n) }"
CONV = "def conv(float(W) I, float(KW) K, int S) -> (O) { O(w) +=! I(S*w+kw)*K(kw) }"


def message(text: str, shapes, constants=None) -> str:
    program = program_of(text)
    with pytest.raises(ShapeError) as caught:
        specialize(program, solve_sizes(program, shapes, constants))
    return str(caught.value)


def test_sizes_come_from_shapes():
    assert solve_sizes(program_of(MATMUL), {"A": (3, 4), "B": (4, 5)}) == {"M": 3, "K": 4, "N": 5}


def test_everything_becomes_constant():
    program = specialize(program_of(CONV), {"W": 11, "KW": 3, "S": 2})
    assert program.outputs[0].shape == (idx(5),)
    assert program.sizes == program.constants == program.requirements == ()
    assert [p.name for p in program.params] == ["I", "K"]
    (statement,) = program.statements
    assert [(a.lo, a.hi) for a in statement.axes] == [(idx(0), idx(5)), (idx(0), idx(3))]
    names = {n.name for n in walk(statement.value) if hasattr(n, "name")}
    assert "S" not in names


def test_other_scalars_stay_parameters():
    program = program_of("def f(float(N) A, float alpha) -> (O) { O(i) = A(i) * alpha }")
    assert [p.name for p in specialize(program, {"N": 3}).params] == ["A", "alpha"]


def test_layouts_restride_every_use():
    program = specialize(program_of(MATMUL), {"M": 2, "K": 3, "N": 4}, {"B": (1, 3)})
    found = {n.buffer.strides for n in walk(program.statements[0].value) if hasattr(n, "buffer")}
    assert found == {None, (idx(1), idx(3))}
    assert program.inputs[1].strides == (idx(1), idx(3))


def test_empty_is_fine():
    program = specialize(program_of(MATMUL), {"M": 0, "K": 0, "N": 4})
    assert program.outputs[0].shape == (idx(0), idx(4))


def test_specializing_twice_changes_nothing():
    program = specialize(program_of(MATMUL), {"M": 2, "K": 3, "N": 4})
    assert specialize(program, {}) == program


def test_sizes_that_disagree():
    assert message(MATMUL, {"A": (3, 4), "B": (5, 6)}) == (
        "error: dimension 0 of B must be 4, got 5\n"
        "  <test>:1        def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k)*B(k,n) }\n"
        "                                                  ^\n"
        "  why:   dimension 1 of A says K = 4, and dimension 0 of B is declared as K"
    )


def test_constant_dimension_that_disagrees():
    text = message("def f(float(3) A) -> (O) { O(i) = A(i) }", {"A": (4,)})
    assert "dimension 0 of A must be 3, got 4" in text
    assert "A is declared with shape (3,)" in text


def test_wrong_rank():
    text = message(MATMUL, {"A": (3,), "B": (5, 6)})
    assert "A must have 2 dimensions, got 1" in text
    assert "A is declared with shape (M, K), the argument has shape (3,)" in text


def test_negative_extent():
    program = program_of("def f(float(N) A) -> (O) { O(i) = A(i+3) }")
    with pytest.raises(ShapeError) as caught:
        specialize(replace(program, requirements=()), {"N": 2})
    assert str(caught.value) == (
        "error: dimension 0 of O would be -1\n"
        "  <test>:1        def f(float(N) A) -> (O) { O(i) = A(i+3) }\n"
        "                                        ^\n"
        "  why:   its size is N-3 with N = 2\n"
        "  help:  give larger inputs"
    )


def test_kernel_larger_than_image():
    assert message(CONV, {"I": (2,), "K": (5,)}, {"S": 1}) == (
        "error: `I(S*w+kw)` leaves no room for `w`: W-KW+1 must not be negative\n"
        "  <test>:1        def conv(float(W) I, float(KW) K, int S) -> (O) { O(w) +=! I(S*w+kw)*K(kw) }\n"
        "                                                                             ^^^^^^^^^\n"
        "  why:   with W = 2, KW = 5"
    )


def test_negative_range_of_a_reduction():
    text = message("def f(float(N) A) -> (s) { s +=! A(i+3) }", {"A": (1,)})
    assert "range of index variable `i` would have -2 elements" in text
    assert "it runs over 0:N-3 with N = 1" in text


def test_stated_range_may_start_behind_its_end():
    scan = (
        "def s(float(N) X) -> (float(N) Y) { Y(i) = X(i) where i in 0:min(N,1)\n Y(i) = Y(i-1) + X(i) where i in 1:N }"
    )
    for n in (0, 1, 3):
        (result,) = all_ways(scan, [np.ones(n, np.float32)])
        assert result.tolist() == list(range(1, n + 1))
    (axis,) = specialize(program_of(scan), {"N": 0}).statements[1].axes
    assert (axis.lo, axis.hi) == (idx(1), idx(1))


def test_requirement_that_fails():
    text = message(CONV, {"I": (7,), "K": (5,)}, {"S": 0})
    assert "`S` must be at least 1" in text
    assert "with S = 0" in text


def test_missing_size():
    with pytest.raises(ShapeError, match="size N is not known"):
        specialize(program_of(MATMUL), {"M": 2, "K": 2})


def test_shape_that_no_size_gives():
    program = program_of("def f(float(N) A, float(M) B) -> (float(N+M) O) { O(i) = A(i)\n O(i+N) = B(i) }")
    assert solve_sizes(program, {"A": (2,), "O": (5,)})["M"] == 3
    with pytest.raises(ShapeError, match="dimension 0 of O cannot be 1"):
        solve_sizes(program, {"A": (2,), "O": (1,)})


def test_constants_fold_in_values():
    program = program_of("def f(float(N) A) -> (O) { O(i) = A(i) * float(N) }")
    value = specialize(program, {"N": 4}).statements[0].value
    assert [n.value for n in walk(value) if isinstance(n, Const)] == [4.0]


def test_positions_that_do_not_fit_are_refused():
    """An index used as a value counts as int32, and an untyped argmax gives int32: neither wraps silently."""
    long = {"A": (3_000_000_000,)}
    assert message("def f(float(N) A) -> (O) { O max=! i * int(A(i)) }", long) == (
        "error: `i` does not fit int32\n"
        "  <test>:1        def f(float(N) A) -> (O) { O max=! i * int(A(i)) }\n"
        "                                                     ^\n"
        "  why:   it is used as a value, which counts as int32, and runs over 0:3000000000\n"
        "  help:  say which type it has: `int64(i)`"
    )
    assert message("def f(float(N) A) -> (O) { O argmax=! A(i) }", long) == (
        "error: positions along `i` do not fit the int32 of `O`: declare it as int64\n"
        "  <test>:1        def f(float(N) A) -> (O) { O argmax=! A(i) }\n"
        "                                             ^^^^^^^^^^^^^^^\n"
        "  why:   with N = 3000000000"
    )
    assert "do not fit the uint8" in message("def f(float(N) A) -> (uint8 O) { O argmin=! A(i) }", {"A": (257,)})
    assert "`i*60000+j` does not fit int32" in message(
        "def f(float(N) A) -> (O) { O(i,j) = i*N + j + int(A(i)) where j in 0:N }", {"A": (60_000,)}
    )


def test_positions_that_fit_or_are_converted_are_not():
    for text, size in {
        "def f(float(N) A) -> (O) { O max=! i * int(A(i)) }": 2**31,
        "def f(float(N) A) -> (O) { O max=! int64(i) * int64(A(i)) }": 2**40,
        "def f(float(N) A) -> (O) { O max=! i * A(i) }": 2**40,  # straight to float
        "def f(float(N) A) -> (O) { O max=! (i % 7) * int(A(i)) }": 2**40,
        "def f(float(N) A) -> (O) { O argmax=! A(i) }": 2**31,
        "def f(float(N) A) -> (int64 O) { O argmax=! A(i) }": 2**40,
        "def f(float(N) A) -> (uint8 O) { O argmax=! A(i) }": 256,
        "def f(float(N) A) -> (uint8(N) O) { O(i) = uint8(i) + uint8(A(i)) }": 1000,  # wraps as asked
    }.items():
        program = program_of(text)
        assert specialize(program, {"N": size}).sizes == ()

"""Hardware intrinsics in loop programs: text, verification, interpretation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from weft.ir.errors import LanguageError, ProgramError, ScheduleError
from weft.ir.hardware import HARDWARE, Hardware, declare, find_hardware
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.verify import find_problems, verify

DOT = """kernel pair_dot(A: int8[2], B: int8[3, 2] strides [ldb, 1], ldb: int64, out C: int32[3]) {
  for i in 0:3 { for k in 0:2 { C[i] = C[i] + int32(A[k]) * int32(B[i, k]) } }
}"""

PROGRAM = """kernel mm(A: int8[4, 6], B: int8[3, 6], out C: int32[4, 3]) {
  for m in 0:4 {
    for k in 0:3 {
      call pair_dot.int64(&A[m, k * 2], &B[0, k * 2], 6, &C[m, 0])
    }
  }
}
"""


@pytest.fixture(autouse=True)
def pair_dot() -> Iterator[None]:
    before = dict(HARDWARE)
    declare(Hardware("pair_dot", DOT))
    yield
    HARDWARE.clear()
    HARDWARE.update(before)


def problems(text: str) -> list[str]:
    return [p.text for p in find_problems(parse_kernel(text))]


def test_calls_on_addresses_read_back_as_printed() -> None:
    kernel = parse_kernel(PROGRAM)
    verify(kernel)
    assert print_kernel(kernel) == PROGRAM
    assert parse_kernel(print_kernel(kernel)) == kernel


def test_a_tensorized_nest_reads_back_as_printed() -> None:
    text = "kernel f(out C: int32[3]) {\n  tensorized pair_dot {\n    C[0] = 1_i32 & 3_i32\n  }\n}\n"
    kernel = parse_kernel(text)
    verify(kernel)
    assert print_kernel(kernel) == text


def test_a_call_does_what_its_meaning_says() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((4, 6), (3, 6)))
    c = rng.integers(-9, 9, (4, 3)).astype(np.int32)
    wanted = c + a.astype(np.int32) @ b.T.astype(np.int32)
    interpret(parse_kernel(PROGRAM), [a, b, c])
    np.testing.assert_array_equal(c, wanted)


def test_a_tensorized_nest_runs_its_loops() -> None:
    text = "kernel f(out C: int32[3]) { tensorized pair_dot { for i in 0:3 { C[i] = 7_i32 } } }"
    c = np.zeros(3, np.int32)
    interpret(parse_kernel(text), [c])
    assert c.tolist() == [7, 7, 7]


def test_a_call_that_reaches_beyond_a_buffer_is_found() -> None:
    kernel = parse_kernel(PROGRAM.replace("&B[0, k * 2], 6", "&B[1, k * 2], 6"))
    args = [np.zeros((4, 6), np.int8), np.zeros((3, 6), np.int8), np.zeros((4, 3), np.int32)]
    with pytest.raises(ProgramError, match="`B` of an intrinsic reaches beyond `B`"):
        interpret(kernel, args)


def test_a_race_through_a_call_is_found() -> None:
    kernel = parse_kernel(PROGRAM.replace("for k in", "parallel k in"))
    args = [np.zeros((4, 6), np.int8), np.zeros((3, 6), np.int8), np.zeros((4, 3), np.int32)]
    with pytest.raises(ProgramError, match="data race"):
        interpret(kernel, args)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (", &C[m, 0])", ")", "`pair_dot` takes 4 arguments, got 3"),
        ("&A[m, k * 2]", "&C[m, 0]", "argument `A` of `pair_dot` is the address of a int8"),
        (", 6,", ", &A[0, 0],", "argument `ldb` of `pair_dot` is a int64"),
        ("out C", "C", "`C` is written but it is not an output"),
        ("for m in", "vector m in", "the hardware intrinsic `pair_dot` inside a vector loop"),
    ],
)
def test_wrong_calls_are_problems(old: str, new: str, problem: str) -> None:
    assert problem in problems(PROGRAM.replace(old, new))


def test_an_unknown_intrinsic_is_a_problem() -> None:
    text = "kernel f(out C: int32[3]) { tensorized nothing_such { C[0] = 1_i32 } }"
    assert problems(text) == ["`nothing_such` is not a declared hardware intrinsic"]


def test_a_hardware_call_has_no_value() -> None:
    text = "kernel f(out C: int64[3]) { C[0] = pair_dot.int64(1) }"
    assert problems(text) == ["`pair_dot` is a hardware intrinsic, called for its effect: it has no value"]


def test_declaring_something_else_under_a_name_is_refused() -> None:
    declare(Hardware("pair_dot", DOT))
    with pytest.raises(ScheduleError, match="`pair_dot` is declared already, as something else"):
        declare(Hardware("pair_dot", DOT, needs=("more",)))


def test_a_misspelt_intrinsic_is_named() -> None:
    with pytest.raises(ScheduleError, match="did you mean `pair_dot`"):
        find_hardware("pairdot")


@pytest.mark.parametrize(
    ("meaning", "error"),
    [
        ("kernel f(out C: int32[4]) { parallel i in 0:4 { C[i] = 1_i32 } }", "more than loops and stores"),
        ("kernel f(n: int64, out C: int32[4]) { C[0] = 1_i32 }", "parameter `n` of intrinsic `bad` is used nowhere"),
        ("kernel f(out C: int32[4]) { C[0] = 1 }", "cannot build a store to C"),
    ],
)
def test_a_meaning_that_cannot_be_matched_is_refused(meaning: str, error: str) -> None:
    with pytest.raises(LanguageError, match=error):
        _ = Hardware("bad", meaning).meaning


def test_keys_tell_code_apart() -> None:
    def one(b: object, operands: object) -> None:
        print(1)

    def two(b: object, operands: object) -> None:
        print(2)

    two.__qualname__ = one.__qualname__
    keys = {Hardware("x", DOT, {"cpu": emit}).key for emit in (one, two, "a", "b")}
    assert len(keys) == 4

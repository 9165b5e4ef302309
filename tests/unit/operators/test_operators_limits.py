"""Where Python, the system or integers have limits, errors say so; a caller's depth is no limit."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.errors import InternalError, LanguageError, ShapeError, TargetError
from weft.operators.reproduce import faults_reproduced


def deep(frames: int, call: Callable[[], Any]) -> Any:
    return call() if frames == 0 else deep(frames - 1, call)


def frames_here() -> int:
    frame, count = sys._getframe(), 0
    while frame.f_back is not None:
        frame, count = frame.f_back, count + 1
    return count


@pytest.mark.parametrize("left", [150, 200, 260, 330, 420])
def test_compiling_near_the_recursion_limit(left: int) -> None:
    """Defining and the first call; the limit is as it was afterwards."""
    limit = sys.getrecursionlimit()

    def run() -> Any:
        op = weft.define(f"def near{left}(float(M,K) A) -> (C) {{ C(m) +=! exp(A(m,k)) * {left}.0 }}")
        return op(np.zeros((3, 4), np.float32))

    made = deep(limit - frames_here() - left, run)
    np.testing.assert_array_equal(made, np.full(3, 4 * left, np.float32))
    assert sys.getrecursionlimit() == limit


def test_a_large_constant_subscript_takes_no_memory_of_that_size() -> None:
    text = """
    def gru(float(T,B,J) P, float(B,J) H0, float(J,J) U) -> (H) {
        H(4294967296,b,j) = H0(b,j)
        for t in 0:T {
            G(b,j) +=! H(t,b,k) * U(j,k)
            H(t+1,b,j) = tanh(P(t,b,j) + G(b,j))
        }
    }"""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    weft.define(text)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20


@pytest.mark.parametrize("size", [2**32, 2**33, 2**62])
def test_sizes_whose_product_passes_int64(size: int) -> None:
    row = np.lib.stride_tricks.as_strided(np.ones(1, np.int8), (size,), (0,))
    op = weft.define("def f(int8(M) X, int8(N) Z) -> (int8(M,N) Y) { Y(i,j) = X(i)*Z(j) }")
    with pytest.raises(ShapeError) as caught:
        op(row, row)
    assert str(caught.value) == (
        f"error: Y would have {size} x {size} elements of int8\n"
        "  <define>:1      def f(int8(M) X, int8(N) Z) -> (int8(M,N) Y) { Y(i,j) = X(i)*Z(j) }\n"
        "                                                            ^\n"
        f"  why:   that is more than memory can address, with M = {size}, N = {size}\n"
        "  help:  give smaller inputs"
    )


def test_an_axis_of_none_makes_any_array_small() -> None:
    op = weft.define("def f(int8(M) X, int8(N) Z, int8(K) A) -> (int8(M,N,K) Y) { Y(i,j,k) = X(i)*Z(j)*A(k) }")
    row = np.lib.stride_tricks.as_strided(np.ones(1, np.int8), (2**32,), (0,))
    assert op(np.ones(3, np.int8), row, np.ones(0, np.int8)).shape == (3, 2**32, 0)


@pytest.mark.parametrize(
    ("kind", "value"), [("uint8", "-1"), ("uint8", "300"), ("uint8", "1.5"), ("int8", "200"), ("bool", "1")]
)
def test_a_value_beyond_the_edge_that_the_tensor_cannot_hold(kind: str, value: str) -> None:
    with pytest.raises(LanguageError) as caught:
        weft.define(f"def f({kind}(N) B) -> ({kind}(N) O) {{ O(i) = B(i-1) where i in 0:N, B outside {value} }}")
    given = "float32" if "." in value else "int32"
    where = (
        f"  <define>:1      def f({kind}(N) B) -> ({kind}(N) O) {{ O(i) = B(i-1) where i in 0:N, B outside {value} }}"
    )
    assert str(caught.value) == (
        f"error: `B` holds {kind}, and what is outside is {value}\n{where}\n"
        f"{' ' * (where.index(f' outside {value}') + 9)}{'^' * len(value)}\n"
        "  why:   what is read beyond an edge has the type of the elements, which does not hold "
        f"{given} here\n"
        f"  help:  convert it, `{kind}(...)`, or choose by a test: `i >= 0 ? B(i) : ...`"
    )


@pytest.mark.parametrize(("kind", "value", "first"), [("uint8", "uint8(-1)", 255), ("bool", "true", True)])
def test_a_value_beyond_the_edge_that_is_converted(kind: str, value: str, first: Any) -> None:
    op = weft.define(f"def f({kind}(N) B) -> ({kind}(N) O) {{ O(i) = B(i-1) where i in 0:N, B outside {value} }}")
    assert op(np.zeros(3, kind)).tolist() == [first, 0, 0]


def test_indices_of_64_bits_without_a_sign_are_told_without_one() -> None:
    op = weft.define("def f(float(N) X, uint64(M) I) -> (Y) { Y(m) = X(I(m)) }")
    for schedule in ("auto", "naive"):
        with pytest.raises(ShapeError, match=r"I\[1\] = 18446744073709551615, but X has 5 elements"):
            op.with_schedule(schedule)(np.ones(5, np.float32), np.array([0, 2**64 - 1], np.uint64))


LIMITED = """
import resource
import numpy as np
import weft
resource.setrlimit(resource.RLIMIT_AS, (200_000 << 10, resource.getrlimit(resource.RLIMIT_AS)[1]))
try:
    print(weft.define("def f(float(N) X) -> (Y) { Y(i) = X(i) + 1 }")(np.ones(3, np.float32)))
except weft.Error as error:
    print(error)
"""


def test_a_process_without_memory_for_llvm() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=60)
    assert "LLVM cannot be loaded" in done.stdout
    assert "look at the limits of this process" in done.stdout
    assert not done.stderr


@pytest.mark.parametrize(
    "error", [OSError(errno.EMFILE, "Too many open files"), MemoryError(), OSError(errno.ENOENT, "?")]
)
def test_what_a_system_lacks_is_no_fault_of_ours(error: Exception) -> None:
    op = weft.define("def f(float(N) X) -> (Y) { Y(i) = X(i) + 1 }")
    is_fault = isinstance(error, OSError) and error.errno == errno.ENOENT
    with (
        pytest.raises(InternalError if is_fault else TargetError) as caught,
        faults_reproduced(op._definition, None, True),
    ):
        raise error
    assert ("the system does not give what compiling takes" in str(caught.value)) is not is_fault

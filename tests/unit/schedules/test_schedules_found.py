"""Schedules that random tests found to go wrong once: each is refused with its reason now, or computes the same."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from schedule_kernels import assert_unchanged, floats, kernel_of

sys.path.insert(0, str(Path(__file__).parents[1] / "target"))
from run_compiled import Fenced, Runner, make_arguments

from weft.ir.errors import ScheduleError
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.schedules.schedule import Schedule

RELU = "def relu(float(H,K) A, float(K,W) C) -> (B) { T(m,n) +=! A(m,k) * C(k,n)\n B(m,n) = max(T(m,n), 0.0) }"
BIAS = "def bias(float(H,W) A, float(W) b) -> (B) { B(y,x) = A(y,x) + b(x) }"
ROWS = """def rows(float(H,W) A) -> (E) { S(y,x) = A(y,x) * 2.0
  M(y) max=! S(y,x)
  E(y,x) = S(y,x) - M(y) }"""

#: Program, sizes, the steps before, the last step, and why that is refused.
REFUSED = [
    (  # the test around the whole nest has the same condition as the one around the store
        "def unread(float(N,N) A) -> (B) { T(i) +=! A(i,j) where j in 0:i+1\n B(i) max=! A(i,j) }",
        {"N": 1},
        'tile("i", "j", 2, 1)\nreorder("i_i", "j_i", "j_o")\ncache_write("T", scope="global", at="j_o")',
        'pad("T_store")',
        "beyond the edge `T_cache` may not have a value",
    ),
    (
        RELU,
        {"H": 5, "K": 3, "W": 4},
        'compute_at("T", "m_1")',
        'decompose_reduction("T", at="m_1")',
        "the storage of `T` is inside loop `m_1`, made anew by each iteration",
    ),
    (
        BIAS,
        {"H": 4, "W": 3},
        'pack("b", "i/2 i%2")',
        'compute_at("b_pack_load", "y")',
        "a test around block `b_pack_load` keeps it from reading out of bounds",
    ),
    (
        RELU,
        {"H": 5, "K": 3, "W": 4},
        'fuse("n", "k")',
        'cache_write("T", at="m")',
        "which elements of `T` block `T` reads before they start is not known",
    ),
    (
        RELU,
        {"H": 5, "K": 3, "W": 4},
        'compute_at("T", "n_1")',
        'prefetch("T", "n_1")',
        "`T` is made anew by each iteration of `n_1`: there is nothing to fetch ahead",
    ),
    (
        ROWS,
        {"H": 5, "W": 4},
        'prefetch("S", "y_1", 8)',
        'reverse_compute_at("E", "y_1")',
        "a call reaches into the memory of `S`",
    ),
    (
        BIAS,
        {"H": 7, "W": 4},
        'split("y", 5)\ncache_write("B", scope="global", at="y_o")',
        'cache_read("B_cache", at="y_o")',
        "the copy may read elements of `B_cache` that nothing has written yet",
    ),
    (  # without the test of the last tile it would read what the copy does not have
        "def onward(float(H,W) A) -> (B) { T(y,x) = A(y,x) * 2.0\n B(y,x) = T(y,x) + 1.0 }",
        {"H": 4, "W": 16},
        'split("x_1", 3)\ncache_read("T", at="x_1_i")\ndouble_buffer("T_cache")',
        'precompute("B", "vT_cache_0_1")',
        "a test around block `B` may keep it from reading what `T_cache` lacks",
    ),
]


@pytest.mark.parametrize(("text", "sizes", "before", "last", "why"), REFUSED)
def test_refused(text: str, sizes: dict[str, int], before: str, last: str, why: str) -> None:
    s = Schedule(kernel_of(text, **sizes))
    s.apply(before)
    with pytest.raises(ScheduleError) as caught:
        s.apply(last)
    assert str(caught.value.why).endswith(why)


#: Program, sizes, steps that are all accepted.
ACCEPTED = [
    (
        "def rows(float(H,W) A) -> (S) { S(y) +=! A(y,x) }",
        {"H": 5, "W": 4},
        'split("y", 2, tail="separate")\ncache_write("S")',
    ),
    *(
        (
            "def below(float(N,M) A) -> (T) { T(i) +=! A(i, j) where j in 0:i+1 }",
            sizes,
            'tile("i", "j", 16, 2, tail="separate")',
        )
        for sizes in ({"N": 37, "M": 40}, {"N": 16, "M": 17})
    ),
]


@pytest.mark.parametrize(("text", "sizes", "steps"), ACCEPTED)
def test_accepted(text: str, sizes: dict[str, int], steps: str) -> None:
    original = kernel_of(text, **sizes)
    s = Schedule(original)
    s.apply(steps)
    inputs = [b for b in original.buffers if b.name not in original.outputs]
    assert_unchanged(s, original, *(floats(*(int(e.value) for e in b.shape)) for b in inputs))  # type: ignore[attr-defined]


#: Loop programs as text, and steps that are all accepted.
KERNELS = [
    (  # lanes that read one element may not both fetch it
        """kernel lanes(out A: int16[4], out B: int16[5]) { vector j in 0:5 { B[j] = B[j] + A[(3 + j) % 4] }
          for i in 0:4 { A[i] = A[i] + 1_i16 } }""",
        'cache_write("A", scope="global")',
    ),
    (  # which element is updated depends on what each iteration stores first
        """kernel buckets(I: int32[9], out t: int32[1], out H: int32[8]) { for i in 0:9 { t[0] = t[0] * 3_i32 + I[i]
          H[int64(t[0] & 7_i32)] = H[int64(t[0] & 7_i32)] + 1_i32 } }""",
        'split("i", 3)',
    ),
    (  # the block's nest is a sequence of its own
        """kernel alone(A: float32[4], out y: float32[4]) { for i in 0:4 { seq {
          block a(v spatial 0:4 = i) reads A[v] writes y[v] { y[v] = (A[v] + 1.0) * 2.0 } } } }""",
        'precompute("a", "v")',
    ),
    (  # all lanes along a diagonal have one address
        "kernel diagonal(A: float32[2, 2], out B: float32[2, 2]) {"
        " for i in 0:2 { for j in 0:2 { B[i, j] = A[j, i] } } }",
        'skew("j", "i", 2)\nreorder("j", "i")',
    ),
]


@pytest.mark.parametrize(("text", "steps"), KERNELS)
def test_kernels(text: str, steps: str) -> None:
    original = parse_kernel(text)
    s = Schedule(original)
    s.apply(steps)
    want, got = make_arguments(original), make_arguments(original)
    interpret(original, want)
    interpret(s.kernel, got)
    compiled = [Fenced(a) for a in make_arguments(original)]
    assert Runner(s.kernel)(*(f.array for f in compiled)) == 0
    for right, found, machine in zip(want, got, compiled):
        np.testing.assert_array_equal(found, right)
        np.testing.assert_array_equal(machine.array, right)
        assert machine.is_whole()


def test_storage_has_no_reduction_in_its_size() -> None:
    text = """kernel far(n: int64, out A: int32[n]) {
      A[reduce(min; r in 0:3; r) % n] = 1_i32
      A[4 % n] = 2_i32 }"""
    with pytest.raises(ScheduleError) as caught:
        Schedule(parse_kernel(text)).cache_write("A", scope="local")
    assert caught.value.why == "buffer `A_cache` has a reduction in its size; a let variable can hold that first"

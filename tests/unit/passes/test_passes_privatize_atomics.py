"""Atomic updates: in copies where they are few elements, in lanes, and side by side in memory."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from test_passes_gpu_on_cpu import after, check_against_interpreter

from weft.ir.numpy_dtypes import to_numpy
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.passes.gpu_to_cpu.interleave_threads import interleave_threads
from weft.passes.gpu_to_cpu.privatize_atomics import privatize_atomics

in_copies = partial(privatize_atomics, cores=2, cache_bytes=1 << 19)


def program(body: str, dtype: str = "int32") -> str:
    return f"""kernel k(X: uint8[1024], V: {dtype}[1024], out H: {dtype}[256], out G: {dtype}[m], n: int64, m: int64) {{
  block b in 0:n {{
    thread t in 0:32 {{
      let i: int64 = b * 32 + t
      {body}
    }}
  }}
}}"""


@pytest.mark.parametrize(
    ("body", "copies"),
    [
        ("atomic H[int64(X[i]) & 15] += V[i]", ["H_own: int32[16]"]),
        ("atomic H[(i & 3) + 4] max= V[i]", ["H_own: int32[4]"]),
        ("atomic G[(int64(V[i]) & 7) - 1] += 1_i32", ["G_own: int32[8]"]),
        ("if X[i] < 9_u8 { atomic H[0] += V[i] } atomic G[0] += 1_i32", ["H_own: int32[1]", "G_own: int32[1]"]),
        ("atomic G[int64(V[i])] ^= V[i]", ["G_own: int32[m]"]),  # as many as there are
        ("atomic H[0] += 1_i32 atomic H[1] max= V[i]", []),  # of two kinds
        ("atomic H[0] += 1_i32 G[0] = H[1]", []),  # read too
        ("let old: int32 = 0_i32 old = atomic H[0] += 1_i32 G[0] = old", []),  # the order shows
        ("atomic H[int64(X[i])] += 1_i32", []),  # 960 updates for 256 places in 8 copies
        ("atomic H[0] exchange= V[i]", []),
    ],
)
def test_few_elements_have_copies(body: str, copies: list[str]) -> None:
    text = program(body).replace("0:n", "0:30")
    made = print_kernel(in_copies(parse_kernel(text)))
    for copy in copies:
        assert f"alloc {copy}" in made
    assert made.count("alloc") == len(copies)


@pytest.mark.parametrize("op", ["+", "min", "max", "&", "|", "^"])
@pytest.mark.parametrize("place", ["int64(X[i]) & 3", "0", "int64(V[i]) & 7", "int64(V[i]) - 3"])
def test_copies_add_up_to_the_same(op: str, place: str) -> None:
    """Places outside of what there is a copy of, beyond either end, are updated where they are."""
    text = f"""kernel k(X: uint8[1024], V: int32[1024], out G: int32[16], n: int64) {{
      block b in 0:n {{ thread t in 0:32 {{
        let i: int64 = b * 32 + t
        if t % 3 > 0 {{ atomic G[{place} + 4] {op}= V[i] }}
      }} }}
    }}"""
    numbers = np.random.default_rng(1)
    given = [
        numbers.integers(0, 255, 1024).astype(np.uint8),
        numbers.integers(0, 12, 1024).astype(np.int32),
        numbers.integers(0, 99, 16).astype(np.int32),
        32,
    ]
    check_against_interpreter(parse_kernel(text), args=given)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "float16"])
@pytest.mark.parametrize(
    "update",
    [
        "atomic C[0] += A[i]",
        "atomic C[i] += A[i]",
        "atomic C[i % 3] max= A[i]",
        "if A[i] > A[0] { atomic C[1] min= A[i] }",
        "for j in 0:i % 4 { atomic C[j] += A[i] }",
        "let old: T = A[0] old = atomic S[t] += A[i] atomic C[i] += old",
        "let old: T = A[0] if t % 5 > 0 { old = atomic S[t] exchange= A[i] } C[i] = old",
        "let old: T = A[0] old = atomic S[t] cas= A[i] if A[1] C[i] = old",
        "atomic S[t % 4] += A[i] atomic C[2] += A[i]",
    ],
)
def test_updates_in_lanes(update: str, dtype: str) -> None:
    body = update.replace(": T", f": {dtype}")
    text = f"""kernel k(A: {dtype}[64], out C: {dtype}[64], out D: {dtype}[4]) {{
      block b in 0:2 {{
        alloc S: {dtype}[32] in shared
        for s in 0:32 {{ S[s] = A[s] }}
        vector t in 0:32 {{ let i: int64 = b * 32 + t {{ {body} }} }}
        for s in 0:4 {{ atomic D[s] += S[s] }}
      }} }}"""
    kernel = parse_kernel(text)
    element = to_numpy(kernel.buffers[0].dtype)
    given = [(np.arange(64) * 7 % 11).astype(element), np.arange(64).astype(element), np.zeros(4, element)]
    check_against_interpreter(kernel, args=given)


def test_threads_that_lie_side_by_side_run_so() -> None:
    text = """kernel k(X: uint8[999], out H: int32[256], n: int64, m: int64) {
      block b in 0:2 {
        thread t in 0:32 { for i in 0:(n - t + m * 32 - 1) // (m * 32) { atomic H[int64(X[i * m * 32 + t])] += 1_i32 } }
      } }"""
    made = after(text, interleave_threads)
    assert "thread t in 0:min(" in made.partition("else")[0]


def test_what_threads_collect_meanwhile_lies_in_an_array() -> None:
    text = """kernel k(X: int32[999], out Y: int32[64], n: int64) {
      block b in 0:2 { thread t in 0:32 {
        let s: int32 = X[t]
        let at: int64 = b * 32 + t
        for i in 0:(n - t + 63) // 64 { if X[i * 64 + t] > 3_i32 { s = s + X[i * 64 + t] } }
        Y[at] = s
      } } }"""
    made = after(text, interleave_threads)
    assert "alloc s_kept: int32[32]" in made
    assert made.index("for i") < made.index("thread t in 0:min(")


@pytest.mark.parametrize(
    "loop",
    [
        "for i in 0:20 { atomic H[int64(X[t * 20 + i])] += 1_i32 }",  # each along its own
        "for i in 0:20 { H[b * 128 + t * 4 + i % 4] = int32(X[i * 32 + t]) }",  # what is stored lies elsewhere
        "for i in 0:20 { if X[i * 32 + t] == 3_u8 { break } atomic H[int64(X[i * 32 + t])] += 1_i32 }",
    ],
)
def test_other_threads_do_not(loop: str) -> None:
    text = f"kernel k(X: uint8[999], out H: int32[256]) {{ block b in 0:2 {{ thread t in 0:32 {{ {loop} }} }} }}"
    made = after(text, interleave_threads)
    assert made.index("thread") < made.index("for i")

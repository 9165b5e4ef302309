"""CUDA text of every node kind and type: built by NVRTC, and run by the host against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_on_host import HostRunner, check_on_host, needs_compiler

from weft.ir.dtype import SCALAR_TYPES
from weft.ir.intrinsics import INTRINSICS
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.parser import parse_kernel

pytestmark = needs_compiler
INTEGERS = [n for n, t in SCALAR_TYPES.items() if t.is_integer]
FLOATS = [n for n, t in SCALAR_TYPES.items() if t.is_float]


def suffix_of(dtype: str) -> str:
    return {"bfloat16": "bf16"}.get(dtype, dtype[0] + dtype.lstrip("uintfloa"))


@pytest.mark.parametrize("kind", ["for", "vector", "unroll", "parallel", "block", "thread"])
def test_every_loop_kind(kind: str) -> None:
    text = f"""kernel k(A: float32[5, 37], out B: float32[5, 37]) {{
        for i in 0:5 {{ {kind} j in 0:37 {{ B[i, j] = A[i, j] * 2.0_f32 + float32(j - i) }} }} }}"""
    check_on_host(text)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_arithmetic_of_every_type(dtype: str) -> None:
    suffix = suffix_of(dtype)
    division = "/" if dtype in FLOATS else "//"
    extra = "" if dtype in FLOATS else " + tdiv(A[i], B[i]) * (A[i] % B[i]) - tmod(A[i], B[i])"
    bits = "" if dtype in FLOATS else "D[i] = ((A[i] << B[i]) ^ (A[i] >> B[i])) | (~A[i] & B[i])"
    text = f"""kernel k(A: {dtype}[72], B: {dtype}[72], out C: {dtype}[72], out D: {dtype}[72], out E: bool[72]) {{
        thread t in 0:9 {{ vector v in 0:8 {{
            C[t*8+v] = (A[t*8+v] + B[t*8+v]) * (A[t*8+v] - 3_{suffix}) + A[t*8+v] {division} B[t*8+v]
            D[t*8+v] = min(A[t*8+v], B[t*8+v]) - max(-A[t*8+v], 1_{suffix})
        }} }}
        for i in 0:72 {{
            C[i] = C[i]{extra}
            {bits}
            E[i] = A[i] < B[i] || !(A[i] == B[i]) && A[i] >= 2_{suffix}
        }} }}"""
    check_on_host(text)


@pytest.mark.parametrize("source", SCALAR_TYPES)
def test_casts_between_all_types(source: str) -> None:
    names = list(SCALAR_TYPES)
    outs = ", ".join(f"out O{n}: {t}[67]" for n, t in enumerate(names))
    stores = " ".join(f"O{n}[i] = {'A[i]' if t == source else f'{t}(A[i])'}" for n, t in enumerate(names))
    check_on_host(f"kernel k(A: {source}[67], {outs}) {{ for i in 0:67 {{ {stores} }} }}")


@pytest.mark.parametrize("dtype", [n for n in SCALAR_TYPES if n != "bool"])
def test_atomics(dtype: str) -> None:
    suffix = suffix_of(dtype)
    text = f"""kernel k(A: {dtype}[33], out B: {dtype}[4], out C: {dtype}[4]) {{
        for i in 0:33 {{
            atomic B[i % 4] += A[i]  atomic C[0] max= A[i]  atomic C[1] min= A[i]  atomic C[2] exchange= A[i]
            let old: {dtype} = 0_{suffix} {{ old = atomic C[3] cas= 5_{suffix} if 2_{suffix}  B[0] = old }} }} }}"""
    kernel = parse_kernel(text)
    args = [np.arange(33), np.zeros(4), np.array([3, 4, 5, 2])]
    element = to_numpy(kernel.buffers[0].dtype)
    check_on_host(kernel, [a.astype(element) for a in args])


def test_atomics_of_many_threads() -> None:
    text = """kernel k(A: int32[512], out B: int32[7], out C: bool[7], out D: float32[1]) {
        block b in 0:4 { thread t in 0:128 {
            atomic B[(b * 128 + t) % 7] += A[b * 128 + t]
            atomic C[(b * 128 + t) % 7] |= A[b * 128 + t] > 5_i32
            atomic D[0] max= float32(A[b * 128 + t]) } } }"""
    args = [np.arange(512, dtype=np.int32) % 11, np.zeros(7, np.int32), np.zeros(7, bool), np.zeros(1, np.float32)]
    check_on_host(text, args)


def test_explicit_vectors() -> None:
    text = """kernel k(A: float32[32], out B: float32[32], out C: float32[2]) {
        B[ramp(0, 1, 8)] = A[ramp(31, -1, 8)] + broadcast(A[3], 8)
        B[ramp(8, 3, 8)] = A[ramp(1, 2, 8)] * 2.0_f32x8
        C[0] = shuffle([A[ramp(0, 1, 4)], A[ramp(8, 1, 4)]], [5])
        C[ramp(0, 1, 2)] = shuffle([A[ramp(0, 1, 4)], A[ramp(8, 1, 4)]], [6, 1]) }"""
    check_on_host(text)


def test_vectors_kept_in_variables() -> None:
    text = """kernel k(A: float32[8], out B: float32[5, 8]) {
        let v: float32x8 = A[ramp(0, 1, 8)] { let b: bool = A[0] > 0.0 {
            parallel i in 0:5 { B[i, ramp(0, 1, 8)] = b ? v + broadcast(float32(i), 8) : v } } } }"""
    check_on_host(text)


@pytest.mark.parametrize("name", SCALAR_TYPES)
def test_scalar_parameters_of_every_type(name: str) -> None:
    check_on_host(f"kernel k(x: {name}, out B: {name}[3]) {{ for i in 0:3 {{ B[i] = x }} }}")


def test_control_flow() -> None:
    text = """kernel k(A: int32[50], out B: int32[50]) {
        for i in 0:50 {
            B[i] = 0_i32
            let n: int32 = A[i] % 50_i32 {
                while n > 0_i32 {
                    n = n - 1_i32
                    if n == 7_i32 { continue }
                    B[i] = B[i] + n
                    if B[i] > 100_i32 { break }
                }
            }
            unroll j in 0:4 { if j == 2 { continue }  B[i] = B[i] * 3_i32  if B[i] > 1000_i32 { break } }
        }
        if B[0] >= 0_i32 { return }
        B[1] = -1_i32 }"""
    check_on_host(text)


def test_lazy_operands_do_not_touch_memory() -> None:
    text = """kernel k(A: float32[8], N: int64, out B: float32[40], out C: bool[40]) {
        thread t in 0:5 { vector i in 0:8 {
            B[t*8+i] = t*8+i < N ? A[t*8+i] : 7.0_f32
            C[t*8+i] = (t*8+i < N && A[t*8+i] > 0.0_f32) || (t*8+i >= N && 1_i64 < t*8+i)
        } } }"""
    check_on_host(text, [np.arange(8, dtype=np.float32) - 3, 8, np.zeros(40, np.float32), np.zeros(40, bool)])


def test_private_arrays() -> None:
    text = """kernel k(A: int32[67, 4], out B: int32[67]) {
        vector i in 0:67 {
            alloc T: int32[4] in local {
                for j in 0:4 { T[j] = A[i, j] }
                let s: int32 = 0_i32 { for j in 0:4 { s = s * 3_i32 + T[(j + i) % 4] }  B[i] = s } } } }"""
    check_on_host(text)


def test_temporaries_of_a_call_and_sizes_known_at_the_call() -> None:
    text = """kernel k(A: float32[N, 8], N: int64, out B: float32[N, 8]) {
        alloc T: float32[N, 8] {
            block i in 0:N { thread j in 0:8 { T[i, j] = A[i, j] * 2.0 } }
            if N > 2 { block i in 0:N { thread j in 0:8 { B[i, j] = T[N - 1 - i, j] } } }
            else { block i in 0:N { B[i, 0] = 1.0 } } } }"""
    for n in (1, 5):
        args = [np.arange(n * 8, dtype=np.float32).reshape(n, 8), n, np.zeros((n, 8), np.float32)]
        runner = check_on_host(text, args)
    assert [b.name for b in runner.program.temporaries] == ["T"]
    assert len(runner.program.launches) == 3


def test_more_than_three_block_and_thread_loops() -> None:
    text = """kernel k(A: float32[2, 3, 4, 5, 2, 3, 2, 2], out B: float32[2, 3, 4, 5, 2, 3, 2, 2]) {
        block a in 0:2 { block b in 0:3 { block c in 0:4 { block d in 0:5 {
            thread e in 0:2 { thread f in 0:3 { thread g in 0:2 { thread h in 0:2 {
                B[a, b, c, d, e, f, g, h] = A[a, b, c, d, e, f, g, h] + float32(a * 5 + h) } } } } } } } } }"""
    check_on_host(text)


def test_failed_assert_reports_site_and_values_and_stops_what_follows() -> None:
    text = """kernel k(I: int32[1000], out B: int32[1000]) {
        for i in 0:1000 { assert I[i] >= 0_i32, "negative {0} at {1}", int64(I[i]), i
                        assert I[i] < 9_i32, "large {0} at {1}", int64(I[i]), i }
        block i in 0:10 { thread j in 0:100 { B[i * 100 + j] = I[i * 100 + j] + 1_i32 } } }"""
    runner = HostRunner(parse_kernel(text))
    good = np.arange(1000, dtype=np.int32) % 9
    out = np.zeros(1000, np.int32)
    assert runner(good, out) == 0
    np.testing.assert_array_equal(out, good + 1)
    bad = good.copy()
    bad[637] = 50
    out[:] = 0
    assert runner(bad, out) == 2
    assert list(runner.record[1:3]) == [50, 637]
    assert not out.any()
    assert [s.message for s in runner.program.sites] == ["negative {0} at {1}", "large {0} at {1}"]


def test_barriers_and_shared_memory() -> None:
    text = """kernel k(A: float32[4, 64], out B: float32[4, 64]) {
        block b in 0:4 {
            alloc S: float32[64] in shared
            thread t in 0:64 {
                S[t] = A[b, t]
                barrier(block)
                for k in 0:6 {
                    let x: float32 = S[(t + 1) % 64]
                    barrier(block)
                    S[t] = S[t] + x
                    barrier(block)
                }
                B[b, t] = S[63 - t] } } }"""
    args = [np.arange(256, dtype=np.float32).reshape(4, 64), np.zeros((4, 64), np.float32)]
    check_on_host(text, args)


def test_large_shared_memory_is_asked_for_at_the_launch() -> None:
    text = """kernel k(A: float64[64, 128], out B: float64[128, 64]) {
        block b in 0:1 {
            alloc S: float64[64, 128] in shared
            thread t in 0:64 {
                for j in 0:128 { S[t, j] = A[t, j] }
                barrier(block)
                for j in 0:128 { B[j, t] = S[(t + j) % 64, j] } } } }"""
    runner = check_on_host(text)
    assert runner.program.launches[0].shared_bytes == 65536


_UNARY = [e.name for e in INTRINSICS.values() if e.arity == 1 and e.rule == "float"]
_BINARY = [e.name for e in INTRINSICS.values() if e.arity == 2]
#: Units in the last place by which the host's functions may differ from numpy's.
_CLOSE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-13}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("fast", [False, True])
def test_every_function(dtype: str, fast: bool) -> None:
    outs = ", ".join(f"out o_{n}: {dtype}[66]" for n in (*_UNARY, *_BINARY, "fma", "abs"))
    tests = ", ".join(f"out o_{n}: bool[66]" for n in ("isnan", "isinf", "isfinite"))
    calls = [f"o_{n}[i] = {n}(A[i])" for n in (*_UNARY, "abs", "isnan", "isinf", "isfinite")]
    calls += [f"o_{n}[i] = {n}(A[i], B[i])" for n in _BINARY] + ["o_fma[i] = fma(A[i], B[i], A[i])"]
    text = f"kernel k(A: {dtype}[66], B: {dtype}[66], {outs}, {tests}) {{ for i in 0:66 {{ {' '.join(calls)} }} }}"
    with np.errstate(all="ignore"):
        check_on_host(text, fast=fast, tolerance=_CLOSE[dtype])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_functions_of_integers(dtype: str) -> None:
    text = f"""kernel k(A: {dtype}[66], out B: {dtype}[66], out C: {dtype}[66]) {{
        for i in 0:66 {{ B[i] = abs(A[i])  C[i] = popcount(A[i]) }} }}"""
    check_on_host(text)


def test_subscripts_beyond_32_bits_are_computed_in_64() -> None:
    far = 2_900_000 * 2000
    text = """kernel k(A: uint8[3000000, 2000], I: int32[4], out B: uint8[4]) {
        block b in 0:2 { thread t in 0:2 { B[b*2+t] = A[int64(I[b*2+t]), b*2+t] } } }"""
    runner = HostRunner(parse_kernel(text))
    assert "(long long)" in runner.program.source
    values, out = np.arange(40, 44, dtype=np.uint8), np.zeros(4, np.uint8)
    start = _Address(values.ctypes.data - far)
    runner(start, np.full(4, 2_900_000, np.int32), out)
    np.testing.assert_array_equal(out, values)


class _Address:
    """Looks like an array that starts at an address: only what lies far behind it is read."""

    def __init__(self, address: int) -> None:
        self.ctypes = self
        self.data = address


def test_threads_of_a_row_reduce_by_shuffles() -> None:
    text = """kernel k(A: float32[6, 256], out M: float32[6], out S: float32[6]) {
        block r in 0:6 {
            alloc p: float32[128]  alloc q: float32[128]
            thread t in 0:128 { p[t] = max(A[r, t], A[r, t + 128])  q[t] = A[r, t] + A[r, t + 128] }
            M[r] = -inf
            for t in 0:128 { M[r] = max(M[r], p[t]) }
            S[r] = 0.0
            for t in 0:128 { S[r] = S[r] + q[t] } } }"""
    values = np.random.default_rng(0).integers(-50, 50, (6, 256)).astype(np.float32)
    values[3, 77] = np.nan
    runner = check_on_host(text, [values, np.zeros(6, np.float32), np.zeros(6, np.float32)], fast=True)
    assert runner.program.source.count("__shfl_xor_sync") == 10
    assert runner.program.source.count("__syncthreads") == 2


@pytest.mark.parametrize(("rows", "columns"), [(8, 16), (4, 32), (2, 64), (3, 96), (5, 12), (1, 128), (16, 4)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bfloat16"])
def test_groups_of_threads_reduce(rows: int, columns: int, dtype: str) -> None:
    zero = "0" if dtype == "int64" else "0.0" if dtype == "float32" else "0.0_bf16"
    text = f"""kernel k(A: {dtype}[4, {rows}, {columns}], out S: {dtype}[4, {rows}], out T: {dtype}[4, {columns}]) {{
        block b in 0:4 {{
            alloc p: {dtype}[{rows}, {columns}]  alloc s: {dtype}[{rows}]  alloc u: {dtype}[{columns}]
            thread y in 0:{rows} {{ thread x in 0:{columns} {{ p[y, x] = A[b, y, x] + A[b, y, x] }} }}
            thread y in 0:{rows} {{ s[y] = {zero}  for x in 0:{columns} {{ s[y] = s[y] + p[y, x] }} }}
            thread x in 0:{columns} {{ u[x] = {zero}  for y in 0:{rows} {{ u[x] = u[x] + p[y, x] }} }}
            thread y in 0:{rows} {{ S[b, y] = s[y] }}
            thread x in 0:{columns} {{ T[b, x] = u[x] }} }} }}"""
    kernel = parse_kernel(text)
    values = np.random.default_rng(0).integers(-1, 2, (4, rows, columns))
    element = to_numpy(kernel.buffers[0].dtype)
    args = [values.astype(element), np.zeros((4, rows), element), np.zeros((4, columns), element)]
    check_on_host(kernel, args, fast=True)


def test_a_reduction_in_a_loop_waits_before_its_memory_is_used_again() -> None:
    text = """kernel k(A: float32[5, 64], out S: float32[5]) {
        block b in 0:1 {
            alloc p: float32[64]  alloc s: float32[1]
            for r in 0:5 {
                thread t in 0:64 { p[t] = A[r, t] }
                s[0] = -inf
                for t in 0:64 { s[0] = max(s[0], p[t]) }
                S[r] = s[0] } } }"""
    runner = check_on_host(text)
    assert runner.program.source.count("__syncthreads") == 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8", "float64", "bool"])
@pytest.mark.parametrize("extent", [64, 61])
def test_guarded_vectors_are_wide_where_all_lanes_are_inside(dtype: str, extent: int) -> None:
    text = f"""kernel k(A: {dtype}[{extent}], out B: {dtype}[{extent}]) {{
        block b in 0:2 {{ thread t in 0:4 {{ vector v in 0:8 {{
            if b*32 + t*8 + v < {extent} {{ B[b*32 + t*8 + v] = A[b*32 + t*8 + v] }} }} }} }} }}"""
    runner = check_on_host(text)
    assert "load<" in runner.program.source
    unaligned = check_on_host(text, aligned=False)
    assert "load<" not in unaligned.program.source


def test_rows_that_are_not_aligned_are_read_in_smaller_pieces() -> None:
    text = """kernel k(A: float32[6, 14], out B: float32[6, 14]) {
        block r in 0:6 { thread t in 0:3 { vector v in 0:4 { B[r, t*4+v] = A[r, t*4+v] + 1.0 } }
                         thread t in 0:2 { B[r, 12+t] = A[r, 12+t] } } }"""
    source = check_on_host(text).program.source
    assert "load<8>" in source
    assert "load<16>" not in source


def test_copies_into_rings_of_shared_memory() -> None:
    fill = """thread t in 0:64 { unroll u in 0:4 { vector v in 0:4 {
        R[{turn}, (u*64+t)//4, (u*64+t)%4*4+v] = {value} } } }"""
    source = "A[(u*64+t)//4, ({k})*16+(u*64+t)%4*4+v]"
    first = "".join(
        fill.replace("{turn}", str(k)).replace("{value}", source.replace("{k}", str(k)))
        + " call async_commit(&R[0,0,0])\n"
        for k in range(2)
    )
    later = fill.replace("{turn}", "(k+2)%3").replace("{value}", "N > 3 ? " + source.replace("{k}", "k+2") + " : 0.0")
    text = f"""kernel pipe(A: float32[64, 128], N: int64, out C: float32[64]) {{
      block b in 0:1 {{
        alloc acc: float32[64]
        alloc R: float32[3, 64, 16] in shared
        call async_fill(&R[0,0,0])
        {first}
        thread t in 0:64 {{ acc[t] = 0.0 }}
        for k in 0:8 {{
          if k + 2 < 8 {{ {later} }}
          call async_commit(&R[0,0,0])
          thread t in 0:64 {{ for j in 0:16 {{ acc[t] = acc[t] + R[k%3, t, j] }} }}
        }}
        thread t in 0:64 {{ C[t] = acc[t] }} }} }}"""
    values = np.arange(64 * 128, dtype=np.float32).reshape(64, 128)
    for n in (1, 9):
        runner = check_on_host(text, [values, n, np.zeros(64, np.float32)])
    assert runner.program.source.count("async_copy<16>(") == 3
    assert runner.program.source.count("async_wait<1>();") == 1

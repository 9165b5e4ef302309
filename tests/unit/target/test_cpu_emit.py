"""Emission of every node kind, on every x86-64 level, against the interpreter."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from run_compiled import MACHINES, Runner, check_against_interpreter

from weft.ir.dtype import SCALAR_TYPES
from weft.ir.parser import parse_kernel
from weft.target.cpu.host import NAMED, host_machine
from weft.target.cpu.lower import emit_kernel

HOST = host_machine()
INTEGERS = [n for n, t in SCALAR_TYPES.items() if t.is_integer]
FLOATS = [n for n, t in SCALAR_TYPES.items() if t.is_float]


@pytest.mark.parametrize("kind", ["for", "vector", "unroll", "parallel", "block", "thread"])
def test_every_loop_kind(kind: str) -> None:
    text = f"""kernel k(A: float32[5, 37], out B: float32[5, 37]) {{
        for i in 0:5 {{ {kind} j in 0:37 {{ B[i, j] = A[i, j] * 2.0_f32 + float32(j - i) }} }} }}"""
    check_against_interpreter(text, MACHINES)


@pytest.mark.parametrize("kind", ["for", "vector"])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_arithmetic_of_every_type(dtype: str, kind: str) -> None:
    suffix = {"bfloat16": "bf16"}.get(dtype, dtype[0] + dtype.lstrip("uintfloa"))
    division = "/" if dtype in FLOATS else "//"
    extra = "" if dtype in FLOATS else " + tdiv(A[i], B[i]) * (A[i] % B[i]) - tmod(A[i], B[i])"
    bits = "" if dtype in FLOATS else "D[i] = ((A[i] << B[i]) ^ (A[i] >> B[i])) | (~A[i] & B[i])"
    text = f"""kernel k(A: {dtype}[70], B: {dtype}[70], out C: {dtype}[70], out D: {dtype}[70], out E: bool[70]) {{
        {kind} i in 0:70 {{
            C[i] = (A[i] + B[i]) * (A[i] - 3_{suffix}) + A[i] {division} B[i]{extra}
            D[i] = min(A[i], B[i]) - max(-A[i], 1_{suffix})
            {bits}
            E[i] = A[i] < B[i] || !(A[i] == B[i]) && A[i] >= 2_{suffix}
        }} }}"""
    check_against_interpreter(text, MACHINES)


@pytest.mark.parametrize("kind", ["for", "vector"])
def test_casts_between_all_types(kind: str) -> None:
    names = list(SCALAR_TYPES)
    for source in names:
        outs = ", ".join(f"out O{n}: {t}[67]" for n, t in enumerate(names))
        stores = " ".join(f"O{n}[i] = {'A[i]' if t == source else f'{t}(A[i])'}" for n, t in enumerate(names))
        check_against_interpreter(f"kernel k(A: {source}[67], {outs}) {{ {kind} i in 0:67 {{ {stores} }} }}")


def test_floats_beyond_every_integer() -> None:
    ends = [2.0**n for n in (7, 8, 15, 16, 31, 32, 63, 64)]
    near = np.array([0.0, *ends, *(e - 1 for e in ends), np.nextafter(2.0**63, 0), np.inf, np.nan, 0.5, 1e30])
    for source, values in (("float32", near.astype(np.float32)), ("float64", near)):
        both = np.concatenate([values, -values])
        for target in INTEGERS:
            text = f"kernel k(A: {source}[44], out B: {target}[44]) {{ vector i in 0:44 {{ B[i] = {target}(A[i]) }} }}"
            check_against_interpreter(text, MACHINES, [both, np.zeros(44, target)])


def test_casts_without_half_instructions() -> None:
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    text = """kernel k(A: float16[65536], out B: float32[65536], out C: float16[65536]) {
        vector i in 0:65536 { B[i] = float32(A[i])  C[i] = A[i] } }"""
    args = [every, np.zeros(65536, np.float32), np.zeros(65536, np.float16)]
    runner = Runner(parse_kernel(text), NAMED["x86-64-sse2"])
    assert runner(*args) == 0
    np.testing.assert_array_equal(args[1], every.astype(np.float32))
    np.testing.assert_array_equal(args[2], every)


def test_rounding_to_half_is_to_nearest_even() -> None:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 1 << 32, 100_000, dtype=np.uint32)
    half = np.arange(0, 31744, dtype=np.uint16).view(np.float16).astype(np.float32)
    ties = (half[1:] + half[:-1]) / 2
    values = np.concatenate([bits.view(np.float32), ties, -ties, np.nextafter(ties, np.float32(0))])
    text = f"""kernel k(A: float32[{values.size}], out B: float16[{values.size}]) {{
        vector i in 0:{values.size} {{ B[i] = float16(A[i]) }} }}"""
    with np.errstate(over="ignore"):
        want = values.astype(np.float16)
    for machine in MACHINES:
        got = np.zeros(values.size, np.float16)
        assert Runner(parse_kernel(text), machine)(values, got) == 0
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("strides", ["[37, 1]", "[1, 5]", "[-37, -1]", "[0, 1]", "[74, 2]", "[3, 0]", "[40, -1]"])
@pytest.mark.parametrize("kind", ["for", "vector"])
def test_any_strides(strides: str, kind: str) -> None:
    text = f"""kernel k(A: float32[5, 37] strides {strides}, out B: float32[5, 37]) {{
        for i in 0:5 {{ {kind} j in 0:37 {{ B[i, j] = A[i, j] }} }} }}"""
    kernel = parse_kernel(text)
    base = np.arange(1000, dtype=np.float32)
    steps = [int(s) * 4 for s in strides.strip("[]").split(",")]
    view = np.lib.stride_tricks.as_strided(base[500:], (5, 37), steps)
    for machine in MACHINES:
        out = np.zeros((5, 37), np.float32)
        assert Runner(kernel, machine)(view, out) == 0
        np.testing.assert_array_equal(out, view)


@pytest.mark.parametrize("step", [2, 3, 4, 5, 9, 16, 17, -2])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64", "float16"])
def test_every_nth_element(step: int, dtype: str) -> None:
    last = abs(step) * 63
    index = f"{step} * i" if step > 0 else f"{last} + {step} * i"
    text = f"kernel k(A: {dtype}[{last + 1}], out B: {dtype}[64]) {{ vector i in 0:64 {{ B[i] = A[{index}] }} }}"
    check_against_interpreter(text, MACHINES)


@pytest.mark.parametrize("width", [31, 32, 33, 40])
@pytest.mark.parametrize("step", [2, 3, 4, 9])
def test_windows_share_the_vectors_they_pick_from(step: int, width: int) -> None:
    """At the end of the array only what is read may be touched: nothing is shared there, or it is all inside."""
    last = step * (width - 1) + 2
    text = f"""kernel k(A: float32[3, {last + 1}], out B: float32[3, {width}]) {{
        for r in 0:3 {{ vector i in 0:{width} {{
            B[r, i] = A[r, {step} * i] * 2.0_f32 + A[r, {step} * i + 1] * 3.0_f32 + A[r, {step} * i + 2] }} }} }}"""
    check_against_interpreter(text, MACHINES)


def test_elements_picked_from_the_same_vectors() -> None:
    text = """kernel k(A: float32[2, 64], out B: float32[16]) {
        vector i in 0:16 { B[i] = A[0, 2 * i] + A[0, 2 * i + 1] } }"""
    machine = NAMED["x86-64-avx512"]
    assert emit_kernel(parse_kernel(text), machine).count("load <16 x float>") == 2
    alone = text.replace("A[0, 2 * i] + A[0, 2 * i + 1]", "A[1, 2 * i + 1] + A[1, 2 * i + 32]")
    assert emit_kernel(parse_kernel(alone), machine).count("load <16 x float>") == 4


def test_strided_and_reversed_stores() -> None:
    text = """kernel k(A: int32[37], out B: int32[37] strides [3], out C: int32[37] strides [-1]) {
        vector j in 0:37 { B[j] = A[j]  C[j] = A[36 - j] } }"""
    a = np.arange(37, dtype=np.int32)
    for machine in MACHINES:
        b, c = np.full(120, -1, np.int32), np.full(40, -1, np.int32)
        assert Runner(parse_kernel(text), machine)(a, b, c[36:]) == 0
        np.testing.assert_array_equal(b[:111:3], a)
        assert (b[1::3] == -1).all()
        np.testing.assert_array_equal(c[:37], a)


@pytest.mark.parametrize("kind", ["for", "vector"])
def test_lazy_operands_do_not_touch_memory(kind: str) -> None:
    """The array ends right before a page that may not be read."""
    text = f"""kernel k(A: float32[8], N: int64, out B: float32[40], out C: bool[40]) {{
        {kind} i in 0:40 {{
            B[i] = i < N ? A[i] : 7.0_f32
            C[i] = (i < N && A[i] > 0.0_f32) || (i >= N && 1_i64 < i)
        }} }}"""
    import ctypes
    import mmap

    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
    a = np.frombuffer(pages, np.float32, 8, mmap.PAGESIZE - 32)
    a[:] = [1, -1, 2, -2, 3, -3, 4, -4]
    for machine in MACHINES:
        b, c = np.zeros(40, np.float32), np.zeros(40, bool)
        assert Runner(parse_kernel(text), machine)(a, 8, b, c) == 0
        np.testing.assert_array_equal(b, np.concatenate([a, np.full(32, 7, np.float32)]))
        np.testing.assert_array_equal(c, np.concatenate([a > 0, np.ones(32, bool)]))


def test_uniform_load_behind_a_varying_condition() -> None:
    text = """kernel k(A: float32[3], I: int64[1], out B: float32[40]) {
        vector i in 0:40 { B[i] = i < I[0] ? A[I[0] - 1] : 7.0_f32 } }"""
    for value in (0, 3):
        args = [np.arange(3, dtype=np.float32), np.array([value]), np.zeros(40, np.float32)]
        check_against_interpreter(text, MACHINES, args)


def test_masked_if_else_and_assignment() -> None:
    text = """kernel k(A: int32[67], out B: int32[67], out C: int32[67]) {
        vector i in 0:67 {
            let x: int32 = A[i] {
                if A[i] > 3_i32 { x = x * 2_i32  B[i] = x } else if i < 10 { B[i] = 5_i32 } else { B[i] = x - 1_i32 }
                C[i] = x
            } } }"""
    check_against_interpreter(text, MACHINES)


def test_ragged_loop_in_lanes() -> None:
    text = """kernel k(A: float32[67], out B: float32[67]) {
        vector i in 0:67 {
            let s: float32 = 0.0_f32 { for j in i // 2:i + 1 { s = s + A[j] }  B[i] = s } } }"""
    check_against_interpreter(text, MACHINES)


def test_private_buffer_in_lanes() -> None:
    text = """kernel k(A: int32[67, 4], out B: int32[67]) {
        vector i in 0:67 {
            alloc T: int32[4] in local {
                for j in 0:4 { T[j] = A[i, j] }
                let s: int32 = 0_i32 { for j in 0:4 { s = s * 3_i32 + T[(j + i) % 4] }  B[i] = s } } } }"""
    check_against_interpreter(text, MACHINES)


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
    check_against_interpreter(text, MACHINES)


def test_heap_buffers_are_freed_on_every_way_out() -> None:
    text = """kernel k(N: int64, out B: int32[10]) {
        for i in 0:10 {
            alloc T: int32[N * 100000] {
                T[0] = int32(i)  T[N * 99999] = 0_i32
                if i == 3 { B[i] = 77_i32  continue }
                if i == 8 { B[8] = 0_i32  B[9] = 0_i32  break }
                B[i] = T[0]
            } } }"""
    check_against_interpreter(text, MACHINES, [5, np.zeros(10, np.int32)])
    runner = Runner(parse_kernel(text))
    assert runner(1 << 40, np.zeros(10, np.int32)) == -1


def test_failed_assert_reports_site_and_values() -> None:
    text = """kernel k(I: int32[40], out B: int32[40]) {
        {KIND} i in 0:40 { assert I[i] >= 0_i32, "negative {0} at {1}", int64(I[i]), i
                        assert I[i] < 9_i32, "large {0} at {1}", int64(I[i]), i }
        for i in 0:40 { B[i] = I[i] } }"""
    for kind, machine in itertools.product(("for", "vector", "parallel"), MACHINES):
        runner = Runner(parse_kernel(text.replace("{KIND}", kind)), machine)
        good = np.arange(40, dtype=np.int32) % 9
        assert runner(good, np.zeros(40, np.int32)) == 0
        bad = good.copy()
        bad[37] = 50
        assert runner(bad, np.zeros(40, np.int32)) == 2
        assert list(runner.record[:2]) == [50, 37]
        assert runner.compiled.messages == ("negative {0} at {1}", "large {0} at {1}")


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64", "float32", "float64", "float16", "bfloat16"])
def test_atomics(dtype: str) -> None:
    suffix = {"bfloat16": "bf16"}.get(dtype, dtype[0] + dtype.lstrip("uintfloa"))
    text = f"""kernel k(A: {dtype}[33], out B: {dtype}[4], out C: {dtype}[4]) {{
        for i in 0:33 {{
            atomic B[i % 4] += A[i]  atomic C[0] max= A[i]  atomic C[1] min= A[i]  atomic C[2] exchange= A[i]
            let old: {dtype} = 0_{suffix} {{ old = atomic C[3] cas= 5_{suffix} if 2_{suffix}  B[0] = old }} }} }}"""
    kernel = parse_kernel(text)
    args = [np.arange(33), np.zeros(4), np.array([3, 4, 5, 2])]
    from weft.ir.numpy_dtypes import to_numpy

    element = to_numpy(kernel.buffers[0].dtype)
    check_against_interpreter(kernel, MACHINES, [a.astype(element) for a in args])


def test_explicit_vectors() -> None:
    text = """kernel k(A: float32[32], out B: float32[32], out C: float32[2]) {
        B[ramp(0, 1, 8)] = A[ramp(31, -1, 8)] + broadcast(A[3], 8)
        B[ramp(8, 3, 8)] = A[ramp(1, 2, 8)] * 2.0_f32x8
        C[0] = shuffle([A[ramp(0, 1, 4)], A[ramp(8, 1, 4)]], [5])
        C[ramp(0, 1, 2)] = shuffle([A[ramp(0, 1, 4)], A[ramp(8, 1, 4)]], [6, 1]) }"""
    check_against_interpreter(text, MACHINES)


def test_scalar_parameters_of_every_type() -> None:
    for name in SCALAR_TYPES:
        text = f"kernel k(x: {name}, out B: {name}[3]) {{ for i in 0:3 {{ B[i] = x }} }}"
        check_against_interpreter(text)


def test_parallel_body_sees_its_surroundings() -> None:
    text = """kernel k(A: float32[11, 40], s: float32, N: int64, out B: float32[11, 40]) {
        let t: float32 = s * 2.0_f32 {
            alloc R: float32[40] {
                for j in 0:40 { R[j] = float32(j) }
                for k in 0:2 { parallel i in k:N { for j in 0:40 { B[i, j] = A[i, j] * t + R[j] + float32(k) } } }
            } } }"""
    kernel = parse_kernel(text)
    rng = np.random.default_rng(0)
    args = [rng.random((11, 40), np.float32), 1.5, 11, np.zeros((11, 40), np.float32)]
    check_against_interpreter(kernel, MACHINES, args)


def test_parallel_body_sees_vectors() -> None:
    text = """kernel k(A: float32[8], out B: float32[5, 8]) {
        let v: float32x8 = A[ramp(0, 1, 8)] { let b: bool = A[0] > 0.0 {
            parallel i in 0:5 { B[i, ramp(0, 1, 8)] = b ? v + broadcast(float32(i), 8) : v } } } }"""
    check_against_interpreter(text, MACHINES)


def test_empty_loops_and_buffers() -> None:
    text = """kernel k(A: float32[0], N: int64, out B: float32[4]) {
        vector i in 0:N { B[i] = A[i] }  parallel i in 3:N { B[i] = 1.0_f32 }  for i in 2:2 { B[i] = A[i] } }"""
    check_against_interpreter(text, MACHINES, [np.zeros(0, np.float32), 0, np.ones(4, np.float32)])


@pytest.mark.parametrize("dtype", ["float32", "int32", "float64"])
def test_transposed_tiles(dtype: str) -> None:
    text = f"""kernel k(A: {dtype}[32, 48], out B: {dtype}[48, 32], out C: {dtype}[48, 32]) {{
        for y in 0:3 {{ for x in 0:2 {{
            unroll j in 0:16 {{ vector i in 0:16 {{ B[y * 16 + j, x * 16 + i] = A[x * 16 + i, y * 16 + j] }} }}
            unroll j in 0:16 {{ vector i in 0:16 {{ C[y * 16 + i, x * 16 + j] = A[x * 16 + j, y * 16 + i] }} }}
        }} }} }}"""
    check_against_interpreter(text, MACHINES)


@pytest.mark.parametrize("width", [1, 4, 6, 8, 11, 17])
def test_lanes_that_are_never_active(width: int) -> None:
    """LLVM fails on wide masks part of which is constant where the machine has no mask registers."""
    text = f"""kernel k(A: float32[4, {width}], N: int64, out B: float32[4, 32], out C: float64[4, 32]) {{
        for i in 0:4 {{ vector j in 0:32 {{
            B[i, j] = i < N && j < {width} ? A[i, j] : 0.0
            C[i, j] = i < N && j < {width} ? float64(A[i, j]) : 0.0_f64 }} }} }}"""
    check_against_interpreter(text, MACHINES)


def test_what_the_condition_loads_is_not_loaded_again_under_it() -> None:
    text = """kernel k(A: float32[64], B: float32[64], out C: float32[64]) {
        vector i in 0:64 { C[i] = A[i] - B[i] > 0.0 ? (A[i] - B[i]) * A[i] : B[i] } }"""
    assert "masked.load" not in emit_kernel(parse_kernel(text), HOST)
    check_against_interpreter(text, MACHINES)
    guarded = text.replace("A[i] - B[i] > 0.0 ?", "i > 3 ?").replace("A[i] - B[i]", "A[i - 4]")
    assert "masked.load" in emit_kernel(parse_kernel(guarded), HOST)
    check_against_interpreter(guarded, MACHINES)


def test_indices_of_joined_loops_are_divided_once() -> None:
    """Divisions that do not change in the loops inside are made before these, not in every step of a sum."""
    text = """kernel k(A: float32[7, 50, 18], out B: float32[7, 18]) {
        parallel b in 0:126 { for j in 0:50 {
            if j % 7 < 6 { B[b // 18, b % 18] = B[b // 18, b % 18] + A[b // 18, j, b % 18] } } } }"""
    check_against_interpreter(text, MACHINES)
    made = emit_kernel(parse_kernel(text), host_machine())
    inner = made[made.index("\nj.0:") :]
    inner = inner[: inner.index("\ndone")]
    assert (made.count("srem i64"), inner.count("srem i64")) == (2, 1)

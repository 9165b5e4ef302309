"""Loop programs that use everything the CUDA target has: run on the host here, and on a device in tests/gpu."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from weft.ir.dtype import SCALAR_TYPES
from weft.ir.intrinsics import INTRINSICS
from weft.ir.numpy_dtypes import to_numpy

INTEGERS = [n for n, t in SCALAR_TYPES.items() if t.is_integer]
FLOATS = [n for n, t in SCALAR_TYPES.items() if t.is_float]
UNARY = [e.name for e in INTRINSICS.values() if e.arity == 1 and e.rule == "float"]
BINARY = [e.name for e in INTRINSICS.values() if e.arity == 2]
#: By how much other implementations of a function may differ, relatively.
CLOSE = {"float8_e4m3fn": 0.2, "float8_e5m2": 0.4, "float16": 2e-3, "bfloat16": 2e-2, "float32": 3e-6, "float64": 1e-13}


class Sample(NamedTuple):
    """A program; without ``args`` any will do. ``tolerance`` 0: bit for bit."""

    name: str
    text: str
    args: list[Any] | None = None
    fast: bool = False
    tolerance: float = 0.0


def suffix_of(dtype: str) -> str:
    return {"bfloat16": "bf16"}.get(dtype, dtype[0] + dtype.lstrip("uintfloa"))


def samples() -> list[Sample]:
    makers = (_loops, _arithmetic, _casts, _functions, _atomics, _scalars, _structure, _shared, _groups, _guards)
    return [sample for make in makers for sample in make()]


def _loops() -> Iterator[Sample]:
    for kind in ("for", "vector", "unroll", "parallel", "block", "thread"):
        text = f"""kernel k(A: float32[5, 37], out B: float32[5, 37]) {{
            for i in 0:5 {{ {kind} j in 0:37 {{ B[i, j] = A[i, j] * 2.0_f32 + float32(j - i) }} }} }}"""
        yield Sample(f"loop {kind}", text)


def _arithmetic() -> Iterator[Sample]:
    for dtype in (*INTEGERS, *FLOATS):
        suffix = suffix_of(dtype)
        division = "/" if dtype in FLOATS else "//"
        extra = "" if dtype in FLOATS else " + tdiv(A[i], B[i]) * (A[i] % B[i]) - tmod(A[i], B[i])"
        bits = "" if dtype in FLOATS else "D[i] = ((A[i] << B[i]) ^ (A[i] >> B[i])) | (~A[i] & B[i])"
        sides = ", ".join(f"{'out ' * (n in 'CD')}{n}: {dtype}[72]" for n in "ABCD")
        text = f"""kernel k({sides}, out E: bool[72]) {{
            thread t in 0:9 {{ vector v in 0:8 {{
                C[t*8+v] = (A[t*8+v] + B[t*8+v]) * (A[t*8+v] - 3_{suffix}) + A[t*8+v] {division} B[t*8+v]
                D[t*8+v] = min(A[t*8+v], B[t*8+v]) - max(-A[t*8+v], 1_{suffix})
            }} }}
            for i in 0:72 {{
                C[i] = C[i]{extra}
                {bits}
                E[i] = A[i] < B[i] || !(A[i] == B[i]) && A[i] >= 2_{suffix}
            }} }}"""
        yield Sample(f"arithmetic {dtype}", text)

    for dtype in ("int8", "int16", "int32"):
        text = f"""kernel k(A: {dtype}[64], B: {dtype}[64], C: {dtype}[64], out D: {dtype}[64], out E: {dtype}[64]) {{
            thread t in 0:64 {{
                D[t] = min(min(A[t], -B[t]), C[t])
                let x: {dtype} = -C[t]
                for i in 0:4 {{ x = B[(t + i) % 64] > x ? B[(t + i) % 64] : x }}
                E[t] = max(x, A[t]) }} }}"""
        yield Sample(f"minima of minima {dtype}", text)


def _casts() -> Iterator[Sample]:
    names = list(SCALAR_TYPES)
    for source in names:
        outs = ", ".join(f"out O{n}: {t}[67]" for n, t in enumerate(names))
        stores = " ".join(f"O{n}[i] = {'A[i]' if t == source else f'{t}(A[i])'}" for n, t in enumerate(names))
        yield Sample(f"casts {source}", f"kernel k(A: {source}[67], {outs}) {{ for i in 0:67 {{ {stores} }} }}")


def _functions() -> Iterator[Sample]:
    tests = ("isnan", "isinf", "isfinite")
    for dtype in FLOATS:
        outs = [f"out o_{n}: {dtype}[66]" for n in (*UNARY, *BINARY, "fma", "abs")]
        outs += [f"out o_{n}: bool[66]" for n in tests]
        calls = [f"o_{n}[i] = {n}(A[i])" for n in (*UNARY, "abs", *tests)]
        calls += [f"o_{n}[i] = {n}(A[i], B[i])" for n in BINARY] + ["o_fma[i] = fma(A[i], B[i], A[i])"]
        params = f"A: {dtype}[66], B: {dtype}[66], {', '.join(outs)}"
        text = f"kernel k({params}) {{ for i in 0:66 {{ {' '.join(calls)} }} }}"
        for fast in (False, True):
            yield Sample(f"functions {dtype}{' fast' * fast}", text, fast=fast, tolerance=CLOSE[dtype])
    text = """kernel k(A: float32[4096], out B: float32[4096], out C: float32[4096], out D: float32[4096]) {
        block b in 0:16 { thread t in 0:256 {
            B[b*256+t] = 1.0 + erf(A[b*256+t])  C[b*256+t] = erf(A[b*256+t]) - 1.0
            D[b*256+t] = tanh(A[b*256+t]) + 1.0 } } }"""
    args = [np.linspace(-9, 9, 4096).astype(np.float32), *(np.zeros(4096, np.float32) for _ in range(3))]
    args[0][:4] = [np.inf, -np.inf, 1e30, -1e-30]
    yield Sample("functions added to one", text, args, fast=True, tolerance=4e-7)
    for dtype in INTEGERS:
        text = f"""kernel k(A: {dtype}[66], out B: {dtype}[66], out C: {dtype}[66]) {{
            for i in 0:66 {{ B[i] = abs(A[i])  C[i] = popcount(A[i]) }} }}"""
        yield Sample(f"functions {dtype}", text)


def _atomics() -> Iterator[Sample]:
    for dtype in (*INTEGERS, *FLOATS):
        suffix = suffix_of(dtype)
        text = f"""kernel k(A: {dtype}[33], out B: {dtype}[4], out C: {dtype}[4]) {{
            for i in 0:33 {{
                atomic B[i % 4] += A[i]  atomic C[0] max= A[i]  atomic C[1] min= A[i]  atomic C[2] exchange= A[i]
                let old: {dtype} = 0_{suffix} {{ old = atomic C[3] cas= 5_{suffix} if 2_{suffix}  B[0] = old }} }} }}"""
        element = to_numpy(SCALAR_TYPES[dtype])
        args = [np.arange(33).astype(element), np.zeros(4, element), np.array([3, 4, 5, 2]).astype(element)]
        yield Sample(f"atomics {dtype}", text, args)
        text = f"""kernel k(A: {dtype}[512], out B: {dtype}[7], out C: {dtype}[2]) {{
            block b in 0:4 {{ thread t in 0:128 {{
                atomic B[(b * 128 + t) % 7] += A[b * 128 + t]
                atomic C[0] max= A[b * 128 + t]
                atomic C[1] min= A[b * 128 + t] }} }} }}"""
        args = [(np.arange(512) % 3).astype(element), np.zeros(7, element), np.ones(2, element)]
        yield Sample(f"atomics of many threads {dtype}", text, args)
    text = """kernel k(A: int32[512], out B: bool[7], out C: uint32[7]) {
        block b in 0:4 { thread t in 0:128 {
            atomic B[(b * 128 + t) % 7] |= A[b * 128 + t] > 9_i32
            atomic C[(b * 128 + t) % 7] ^= uint32(A[b * 128 + t]) } } }"""
    yield Sample("atomic bits", text, [np.arange(512, dtype=np.int32) % 11, np.zeros(7, bool), np.zeros(7, np.uint32)])


def _scalars() -> Iterator[Sample]:
    for name in SCALAR_TYPES:
        yield Sample(f"scalar {name}", f"kernel k(x: {name}, out B: {name}[3]) {{ for i in 0:3 {{ B[i] = x }} }}")


def _structure() -> Iterator[Sample]:
    yield Sample(
        "vectors",
        """kernel k(A: float32[32], out B: float32[32], out C: float32[2]) {
        B[ramp(0, 1, 8)] = A[ramp(31, -1, 8)] + broadcast(A[3], 8)
        B[ramp(8, 3, 8)] = A[ramp(1, 2, 8)] * 2.0_f32x8
        C[0] = shuffle([A[ramp(0, 1, 4)], A[ramp(8, 1, 4)]], [5])
        C[ramp(0, 1, 2)] = shuffle([A[ramp(0, 1, 4)], A[ramp(8, 1, 4)]], [6, 1]) }""",
    )
    yield Sample(
        "vectors in variables",
        """kernel k(A: float32[8], out B: float32[5, 8]) {
        let v: float32x8 = A[ramp(0, 1, 8)] { let b: bool = A[0] > 0.0 {
            parallel i in 0:5 { B[i, ramp(0, 1, 8)] = b ? v + broadcast(float32(i), 8) : v } } } }""",
    )
    yield Sample(
        "lanes that share an element",
        """kernel k(A: uint8[96], q: float32[16], out B: bfloat16[192], out C: float32[64]) {
        block b in 0:2 { thread t in 0:4 {
            vector v in 0:8 {
                B[b*32+t*8+v] = bfloat16((v % 2 == 0 ? int32(A[(b*32+t*8+v)//2]) % 16_i32
                                                     : int32(A[(b*32+t*8+v)//2]) // 16_i32) - 8_i32) }
            vector w in 4:12 { B[64+b*32+t*8+w] = bfloat16(A[(b*32+t*8+w+3)//2]) }
            vector u in 0:8 { C[b*32+t*8+u] = q[(b*32+t*8+u)//4] } } } }""",
    )
    yield Sample(
        "control flow",
        """kernel k(A: int32[50], out B: int32[50]) {
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
        B[1] = -1_i32 }""",
    )
    yield Sample(
        "lazy",
        """kernel k(A: float32[8], N: int64, out B: float32[40], out C: bool[40]) {
        thread t in 0:5 { vector i in 0:8 {
            B[t*8+i] = t*8+i < N ? A[t*8+i] : 7.0_f32
            C[t*8+i] = (t*8+i < N && A[t*8+i] > 0.0_f32) || (t*8+i >= N && 1_i64 < t*8+i)
        } } }""",
        [np.arange(8, dtype=np.float32) - 3, 8, np.zeros(40, np.float32), np.zeros(40, bool)],
    )
    yield Sample(
        "private arrays",
        """kernel k(A: int32[67, 4], out B: int32[67]) {
        vector i in 0:67 {
            alloc T: int32[4] in local {
                for j in 0:4 { T[j] = A[i, j] }
                let s: int32 = 0_i32 { for j in 0:4 { s = s * 3_i32 + T[(j + i) % 4] }  B[i] = s } } } }""",
    )
    for n in (1, 5):
        yield Sample(f"sizes of a call {n}", """kernel k(A: float32[N, 8], N: int64, out B: float32[N, 8]) {
            alloc T: float32[N, 8] {
                block i in 0:N { thread j in 0:8 { T[i, j] = A[i, j] * 2.0 } }
                if N > 2 { block i in 0:N { thread j in 0:8 { B[i, j] = T[N - 1 - i, j] } } }
                else { block i in 0:N { B[i, 0] = 1.0 } } } }""",
            [np.arange(n * 8, dtype=np.float32).reshape(n, 8), n, np.zeros((n, 8), np.float32)])  # fmt: skip
    yield Sample(
        "many loops",
        """kernel k(A: float32[2, 3, 4, 5, 2, 3, 2, 2], out B: float32[2, 3, 4, 5, 2, 3, 2, 2]) {
        block a in 0:2 { block b in 0:3 { block c in 0:4 { block d in 0:5 {
            thread e in 0:2 { thread f in 0:3 { thread g in 0:2 { thread h in 0:2 {
                B[a, b, c, d, e, f, g, h] = A[a, b, c, d, e, f, g, h] + float32(a * 5 + h) } } } } } } } } }""",
    )
    yield Sample(
        "returns",
        """kernel k(A: int32[64], out B: int32[64]) {
        block b in 0:1 { alloc S: int32[64] in shared
            thread t in 0:64 {
                S[t] = A[t]
                B[t] = 0_i32
                if t > 40 { return }
                barrier(block)
                B[t] = S[t + 5] } } }""",
    )


def _shared() -> Iterator[Sample]:
    yield Sample(
        "barriers",
        """kernel k(A: float32[4, 64], out B: float32[4, 64]) {
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
                B[b, t] = S[63 - t] } } }""",
    )
    yield Sample(
        "warp barriers",
        """kernel k(A: float32[4, 64], out B: float32[4, 64]) {
        block b in 0:4 {
            alloc S: float32[64] in shared
            thread t in 0:64 {
                S[t] = A[b, t]
                barrier(warp)
                B[b, t] = S[t // 32 * 32 + (t + 7) % 32] } } }""",
    )
    yield Sample(
        "arrays that threads exchange",
        """kernel k(out A: float32[9], out B: float32[9]) {
        for n in 0:3 {
            for i in 1:8 { B[i] = A[i - 1] - A[i] + A[i + 1] }
            thread t in 1:8 { A[t] = B[t] + A[t] } } }""",
    )
    yield Sample(
        "large shared memory",
        """kernel k(A: float64[64, 128], out B: float64[128, 64]) {
        block b in 0:1 {
            alloc S: float64[64, 128] in shared
            thread t in 0:64 {
                for j in 0:128 { S[t, j] = A[t, j] }
                barrier(block)
                for j in 0:128 { B[j, t] = S[(t + j) % 64, j] } } } }""",
    )
    fill = "thread t in 0:64 { unroll u in 0:4 { vector v in 0:4 { R[@, (u*64+t)//4, (u*64+t)%4*4+v] = $ } } }"
    source = "A[(u*64+t)//4, (@)*16+(u*64+t)%4*4+v]"
    commit = "call async_commit(2)"
    first = "\n".join(f"{fill}\n{commit}".replace("$", source).replace("@", str(k)) for k in range(2))
    later = fill.replace("@", "(k+2)%3").replace("$", "N > 3 ? " + source.replace("@", "k+2") + " : 0.0")
    text = f"""kernel pipe(A: float32[64, 128], N: int64, out C: float32[64]) {{
      block b in 0:1 {{
        alloc acc: float32[64]
        alloc R: float32[3, 64, 16] in shared
        call async_fill(&R[0,0,0])
        {first}
        thread t in 0:64 {{ acc[t] = 0.0 }}
        for k in 0:8 {{
          if k + 2 < 8 {{ {later} }}
          {commit}
          thread t in 0:64 {{ for j in 0:16 {{ acc[t] = acc[t] + R[k%3, t, j] }} }}
        }}
        thread t in 0:64 {{ C[t] = acc[t] }} }} }}"""
    values = np.arange(64 * 128, dtype=np.float32).reshape(64, 128)
    for n in (1, 9):
        yield Sample(f"ring of copies {n}", text, [values, n, np.zeros(64, np.float32)])


def _groups() -> Iterator[Sample]:
    values = np.random.default_rng(0).integers(-50, 50, (6, 256)).astype(np.float32)
    values[3, 77] = np.nan
    yield Sample("rows", """kernel k(A: float32[6, 256], out M: float32[6], out S: float32[6]) {
        block r in 0:6 {
            alloc p: float32[128]  alloc q: float32[128]
            thread t in 0:128 { p[t] = max(A[r, t], A[r, t + 128])  q[t] = A[r, t] + A[r, t + 128] }
            M[r] = -inf
            for t in 0:128 { M[r] = max(M[r], p[t]) }
            S[r] = 0.0
            for t in 0:128 { S[r] = S[r] + q[t] } } }""",
        [values, np.zeros(6, np.float32), np.zeros(6, np.float32)], fast=True)  # fmt: skip
    shapes = [(8, 16), (4, 32), (2, 64), (3, 96), (5, 12), (1, 128), (16, 4)]
    for rows, columns in shapes:
        for dtype in ("float32", "int64", "bfloat16") if rows < 4 else ("float32",):
            zero = {"int64": "0", "float32": "0.0", "bfloat16": "0.0_bf16"}[dtype]
            sides = f"A: {dtype}[4, {rows}, {columns}], out S: {dtype}[4, {rows}], out T: {dtype}[4, {columns}]"
            text = f"""kernel k({sides}) {{
                block b in 0:4 {{
                    alloc p: {dtype}[{rows}, {columns}]  alloc s: {dtype}[{rows}]  alloc u: {dtype}[{columns}]
                    thread y in 0:{rows} {{ thread x in 0:{columns} {{ p[y, x] = A[b, y, x] + A[b, y, x] }} }}
                    thread y in 0:{rows} {{ s[y] = {zero}  for x in 0:{columns} {{ s[y] = s[y] + p[y, x] }} }}
                    thread x in 0:{columns} {{ u[x] = {zero}  for y in 0:{rows} {{ u[x] = u[x] + p[y, x] }} }}
                    thread y in 0:{rows} {{ S[b, y] = s[y] }}
                    thread x in 0:{columns} {{ T[b, x] = u[x] }} }} }}"""
            element = to_numpy(SCALAR_TYPES[dtype])
            whole = np.random.default_rng(0).integers(-1, 2, (4, rows, columns)).astype(element)
            args = [whole, np.zeros((4, rows), element), np.zeros((4, columns), element)]
            yield Sample(f"groups {rows}x{columns} {dtype}", text, args, fast=True)
    yield Sample(
        "reduction in a loop",
        """kernel k(A: float32[5, 64], out S: float32[5]) {
        block b in 0:1 {
            alloc p: float32[64]  alloc s: float32[1]
            for r in 0:5 {
                thread t in 0:64 { p[t] = A[r, t] }
                s[0] = -inf
                for t in 0:64 { s[0] = max(s[0], p[t]) }
                S[r] = s[0] } } }""",
    )


def _guards() -> Iterator[Sample]:
    for dtype in ("float32", "bfloat16", "uint8", "float64", "bool"):
        for extent in (64, 61):
            text = f"""kernel k(A: {dtype}[{extent}], out B: {dtype}[{extent}]) {{
                block b in 0:2 {{ thread t in 0:4 {{ vector v in 0:8 {{
                    if b*32 + t*8 + v < {extent} {{ B[b*32 + t*8 + v] = A[b*32 + t*8 + v] }} }} }} }} }}"""
            yield Sample(f"guarded {dtype} {extent}", text)
    yield Sample(
        "rows of 56 bytes",
        """kernel k(A: float32[6, 14], out B: float32[6, 14]) {
        block r in 0:6 { thread t in 0:3 { vector v in 0:4 { B[r, t*4+v] = A[r, t*4+v] + 1.0 } }
                         thread t in 0:2 { B[r, 12+t] = A[r, 12+t] } } }""",
    )

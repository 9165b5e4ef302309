"""Scripts that go wrong: a schedule of a known program, the lines a user wrote, the full text of the error."""

from __future__ import annotations

import linecache
import textwrap
from pathlib import Path
from typing import Any

import weft
import weft.target.every_intrinsic
from weft.ir.errors import ScheduleError
from weft.ir.parser import parse_kernel
from weft.schedules.schedule import Schedule
from weft.tensor.lower import lower
from weft.tensor.normalize import normalize
from weft.tensor.specialize import specialize

#: Name of a program -> its text; definitions in the language, or loop programs as text.
PROGRAMS = {
    "matmul": "def matmul(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
    "chain": "def chain(float(N) X) -> (Z) { Y(i) = X(i) * 2\n Z(i) = Y(i) + 1 }",
    "backwards": "def backwards(float(N) X) -> (Z) { Y(i) = X(i) * 2 where i in 0:N\n Z(i) = Y(N-1-i) where i in 0:N }",
    "scan": "def scan(float(N) X) -> (S) { S(i) = X(i) + (i > 0 ? S(i-1) : 0.0) where i in 0:N }",
    "scatter": "def scatter(float(N) X, int(N) I) -> (float(8) O) { O(I(i)) += X(i) }",
    "triangle": "kernel triangle(out y: float32[8]) { for i in 0:3 { for j in 0:i * i { y[j] = 1.0 } } }",
    "between": "kernel between(out y: float32[8]) { for i in 0:8 { y[i] = 0.0 for j in 0:8 { y[j] = 1.0 } } }",
    "early": "kernel early(out y: float32[8]) { for i in 0:8 { if y[i] > 0.0 { break } y[i] = 1.0 } }",
    "barrier": "kernel barrier(out y: float32[8]) { thread i in 0:8 { y[i] = 1.0 barrier(block) y[7 - i] = 2.0 } }",
    "bytes": """kernel bytes(A: uint8[8, 24], B: int8[6, 16, 4], out C: int32[8, 16]) {
        for m in 0:8 { for ko in 0:6 { for n in 0:16 { for ki in 0:4 {
          C[m, n] = C[m, n] + int32(A[m, ko * 4 + ki]) * int32(B[ko, n, ki]) } } } } }""",
    "quad": "def quad(uint8(4) A, int8(16,4) B) -> (int32(16) C) { C(n) +=! int32(A(k)) * int32(B(n,k)) }",
    "halves": """kernel halves(A: bfloat16[8, 24], B: bfloat16[12, 16, 2], out C: float32[8, 16]) {
        for m in 0:8 { for ko in 0:12 { for n in 0:16 { for ki in 0:2 {
          C[m, n] = C[m, n] + float32(A[m, ko * 2 + ki]) * float32(B[ko, n, ki]) } } } } }""",
    "late": """kernel late(out y: float32[2]) {
        for i in 0:2 { for k in 0:4 { block a(vi spatial 0:2 = i, vk reduce 0:4 = 3 - k) writes y[vi] {
          init { y[vi] = 0.0 } y[vi] = y[vi] + 1.0 } } } }""",
    "feedback": """kernel feedback(out x: float32[8], out y: float32[8]) {
        for i in 1:8 {
          block a(v spatial 1:8 = i) reads y[v - 1] writes x[v] { x[v] = y[v - 1] }
          block b(v spatial 1:8 = i) reads x[v] writes y[v] { y[v] = x[v] + 1.0 } } }""",
    "blur": """def blur(float(H,W) A) -> (B) {
        T(y,x) = A(y,x) + A(y,x+1)
        B(y,x) = T(y,x) + T(y+1,x) }""",
    "dense": """def dense(float(M,K) A, float(K,N) W) -> (C) {
        T(m,n) +=! A(m,k) * W(k,n)
        C(m,n) = max(T(m,n), 0.0) }""",
    "recurrence": """def recurrence(float(N) A) -> (B) {
        T(i) = A(i) * 2.0
        T(i) = T(i-1) + A(i) where i in 1:N
        B(i) = T(i) + 1.0 }""",
    "again": """def again(float(N) A) -> (B) {
        B(i) = A(i) + 1.0
        T(i) = B(i) * 2.0
        B(i) = T(i) + A(i) }""",
    "starting": """kernel starting(out x: float32[4], out y: float32[4]) {
        for i in 0:4 { block a(v spatial 0:4 = i) writes x[v] { x[v] = 1.0 } }
        for j in 0:4 { block b(v reduce 0:4 = j) writes y[0] { init { y[0] = 1.0 } } } }""",
    "lagging": """def lagging(float(N) A) -> (B) {
        B(i) = A(i) + 1.0
        T(i) = B(i) * 2.0
        B(i) = T(i-1) + A(i) where i in 1:N }""",
    "passed": """def passed(float(N) A) -> (B, C) {
        B(i) = A(i) + 1.0
        T(i) = B(i) * 2.0
        B(i) = A(i) * 3.0
        C(i) = T(i) + 1.0 }""",
    "fan": """def fan(float(N) A) -> (B, C) {
        T(i) = A(i) * 2.0
        B(i) = T(i) + 1.0
        C(i) = T(i) + 2.0 }""",
    "scattered": """def scattered(float(N) X, int(N) I) -> (float(8) O) {
        float(8) T
        T(I(i)) +=! X(i)
        O(j) = T(j) * 2.0 }""",
}
SIZES = {
    "blur": {"H": 8, "W": 8},
    "dense": {"M": 8, "N": 8, "K": 8},
    "recurrence": {"N": 8},
    "again": {"N": 8},
    "lagging": {"N": 8},
    "passed": {"N": 8},
    "fan": {"N": 8},
    "scattered": {"N": 8},
    "matmul": {"M": 8, "N": 8, "K": 8},
    "chain": {"N": 8},
    "backwards": {"N": 8},
    "scan": {"N": 8},
    "scatter": {"N": 8},
    "quad": {},
}


def schedule_of(program: str, *, symbolic: bool = False, numerics: Any = "strict") -> Schedule:
    """The schedule of a known program, or of one given as text; sizes that are not listed are 8."""
    text = PROGRAMS.get(program, program)
    if text.startswith("kernel"):
        return Schedule(parse_kernel(text), numerics=numerics)
    found = weft.define(text).program
    sizes = {v.name: 8 for v in found.sizes} | SIZES.get(program, {})
    return Schedule(lower(normalize(found if symbolic else specialize(found, sizes))), numerics=numerics)


def error_of(s: Schedule, script: str, tmp_path: Path) -> str:
    """The text of the error that ``script``, a file called script.py with ``s`` at hand, ends in."""
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script).strip() + "\n", encoding="utf-8")
    linecache.checkcache(str(path))
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"s": s, "weft": weft})
    except ScheduleError as error:
        return str(error)
    raise AssertionError("nothing was refused")

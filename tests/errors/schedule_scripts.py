"""Scripts that go wrong: a schedule of a known program, the lines a user wrote, the full text of the error."""

from __future__ import annotations

import linecache
import textwrap
from pathlib import Path
from typing import Any

import weft
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
    "feedback": """kernel feedback(out x: float32[8], out y: float32[8]) {
        for i in 1:8 {
          block a(v spatial 1:8 = i) reads y[v - 1] writes x[v] { x[v] = y[v - 1] }
          block b(v spatial 1:8 = i) reads x[v] writes y[v] { y[v] = x[v] + 1.0 } } }""",
}
SIZES = {
    "matmul": {"M": 8, "N": 8, "K": 8},
    "chain": {"N": 8},
    "backwards": {"N": 8},
    "scan": {"N": 8},
    "scatter": {"N": 8},
}


def schedule_of(program: str, *, symbolic: bool = False, numerics: Any = "strict") -> Schedule:
    text = PROGRAMS[program]
    if text.startswith("kernel"):
        return Schedule(parse_kernel(text), numerics=numerics)
    found = weft.define(text).program
    return Schedule(lower(normalize(found if symbolic else specialize(found, SIZES[program]))), numerics=numerics)


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

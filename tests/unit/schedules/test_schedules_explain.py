"""explain: counts against enumeration, traffic against a simulated cache."""

from __future__ import annotations

from collections import OrderedDict
from functools import cache

import numpy as np
import pytest

import weft
from weft.ir.errors import ScheduleError
from weft.ir.expr import Const, Load
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_expr
from weft.ir.stmt import For, Stmt, Store
from weft.ir.visit import loads
from weft.schedules.explain import LINE, Model, explain, make_model
from weft.schedules.schedule import Schedule

MATMUL = """kernel mm(A: float32[48, 48], B: float32[48, 48], out C: float32[48, 48]) {
  for m in 0:48 { for n in 0:48 { for k in 0:48 { C[m, n] = C[m, n] + A[m, k] * B[k, n] } } } }"""
TILED = """kernel mm(A: float32[48, 48], B: float32[48, 48], out C: float32[48, 48]) {
  for mo in 0:3 { for no in 0:3 { for ko in 0:3 { for mi in 0:16 { for ki in 0:16 { for ni in 0:16 {
    C[mo * 16 + mi, no * 16 + ni] = C[mo * 16 + mi, no * 16 + ni] + A[mo * 16 + mi, ko * 16 + ki]
      * B[ko * 16 + ki, no * 16 + ni] } } } } } } }"""
TRANSPOSE = """kernel t(A: float32[96, 96], out B: float32[96, 96]) {
  for i in 0:96 { for j in 0:96 { B[j, i] = A[i, j] } } }"""
ROWS = """kernel r(A: float32[64, 256], out B: float32[64]) {
  for i in 0:64 { for j in 0:256 { B[i] = B[i] + A[i, j] } } }"""
BLUR = """kernel b(A: float32[66, 66], out B: float32[64, 64]) {
  for i in 0:64 { for j in 0:64 { B[i, j] = A[i, j + 1] + A[i + 1, j] + A[i + 2, j + 1] + A[i + 1, j + 2] } } }"""
PROGRAMS = {"matmul": MATMUL, "tiled": TILED, "transpose": TRANSPOSE, "rows": ROWS, "blur": BLUR}


@cache
def lines_touched(name: str) -> list[tuple[str, int]]:
    """The lines of memory a program touches, in order; every buffer starts on a line."""
    s: Stmt = parse_kernel(PROGRAMS[name]).body
    loops = []
    while isinstance(s, For):
        loops.append(s)
        s = s.body
    assert isinstance(s, Store)
    grid = np.indices([int(f.hi.value) for f in loops if isinstance(f.hi, Const)]).reshape(len(loops), -1)
    values = {f.var.name: column for f, column in zip(loops, grid)}
    columns = []
    for access in (*loads(s.value), Load(s.buffer, s.indices)):
        numbers = [eval(print_expr(i), {}, dict(values)) for i in access.indices]
        strides = [int(n.value) for n in access.buffer.element_strides() if isinstance(n, Const)]
        flat = sum(i * n for i, n in zip(numbers, strides))
        columns.append([(access.buffer.name, int(n)) for n in flat * access.buffer.dtype.itemsize // LINE])
    return [line for row in zip(*columns) for line in row]


def misses(name: str, size: int) -> int:
    """Bytes that come into a cache that forgets what was used longest ago."""
    kept: OrderedDict[tuple[str, int], None] = OrderedDict()
    count = 0
    for line in lines_touched(name):
        if line in kept:
            kept.move_to_end(line)
            continue
        count += 1
        kept[line] = None
        if len(kept) * LINE > size:
            kept.popitem(last=False)
    return count * LINE


def model_of(text: str) -> Model:
    return make_model(parse_kernel(text), {"L1": 1}, 16)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("size", [1 << 10, 4 << 10, 16 << 10, 64 << 10, 1 << 20])
def test_traffic_is_near_that_of_a_simulated_cache(name: str, size: int) -> None:
    model = model_of(PROGRAMS[name])
    estimate, measured = sum(model.traffic(model.root, size).values()), misses(name, size)
    assert measured / 2.1 <= estimate <= measured * 2.1


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_footprint_of_the_program_is_what_it_touches(name: str) -> None:
    model = model_of(PROGRAMS[name])
    touched: dict[str, set[int]] = {}
    for buffer, line in lines_touched(name):
        touched.setdefault(buffer, set()).add(line)
    for buffer, size in model.footprint(model.root).items():
        assert size == pytest.approx(len(touched[buffer]) * LINE, rel=0.3)


def test_operations_and_trips() -> None:
    model = model_of(TILED)
    assert model.operations(model.root) == 2 * 48**3
    assert [n.trips for n in model.root.nests() if n.loop] == [3, 3, 3, 16, 16, 16]


def test_tiling_lowers_the_traffic_into_a_small_cache() -> None:
    size = 4 << 10
    plain, tiled = (sum(m.traffic(m.root, size).values()) for m in map(model_of, (MATMUL, TILED)))
    assert tiled * 4 < plain


def test_the_table() -> None:
    s = Schedule(parse_kernel(TILED))
    s.vectorize("ni")
    s.parallel("mo")
    assert explain(s.kernel, caches={"L1": 8 << 10, "L2": 64 << 10}) == (
        "kernel mm: 221 k operations on 27 KiB, 8 a byte\n"
        "caches: L1 8 KiB, L2 64 KiB\n"
        "limit:  arithmetic, 3.46 k cycles of one core (traffic into L1 720, traffic into L2 1.15 k)\n"
        "\n"
        "loop          runs  as         into L1   into L2  one run touches\n"
        "mo               3  parallel    45 KiB    27 KiB  C 9 KiB, A 9 KiB, B 9 KiB\n"
        "  no             3  in order    15 KiB    15 KiB  C 3 KiB, A 3 KiB, B 9 KiB\n"
        "    ko           3  in order     7 KiB     7 KiB  C 1 KiB, A 3 KiB, B 3 KiB\n"
        "      mi        16  in order     3 KiB     3 KiB  C 1 KiB, A 1 KiB, B 1 KiB\n"
        "        ki      16  in order  1.12 KiB  1.12 KiB  C 64 B, A 64 B, B 1 KiB\n"
        "          ni    16  vector       192 B     192 B  C 64 B, A 64 B, B 64 B\n"
    )


def test_symbolic_sizes_can_be_given() -> None:
    s = weft.schedule(weft.ops.matmul)
    assert "sizes not known: s.explain(K=1024, M=1024, N=1024) estimates" in s.explain()
    known = s.explain(M=64, N=64, K=64)
    assert known.startswith("kernel matmul: 524 k operations on 48 KiB, 10.7 a byte\n")
    with pytest.raises(ScheduleError, match="has no size `Q`"):
        s.explain(Q=3)


def test_what_is_looked_up_touches_a_line_each_time() -> None:
    text = """kernel g(I: int64[8], A: float32[1024], out B: float32[8]) {
      for i in 0:8 { B[i] = A[I[i]] + A[i // 2] } }"""
    model = model_of(text)
    assert model.footprint(model.root)["A"] == 9 * LINE


def test_rows_that_begin_anywhere_in_a_line_lie_in_more_of_them() -> None:
    text = """kernel g(A: float32[160, 347], out B: float32[160, 24]) {
      for i in 0:160 { for j in 0:24 { B[i, j] = A[i, j] } } }"""
    model = model_of(text)
    lines = sum((row * 347 * 4 + 95) // LINE - row * 347 * 4 // LINE + 1 for row in range(160))
    assert model.footprint(model.root)["A"] == pytest.approx(lines * LINE, rel=0.02)
    assert lines > 2.3 * 160

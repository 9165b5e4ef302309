"""Softmax, layer norm, bias and GELU, sums of rows and columns: work in which memory is what counts.

Everything that concerns a row is done while the row is in the cache. ``numerics="fast"`` lets sums run in the
lanes of vectors. ``python examples/schedules/rows.py`` checks them against the plain operators.
"""

from __future__ import annotations

import numpy as np

import weft
from weft.schedules.schedule import Schedule

#: Elements of a vector, and vectors that are worked on at a time.
LANES, VECTORS = 16, 4
#: Results of more elements than this do not stay in a cache: they are stored past it, if rows end where its lines do.
LARGE = 1 << 20


def _in_lanes(s: Schedule, block: str, columns: int) -> None:
    """The reduction of a row as partial results in the lanes of a few registers, if it has so many elements."""
    if columns < LANES * VECTORS:
        return
    part, partial = s.rfactor(s.loops(block)[-1], LANES * VECTORS)
    s.set_scope(partial, "register")
    s.vectorize(s.loops(part)[-1])


def _finish(s: Schedule, rows: int, columns: int) -> weft.Operator:
    """The result in vectors, rows in parallel."""
    m, n = s.loops("O")
    s.vectorize(n, LANES * VECTORS)
    s.parallel(m)
    if rows * columns >= LARGE and columns % LANES == 0:
        s.stream("O")
    return s.build()


def schedule_softmax(m: int, n: int) -> weft.Operator:
    """Exponentials are summed as they are made."""
    s = weft.schedule(weft.ops.softmax, X=(m, n), numerics="fast")
    row, _ = s.loops("O")
    for stage in ("Total", "E", "Top"):
        s.compute_at(stage, row)
    _in_lanes(s, "Top", n)
    if n >= LANES * 2:
        both = s.fuse_loops(s.loops("E")[-1], s.loops("Total")[-1])
        _, lane = s.split(both, LANES * 2)
        _, partial = s.rfactor(lane)
        s.set_scope(partial, "register")
        s.vectorize(lane)
    return _finish(s, m, n)


def schedule_layer_norm(m: int, n: int) -> weft.Operator:
    """Every stage computed for one row of the result at a time."""
    s = weft.schedule(weft.ops.layer_norm, X=(m, n), Gain=(n,), Shift=(n,), numerics="fast")
    row, _ = s.loops("O")
    for stage in ("R", "Q", "Mu", "S"):
        s.compute_at(stage, row)
    _in_lanes(s, "S", n)
    _in_lanes(s, "Q", n)
    return _finish(s, m, n)


def schedule_bias_gelu(m: int, n: int) -> weft.Operator:
    s = weft.schedule(weft.ops.bias_gelu, X=(m, n), b=(n,), numerics="fast")
    s.compute_inline("T")
    return _finish(s, m, n)


def schedule_sum_rows(m: int, n: int) -> weft.Operator:
    """Partial sums in the lanes of several registers."""
    s = weft.schedule(weft.ops.sum_rows, A=(m, n), numerics="fast")
    s.parallel(s.loops("O")[0])
    _in_lanes(s, "O", n)
    return s.build()


def schedule_sum_columns(m: int, n: int) -> weft.Operator:
    """A block of columns for each thread; a few rows are added up before their sum is added to what is in the cache."""
    s = weft.schedule(weft.ops.sum_columns, A=(m, n), numerics="fast")
    j, i = s.loops("O")
    block, jr = s.split(j, LANES * 32)
    jo, ji = s.split(jr, LANES * 8)
    io, ii = s.split(i, 8)
    s.reorder(block, io, jo, ii, ji)
    s.vectorize(ji)
    s.unroll(ii)
    s.parallel(block)
    return s.build()


def schedule_transpose(m: int, n: int) -> weft.Operator:
    """Squares that turn in registers, read along the rows of the argument."""
    s = weft.schedule(weft.ops.transpose, A=(m, n))
    j, i = s.loops("O")
    jo, io, ji, ii = s.tile(j, i, LANES, LANES)
    s.reorder(io, jo)
    s.vectorize(ii)
    s.unroll(ji)
    s.parallel(io)
    if m * n >= LARGE:
        s.stream("O")
    return s.build()


def main() -> None:
    rng = np.random.default_rng(0)
    x, b = rng.standard_normal((50, 70), np.float32), rng.standard_normal(70, np.float32)
    pairs = {
        "softmax": (schedule_softmax, weft.ops.softmax, (x,)),
        "layer_norm": (schedule_layer_norm, weft.ops.layer_norm, (x, b, b)),
        "bias_gelu": (schedule_bias_gelu, weft.ops.bias_gelu, (x, b)),
        "sum_rows": (schedule_sum_rows, weft.ops.sum_rows, (x,)),
        "sum_columns": (schedule_sum_columns, weft.ops.sum_columns, (x,)),
        "transpose": (schedule_transpose, weft.ops.transpose, (x,)),
    }
    for name, (schedule, plain, args) in pairs.items():
        np.testing.assert_allclose(schedule(*x.shape)(*args), plain(*args), rtol=1e-4, atol=1e-5)
        print(f"{name}: agrees")


if __name__ == "__main__":
    main()

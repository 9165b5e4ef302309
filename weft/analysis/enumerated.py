"""A lowered matrix written out: the id of the element at every place, by a loop program that Weft compiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.analysis.matrix_read import MatrixRead
from weft.analysis.sections import PADDED, Sections
from weft.ir import dtype as dt
from weft.ir.buffer import Buffer, dense_strides
from weft.ir.errors import UnsupportedError
from weft.ir.expr import Binary, Const, Expr, Select, Unary, Var, idx
from weft.ir.nesting import around
from weft.ir.stmt import For, Kernel, Seq, Stmt, Store
from weft.operators.loop_kernel import LoopKernel

#: Places that are written out at most: 1 GiB of ids.
MOST = 1 << 27


def element_id(read: MatrixRead) -> Expr:
    """The place in memory, row after row, of the element that is read."""
    id_: Expr = idx(0)
    for index, stride in zip(read.indices, dense_strides(tuple(idx(n) for n in read.shape))):
        id_ = id_ + index * stride
    return id_


def is_read(read: MatrixRead) -> Expr:
    """Whether there is an element at all."""
    allowed: Expr = Const(True, dt.bool_)
    for test in read.tests:
        allowed = Binary("&&", allowed, test.condition if test.holds else Unary("!", test.condition))
    return allowed


def for_each_place(read: MatrixRead, body: Stmt) -> Stmt:
    """``body`` for every row and in it for every column."""
    axes = (*read.rows, *read.columns)
    return around([For(Var(a.name), idx(a.lo), idx(a.hi), "serial", Seq(())) for a in axes], body)


def ids(read: MatrixRead) -> np.ndarray[Any, Any]:
    """A row for each row, a column for each column: ids of elements, -1 where none is read."""
    shape = read.row_count, read.column_count
    if shape[0] * shape[1] > MOST:
        raise UnsupportedError(
            f"the lowered matrix of {read.buffer.name} is not written out",
            why=f"it has {shape[0]} x {shape[1]} places, more than {MOST}, and no closed form",
            help="give smaller sizes",
        )
    axes = (*read.rows, *read.columns)
    if 0 in shape:
        return np.full(shape, -1, np.int64)
    out = Buffer("ids", dt.index, tuple(idx(a.extent) for a in axes))
    at = tuple(Var(a.name) - idx(a.lo) for a in axes)
    body = Store(out, at, Select(is_read(read), element_id(read), idx(-1)))
    written = np.empty([a.extent for a in axes], np.int64)
    LoopKernel(Kernel("write_ids", (out,), (out.name,), for_each_place(read, body)), "strict")(written)
    return written.reshape(shape)


def count_listed_sections(listed: np.ndarray[Any, Any], width: int) -> Sections:
    """As `count_sections` does, of a matrix that is written out."""
    padded = np.pad(listed, ((0, 0), (0, -listed.shape[1] % PADDED)), constant_values=-1)
    sections = padded.reshape(-1, width)
    sections = sections[(sections >= 0).any(1)]
    return Sections(len(sections), len(np.unique(sections, axis=0)) if len(sections) else 0)

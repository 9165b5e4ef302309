"""Rows of register buffers as long as whole vectors.

A buffer of ``register`` scope becomes SSA values only where vectors do not overlap in it. Rows of 14 elements
accessed as vectors of 16 under a mask would; with two unused elements in each row they do not.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.affine import linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Const, Load, Var, idx
from weft.ir.stmt import For, Kernel, Stmt, Store
from weft.ir.visit import children, replace_buffers, walk
from weft.passes.analysis.loop_ranges import constant_extent


def pad_registers(kernel: Kernel) -> Kernel:
    """Every register buffer with the last dimension a multiple of the vectors that go along it."""
    lanes: dict[Buffer, int] = {}
    _collect(kernel.body, {}, lanes)
    if not lanes:
        return kernel
    fixed = {n.buffer for n in walk(kernel) if isinstance(n, AddressOf)}
    padded = {b: _padded(b, count) for b, count in lanes.items() if b not in fixed}
    changed = {b: p for b, p in padded.items() if p is not b}
    return replace_buffers(kernel, changed) if changed else kernel


def _collect(s: Stmt, vectors: dict[str, int], lanes: dict[Buffer, int]) -> None:
    """Adds to ``lanes`` the longest vector along the rows of each register buffer."""
    if isinstance(s, For) and s.kind == "vector":
        vectors = {**vectors, s.var.name: constant_extent(s) or 1}
    for child in children(s):
        if isinstance(child, Stmt):
            _collect(child, vectors, lanes)
    if not vectors or not isinstance(s, Store):
        return
    for n in walk(s):
        if isinstance(n, (Load, Store)) and n.buffer.scope == "register" and n.buffer.shape:
            terms = linear_form(n.indices[-1]).terms
            along = [vectors[v.name] for v, c in terms.items() if isinstance(v, Var) and v.name in vectors and c == 1]
            lanes[n.buffer] = max([lanes.get(n.buffer, 1), *along])


def _padded(buffer: Buffer, lanes: int) -> Buffer:
    last = buffer.shape[-1]
    if buffer.strides is not None or not isinstance(last, Const) or int(last.value) % lanes == 0:
        return buffer
    whole = -(-int(last.value) // lanes) * lanes
    return replace(buffer, shape=(*buffer.shape[:-1], idx(whole)))

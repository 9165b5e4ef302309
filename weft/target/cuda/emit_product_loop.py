"""A loop through the pieces of a product, so that matrix instructions never wait for the start of a piece.

As it is written, an iteration waits at a barrier until its piece has arrived, starts copies some pieces ahead, loads
its first fragments and only then multiplies. Instead, the barrier of the next iteration comes before the last step of
this one, and the fragments of the next piece's first step are loaded while that step is computed; the copies ahead are
started in between the products. What is read and written between two barriers stays the same::

    barrier, load step 0 of the first piece
    for each piece:
      step 0 .. last - 1:  load the next step; multiply, in between start copies
      last step:           barrier; load step 0 of the next piece; multiply

Instructions of warp groups read shared memory themselves and run on their own, so a piece is started while the one
before it is computed. Copies may not yet overwrite that one: they are started an iteration later than written::

    for each piece:
      wait for the piece before the last; barrier; start the products of this piece; start copies

Where too little would be under way so late (`AHEAD`), a second barrier comes first::

    for each piece:
      barrier; start the products of this piece; wait for the piece before; barrier; start copies
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from weft.ir import dtype as dt
from weft.ir.expr import Binary, Compare, Const, Expr, Var, idx
from weft.ir.hardware import HARDWARE
from weft.ir.simplify import simplify
from weft.ir.stmt import Barrier, Evaluate, For, If, Let, Seq, Stmt, Store, Tensorized
from weft.ir.visit import substitute, walk
from weft.passes.analysis.loop_ranges import loop_range
from weft.target.c_text.emit_expr import emit_expr
from weft.target.c_text.storage import element_count
from weft.target.cuda.async_copies import emit_wait, find_copy
from weft.target.cuda.emit_context import Code, Function
from weft.target.cuda.emit_hardware import has_intrinsic
from weft.target.cuda.emit_mma import Products, emit_fragments, emit_loads, emit_places, emit_row, read_products
from weft.target.cuda.emit_wgmma import (
    GroupProducts,
    emit_done,
    emit_held,
    emit_products,
    emit_settled,
    read_groups,
)
from weft.target.cuda.intrinsics import MMA, WGMMA

#: Bytes that copies have asked for when a piece is started, at least, so that the next ones are there in time: what
#: a multiprocessor gets while one request is answered, as measured on an H200.
AHEAD = 80 << 10
#: A copy that has a condition itself.
_BRANCHLESS = re.compile(r"\s*(async_copy_if<\d+>\(.*\);|//.*)?")

EmitStmt = Callable[[Function, Stmt], None]


@dataclass(frozen=True, slots=True)
class _Loop:
    """The parts of an iteration: a barrier, copies that run on their own and the hints around them, products."""

    loop: For
    barrier: Barrier
    copies: tuple[Stmt, ...]
    products: Products | GroupProducts


def emit_product_loop(f: Function, s: For, emit_stmt: EmitStmt) -> bool:
    """The loop with each piece's first fragments loaded before it; False where it is no such loop."""
    known = loop_range(s, f.ranges)
    if not f.rings or s.kind != "serial" or not known.within(-(2**31), 2**31 - 2):
        return False
    name = f.program.names.of(s.var.name)
    with f.bound(s.var.name, Code(name), known):
        found = _read(f, s)
    if found is None:
        return False
    products = found.products
    with f.braces():
        if isinstance(products, GroupProducts):
            emit_held(f, products)
        else:
            emit_stmt(f, found.barrier)
            emit_fragments(f, products)
            with f.braces():
                emit_places(f, products, {s.var: s.lo})
                emit_loads(f, products, 0)
        head = f"for (int {name} = {emit_expr(f, s.lo).text}; {name} < {emit_expr(f, s.hi).text}; ++{name})"
        f.serial_depth += 1
        with f.braces(head), f.bound(s.var.name, Code(name), known):
            if isinstance(products, GroupProducts):
                _emit_group_piece(f, found, products, emit_stmt)
            else:
                _emit_piece(f, found, products, emit_stmt)
        f.serial_depth -= 1
        if isinstance(products, GroupProducts):
            emit_settled(f, products)
    return True


def _emit_group_piece(f: Function, found: _Loop, products: GroupProducts, emit_stmt: EmitStmt) -> None:
    late = _started_late(f, found, products)
    if late is None:
        emit_stmt(f, found.barrier)
        emit_products(f, products)
        emit_done(f, 1)
        f.line("__syncthreads();")
    else:
        emit_wait(f, late=1)
        emit_done(f, 1)
        f.line("__syncthreads();")
        emit_products(f, products)
    for copy in late or found.copies:
        emit_stmt(f, copy)


def _started_late(f: Function, found: _Loop, products: GroupProducts) -> list[Stmt] | None:
    """The copies of the iteration before; None where the last iteration has some, too, or rings are too short."""
    var, first, last = found.loop.var, found.loop.lo, simplify(found.loop.hi - 1)
    stages = min(f.rings.values())
    rings = [m.place.buffer for m in (products.a, products.b)]
    under_way = sum((element_count(b) or 0) * b.dtype.itemsize for b in rings) * (stages - 2) // stages
    if stages < 3 or under_way < AHEAD:
        return None
    made: list[Stmt] = []
    for copy in found.copies:
        if isinstance(copy, Evaluate):
            made.append(copy)
            continue
        if not isinstance(copy, If) or copy.otherwise is not None:
            return None
        if simplify(substitute(copy.condition, {var: last})) != Const(False, dt.bool_):
            return None
        before = substitute(copy, {var: var - 1})
        made.append(simplify(If(Binary("&&", Compare(">", var, first), before.condition), before.then), f.ranges))
    return made


def _emit_piece(f: Function, found: _Loop, products: Products, emit_stmt: EmitStmt) -> None:
    var = found.loop.var
    emit_places(f, products)
    copies = _copies_apart(f, found.copies, emit_stmt)
    last = products.steps - 1
    places = [(step, row) for step in range(last) for row in range(products.rows)]
    after = [places[n * len(places) // len(copies)] for n in range(len(copies))]
    for step in range(products.steps):
        if step == last:
            emit_stmt(f, found.barrier)
            emit_places(f, products, {var: var + 1}, "_next")
        emit_loads(f, products, (step + 1) % products.steps, "_next" if step == last else "")
        for row in range(products.rows):
            emit_row(f, products, step, row)
            for place, lines in zip(after, copies):
                if place == (step, row):
                    f.lines += lines


def _copies_apart(f: Function, copies: tuple[Stmt, ...], emit_stmt: EmitStmt) -> list[list[str]]:
    """The lines of each copy by itself; those under one condition have it in a variable, without a branch."""
    names: dict[Expr, str] = {}
    found: list[list[str]] = []
    for s in copies:
        condition = s.condition if isinstance(s, If) and s.otherwise is None else None
        if condition is not None and condition not in names:
            names[condition] = f.fresh("ahead")
            f.line(f"const bool {names[condition]} = {emit_expr(f, condition).text};")
        for part in _written_out(s.then if isinstance(s, If) and condition is not None else s):
            f.copies_if = "" if condition is None else names[condition]
            lines = _lines_of(f, part, emit_stmt)
            f.copies_if = ""
            if condition is not None and not all(_BRANCHLESS.fullmatch(line) for line in lines):
                lines = _lines_of(f, If(condition, part), emit_stmt)
            found.append(lines)
    return found


def _lines_of(f: Function, s: Stmt, emit_stmt: EmitStmt) -> list[str]:
    before = len(f.lines)
    emit_stmt(f, s)
    lines = f.lines[before:]
    del f.lines[before:]
    return lines


def _written_out(s: Stmt) -> list[Stmt]:
    """The iterations of a loop that is to be unrolled, one by one."""
    if isinstance(s, Seq):
        return [part for child in s.body for part in _written_out(child)]
    if not isinstance(s, For) or s.kind != "unroll" or not isinstance(s.lo, Const) or not isinstance(s.hi, Const):
        return [s]
    return [simplify(substitute(s.body, {s.var: idx(n)})) for n in range(int(s.lo.value), int(s.hi.value))]


def _read(f: Function, s: For) -> _Loop | None:
    parts = _parts(s.body)
    if len(parts) < 3:
        return None
    barrier, *copies, last = parts
    if not isinstance(barrier, Barrier) or barrier.scope != "block":
        return None
    if not isinstance(last, Tensorized) or not all(_only_copies(f, c) for c in copies) or not _is_steady(s):
        return None
    products = _read_products(f, last)
    if products is None:
        return None
    if not all(_goes_round(m.place.indices, m.place.buffer.shape[0], s.var) for m in (products.a, products.b)):
        return None
    return _Loop(s, barrier, tuple(copies), products)


def _read_products(f: Function, s: Tensorized) -> Products | GroupProducts | None:
    hardware = HARDWARE.get(s.intrinsic)
    if hardware not in (*MMA, *WGMMA) or not has_intrinsic(f.machine, hardware):
        return None
    if hardware in WGMMA:
        return read_groups(f, s, hardware)
    products = read_products(f, s, hardware, s.intrinsic.removeprefix("mma_"))
    return None if products is None or products.steps % 2 else products


def _parts(s: Stmt) -> list[Stmt]:
    return [part for child in s.body for part in _parts(child)] if isinstance(s, Seq) else [s]


def _is_steady(s: For) -> bool:
    """Whether the number of iterations is a number, so that nothing in the loop can change it."""
    return isinstance(s.lo, Const) and isinstance(s.hi, Const) and s.lo.value < s.hi.value


def _only_copies(f: Function, s: Stmt) -> bool:
    """Whether ``s`` does nothing but start copies that arrive after a later barrier."""
    if isinstance(s, Evaluate):
        return s.call.name in ("async_fill", "async_commit")
    plain = all(isinstance(n, (Seq, If, For, Let, Store)) for n in walk(s) if isinstance(n, Stmt))
    stores = [n for n in walk(s) if isinstance(n, Store)]
    return plain and bool(stores) and all(find_copy(f, n) is not None for n in stores)


def _goes_round(indices: tuple[Expr, ...], turns: Expr, var: Var) -> bool:
    """Whether piece after piece is in turn after turn of a ring: then the one after the last is storage, too."""
    first = simplify(indices[0]) == simplify(var % turns)
    return first and not any(n == var for i in indices[1:] for n in walk(i))

"""Loops: serial ones, unrolled ones, vector ones as lanes, parallel ones outlined."""

from __future__ import annotations

from collections.abc import Callable

from weft.ir.expr import Binary, Const
from weft.ir.stmt import For, Stmt
from weft.ir.visit import children, fact, free_vars, loads, walk
from weft.passes.analysis.check_vector import check_vector, infer_varying
from weft.passes.analysis.loop_ranges import constant_extent, ranges_inside
from weft.target.cpu.emit_context import I64, ONE, Function, LoopLabels, fit, fit_all, literal_of, plain_name
from weft.target.cpu.emit_expr import emit_expr
from weft.target.cpu.emit_parallel import PARALLEL_KINDS, emit_parallel
from weft.target.cpu.llvm_values import Value, constant, vector

EmitStmt = Callable[[Function, Stmt], None]
#: Where unrolled loops, also nested ones, would make more copies of a body than this, they stay loops.
MAX_COPIES = 1024
#: Wider vector loops run in order.
MAX_LANES = 256


def emit_for(f: Function, loop: For, emit_stmt: EmitStmt) -> None:
    ranges = f.program.ranges
    f.program.ranges = ranges_inside(loop, ranges)
    _emit_for(f, loop, emit_stmt)
    f.program.ranges = ranges


def _emit_for(f: Function, loop: For, emit_stmt: EmitStmt) -> None:
    extent = constant_extent(loop)
    if loop.kind in PARALLEL_KINDS and f.lane is None and not f.in_parallel:
        emit_parallel(f, loop, lambda g, part, lo, hi: emit_counted(g, part, lo, hi, lambda i: emit_stmt(g, part.body)))
    elif loop.kind == "unroll" and extent is not None and extent * f.copies <= MAX_COPIES:
        _emit_unrolled(f, loop, extent, emit_stmt)
    elif loop.kind == "vector" and extent is not None and _becomes_lanes(f, loop, extent):
        _emit_lanes(f, loop, extent, emit_stmt)
    else:
        _emit_serial(f, loop, emit_stmt)


def _becomes_lanes(f: Function, loop: For, extent: int) -> bool:
    starts_at_zero = isinstance(loop.lo, Const) and loop.lo.value == 0
    return f.lane is None and starts_at_zero and 1 < extent <= MAX_LANES and _varying(f, loop) is not None


def _varying(f: Function, loop: For) -> frozenset[str] | None:
    """What differs between lanes, or None where iterations cannot be lanes; found once for all unrolled copies."""
    varying = f.program.varying
    if id(loop) not in varying:
        varying[id(loop)] = infer_varying(loop) if check_vector(loop) is None else None
    return varying[id(loop)]


def _emit_lanes(f: Function, loop: For, lanes: int, emit_stmt: EmitStmt) -> None:
    before = f.varying
    f.lane, f.lanes, f.varying = loop.var.name, lanes, _varying(f, loop) or frozenset()
    # The lane variable shows as a vector to whoever asks for its type; its value is a constant.
    with f.bound(loop.var.name, Value("poison", vector(I64, lanes))):
        emit_stmt(f, loop.body)
    f.lane, f.lanes, f.varying = None, 1, before


def _emit_unrolled(f: Function, loop: For, extent: int, emit_stmt: EmitStmt) -> None:
    assert isinstance(loop.lo, Const)
    done = f.b.new_label("unrolled")
    f.copies *= max(extent, 1)
    for n in range(extent):
        after = f.b.new_label("step")
        f.loops.append(LoopLabels(after, done, len(f.heap)))
        with f.bound(loop.var.name, Value(str(int(loop.lo.value) + n), I64)):
            emit_stmt(f, loop.body)
        f.loops.pop()
        if f.b.is_target(after):
            f.b.block(after)
    f.copies //= max(extent, 1)
    if f.b.is_target(done):
        f.b.block(done)


def _emit_serial(f: Function, loop: For, emit_stmt: EmitStmt) -> None:
    lo, hi = emit_expr(f, loop.lo), emit_expr(f, loop.hi)
    if lo.lanes > 1 or hi.lanes > 1:
        _emit_ragged(f, loop, lo, hi, emit_stmt)
    else:
        emit_counted(f, loop, lo, hi, lambda i: emit_stmt(f, loop.body))


def emit_counted(f: Function, loop: For, lo: Value, hi: Value, emit_body: Callable[[Value], None]) -> None:
    """``emit_body`` for every value of the loop's variable in ``lo:hi``, in order."""
    body, latch, done = (f.b.new_label(hint) for hint in (plain_name(loop.var.name), "next", "done"))
    first, last = literal_of(lo), literal_of(hi)
    if first is not None and last is not None:
        if first >= last:
            return
        f.b.branch(body)
    else:
        f.b.cond_branch(f.b.icmp("slt", lo, hi), body, done)
    before = f.b.label
    f.b.block(body)
    i = f.b.phi(I64, [(lo, before)])
    f.loops.append(LoopLabels(latch, done, len(f.heap), loop.kind in ("parallel", "block", "thread")))
    with f.bound(loop.var.name, i):
        _divide_early(f, loop)
        emit_body(i)
    f.loops.pop()
    f.b.block(latch)
    following = f.b.binary("add nsw", i, ONE)
    f.b.add_incoming(i, following, f.b.label)
    f.b.cond_branch(f.b.icmp("slt", following, hi), body, done)
    f.b.block(done)


def _divide_early(f: Function, loop: For) -> None:
    """Divisions that loops inside would repeat, made at the start of the body: indices of loops that became one."""
    if f.lane is not None:
        return
    for e in _divisions_repeated(loop.body):
        used = free_vars(e)
        if loop.var.name in used and f.names.keys() >= used.keys():
            emit_expr(f, e)


@fact
def _divisions_repeated(s: Stmt) -> tuple[Binary, ...]:
    """Quotients and remainders of indices in the loops that ``s`` is or has inside."""
    if isinstance(s, For) and s.kind not in ("unroll", "vector"):
        return _divisions(s)
    return _all_of([_divisions_repeated(n) for n in children(s) if isinstance(n, Stmt)])


@fact
def _divisions(s: Stmt) -> tuple[Binary, ...]:
    own = [n for e in children(s) if not isinstance(e, Stmt) for n in walk(e)]
    found = [n for n in own if isinstance(n, Binary) and n.op in ("//", "%") and n.dtype.lanes == 1]
    plain = tuple(n for n in found if n.dtype.is_integer and not loads(n))
    return _all_of([plain, *(_divisions(n) for n in children(s) if isinstance(n, Stmt))])


def _all_of(several: list[tuple[Binary, ...]]) -> tuple[Binary, ...]:
    some = [each for each in several if each]
    return some[0] if len(some) == 1 else tuple(dict.fromkeys(e for each in some for e in each))


def _emit_ragged(f: Function, loop: For, lo: Value, hi: Value, emit_stmt: EmitStmt) -> None:
    """A loop whose bounds differ between lanes: from the least to the greatest, lanes masked outside their own."""
    lo, hi = fit_all(f, fit(f, lo, f.lanes), hi)
    i64 = lo.type
    first, last = lo, hi
    if f.mask is not None:
        first = f.b.select(f.mask, lo, constant(i64, 2**63 - 1))
        last = f.b.select(f.mask, hi, constant(i64, -(2**63)))
    start = f.b.call(f"llvm.vector.reduce.smin.v{f.lanes}i64", I64, [first])
    stop = f.b.call(f"llvm.vector.reduce.smax.v{f.lanes}i64", I64, [last])

    def emit_body(i: Value) -> None:
        here = f.b.splat(i, f.lanes)
        inside = f.b.and_(f.b.icmp("sle", lo, here), f.b.icmp("slt", here, hi))
        with f.masked(inside, is_live=False):
            emit_stmt(f, loop.body)

    emit_counted(f, loop, start, stop, emit_body)

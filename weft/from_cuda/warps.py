"""What threads of a warp or block tell one another: shuffles and votes, through shared memory and barriers."""

from __future__ import annotations

from weft.from_cuda import arithmetic as ar
from weft.from_cuda.context import Context, close
from weft.from_cuda.expressions import condition, number
from weft.from_cuda.memory import view
from weft.from_cuda.types import BOOL, INT, UINT, Scalar
from weft.from_cuda.unit import Node
from weft.from_cuda.values import Memory, Number, Value
from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, BinaryOp, Cast, Compare, Const, Expr, Load, Select, Var, const, idx
from weft.ir.stmt import Assign, Barrier, BarrierScope, For, Store

WARP = 32


def _op(op: BinaryOp, a: Expr, b: Expr) -> Expr:
    return ar.fold(Binary(op, a, b))


def thread_number(c: Context) -> Expr:
    """The number of this thread in its block."""
    x, y, z = c.dims["threadIdx"]
    width, height, _ = c.dims["blockDim"]
    rest = _op("+", y, _op("*", z, height))
    flat = x if isinstance(rest, Const) and rest.value == 0 else _op("+", x, _op("*", rest, width))
    return c.keep("thread_number", flat)


def _threads(c: Context) -> int:
    """How many a block has, rounded up to whole warps."""
    count = 1
    for size in c.launch.block:
        count = 1024 if size is None else count * size
    return min(-(-count // WARP) * WARP, 1024)


def _exchange(c: Context, dtype: dt.DType) -> Buffer:
    """Shared memory with a place for each thread."""
    key = f"exchange {dtype}"
    if key not in c.memories:
        c.memories[key] = Memory("exchange", "shared", Scalar(str(dtype), dtype), (_threads(c),), key)
    return view(c, c.memories[key], dtype)


def _publish(c: Context, value: Expr, scope: BarrierScope, *, parted: bool = False) -> tuple[Buffer, Expr]:
    """Every thread's value is in a place of its own when this is done."""
    buffer, own = _exchange(c, value.dtype), thread_number(c)
    c.emit(Store(buffer, (own,), value, span=c.span))
    if scope == "warp":
        c.meet(parted=parted)
    else:
        c.emit(Barrier(scope, span=c.span))
    return buffer, own


def _is_part(mask: Number) -> bool:
    """Whether a mask is a constant that leaves lanes out: they are elsewhere."""
    return isinstance(mask.expr, Const) and int(mask.expr.value) & 0xFFFFFFFF != 0xFFFFFFFF


def shuffle(c: Context, n: Node, how: str, arguments: list[Node]) -> Value:
    """The value of another thread of the warp, or the own one where there is no such thread."""
    parted = _is_part(number(c, arguments[0]))
    value = number(c, arguments[1])
    by = ar.to_index(number(c, arguments[2]), c.ranges)
    width = ar.to_index(number(c, arguments[3]), c.ranges) if len(arguments) > 3 else idx(WARP)
    held = c.keep("told", ar.stored(value))
    by = c.keep("by", by)
    buffer, own = _publish(c, held, "warp", parted=parted)
    lane = c.keep("lane", _op("%", own, idx(WARP)))
    start = _op("*", _op("//", lane, width), width)
    source, outside = _source(how, lane, start, by, width)
    at = _op("+", _op("-", own, lane), source)
    found: Expr = Load(buffer, (at,))
    if outside is not None:
        found = Select(outside, held, found)
    result = c.keep("heard", found)
    c.meet(parted=parted)
    return Number(value.type, result)


def _source(how: str, lane: Expr, start: Expr, by: Expr, width: Expr) -> tuple[Expr, Expr | None]:
    """The lane that is listened to, and when there is none."""
    if how == "up":
        return _op("-", lane, by), Compare("<", _op("-", lane, by), start)
    if how == "down":
        return _op("+", lane, by), Compare(">=", _op("+", lane, by), _op("+", start, width))
    if how == "xor":
        other = Binary("^", lane, by)
        return other, Compare(">=", other, _op("+", start, width))
    return _op("+", start, _op("%", by, width)), None


def _ballot(c: Context, mask: Node, test: Node) -> tuple[Expr, Expr]:
    """A bit for each thread of the warp that ``test`` holds for, and the threads that are asked."""
    given = number(c, mask)
    asked = c.keep("asked", ar.stored(ar.convert(given, UINT, c.ranges)))
    said = Select(condition(c, test), const(1, dt.uint32), const(0, dt.uint32))
    buffer, own = _publish(c, said, "warp", parted=_is_part(given))
    first = c.keep("first", _op("*", _op("//", own, idx(WARP)), idx(WARP)))
    bits = c.let("bits", const(0, dt.uint32))
    lane = Var(c.fresh("voter"), dt.index)
    shifted = Binary("<<", Load(buffer, (_op("+", first, lane),)), Cast(dt.uint32, lane))
    with c.scope() as items:
        c.emit(Assign(bits, Binary("|", bits, shifted), span=c.span))
    # Threads that a last warp does not have say nothing: their places were never written.
    c.emit(For(lane, idx(0), _voters(c, first), "serial", close(items), span=c.span))
    c.meet(parted=_is_part(given))
    return c.keep("votes", Binary("&", bits, asked)), asked


def _voters(c: Context, first: Expr) -> Expr:
    count: Expr = idx(1)
    for size in c.dims["blockDim"]:
        count = _op("*", count, size)
    if isinstance(count, Const) and int(count.value) % WARP == 0:
        return idx(WARP)
    return Binary("min", idx(WARP), _op("-", count, first))


def vote(c: Context, n: Node, how: str, arguments: list[Node]) -> Value:
    bits, asked = _ballot(c, arguments[0], arguments[1])
    if how == "ballot":
        return Number(UINT, bits)
    test = Compare("!=", bits, const(0, dt.uint32)) if how == "any" else Compare("==", bits, asked)
    return ar.convert(Number(BOOL, test), INT, c.ranges)


def active(c: Context, n: Node, arguments: list[Node]) -> Value:
    """The threads of the warp that are here: all that it has, since a barrier is where all of them come."""
    c.emit(Barrier("warp", span=c.span))
    first = _op("*", _op("//", thread_number(c), idx(WARP)), idx(WARP))
    missing = _op("-", idx(WARP), _voters(c, first))
    if isinstance(missing, Const) and missing.value == 0:
        return ar.constant(UINT, 0xFFFFFFFF)
    return Number(UINT, Binary(">>", const(0xFFFFFFFF, dt.uint32), Cast(dt.uint32, missing)))


def block_vote(c: Context, n: Node, how: str, arguments: list[Node]) -> Value:
    """A barrier that also tells for how many threads a condition holds."""
    said = Select(condition(c, arguments[0]), const(1, dt.int32), const(0, dt.int32))
    buffer, _ = _publish(c, said, "block")
    count = c.let("count", const(0, dt.int32))
    voter, total = Var(c.fresh("voter"), dt.index), idx(1)
    for size in c.dims["blockDim"]:
        total = _op("*", total, size)  # type: ignore[assignment]
    with c.scope() as items:
        c.emit(Assign(count, Binary("+", count, Load(buffer, (voter,))), span=c.span))
    c.emit(For(voter, idx(0), total, "serial", close(items), span=c.span))
    c.emit(Barrier("block", span=c.span))
    if how == "count":
        return Number(INT, c.keep("holding", count))
    wanted = Compare("!=", count, const(0, dt.int32)) if how == "or" else Compare("==", count, Cast(dt.int32, total))
    return ar.convert(Number(BOOL, c.keep("agreed", wanted)), INT, c.ranges)

"""Vector loops: accesses of neighbouring lanes become one, the arithmetic in between is unrolled.

    float A_v[8];
    load<16>(A_v, A + 8 * t);                        // 16 bytes at once
    float C_v[8];
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      C_v[v] = A_v[v] * 2.0f;
    }
    store<16>(C + 8 * t, C_v);

The iterations of a vector loop are independent, so it may run for one statement of its body after another, and
inside the serial loops and tests of its body that are the same for all lanes. What neither stands side by side
nor is surely aligned is accessed lane by lane.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.ir import dtype as dt
from weft.ir.affine import Linear, linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Const, Expr, Load, Select, Unary, idx
from weft.ir.interval import bounds
from weft.ir.offsets import linear_offset
from weft.ir.simplify import simplify
from weft.ir.stmt import JUMPS, Alloc, Barrier, For, If, Let, Seq, Stmt, Store, While
from weft.ir.visit import children, substitute, walk
from weft.passes.analysis.conditions import mentions
from weft.passes.analysis.loop_ranges import constant_extent, loop_range
from weft.passes.analysis.truth import for_all_lanes, for_any_lane
from weft.target.c_text.c_types import storage_type, value_type
from weft.target.c_text.emit_convert import unrounded
from weft.target.c_text.emit_expr import emit_expr, emit_pointer
from weft.target.c_text.emit_stmt import emit_stmt
from weft.target.cuda.async_copies import SIZES, Copy, element_or_zero, emit_copies, find_copy
from weft.target.cuda.emit_context import LEVEL, Code, Function
from weft.target.cuda.emit_pairs import Bytes, emit_pairs

#: The most bytes of one access.
WIDEST = 16
#: The most bytes of elements of which accesses that begin anywhere are put together.
CUT = 2
_KEPT_TOGETHER = (While, Alloc, Barrier, *JUMPS)


@dataclass(frozen=True, slots=True)
class Wide:
    """An access of all lanes to neighbouring elements, by ``bytes`` at a time from ``indices`` on.

    ``is_cut``: it begins anywhere, and is put together from the two aligned ones it lies in. ``sharing`` lanes side by
    side have the same element: two halves of a byte, say, or values of one scale. Where its ``condition`` does not
    hold, zeros are loaded.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    bytes: int
    is_cut: bool = False
    sharing: int = 1
    condition: Expr | None = None

    @property
    def is_words(self) -> bool:
        return self.buffer.dtype == dt.uint8 and self.bytes >= 4 and not self.is_cut and self.condition is None


def emit_vector(f: Function, loop: For) -> bool:
    """The loop with wide accesses; False where it has none, and is to be written as an ordinary loop."""
    if constant_extent(loop) in (None, 0, 1) or any(isinstance(n, _KEPT_TOGETHER) for n in walk(loop.body)):
        return False
    if not any(_widens(f, loop, s) for s in _leaves(loop.body)):
        return False
    _emit(f, loop, loop.body)
    return True


def _leaves(s: Stmt) -> Iterator[Stmt]:
    if isinstance(s, Store):
        yield s
    for child in children(s):
        if isinstance(child, Stmt):
            yield from _leaves(child)


def _widens(f: Function, loop: For, s: Stmt) -> bool:
    if not isinstance(s, Store):
        return False
    return _wide(f, loop, s.buffer, s.indices) is not None or bool(_wide_loads(f, loop, s.value))


def _emit(f: Function, loop: For, s: Stmt) -> None:
    """``s`` for all lanes."""
    match s:
        case Seq():
            for child in s.body:
                _emit(f, loop, child)
        case If() if not mentions(s.condition, loop.var.name):
            _emit_uniform_if(f, loop, s)
        case If(otherwise=None) if _fills_registers(f, loop, s):
            _emit_filling(f, loop, s)
        case If(otherwise=None) if for_all_lanes(s.condition, loop) is not None:
            _emit_guarded(f, loop, s)
        case For(kind="serial" | "unroll") if not (mentions(s.lo, loop.var.name) or mentions(s.hi, loop.var.name)):
            emit_stmt(f, For(s.var, s.lo, s.hi, s.kind, _again(loop, s.body), span=s.span))
        case Let() if not mentions(s.value, loop.var.name) and s.var.name not in f.mutable:
            emit_stmt(f, Let(s.var, s.value, _again(loop, s.body), span=s.span))
        case Store(value=Select() as value) if s.buffer.name in f.rings and _splits(f, value, loop):
            # Filled up at the edges: a copy inside, which need not be waited for, and plain stores beyond.
            inside = Store(s.buffer, s.indices, value.then, span=s.span)
            _emit(f, loop, If(value.condition, inside))
            beyond = Store(s.buffer, s.indices, value.otherwise, span=s.span)
            _emit(f, loop, If(Unary("!", value.condition), beyond))
        case Store():
            _emit_store(f, loop, s)
        case _:
            _emit_plain(f, loop, s)


def _again(loop: For, body: Stmt) -> For:
    return For(loop.var, loop.lo, loop.hi, loop.kind, body, span=loop.span)


def _emit_uniform_if(f: Function, loop: For, s: If) -> None:
    otherwise = None if s.otherwise is None else _again(loop, s.otherwise)
    emit_stmt(f, If(s.condition, _again(loop, s.then), otherwise, span=s.span))


def _splits(f: Function, value: Select, loop: For) -> bool:
    return mentions(value.condition, loop.var.name) and for_all_lanes(value.condition, loop) is not None


def _fills_registers(f: Function, loop: For, s: If) -> bool:
    """Whether ``s`` copies to registers what one aligned access reads.

    Such an access may read beyond a border: if it holds one element that is there, all of it is memory. The lanes
    beyond get what nothing uses: no other statement stores to these registers.
    """
    if not isinstance(s.then, Store) or not isinstance(s.then.value, Load) or not f.memory(s.then.buffer).is_private:
        return False
    load = s.then.value
    if s.then.buffer.name not in f.stored_once or not _has_room(f, loop, s.then):
        return False
    wide = _wide(f, loop, load.buffer, load.indices)
    whole = (constant_extent(loop) or 0) * load.buffer.dtype.itemsize
    return wide is not None and wide.bytes == whole and not wide.is_cut and for_any_lane(s.condition, loop) is not None


def _has_room(f: Function, loop: For, s: Store) -> bool:
    """Whether all lanes have a place, also those that no test lets through."""
    ranges = {**f.ranges, loop.var.name: loop_range(loop, f.ranges)}
    sizes = (int(e.value) if isinstance(e, Const) else 0 for e in s.buffer.shape)
    return all(bounds(i, ranges).within(0, size - 1) for i, size in zip(s.indices, sizes))


def _emit_filling(f: Function, loop: For, s: If) -> None:
    """All lanes at once where any is inside."""
    condition = for_any_lane(s.condition, loop)
    assert condition is not None
    condition = simplify(condition, f.ranges)
    if condition == Const(True, dt.bool_):
        _emit(f, loop, s.then)
        return
    with f.braces(f"if ({emit_expr(f, condition).text})"):
        _emit(f, loop, s.then)


def _emit_guarded(f: Function, loop: For, s: If) -> None:
    """All lanes at once where all are inside; else each lane on its own."""
    condition = for_all_lanes(s.condition, loop)
    assert condition is not None
    with f.braces(f"if ({emit_expr(f, condition).text})"):
        _emit(f, loop, s.then)
    f.lines.pop()
    with f.braces("} else"):
        _emit_plain(f, loop, s)


def _emit_plain(f: Function, loop: For, s: Stmt) -> None:
    """Lane by lane, unrolled."""
    emit_stmt(f, For(loop.var, loop.lo, loop.hi, "unroll", s, span=loop.span))


def _eager_loads(e: Expr) -> Iterator[Load]:
    """Loads that are performed whatever else is: not those behind a test, unless both of its sides have them."""
    if isinstance(e, Load):
        yield e
        return
    if isinstance(e, Select):
        yield from _eager_loads(e.condition)
        also = {*_eager_loads(e.otherwise)}
        yield from (load for load in _eager_loads(e.then) if load in also)
        return
    if isinstance(e, Binary) and e.op in ("&&", "||"):
        yield from _eager_loads(e.left)
        return
    for child in children(e):
        if isinstance(child, Expr):
            yield from _eager_loads(child)


def _wide_loads(f: Function, loop: For, value: Expr) -> dict[Expr, Wide]:
    """What all lanes load together, or load where a test that is the same for all of them holds and have zeros else."""
    found: dict[Expr, Wide] = {
        load: wide for load in _eager_loads(value) if (wide := _wide(f, loop, load.buffer, load.indices))
    }
    for e in _eager_selects(value):
        element = element_or_zero(e)
        if element is None or element.condition is None or mentions(element.condition, loop.var.name):
            continue
        wide = _wide(f, loop, element.load.buffer, element.load.indices)
        if wide is not None and not wide.is_cut and wide.sharing == 1:
            found[e] = replace(wide, condition=element.condition)
    return found


def _eager_selects(e: Expr) -> Iterator[Select]:
    """Tests that are made whatever else is: not those behind another."""
    if isinstance(e, Select):
        yield e
    elif isinstance(e, Binary) and e.op in ("&&", "||"):
        yield from _eager_selects(e.left)
    else:
        for child in children(e):
            if isinstance(child, Expr):
                yield from _eager_selects(child)


def _emit_store(f: Function, loop: For, s: Store) -> None:
    """``value`` of all lanes into an array, then the array to memory; loads come before."""
    target = _wide(f, loop, s.buffer, s.indices)
    target = None if target is not None and target.sharing > 1 else target
    if target is not None and _emit_async(f, loop, s, target):
        return
    loads = _wide_loads(f, loop, s.value)  # lanes are independent: none of these is what another lane writes
    if target is None and not loads:
        _emit_plain(f, loop, s)
        return
    extent = constant_extent(loop) or 0
    is_halved = s.buffer.name in f.halved
    if is_halved and target is not None and all(w.is_words for w in loads.values()):
        given = {load: Bytes(w.buffer.name, w.sharing, w.bytes, _source(f, w)) for load, w in loads.items()}
        if emit_pairs(f, loop, s, target.bytes, given):
            return
    copied = loads.get(s.value) if s.value.dtype == s.buffer.dtype and not is_halved else None
    if target is not None and copied is not None and not copied.is_cut and copied.sharing == 1:
        _emit_copy(f, copied, target, extent)
        return
    name = f.program.names.of(loop.var.name)
    lane = Code(name) if loop.lo == idx(0) else Code(f"{name} - {emit_expr(f, loop.lo).text}", LEVEL["-"])
    before = dict(f.replaced)
    for load, wide in loads.items():
        own = lane.text if wide.sharing == 1 else f"({lane.text}) / {wide.sharing}"
        f.replaced[load] = _element(f"{_emit_load(f, wide, extent // wide.sharing)}[{own}]", wide.buffer)
    array = "" if target is None else _declare(f, s.buffer, extent)
    f.line("#pragma unroll")
    lo, hi = emit_expr(f, loop.lo).text, emit_expr(f, loop.hi).text
    with (
        f.braces(f"for (int {name} = {lo}; {name} < {hi}; ++{name})"),
        f.bound(loop.var.name, Code(name), loop_range(loop, f.ranges)),
    ):
        if target is None:
            emit_stmt(f, s)
        else:
            f.line(f"{array}[{lane.text}] = {unrounded(emit_expr(f, s.value), s.buffer.dtype).text};")
    f.replaced = before
    if is_halved:
        f.line(f"{f.use('in_halves')}({array});")
    if target is not None:
        _emit_wide_store(f, target, array)


def _emit_async(f: Function, loop: For, s: Store, target: Wide) -> bool:
    """A plain copy into a ring, left to run on its own; False where it is something else."""
    found = _async_copy(f, loop, s, target)
    if found is None:
        return False
    copy, size = found
    count = (constant_extent(loop) or 0) * s.buffer.dtype.itemsize // size
    emit_copies(f, Store(s.buffer, target.indices, s.value), copy, size, count)
    return True


def _async_copy(f: Function, loop: For, s: Store, target: Wide) -> tuple[Copy, int] | None:
    """The copy that may run on its own, from where the first lane reads, and how many bytes it takes at a time."""
    copy = find_copy(f, s, loop.var)
    source = None if copy is None else _wide(f, loop, copy.load.buffer, copy.load.indices)
    if copy is None or source is None or source.is_cut or source.sharing > 1:
        return None
    if (size := min(source.bytes, target.bytes)) not in SIZES:
        return None
    return Copy(Load(source.buffer, source.indices), copy.condition), size


def is_whole_copy(f: Function, s: Stmt) -> bool:
    """Whether all that ``s`` does is copy whole 16 bytes, on its own: an instruction that may be predicated."""
    if not isinstance(s, For) or s.kind != "vector" or constant_extent(s) in (None, 0, 1):
        return False
    target = _wide(f, s, s.body.buffer, s.body.indices) if isinstance(s.body, Store) else None
    found = None if target is None else _async_copy(f, s, s.body, target)  # type: ignore[arg-type]
    return found is not None and found[0].condition is None and found[1] == WIDEST


def _emit_copy(f: Function, source: Wide, target: Wide, extent: int) -> None:
    """Elements as they are, with nothing computed in between."""
    array = f.fresh(f"{source.buffer.name}_v")
    f.line(f"{storage_type(source.buffer.dtype)} {array}[{extent}];")
    f.line(f"{f.use(_load_of(source))}<{source.bytes}>({array}, {_source(f, source)});")
    name = f.use("stream" if f.memory(target.buffer).streams else "store")
    f.line(f"{name}<{target.bytes}>({emit_pointer(f, target.buffer, target.indices)}, {array});")


def _element(text: str, buffer: Buffer) -> Code:
    if buffer.dtype.is_bool:
        return Code(f"{text} != 0", LEVEL["!="])
    return Code(text, wide=buffer.dtype == dt.index)


def _declare(f: Function, buffer: Buffer, extent: int) -> str:
    array = f.fresh(f"{buffer.name}_v")
    type = value_type(buffer.dtype) if buffer.dtype.is_narrow_float else storage_type(buffer.dtype)
    f.line(f"{type} {array}[{extent}];")
    return array


def _emit_load(f: Function, wide: Wide, extent: int) -> str:
    array = _declare(f, wide.buffer, extent)
    name = f.use(_load_of(wide))
    if wide.buffer.dtype.is_narrow_float:
        f.use(f"{name}_{wide.buffer.dtype.name}")
    size = "" if wide.is_cut else f"<{wide.bytes}>"
    f.line(f"{name}{size}({array}, {_source(f, wide)});")
    return array


def _load_of(wide: Wide) -> str:
    return "load_cut" if wide.is_cut else "load" if wide.condition is None else "load_if"


def _source(f: Function, wide: Wide) -> str:
    """Where a load begins, and whether there is anything."""
    there = "" if wide.condition is None else f", {emit_expr(f, wide.condition).text}"
    return emit_pointer(f, wide.buffer, wide.indices) + there


def _emit_wide_store(f: Function, wide: Wide, array: str) -> None:
    name = f.use("stream" if f.memory(wide.buffer).streams else "store")
    if wide.buffer.dtype.is_narrow_float:
        f.use(f"{name}_{wide.buffer.dtype.name}")
    f.line(f"{name}<{wide.bytes}>({emit_pointer(f, wide.buffer, wide.indices)}, {array});")


def _wide(f: Function, loop: For, buffer: Buffer, indices: tuple[Expr, ...]) -> Wide | None:
    """How the lanes of an access are neighbours in memory that starts at a multiple of some bytes, if they are."""
    memory = f.memory(buffer)
    extent = constant_extent(loop) or 1
    if memory.is_private:
        return None
    offset = linear_offset(buffer, indices)
    sharing = 0 if offset is None else _lanes_sharing(offset, loop)
    if sharing == 0 or extent % sharing:
        return None
    first = tuple(substitute(i, {loop.var: loop.lo}) for i in indices)
    first = first if sharing == 1 else tuple(simplify(i, f.ranges) for i in first)
    start = linear_offset(buffer, first)
    if start is None:
        return None
    size = buffer.dtype.itemsize
    align = math.gcd(memory.align, size * _multiple_of(start), extent // sharing * size)
    unit = min(align & -align, WIDEST)
    if unit > size:
        return Wide(buffer, first, unit, sharing=sharing)
    cut = sharing == 1 and extent * size == WIDEST and size <= CUT and memory.is_constant
    return Wide(buffer, first, WIDEST, is_cut=True) if cut else None


def _lanes_sharing(offset: Linear, loop: For) -> int:
    """How many lanes have the same element, one after another of which lie side by side; 0 where they do not."""
    atoms = [a for a in offset.terms if mentions(a, loop.var.name)]
    if len(atoms) != 1 or offset.terms[atoms[0]] != 1:
        return 0
    if atoms[0] == loop.var:
        return 1
    match atoms[0]:
        case Binary(op="//", left=left, right=Const(value=value)) if value > 0:
            inside = linear_form(left)
            along = inside.terms.get(loop.var) == 1 and sum(mentions(a, loop.var.name) for a in inside.terms) == 1
            start = linear_form(substitute(left, {loop.var: loop.lo}))
            return int(value) if along and _multiple_of(start) % int(value) == 0 else 0
    return 0


def _multiple_of(offset: Linear) -> int:
    """What a sum is a multiple of; ``x % n`` differs from ``x`` by a multiple of ``n``."""
    rest, step = Linear(dict(offset.terms), offset.constant), 0
    for atom, factor in offset.terms.items():
        if isinstance(atom, Binary) and atom.op == "%" and isinstance(atom.right, Const) and atom.right.value > 0:
            rest.add(linear_form(atom), -factor).add(linear_form(atom.left), factor)
            step = math.gcd(step, factor * int(atom.right.value))
    return math.gcd(step, *rest.terms.values(), rest.constant)

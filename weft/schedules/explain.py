"""``explain``: what the loops of a program do to the memory of a machine, estimated, as a table.

For every loop: how often it runs, how, what one run of it touches, and how many bytes come into each
cache from the one behind it. The model is simple on purpose: an access touches the box its subscripts
span, lines of 64 bytes; data are kept by a cache over a loop where two iterations fit into it
together. It knows nothing of associativity or of prefetching, and it takes one core.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from weft.ir.buffer import Buffer
from weft.ir.errors import ScheduleError
from weft.ir.expr import Const, Expr, Load, Var, idx
from weft.ir.interval import Interval, bounds, half_open
from weft.ir.printer import print_expr
from weft.ir.simplify import inner_statements, simplify
from weft.ir.stmt import Atomic, Block, For, Kernel, LoopKind, Stmt, Store
from weft.ir.visit import loads, substitute
from weft.tensor.cost import count_operations

DEFAULT_CACHES: Mapping[str, int] = {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}
LINE = 64
#: Operations a core does in a cycle with each 32-bit lane, and bytes that come in per cycle behind each level.
OPERATIONS_PER_LANE = 4
BYTES_PER_CYCLE: Mapping[str, float] = {"L1": 64, "L2": 24, "L3": 8}


@dataclass(frozen=True, slots=True)
class Access:
    """A read or write, with the names of the loops around it."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    loops: tuple[str, ...]


@dataclass
class Nest:
    """A loop (the whole program has none) with what is directly in it; ``trips`` None where sizes are not known."""

    loop: For | None
    trips: int | None
    inner: list[Nest] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    operations: int = 0

    @property
    def name(self) -> str:
        return "" if self.loop is None else self.loop.var.name

    def below(self) -> Iterator[Access]:
        yield from self.accesses
        for nest in self.inner:
            yield from nest.below()

    def total(self) -> int:
        """Operations of one run."""
        return (self.trips or 0) * (self.operations + sum(n.total() for n in self.inner))


@dataclass
class Model:
    """A program as nests, and the ranges of all its loops."""

    root: Nest
    ranges: dict[str, Interval]
    caches: Mapping[str, int]
    lanes: int

    def footprint(self, nest: Nest, iterations: int | None = None) -> dict[str, int]:
        """Bytes of each buffer that one run of ``nest`` (or so many of its iterations) touches."""
        boxes: dict[str, list[Interval]] = {}
        buffers: dict[str, Buffer] = {}
        inside = {n.name for n in nests_of(nest)}
        for access in nest.below():
            ranges = {name: r if name in inside else _first(r) for name, r in self.ranges.items()}
            if iterations is not None and nest.loop is not None:
                ranges[nest.name] = _first(self.ranges[nest.name], iterations)
            box = [_within(bounds(i, ranges), n) for i, n in zip(access.indices, access.buffer.shape)]
            known = boxes.get(access.buffer.name)
            boxes[access.buffer.name] = box if known is None else [a.union(b) for a, b in zip(known, box)]
            buffers[access.buffer.name] = access.buffer
        return {name: _bytes(buffers[name], box) for name, box in boxes.items()}

    def traffic(self, nest: Nest, size: int) -> dict[str, int]:
        """Bytes of each buffer that come into a cache of ``size`` bytes in one run of ``nest``."""
        whole = self.footprint(nest)
        if nest.loop is not None and sum(whole.values()) <= size:
            return whole
        once: dict[str, int] = {}
        for part in nest.inner:
            for name, count in self.traffic(part, size).items():
                once[name] = once.get(name, 0) + count
        for name, count in self.footprint(Nest(None, 1, [], nest.accesses)).items():
            once[name] = max(once.get(name, 0), count)
        stays = nest.loop is not None and sum(self.footprint(nest, 2).values()) <= size
        return whole if stays else {name: count * (nest.trips or 1) for name, count in once.items()}


def explain(
    kernel: Kernel,
    sizes: Mapping[str, int] | None = None,
    caches: Mapping[str, int] | None = None,
    lanes: int = 16,
) -> str:
    """The table for ``kernel``, with ``sizes`` for its symbolic sizes; ``lanes`` 32-bit ones a vector."""
    values = _size_values(kernel, sizes or {})
    model = make_model(substitute(kernel.body, values), caches or DEFAULT_CACHES, lanes)
    unknown = sorted(p.name for p in kernel.scalars if p.name not in (sizes or {}) and _is_size(kernel, p))
    rows = [_heading(model)] + [_row(nest, depth, model) for nest, depth in _walk(model.root, 0) if nest.loop]
    lines = [*_summary(kernel, model, unknown), "", *_aligned(rows)]
    return "\n".join(lines) + "\n"


def _size_values(kernel: Kernel, sizes: Mapping[str, int]) -> dict[Var, Expr]:
    known = {p.name: p for p in kernel.scalars}
    for name in sizes:
        if name not in known:
            raise ScheduleError(
                f"kernel `{kernel.name}` has no size `{name}`",
                why=f"its sizes are {', '.join(known)}" if known else "its sizes are all known",
            )
    return {known[name]: idx(value) for name, value in sizes.items()}


def _is_size(kernel: Kernel, scalar: Var) -> bool:
    return any(scalar == e for b in kernel.buffers for e in b.shape)


def make_model(body: Stmt, caches: Mapping[str, int], lanes: int) -> Model:
    root = Nest(None, 1)
    model = Model(root, {}, caches, lanes)
    _collect(body, root, (), model.ranges)
    return model


def _collect(s: Stmt, nest: Nest, loops: tuple[str, ...], ranges: dict[str, Interval]) -> None:
    if isinstance(s, Block):
        values = {i.var: i.binding for i in s.iters}
        for part in (s.init, s.body):
            if part is not None:
                _collect(substitute(part, values), nest, loops, ranges)
        return
    if isinstance(s, For):
        ranges[s.var.name] = half_open(bounds(s.lo, ranges), bounds(s.hi, ranges))
        most = bounds(simplify(s.hi - s.lo), ranges).hi
        nest.inner.append(Nest(s, None if most is None else max(0, most)))
        _collect(s.body, nest.inner[-1], (*loops, s.var.name), ranges)
        return
    if isinstance(s, (Store, Atomic)):
        nest.operations += count_operations(s.value) + isinstance(s, Atomic)
        written = Load(s.buffer, s.indices)
        found = [written, *(e for part in (s.value, *s.indices) for e in loads(part))]
        nest.accesses += [Access(e.buffer, e.indices, loops) for e in found if e.buffer.scope != "register"]
    for inner in inner_statements(s):
        _collect(inner, nest, loops, ranges)


def nests_of(nest: Nest) -> Iterator[Nest]:
    yield nest
    for inner in nest.inner:
        yield from nests_of(inner)


def _walk(nest: Nest, depth: int) -> Iterator[tuple[Nest, int]]:
    yield nest, depth
    for inner in nest.inner:
        yield from _walk(inner, depth + (nest.loop is not None))


def _first(r: Interval, count: int = 1) -> Interval:
    """The first ``count`` values of a loop variable."""
    if r.lo is None:
        return r
    last = r.lo + count - 1
    return Interval(r.lo, last if r.hi is None else min(last, r.hi))


def _within(r: Interval, size: Expr) -> Interval:
    """A subscript's values cut to the dimension; all of it where they are not known."""
    last = int(size.value) - 1 if isinstance(size, Const) else None
    lo = 0 if r.lo is None else max(0, r.lo)
    hi = last if r.hi is None or (last is not None and r.hi > last) else r.hi
    return Interval(lo, hi)


def _bytes(buffer: Buffer, box: list[Interval]) -> int:
    """Bytes of a box, in whole lines along the dimension that is dense in memory."""
    counts = [1 if r.hi is None or r.lo is None else max(1, r.hi - r.lo + 1) for r in box]
    dense = [d for d, s in enumerate(buffer.element_strides()) if isinstance(s, Const) and s.value == 1]
    along = counts.pop(dense[-1]) if dense else 1
    run = -(-along * buffer.dtype.itemsize // LINE) * LINE
    whole = math.prod(int(n.value) if isinstance(n, Const) else 1 << 62 for n in buffer.shape)
    return min(run * math.prod(counts), max(1, whole) * buffer.dtype.itemsize)


# Text


def _summary(kernel: Kernel, model: Model, unknown: list[str]) -> list[str]:
    caches = ", ".join(f"{name} {_amount(size)}" for name, size in model.caches.items())
    if unknown:
        wanted = ", ".join(f"{name}=1024" for name in unknown)
        return [f"kernel {kernel.name}, sizes not known: s.explain({wanted}) estimates", f"caches: {caches}"]
    work, touched = sum(n.total() for n in model.root.inner) + model.root.operations, model.footprint(model.root)
    total = max(1, sum(touched.values()))
    intensity = work / total
    lines = [
        f"kernel {kernel.name}: {_count(work)} operations on {_amount(total)}, {intensity:.3g} a byte",
        f"caches: {caches}",
    ]
    return [*lines, f"limit:  {_limit(model, work)}"]


def _limit(model: Model, work: int) -> str:
    """What takes longest on one core, by the rates of a usual one."""
    cycles = {"arithmetic": work / (OPERATIONS_PER_LANE * model.lanes)}
    for level, size in model.caches.items():
        cycles[f"traffic into {level}"] = sum(model.traffic(model.root, size).values()) / BYTES_PER_CYCLE.get(level, 8)
    most = max(cycles, key=lambda name: cycles[name])
    others = ", ".join(f"{name} {_count(int(c))}" for name, c in cycles.items() if name != most)
    return f"{most}, {_count(int(cycles[most]))} cycles of one core ({others})"


def _heading(model: Model) -> list[str]:
    return ["loop", "runs", "as", *(f"into {level}" for level in model.caches), "one run touches"]


def _row(nest: Nest, depth: int, model: Model) -> list[str]:
    assert nest.loop is not None
    known = all(n.trips is not None for n in nests_of(nest))
    traffic = [_amount(sum(model.traffic(nest, size).values())) if known else "?" for size in model.caches.values()]
    touched = ", ".join(f"{name} {_amount(n)}" for name, n in model.footprint(nest).items()) if known else "?"
    return ["  " * depth + nest.name, _trips(nest.loop, nest.trips), _how(nest.loop.kind), *traffic, touched]


def _trips(loop: For, trips: int | None) -> str:
    extent = simplify(loop.hi - loop.lo)
    if isinstance(extent, Const):
        return str(extent.value)
    return print_expr(extent) if trips is None else f"<= {trips}"


def _how(kind: LoopKind) -> str:
    return "in order" if kind == "serial" else kind


def _amount(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def _count(number: int) -> str:
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    last = len(widths) - 1

    def cell(column: int, text: str) -> str:
        if column == last:
            return text
        return text.ljust(widths[column]) if column in (0, 2) else text.rjust(widths[column])

    return ["  ".join(cell(c, text) for c, text in enumerate(row)).rstrip() for row in rows]

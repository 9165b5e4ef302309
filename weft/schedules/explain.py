"""``explain``: what the loops of a program do to the memory of a machine, estimated, as a table.

For every loop: how often it runs, how, what one run of it touches, and how many bytes come into each
cache from the one behind it. The model is simple on purpose: an access touches the box its subscripts
span (`footprint`); data are kept by a cache over a loop where what one iteration touches fits into it.
It knows nothing of prefetching, and it takes one core.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from weft.ir.errors import ScheduleError
from weft.ir.expr import Const, Expr, Var, idx
from weft.ir.printer import print_expr
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Kernel
from weft.ir.visit import substitute
from weft.schedules.footprint import Touch, infer_touches
from weft.schedules.nests import Leaf, Nest, Program, read_nests
from weft.tensor.cost import count_operations

DEFAULT_CACHES: Mapping[str, int] = {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}
LINE = 64
#: Operations a core does in a cycle with each 32-bit lane, and bytes that come in per cycle behind each level.
OPERATIONS_PER_LANE = 4
BYTES_PER_CYCLE: Mapping[str, float] = {"L1": 64, "L2": 24, "L3": 8}


@dataclass
class Model:
    """A program as nests, what its statements touch, and the machine."""

    program: Program
    touches: Mapping[Leaf, list[Touch]]
    caches: Mapping[str, int]
    lanes: int

    @property
    def root(self) -> Nest:
        return self.program.root

    def operations(self, nest: Nest) -> int:
        """Operations of one run."""
        inside = 0
        for child in nest.parts:
            if isinstance(child, Nest):
                inside += self.operations(child)
            elif not child.starts:
                inside += count_operations(child.value) + child.is_atomic
        return int(nest.trips * inside)

    def footprint(self, nest: Nest, *, iteration: bool = False) -> dict[str, int]:
        """Bytes of each buffer that one run of ``nest``, or one of its iterations, touches."""
        depth = nest.depth if iteration or nest is self.root else nest.depth - 1
        most: dict[str, float] = {}
        for leaf in nest.below():
            own: dict[str, float] = {}
            for touch in self.touches[leaf]:
                own[touch.name] = own.get(touch.name, 0.0) + touch.touched[depth]
            for name, size in own.items():
                most[name] = max(most.get(name, 0.0), size)
        return {name: int(size) for name, size in most.items()}

    def traffic(self, nest: Nest, size: int) -> dict[str, int]:
        """Bytes of each buffer that come into a cache of ``size`` bytes in one run of ``nest``."""
        whole = self.footprint(nest)
        if sum(self.footprint(nest, iteration=True).values()) <= size:
            return whole
        once: dict[str, int] = {}
        for child in nest.parts:
            bytes_moved = self.traffic(child, size) if isinstance(child, Nest) else self._single(child)
            for name, count in bytes_moved.items():
                once[name] = once.get(name, 0) + count
        return {name: int(count * nest.trips) for name, count in once.items()}

    def _single(self, leaf: Leaf) -> dict[str, int]:
        return {touch.name: int(touch.touched[-1]) for touch in self.touches[leaf]}


def explain(
    kernel: Kernel,
    sizes: Mapping[str, int] | None = None,
    caches: Mapping[str, int] | None = None,
    lanes: int = 16,
) -> str:
    """The table for ``kernel``, with ``sizes`` for its symbolic sizes; ``lanes`` 32-bit ones a vector."""
    values = _size_values(kernel, sizes or {})
    specialized = Kernel(kernel.name, kernel.params, kernel.outputs, substitute(kernel.body, values))
    model = make_model(specialized, caches or DEFAULT_CACHES, lanes)
    unknown = sorted(p.name for p in kernel.scalars if p.name not in (sizes or {}) and _is_size(kernel, p))
    heading = ["loop", "runs", "as", *(f"into {level}" for level in model.caches), "one run touches"]
    rows = [heading] + [_row(nest, depth, model, not unknown) for nest, depth in _walk(model.root, 0) if nest.loop]
    lines = [*_summary(kernel, model, unknown), "", *_aligned(rows)]
    return "\n".join(lines) + "\n"


def _size_values(kernel: Kernel, sizes: Mapping[str, int]) -> dict[Var, Expr]:
    scalars = {p.name: p for p in kernel.scalars}
    for name in sizes:
        if name not in scalars:
            raise ScheduleError(
                f"kernel `{kernel.name}` has no size `{name}`",
                why=f"its sizes are {', '.join(scalars)}" if scalars else "its sizes are all known",
            )
    return {scalars[name]: idx(value) for name, value in sizes.items()}


def _is_size(kernel: Kernel, scalar: Var) -> bool:
    return any(scalar == e for b in kernel.buffers for e in b.shape)


def make_model(kernel: Kernel, caches: Mapping[str, int], lanes: int) -> Model:
    program = read_nests(kernel)
    return Model(program, {leaf: infer_touches(leaf, LINE) for leaf in program.root.below()}, caches, lanes)


def _walk(nest: Nest, depth: int) -> Iterator[tuple[Nest, int]]:
    yield nest, depth
    for child in nest.parts:
        if isinstance(child, Nest):
            yield from _walk(child, depth + (nest.loop is not None))


# Text


def _summary(kernel: Kernel, model: Model, unknown: list[str]) -> list[str]:
    caches = ", ".join(f"{name} {_amount(size)}" for name, size in model.caches.items())
    if unknown:
        wanted = ", ".join(f"{name}=1024" for name in unknown)
        return [f"kernel {kernel.name}, sizes not known: s.explain({wanted}) estimates", f"caches: {caches}"]
    work, touched = model.operations(model.root), model.footprint(model.root)
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


def _row(nest: Nest, depth: int, model: Model, has_sizes: bool) -> list[str]:
    assert nest.loop is not None
    traffic = [_amount(sum(model.traffic(nest, size).values())) if has_sizes else "?" for size in model.caches.values()]
    touched = ", ".join(f"{name} {_amount(n)}" for name, n in model.footprint(nest).items()) if has_sizes else "?"
    kind = "in order" if nest.loop.kind == "serial" else nest.loop.kind
    return ["  " * depth + nest.name, _trips(nest.loop, nest, has_sizes), kind, *traffic, touched]


def _trips(loop: For, nest: Nest, has_sizes: bool) -> str:
    extent = simplify(loop.hi - loop.lo)
    if isinstance(extent, Const):
        return str(extent.value)
    return f"about {nest.trips:g}" if has_sizes else print_expr(extent)


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

"""A loop program with a touch of memory in the place of each of its accesses: addresses, and nothing that is computed.

Buffers follow each other in memory, each from a page on; registers and variables are no memory. An update reads first
and writes last, other statements read in the order they are written in. Concurrent loops run in turn, as on one core.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from weft.ir.buffer import Buffer
from weft.ir.errors import UnsupportedError
from weft.ir.evaluated import Test
from weft.ir.expr import Axis, Binary, Const, Expr, Load, Unary, idx
from weft.ir.nesting import around, inner_statements, sequence, statements_in
from weft.ir.stmt import Alloc, Barrier, Break, Continue, For, If, Kernel, Let, Return, Seq, Stmt, While
from weft.ir.visit import free_vars, walk
from weft.passes.plain.lower_blocks import lower_blocks
from weft.poly.leaves import Access, Leaf, is_assigned, leaves

PAGE = 4096
Touch = Callable[[Expr], Stmt]


@dataclass(frozen=True, eq=False)
class Touches:
    """The touches of a kernel whose sizes are numbers."""

    kernel: Kernel

    @cached_property
    def lowered(self) -> Kernel:
        return lower_blocks(self.kernel)

    @cached_property
    def starts(self) -> Mapping[str, int]:
        """The address of each buffer in memory, by name, and of the end of all of them as ``""``."""
        inside = [s.buffer for s in statements_in(self.lowered, Alloc)]
        starts, end = dict[str, int](), 0
        for buffer in (*self.kernel.buffers, *inside):
            if buffer.scope == "register" or buffer.name in starts:
                continue
            starts[buffer.name] = end
            end += -(-_bytes(buffer) // PAGE) * PAGE
        return {**starts, "": end}

    @property
    def size(self) -> int:
        """Bytes of memory that buffers take."""
        return self.starts[""]

    @cached_property
    def by_buffer(self) -> Mapping[str, int]:
        """Accesses of each buffer in memory, at most: tests are taken to hold."""
        counts = dict.fromkeys((name for name in self.starts if name), 0)
        for leaf in leaves(self.lowered):
            times = math.prod(_passes(leaf, n) for n in range(len(leaf.loops)))
            for a in leaf.accesses:
                if a.buffer.name in counts:
                    counts[a.buffer.name] += times * (a.reads + a.writes) * math.prod(map(_extent, a.axes))
        return counts

    @property
    def most(self) -> int:
        """Accesses at most."""
        return sum(self.by_buffer.values())

    def program(self, line: int, touch: Touch) -> Stmt:
        """The program in which each access touches its line of ``line`` bytes."""
        return _Replacer(self, line, touch).statement(self.lowered.body)


def _bytes(buffer: Buffer) -> int:
    size = buffer.byte_count()
    if size is None:
        raise UnsupportedError(f"where `{buffer.name}` lies in memory is not known", why="its size is not a number",
                               help="give arguments, so that sizes are known")  # fmt: skip
    return size


def _passes(leaf: Leaf, number: int) -> int:
    loop = leaf.loops[number]
    most = leaf.ranges[loop.name]
    return 0 if most.hi is None or most.lo is None else max(most.hi - most.lo + 1, 0)


def _extent(axis: Axis) -> int:
    return int(axis.hi.value) - int(axis.lo.value) if isinstance(axis.hi, Const) and isinstance(axis.lo, Const) else 1


class _Replacer:
    def __init__(self, touches: Touches, line: int, touch: Touch) -> None:
        self.starts, self.line, self.touch = touches.starts, line, touch
        self.leaves = deque(leaves(touches.lowered))
        self.name = touches.kernel.name
        #: Variables around the statement whose values hang on data.
        self.unknown = set[str]()

    def statement(self, s: Stmt) -> Stmt:
        """``s`` with touches for its own accesses before those of the statements in it, which is how leaves follow."""
        own: list[Stmt] = [Seq(())]
        if self.leaves and self.leaves[0].stmt is s:
            own = [t for a in _in_order(self.leaves.popleft()) for t in self._touch(a)]
        if isinstance(s, Let) and (is_assigned(s) or any(isinstance(n, Load) for n in walk(s.value))):
            self.unknown.add(s.var.name)
        inner = [self.statement(n) for n in inner_statements(s)]
        return sequence((*own, self._around(s, inner)))

    def _around(self, s: Stmt, inner: list[Stmt]) -> Stmt:
        if isinstance(s, For):
            self._require_known(s.lo, s.hi, *(() if s.backward is None else (s.backward,)))
            return replace(s, kind="serial", body=inner[0], ahead=None)
        if isinstance(s, If):
            self._require_known(s.condition)
            return If(s.condition, inner[0], inner[1] if s.otherwise is not None else None)
        if isinstance(s, Let) and not any(isinstance(n, Load) for n in walk(s.value)) and not is_assigned(s):
            return replace(s, body=inner[0])
        if isinstance(s, Let):
            self.unknown.discard(s.var.name)
        if isinstance(s, (While, Break, Continue, Return)):
            raise self._unknown("a while loop or a jump decides what runs")
        if isinstance(s, Barrier):
            raise self._unknown("its threads wait for each other, and their order is not simulated")
        return sequence(inner)

    def _touch(self, access: Access) -> list[Stmt]:
        if access.buffer.name not in self.starts:
            return []
        self._require_known(*access.indices, *(t.condition for t in access.tests))
        at: Expr = idx(0)
        for index, stride in zip(access.indices, access.buffer.element_strides()):
            at = at + index * stride
        address = idx(self.starts[access.buffer.name]) + at * idx(access.buffer.dtype.bits // 8)
        once: Stmt = self.touch(Binary("//", address, idx(self.line)))
        for test in reversed(access.tests):
            once = If(_condition(test), once)
        loops = [For(a.var, a.lo, a.hi, "serial", Seq(())) for a in access.axes]
        return [around(loops, once)]

    def _require_known(self, *expressions: Expr) -> None:
        for e in expressions:
            if any(isinstance(n, Load) for n in walk(e)) or not self.unknown.isdisjoint(free_vars(e)):
                raise self._unknown("what is read from memory decides where it goes on")

    def _unknown(self, why: str) -> UnsupportedError:
        return UnsupportedError(f"the accesses of {self.name} are not known before it runs", why=why)


def _condition(test: Test) -> Expr:
    return test.condition if test.holds else Unary("!", test.condition)


def _in_order(leaf: Leaf) -> list[Access]:
    """The accesses of a statement as they happen: reads, that of an update first, then the write."""
    updates = [replace(a, writes=False) for a in leaf.accesses if a.reads and a.writes]
    reads = [a for a in leaf.accesses if not a.writes]
    return [*updates, *reads, *(replace(a, reads=False) for a in leaf.accesses if a.writes)]

"""Where the storage of one launch is after joining: threads' own arrays, shared memory, device memory.

What is not distributed over threads is shared, or in device memory where it is too large for that or its size is
not a number. Device memory of a launch has a dimension for each block loop in front, and one for the number of the
thread where every thread has some for itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.errors import UnsupportedError
from weft.ir.expr import Expr, idx
from weft.ir.interval import Ranges, bounds
from weft.ir.stmt import Alloc, For, Stmt
from weft.ir.visit import free_vars, map_statements, replace_buffers
from weft.passes.analysis.thread_digits import Digit, split_subscript
from weft.passes.analysis.thread_shapes import Shape
from weft.passes.analysis.thread_units import change_memory
from weft.passes.to_grid.place_storage import Placement

#: Bytes that a thread has for itself at most; local memory is made for all threads that may run at once.
MOST_LOCAL_BYTES = 16384


@dataclass(slots=True)
class LaunchStorage:
    """The storage of a launch of ``shape`` threads in each of ``blocks``."""

    blocks: tuple[For, ...]
    shape: Shape
    placement: Placement
    shared_bytes: int
    #: What is known before the launch.
    scalars: frozenset[str]
    shared: list[Buffer] = field(default_factory=list)
    #: Arrays through which reductions across threads pass values, by element type.
    passing: dict[str, Buffer] = field(default_factory=dict)
    device: list[Buffer] = field(default_factory=list)
    #: Where storage is now, and how its subscripts start.
    moved: dict[str, tuple[Buffer, tuple[Expr, ...]]] = field(default_factory=dict)

    #: Shared storage that targets may keep elsewhere: what is left of it they check themselves.
    uncounted: frozenset[str] = frozenset()

    @property
    def spare_bytes(self) -> int:
        counted = (b for b in (*self.shared, *self.passing.values()) if b.name not in self.uncounted)
        return self.shared_bytes - sum(b.byte_count() or 0 for b in counted)

    def place(self, made: Sequence[Alloc], ranges: Ranges) -> None:
        """Finds a place for storage of the block that is not distributed."""
        for alloc in made:
            old = alloc.buffer
            if old.name in self.placement.own:
                continue
            sizes = [bounds(size, ranges).hi for size in old.shape]
            fixed = [n for n in sizes if n is not None]
            count = math.prod(fixed) * old.dtype.itemsize if len(fixed) == len(sizes) else None
            if count is not None and (count <= self.spare_bytes or old.name in self.uncounted):
                new = replace(old, shape=tuple(idx(n) for n in fixed), scope="shared")
                self.shared.append(new)
                self.moved[old.name] = (new, ())
            elif old.scope == "shared":
                raise _does_not_fit(old, self.spare_bytes, count, self.shared_bytes)
            else:
                self.to_device(old, ranges)

    def to_device(self, old: Buffer, ranges: Ranges, thread: Expr | None = None) -> None:
        """Device memory for ``old``, for each thread of its own where ``thread`` is its number."""
        shape: list[Expr] = []
        for size in old.shape:
            most = bounds(size, ranges).hi
            if free_vars(size).keys() <= self.scalars:
                shape.append(size)
            elif most is not None:
                shape.append(idx(most))
            else:
                raise _no_size(old)
        front = (*(loop.hi for loop in self.blocks), *(() if thread is None else (idx(self.shape.total),)))
        new = replace(old, shape=(*front, *shape), scope="global", strides=None)
        self.device.append(new)
        self.moved[old.name] = (new, (*(loop.var for loop in self.blocks), *(() if thread is None else (thread,))))

    def relocated(self, digits: Mapping[str, Digit], node: Any, ranges: Ranges) -> Any:
        """``node`` with accesses to storage where that now is."""

        def change(n: Any, inside: Ranges) -> Any:
            own = self.placement.own.get(n.buffer.name)
            if own is not None:
                split = split_subscript(n.indices, digits, inside)
                assert split is not None
                return replace(n, buffer=own.buffer, indices=split.rest)
            moved = self.moved.get(n.buffer.name)
            return n if moved is None else replace(n, buffer=moved[0], indices=(*moved[1], *n.indices))

        return change_memory(node, ranges, change)

    def own_storage(self, s: Stmt, ranges: Ranges, *, alone: bool) -> Stmt:
        """``s`` with the storage that a thread makes in it its own; ``alone``: one thread of the block runs it."""
        thread = None if alone else self.shape.number()

        def visit(n: Stmt) -> Stmt:
            before = len(self.device)
            n = map_statements(n, visit)
            if isinstance(n, For) and n.kind in ("vector", "parallel") and len(self.device) > before:
                return replace(n, kind="serial")  # its iterations use one memory now
            if not isinstance(n, Alloc):
                return n
            if n.buffer.scope == "shared":
                raise _shared_by_nobody(n)
            size = n.buffer.byte_count()
            if (size is not None and size <= MOST_LOCAL_BYTES) or n.buffer.scope == "register":
                new = replace(n.buffer, scope="local" if n.buffer.scope == "global" else n.buffer.scope)
                return Alloc(new, replace_buffers(n.body, {n.buffer: new}), span=n.span)
            self.to_device(n.buffer, ranges, thread)
            return n.body

        return visit(s)


def _shared_by_nobody(alloc: Alloc) -> UnsupportedError:
    return UnsupportedError(
        f"`{alloc.buffer.name}` is shared storage made by one thread",
        span=alloc.span,
        help="make it outside the thread loops",
    )


def _no_size(buffer: Buffer) -> UnsupportedError:
    return UnsupportedError(
        f"`{buffer.name}` has a size that nothing bounds",
        span=buffer.span,
        why="memory of a launch is made before it starts",
        help="make it in front of all block loops, or with a size that does not depend on loops",
    )


def _does_not_fit(buffer: Buffer, left: int, count: int | None, most: int) -> UnsupportedError:
    size = "a size that is not a constant" if count is None else f"{count} bytes"
    return UnsupportedError(
        f"`{buffer.name}` does not fit in shared memory",
        span=buffer.span,
        why=f"it has {size}, and {left} of {most} bytes are left",
        help="stage a smaller tile",
    )

"""Which launches a kernel becomes: one for each nest outside of which nothing is concurrent.

Storage made outside all block loops is device memory for the length of a call. A test of sizes around nests
decides before a launch whether it takes place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Binary, Const, Expr, Load, Unary, Var
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Alloc, Assert, Atomic, For, If, Kernel, Let, Param, Seq, Stmt, Store
from weft.ir.visit import mentions, substitute, walk
from weft.target.cuda.program import Steps, is_host_size

#: Storage of a launch that runs in a single thread is device memory from this many elements on.
_SMALL = 64


@dataclass(frozen=True, slots=True)
class Nest:
    """What one launch runs, if ``condition`` holds."""

    body: Stmt
    condition: Expr | None = None
    steps: tuple[Steps, ...] = ()

    @property
    def has_assert(self) -> bool:
        return any(isinstance(n, Assert) for n in walk(self.body))


@dataclass(slots=True)
class Parts:
    """The launches in order, and the device memory they need."""

    nests: list[Nest] = field(default_factory=list)
    temporaries: list[Buffer] = field(default_factory=list)
    #: how many loops of the host there are
    loops: int = 0


def read_launches(kernel: Kernel) -> Parts:
    """``kernel`` taken apart."""
    parts = Parts()
    scalars = frozenset(v.name for v in kernel.scalars if not v.dtype.is_float)
    _split(kernel.body, Nest(kernel.body), scalars, parts)
    return parts


def _split(s: Stmt, around: Nest, scalars: frozenset[str], parts: Parts) -> None:
    """The launches of ``s``, under the condition and in the steps of ``around``."""
    match s:
        case Seq():
            for child in s.body:
                _split(child, around, scalars, parts)
        case Alloc() if _has_host_size(s.buffer, scalars):
            parts.temporaries.append(replace(s.buffer, scope="global"))
            _split(s.body, around, scalars, parts)
        case Let() if is_host_size(s.value, scalars) and s.var.name not in set(assigned_names(s.body)):
            _split(substitute(s.body, {s.var: s.value}), around, scalars, parts)
        case If() if is_host_size(s.condition, scalars) and has_concurrency(s):
            _split(s.then, _under(around, s.condition), scalars, parts)
            if s.otherwise is not None:
                _split(s.otherwise, _under(around, Unary("!", s.condition)), scalars, parts)
        case For(kind="serial") if has_concurrency(s) and all(is_host_size(e, scalars) for e in (s.lo, s.hi)):
            steps = Steps(s.var.name, s.lo, s.hi, parts.loops)
            parts.loops += 1
            _split(s.body, replace(around, steps=(*around.steps, steps)), scalars | {s.var.name}, parts)
        case _:
            if not has_concurrency(s):
                s = _without_large_storage(s, scalars, parts)
            parts.nests.append(replace(around, body=s))


def _under(around: Nest, test: Expr) -> Nest:
    return replace(around, condition=test if around.condition is None else Binary("&&", around.condition, test))


def has_concurrency(s: Stmt) -> bool:
    """Whether a block, thread or parallel loop is in ``s``."""
    return any(isinstance(n, For) and n.kind in ("block", "thread", "parallel") for n in walk(s))


def _has_host_size(buffer: Buffer, scalars: frozenset[str]) -> bool:
    return all(is_host_size(e, scalars) for e in (*buffer.shape, *buffer.element_strides()))


def _without_large_storage(s: Stmt, scalars: frozenset[str], parts: Parts) -> Stmt:
    """A single thread's large arrays as device memory."""
    for n in walk(s):
        if isinstance(n, Alloc) and _has_host_size(n.buffer, scalars) and not _is_small(n.buffer):
            parts.temporaries.append(replace(n.buffer, scope="global"))
    return s


def _is_small(buffer: Buffer) -> bool:
    count = 1
    for size in buffer.shape:
        count *= int(size.value) if isinstance(size, Const) else _SMALL + 1
    return count <= _SMALL


def used_params(body: Stmt, params: Iterable[Param]) -> Iterator[Param]:
    """Those of ``params`` that ``body`` mentions, in their order."""
    names = mentioned_names(body)
    for p in params:
        if p.name in names:
            yield p


def mentioned_names(body: Stmt) -> frozenset[str]:
    """Variables and buffers in ``body``, also in the sizes and strides of the buffers."""
    names: set[str] = set()
    buffers: set[Buffer] = set()
    for n in walk(body):
        if isinstance(n, Var):
            names.add(n.name)
        elif isinstance(n, (Load, Store, Atomic, AddressOf, Alloc)):
            buffers.add(n.buffer)
    for buffer in buffers:
        names.add(buffer.name)
        names |= {n.name for e in (*buffer.shape, *buffer.element_strides()) for n in walk(e) if isinstance(n, Var)}
    return frozenset(names)


def written_names(body: Stmt) -> frozenset[str]:
    """Buffers that ``body`` may write; one whose address is given to a call counts."""
    return mentions(body).stored | mentions(body).addressed

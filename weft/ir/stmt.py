"""Statements and kernels of the loop program.

A GPU kernel is nothing special: ``block`` loops around ``thread`` loops around statements
and barriers. Names bound by an enclosing loop, ``Let``, ``Alloc`` or block iterator are not
bound again inside it (siblings may reuse them), so a name means one thing wherever it is seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Call, Expr, Var, _refuse, _require, _span, check_indices
from weft.ir.quick_init import quick_inits
from weft.ir.span import Span

#: serial: in order. parallel/block/thread: any order, concurrently; block and thread are the two
#: levels of a GPU grid. vector: lanes of one instruction, all iterations independent. unroll: serial, expanded.
LoopKind = Literal["serial", "parallel", "vector", "unroll", "block", "thread"]
BarrierScope = Literal["warp", "block", "grid"]
AtomicOp = Literal["+", "min", "max", "&", "|", "^", "exchange", "cas"]
IterKind = Literal["spatial", "reduce"]
_LOOP_KINDS = frozenset(get_args(LoopKind))


class Stmt:
    """Base of all statements; what `weft.ir.visit.fact` finds out about one is kept with it."""

    __slots__ = ("_facts",)
    _facts: dict[object, object]
    span: Span | None


@dataclass(frozen=True, slots=True)
class Ahead:
    """What stores to the buffers ``rings`` may run ahead of the rest of a loop's body, by up to ``distance`` turns.

    A turn is an iteration of the innermost loop around those stores. See `weft.ir.ahead`.
    """

    distance: int
    rings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class For(Stmt):
    """``for var in lo:hi``; nothing runs where ``hi <= lo``. Its meaning is the same with ``ahead`` or without.

    Where ``backward`` holds as the loop begins, the last iteration runs first. In loops whose iterations may run in any
    order (all that `weft.schedules.alternate` makes) this too may be left out.
    """

    var: Var
    lo: Expr
    hi: Expr
    kind: LoopKind
    body: Stmt
    ahead: Ahead | None = None
    backward: Expr | None = None
    span: Span | None = _span()

    def __post_init__(self) -> None:
        if not self.var.dtype is self.lo.dtype is self.hi.dtype is dt.index:
            for e in (self.var, self.lo, self.hi):
                _require(e.dtype == dt.index, "a loop", "loops run over int64", e)
        if self.kind not in _LOOP_KINDS:
            _refuse("a loop", f"unknown kind {self.kind}")
        if self.backward is not None:
            _require(self.backward.dtype == dt.bool_, "a loop", "whether it runs backward must be bool", self.backward)


@dataclass(frozen=True, slots=True)
class While(Stmt):
    condition: Expr
    body: Stmt
    span: Span | None = _span()

    def __post_init__(self) -> None:
        _require(self.condition.dtype == dt.bool_, "a while", "the condition must be bool", self.condition)


@dataclass(frozen=True, slots=True)
class If(Stmt):
    condition: Expr
    then: Stmt
    otherwise: Stmt | None = None
    span: Span | None = _span()

    def __post_init__(self) -> None:
        _require(self.condition.dtype == dt.bool_, "an if", "the condition must be bool", self.condition)


@dataclass(frozen=True, slots=True)
class Seq(Stmt):
    """Statements one after another; an empty one does nothing."""

    body: tuple[Stmt, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Let(Stmt):
    """``var`` holds ``value`` throughout ``body``, where `Assign` may change it."""

    var: Var
    value: Expr
    body: Stmt
    span: Span | None = _span()

    def __post_init__(self) -> None:
        _require(self.var.dtype == self.value.dtype, "a let", "types differ", self.var, self.value)


@dataclass(frozen=True, slots=True)
class Assign(Stmt):
    """A new value for a variable that an enclosing `Let` of the same thread made."""

    var: Var
    value: Expr
    span: Span | None = _span()

    def __post_init__(self) -> None:
        _require(self.var.dtype == self.value.dtype, "an assignment", "types differ", self.var, self.value)


@dataclass(frozen=True, slots=True)
class Store(Stmt):
    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    span: Span | None = _span()

    def __post_init__(self) -> None:
        check_indices("a store", self.buffer, self.indices)
        if self.value.dtype.scalar != self.buffer.dtype:
            _refuse(f"a store to {self.buffer.name}", f"it holds {self.buffer.dtype}", self.value)


@dataclass(frozen=True, slots=True)
class Atomic(Stmt):
    """``buffer[indices] = op(buffer[indices], value)`` in one step.

    ``result``, a variable of an enclosing `Let`, receives the old value. ``cas`` stores
    ``value`` where the old value equals ``expected``.
    """

    op: AtomicOp
    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    expected: Expr | None = None
    result: Var | None = None
    span: Span | None = _span()

    def __post_init__(self) -> None:
        check_indices("an atomic", self.buffer, self.indices)
        _require(self.op in get_args(AtomicOp), "an atomic", f"unknown operator {self.op}")
        _require((self.expected is not None) == (self.op == "cas"), "an atomic", "cas, and only cas, takes expected")
        for e in (self.value, self.expected, self.result):
            if e is not None:
                same = e.dtype == self.buffer.dtype
                _require(same, f"an atomic on {self.buffer.name}", f"it holds {self.buffer.dtype}", e)


@dataclass(frozen=True, slots=True)
class Alloc(Stmt):
    """``buffer`` exists, uninitialized, throughout ``body``."""

    buffer: Buffer
    body: Stmt
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Barrier(Stmt):
    """Every thread of ``scope`` arrives before any goes on; orders memory before it against memory after it."""

    scope: BarrierScope = "block"
    span: Span | None = _span()

    def __post_init__(self) -> None:
        _require(self.scope in get_args(BarrierScope), "a barrier", f"unknown scope {self.scope}")


@dataclass(frozen=True, slots=True)
class Return(Stmt):
    """This thread is done with the kernel."""

    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Break(Stmt):
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Continue(Stmt):
    span: Span | None = _span()


#: What ends something around it early.
JUMPS = (Break, Continue, Return)


@dataclass(frozen=True, slots=True)
class Evaluate(Stmt):
    """A call for its effect."""

    call: Call
    span: Span | None = _span()


def hint(name: str, *args: Expr) -> Evaluate:
    """A call that changes only how fast the program runs: one of `weft.ir.intrinsics.HINTS`."""
    return Evaluate(Call(name, args, dt.index))


@dataclass(frozen=True, slots=True)
class Tensorized(Stmt):
    """``body``, which does what the hardware intrinsic ``intrinsic`` does: a target that has it runs that instead.

    The body is the meaning: analyses look at it, the interpreter and other targets run it.
    """

    intrinsic: str
    body: Stmt
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Assert(Stmt):
    """Stops the kernel with ``message`` where ``condition`` fails; ``{0}``, ``{1}`` ... stand for ``values``.

    What the kernel has written by then stays written, so lowering puts asserts first.
    """

    condition: Expr
    message: str
    values: tuple[Expr, ...] = ()
    span: Span | None = _span()

    def __post_init__(self) -> None:
        _require(self.condition.dtype == dt.bool_, "an assert", "the condition must be bool", self.condition)
        for v in self.values:
            _require(v.dtype == dt.index, "an assert", "values are int64", v)


@dataclass(frozen=True, slots=True)
class Iter:
    """An iterator of a block: ``var`` runs over ``lo:hi`` and has the value ``binding`` in this instance."""

    var: Var
    lo: Expr
    hi: Expr
    kind: IterKind
    binding: Expr


@dataclass(frozen=True, slots=True)
class Region:
    """The box of a buffer that starts at ``starts`` and has ``extents`` elements a side."""

    buffer: Buffer
    starts: tuple[Expr, ...]
    extents: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Block(Stmt):
    """The unit a schedule moves: ``body`` in terms of ``iters`` alone, and what it touches.

    ``init`` runs before ``body`` in the instance where every reduce iterator is at its ``lo``.
    """

    name: str
    iters: tuple[Iter, ...]
    reads: tuple[Region, ...]
    writes: tuple[Region, ...]
    init: Stmt | None
    body: Stmt
    span: Span | None = _span()


Param: TypeAlias = "Buffer | Var"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A loop program: what one call runs. ``outputs`` names the parameters it may write."""

    name: str
    params: tuple[Param, ...]
    outputs: tuple[str, ...]
    body: Stmt
    span: Span | None = _span()

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return tuple(p for p in self.params if isinstance(p, Buffer))

    @property
    def scalars(self) -> tuple[Var, ...]:
        return tuple(p for p in self.params if isinstance(p, Var))


quick_inits(globals())


__all__ = [
    "Ahead", "Alloc", "Assert", "Assign", "Atomic", "AtomicOp", "Axis", "Barrier", "BarrierScope", "Block", "Break",
    "Continue", "Evaluate", "For", "If", "Iter", "IterKind", "Kernel", "Let", "LoopKind", "Param", "Region",
    "Return", "Seq", "Stmt", "Store", "Tensorized", "While", "hint",
]  # fmt: skip

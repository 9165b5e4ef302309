"""From computes to statements: names made plain, reductions inside expressions given temporaries of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.errors import LanguageError
from weft.ir.expr import Axis, Binary, Expr, Load, Reduce, Select, Unary, Var, _span, identity, idx
from weft.ir.inequality import all_of
from weft.ir.span import Span
from weft.ir.visit import free_vars, fresh_name, rebuild, substitute, walk
from weft.tensor.build import BuildOp, ProgramBuilder, RangeClause
from weft.tensor.program import TensorProgram, axes_for


@dataclass(frozen=True, slots=True)
class ArgReduce(Expr):
    """The value of the one axis of ``extreme`` (a minimum or maximum) at which it is found."""

    op: Literal["argmin", "argmax"]
    extreme: Reduce
    span: Span | None = _span()

    @property
    def dtype(self) -> DType:
        return dt.int32


@dataclass(frozen=True, slots=True)
class DefinedLoad(Load):
    """A load that keeps the definition of the tensor it reads alive."""

    definition: Definition | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, eq=False)
class Definition:
    """``buffer(axes) = value``, where ``value`` may hold reductions anywhere; or what the steps of ``scan`` give."""

    buffer: Buffer
    axes: tuple[Axis, ...]
    value: Expr
    span: Span | None = None
    scan: Scan | None = None

    def reads(self) -> list[Definition]:
        if self.scan is not None:
            return self.scan.reads()
        definitions = [n.definition for n in walk(self.value) if isinstance(n, DefinedLoad)]
        return [d for d in definitions if d is not None]


@dataclass(frozen=True, eq=False)
class Scan:
    """States that go on from step to step: row 0 of ``states`` is the start, the next row what a step makes of one."""

    steps: Axis
    states: tuple[Buffer, ...]
    starts: tuple[DefinedLoad, ...]
    ends: tuple[DefinedLoad, ...]

    def inner(self) -> list[Definition]:
        """What is computed in each step, each after what it reads: all that depends on the step."""
        order: dict[int, tuple[Definition, bool]] = {}

        def visit(d: Definition) -> bool:
            if id(d) not in order:
                depends = [visit(r) for r in d.reads()]
                order[id(d)] = (d, any(depends) or self.steps.var.name in free_vars(d.value))
            return order[id(d)][1]

        for end in self.ends:
            if end.definition is not None:
                visit(end.definition)
        return [d for d, depends in order.values() if depends]

    def reads(self) -> list[Definition]:
        """What must be there before the first step."""
        inner = self.inner()
        used = [load.definition for load in (*self.starts, *self.ends)] + [r for d in inner for r in d.reads()]
        return [d for d in used if d is not None and d not in inner]


def assemble(
    name: str, params: Sequence[Buffer | Var], outputs: Sequence[Definition], definitions: Sequence[Definition]
) -> TensorProgram:
    """The program of ``definitions``, which are in an order in which each reads only earlier ones."""
    source = next((d.span.source for d in outputs if d.span is not None), None)
    builder = ProgramBuilder(name, source)
    _declare_params(builder, params, definitions)
    names = {b.name: _plain(b.name) for b in params if isinstance(b, Buffer)}
    for d in outputs:
        names[d.buffer.name] = _plain(d.buffer.name)
        builder.declare_output(names[d.buffer.name], d.buffer.dtype, d.buffer.shape, d.span)
    written: set[int] = set()
    for d in definitions:
        _declare(builder, names, d.buffer, d.span)
        if d.scan is None:
            _Writer(builder, names, d).write()
        elif id(d.scan) not in written:
            written.add(id(d.scan))
            _write_scan(builder, names, d.scan, d.span)
    return builder.finish()


def _declare(builder: ProgramBuilder, names: dict[str, str], buffer: Buffer, span: Span | None) -> None:
    if buffer.name not in names:
        names[buffer.name] = _fresh(builder, _plain(buffer.name))
        builder.declare_temporary(names[buffer.name], buffer.dtype, buffer.shape, span)


def _write_scan(builder: ProgramBuilder, names: dict[str, str], scan: Scan, span: Span | None) -> None:
    """The start of each state, then the block: what a step computes, and the states it leaves."""
    for state, start in zip(scan.states, scan.starts):
        _declare(builder, names, state, span)
        _Writer(builder, names, _row(state, idx(0), start, span)).write_row()
    step = Var(_fresh(builder, _plain(scan.steps.var.name)))
    renamed: dict[Var, Expr] = {scan.steps.var: step}
    clause = RangeClause(step, scan.steps.lo, scan.steps.hi, span)
    with builder.recurrence(clause, [names[s.name] for s in scan.states]):
        for d in scan.inner():
            _declare(builder, names, d.buffer, d.span)
            _Writer(builder, names, d, renamed).write()
        for state, end in zip(scan.states, scan.ends):
            _Writer(builder, names, _row(state, scan.steps.var + idx(1), end, span), renamed).write_row()


def _row(state: Buffer, row: Expr, value: DefinedLoad, span: Span | None) -> Definition:
    """``state(row, i, j, …) = value(i, j, …)``; the first axis stands for the row."""
    axes = tuple(Axis(Var(f"i{d}@{state.name}"), idx(0), size) for d, size in enumerate(value.buffer.shape))
    read = replace(value, indices=tuple(a.var for a in axes))
    return Definition(state, (Axis(Var("row"), row, row + idx(1)), *axes), read, span)


def _declare_params(builder: ProgramBuilder, params: Sequence[Buffer | Var], definitions: Sequence[Definition]) -> None:
    scalars = {p.name for p in params if isinstance(p, Var)}
    for p in params:
        if isinstance(p, Var):
            builder.scalar(p.name, p.dtype, p.span)
            continue
        _declare_sizes(builder, p.shape, scalars)
        builder.input(_plain(p.name), p.dtype, p.shape, p.span)
    scans = [d.scan for d in definitions if d.scan is not None]
    _declare_sizes(builder, [s.steps.hi for s in scans], scalars)
    for d in (*definitions, *(d for s in scans for d in s.inner())):
        bounds = [b for n in walk(d.value) if isinstance(n, Axis) for b in (n.lo, n.hi)]
        _declare_sizes(builder, (*d.buffer.shape, *bounds, d.value), scalars, d.span)


def _declare_sizes(builder: ProgramBuilder, exprs: Sequence[Expr], scalars: set[str], span: Span | None = None) -> None:
    for e in exprs:
        for name, var in free_vars(e).items():
            if "@" in name or name in scalars:
                continue
            if var.type != dt.index:
                raise LanguageError(
                    f"scalar `{name}` is used but is not an input",
                    span=var.span or span,
                    help="list it among the inputs of the operator",
                )
            builder.size(name, var.span)


def _plain(name: str) -> str:
    return name.partition("@")[0]


def _fresh(builder: ProgramBuilder, base: str) -> str:
    name, number = base, 0
    while builder.kind(name) is not None:
        number += 1
        name = f"{base}_{number}"
    return name


class _Writer:
    """Writes the statements of one definition."""

    def __init__(
        self,
        builder: ProgramBuilder,
        names: Mapping[str, str],
        definition: Definition,
        steps: Mapping[Var, Expr] | None = None,
    ) -> None:
        self.builder = builder
        self.names = names
        self.target = names[definition.buffer.name]
        self.span = definition.span
        #: reductions that have a temporary already, with its name and subscripts
        self.made: dict[tuple[Expr, tuple[Expr, ...]], tuple[str, tuple[Var, ...]]] = {}
        renamed = {**self._rename(definition), **(steps or {})}
        self.axes: tuple[Axis, ...] = tuple(
            Axis(substitute(a.var, renamed), substitute(a.lo, renamed), substitute(a.hi, renamed))
            for a in definition.axes
        )
        self.value = substitute(definition.value, renamed)

    def _rename(self, definition: Definition) -> dict[Var, Expr]:
        """Plain names for the index variables, each its own."""
        inner = [n.var for n in walk(definition.value) if isinstance(n, Axis)]
        renamed: dict[Var, Expr] = {}
        taken: set[str] = set()
        for var in (*(a.var for a in definition.axes), *inner):
            if var not in renamed:
                base = _plain(var.name)
                while self.builder.kind(base) is not None:
                    base += "_"
                renamed[var] = Var(fresh_name(base, taken), span=var.span)
        return renamed

    def write(self) -> None:
        indices = tuple(a.var for a in self.axes)
        value = self.value
        # A conversion of a whole reduction is the conversion of its sum, so only a bare one is the statement itself.
        if isinstance(value, (Reduce, ArgReduce)):
            self._write_reduction(self.target, indices, self.axes, value, ())
        else:
            self._state(self.target, indices, "=", False, self._extract(value, self.axes, ()), self.axes)

    def write_row(self) -> None:
        """As `write`, of one row of the target."""
        row, *axes = self.axes
        indices = (row.lo, *(a.var for a in axes))
        self._state(self.target, indices, "=", False, self._extract(self.value, tuple(axes), ()), tuple(axes))

    def _write_reduction(
        self,
        target: str,
        indices: tuple[Expr, ...],
        scope: tuple[Axis, ...],
        e: Reduce | ArgReduce,
        guards: tuple[Expr, ...],
    ) -> None:
        whole = e if isinstance(e, Reduce) else e.extreme
        inner = (*scope, *whole.axes)
        value = self._extract(whole.value, inner, guards)
        if guards:
            # Where the whole is not wanted its parts must not be read.
            value = Select(all_of(guards), value, identity(whole.op, value.dtype))
        self._state(target, indices, e.op, True, value, inner, e.span)

    def _state(
        self,
        target: str,
        indices: tuple[Expr, ...],
        op: BuildOp,
        initialize: bool,
        value: Expr,
        scope: tuple[Axis, ...],
        span: Span | None = None,
    ) -> None:
        where = [RangeClause(a.var, a.lo, a.hi, span or self.span) for a in scope]
        self.builder.statement(target, indices, op, initialize, value, where=where, span=self.span)

    def _extract(self, e: Expr, scope: tuple[Axis, ...], guards: tuple[Expr, ...]) -> Expr:
        """``e`` with tensors under their names and each reduction replaced by a read of its temporary."""
        match e:
            case Reduce() | ArgReduce():
                return self._temporary(e, scope, guards)
            case Select(condition=condition, then=then, otherwise=otherwise):
                test = self._extract(condition, scope, guards)
                yes = self._extract(then, scope, (*guards, test))
                return Select(test, yes, self._extract(otherwise, scope, (*guards, Unary("!", test))), span=e.span)
            case Binary(op="&&" | "||" as op, left=left, right=right):
                first = self._extract(left, scope, guards)
                passed = first if op == "&&" else Unary("!", first)
                return Binary(op, first, self._extract(right, scope, (*guards, passed)), span=e.span)
            case Load(buffer=buffer, indices=indices):
                if buffer.name not in self.names:
                    raise _not_given(_plain(buffer.name), e.span or self.span)
                inner = [self._extract(i, scope, guards) for i in indices]
                return self.builder.access(self.names[buffer.name], inner, e.span)
        return rebuild(e, lambda n: self._extract(n, scope, guards) if isinstance(n, Expr) else n)

    def _temporary(self, e: Reduce | ArgReduce, scope: tuple[Axis, ...], guards: tuple[Expr, ...]) -> Expr:
        if (e, guards) in self.made:
            name, indices = self.made[e, guards]
            return self.builder.access(name, indices, e.span)
        kept = axes_for((name for part in (e, *guards) for name in free_vars(part)), scope)
        word = {"+": "sum", "*": "prod"}.get(e.op, e.op)
        name = _fresh(self.builder, f"{self.target}_{word}")
        indices = tuple(a.var for a in kept)
        self.made[e, guards] = (name, indices)
        self._write_reduction(name, indices, kept, e, guards)
        return self.builder.access(name, indices, e.span)


def _not_given(name: str, span: Span | None) -> LanguageError:
    return LanguageError(
        f"tensor `{name}` is used but is not an input",
        span=span,
        why="it is a placeholder",
        help="list it among the inputs of the operator",
    )

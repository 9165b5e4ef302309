"""`ProgramBuilder`: the one way tensor programs are made, by the language and by the Python functions alike.

>>> b = ProgramBuilder("mm")
>>> M, K, N = (b.size(s) for s in "MKN")
>>> A, B = b.input("A", float32, (M, K)), b.input("B", float32, (K, N))
>>> m, n, k = Var("m"), Var("n"), Var("k")
>>> b.declare_output("C")
>>> b.statement("C", (m, n), "+", True, b.access("A", (m, k)) * b.access("B", (k, n)))
>>> program = b.finish()

A front end brings names and spans; the builder decides index variables (int64 variables that are
neither sizes nor scalars), their ranges, types and shapes, and refuses what has no meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.errors import LanguageError
from weft.ir.expr import Axis, Binary, Compare, Expr, Load, Var, cast, idx
from weft.ir.remark import Remark
from weft.ir.span import Source, Span
from weft.ir.stmt import Param
from weft.ir.visit import Node, free_vars, fresh_name, loads, replace_buffers, rewrite
from weft.tensor import check_statement as rules
from weft.tensor.build_position import PositionStatement, state_position
from weft.tensor.check_written import check_written, settle_carried
from weft.tensor.infer_interface import infer_carried, infer_constants
from weft.tensor.infer_ranges import RangeClause, infer_ranges, shape_of_target
from weft.tensor.polynomial import Polynomial, canonical, maximum
from weft.tensor.program import Doubt, Recurrence, Requirement, Statement, TensorProgram
from weft.tensor.prove_bounds import check_bounds
from weft.tensor.ranges import Ranges, dependency_order
from weft.tensor.remark_sizes import add_remarks
from weft.tensor.subscripts import Access, accesses_of, plain_accesses_of

__all__ = ["ProgramBuilder", "RangeClause"]

BuildOp = Literal["=", "+", "*", "min", "max", "argmin", "argmax"]


@dataclass(slots=True)
class _Tensor:
    """What is known of a written tensor: ``shape`` may grow until it is declared or read."""

    name: str
    dtype: DType | None
    shape: tuple[Expr, ...] | None
    span: Span | None
    is_output: bool
    declared_shape: bool = False
    read: bool = False
    written: bool = False
    #: the shape is a stand-in, for a statement that reads what it writes first
    provisional: bool = False

    def buffer(self) -> Buffer | None:
        if self.dtype is None or self.shape is None:
            return None
        return Buffer(self.name, self.dtype, self.shape, span=self.span)


class ProgramBuilder:
    """Collects parameters and statements; `finish` gives the program or raises."""

    def __init__(self, name: str, source: Source | None = None, named: Span | None = None) -> None:
        self.name = name
        #: where it gets its name
        self._named = named
        self.source = source
        self._params: list[Param] = []
        self._sizes: dict[str, Var] = {}
        self._scalars: dict[str, Var] = {}
        self._inputs: dict[str, Buffer] = {}
        self._written: dict[str, _Tensor] = {}
        self._versions: dict[Buffer, str] = {}
        self._statements: list[Statement] = []
        self._requirements: list[Requirement] = []
        self._remarks: list[Remark] = []
        self._doubts: list[Doubt] = []
        #: the dimensions of written tensors that a variable of inferred range runs through
        self._inferred: dict[str, set[int]] = {}
        #: the blocks that are open, outermost first; how many there were; written tensors that were read in them
        self._open: tuple[Recurrence, ...] = ()
        self._opened = 0
        self._growing: dict[str, bool] = {}

    # Declarations

    def size(self, name: str, span: Span | None = None) -> Var:
        """The symbolic size ``name``; asking again gives the same one."""
        if name not in self._sizes:
            self._check_new(name, span)
            self._sizes[name] = Var(name, dt.index, span=span)
        return self._sizes[name]

    def input(self, name: str, dtype: DType, shape: Sequence[Expr], span: Span | None = None) -> Buffer:
        self._check_new(name, span)
        buffer = Buffer(name, dtype, tuple(self._canonical(s) for s in shape), span=span)
        self._inputs[name] = buffer
        self._params.append(buffer)
        return buffer

    def scalar(self, name: str, dtype: DType, span: Span | None = None) -> Var:
        """A scalar parameter, passed by value."""
        self._check_new(name, span)
        self._scalars[name] = Var(name, dtype, span=span)
        self._params.append(self._scalars[name])
        return self._scalars[name]

    def declare_output(
        self, name: str, dtype: DType | None = None, shape: Sequence[Expr] | None = None, span: Span | None = None
    ) -> None:
        """An output; what is not given is inferred from the statement that first writes it."""
        self._declare(name, dtype, shape, span, is_output=True)

    def declare_temporary(
        self, name: str, dtype: DType | None = None, shape: Sequence[Expr] | None = None, span: Span | None = None
    ) -> None:
        """A temporary of stated type or shape; one without need not be declared."""
        self._declare(name, dtype, shape, span, is_output=False)

    def _declare(
        self, name: str, dtype: DType | None, shape: Sequence[Expr] | None, span: Span | None, is_output: bool
    ) -> None:
        self._check_new(name, span)
        sizes = None if shape is None else tuple(self._canonical(s) for s in shape)
        self._written[name] = _Tensor(name, dtype, sizes, span, is_output, declared_shape=sizes is not None)

    def _check_new(self, name: str, span: Span | None) -> None:
        if self.kind(name) is not None:
            raise LanguageError(
                f"`{name}` is declared twice",
                span=span,
                why=f"it is already {self.kind(name)} of `{self.name}`",
                help="give one of the two another name",
            )

    def refine(self, name: str, dtype: DType | None, shape: Sequence[Expr] | None, span: Span | None = None) -> None:
        """States the type and shape of a tensor that nothing wrote yet; what was stated before must agree."""
        tensor = self._written.setdefault(name, _Tensor(name, None, None, span, is_output=False))
        tensor.dtype = tensor.dtype or dtype
        if shape is None:
            return
        sizes = tuple(self._canonical(s) for s in shape)
        for place, (old, new) in enumerate(zip(tensor.shape or (), sizes)):
            if old != new:
                self.require(Compare("==", old, new), f"dimension {place} of `{name}` must have its stated size", span)
        if tensor.shape is None:
            tensor.shape, tensor.declared_shape = sizes, True

    def expect(self, name: str, dtype: DType, rank: int, span: Span | None = None) -> None:
        """Makes a tensor readable by the very statement that writes it first: a scan that starts by itself."""
        self.refine(name, dtype, None, span)
        tensor = self._written[name]
        if tensor.shape is None:
            tensor.shape, tensor.provisional = (idx(0),) * rank, True

    def remark(self, remark: Remark) -> None:
        """Says what is allowed and perhaps not meant."""
        self._remarks.append(remark)

    def require(self, condition: Expr, message: str, span: Span | None = None) -> None:
        """A condition on sizes that every call must meet."""
        self._requirements.append(Requirement(condition, message, span=span))

    # Questions

    def kind(self, name: str) -> str | None:
        """``a size``, ``a scalar``, ``a step``, ``an input``, ``an output``, ``a temporary``; None for a new name."""
        if name in self._written:
            return "an output" if self._written[name].is_output else "a temporary"
        if any(r.axis.var.name == name for r in self._open):
            return "a step"
        tables = (("a size", self._sizes), ("a scalar", self._scalars), ("an input", self._inputs))
        return next((kind for kind, table in tables if name in table), None)

    def buffer(self, name: str) -> Buffer | None:
        """The tensor as known so far; None where it is unknown or an output of yet unknown type or shape."""
        if name in self._inputs:
            return self._inputs[name]
        return self._written[name].buffer() if name in self._written else None

    def is_written(self, name: str) -> bool:
        return name in self._written and self._written[name].written

    def access(self, name: str, indices: Sequence[Expr], span: Span | None = None) -> Load:
        """``name(indices)`` as a value, checked: the tensor exists, the rank fits, subscripts are integers."""
        buffer = self.buffer(name)
        if buffer is None:
            raise rules.unreadable(name, self.kind(name), span)
        rules.check_rank(name, buffer.rank, len(indices), span)
        load = Load(buffer, tuple(rules.check_subscript(i, name, span) for i in indices), span=span)
        self._versions[buffer] = name
        return load

    # Statements

    @contextmanager
    def recurrence(self, steps: RangeClause, writes: Iterable[str]) -> Iterator[None]:
        """A block: what is stated inside runs together for each step, in order.

        ``writes`` are the tensors it writes. Statements may read them before the one that writes them,
        so their shapes may grow until the block ends.
        """
        around, growing = self._open, dict(self._growing)
        self._check_new(steps.var.name, steps.span)
        steps = self._range_clause(steps)
        stray = next(iter(self._index_variables((steps.lo, steps.hi))), None)
        if stray is not None:
            raise rules.unknown_bound(stray, steps)
        self._growing |= {name: False for name in writes if name not in growing}
        self._open = (*around, Recurrence(Axis(Var(steps.var.name), steps.lo, steps.hi), self._opened))
        self._opened += 1
        try:
            yield
        finally:
            self._open = around
            for name, read in self._growing.items():
                if name not in growing and read:
                    self._written[name].read = True
            self._growing = {n: self._growing[n] for n in growing}

    def statement(
        self,
        target: str,
        indices: Sequence[Expr],
        op: BuildOp,
        initialize: bool,
        value: Expr,
        *,
        where: Sequence[RangeClause] = (),
        exists: Sequence[Expr] = (),
        span: Span | None = None,
        dtype: DType | None = None,
    ) -> None:
        """``target(indices) op= value``; ``dtype`` is that of a target nothing else gives a type."""
        self._check_target(target, len(indices), span)
        where = rules.merge_ranges([self._range_clause(c) for c in where])
        subscripts = tuple(rules.check_subscript(i, target, span) for i in indices)
        if op == "argmin" or op == "argmax":
            result = (self._written[target].dtype if target in self._written else None) or dtype or dt.int32
            position = self._position(subscripts, op, value, initialize, result, span)
            state_position(
                self, PositionStatement(target, subscripts, op, value, position, result, where, exists, span)
            )
            return
        steps = {r.axis.var.name: r.axis for r in self._open}
        variables = self._index_variables([*subscripts, value])
        reductions = {n: v for n, v in variables.items() if n not in self._index_variables(subscripts)}
        if op == "=":
            rules.check_assignment(target, reductions, span)
        else:  # a variable with a range and no use repeats the statement
            repeats = {c.var.name: c.var for c in where if c.var.name not in variables}
            variables, reductions = variables | repeats, reductions | repeats
        variables |= {name: axis.var for name, axis in steps.items()}
        where = [*(RangeClause(a.var, a.lo, a.hi, span) for a in steps.values()), *where]
        rules.check_where(variables, where, {**self._sizes, **self._scalars}, span)
        rules.check_exists(variables, self._index_variables(exists), span)
        ranges = self._infer(target, subscripts, variables, value, where, exists, span)
        tensor = self._written.setdefault(target, _Tensor(target, dtype, None, span, is_output=False))
        self._fix_dtype(tensor, op, value, dtype, span)
        self._fix_shape(tensor, subscripts, ranges, span)
        self._note_reads([*subscripts, value], target)
        axes = tuple(a for a in self._axes(variables, reductions, ranges, span) if a.var.name not in steps)
        buffer = tensor.buffer()
        assert buffer is not None
        self._versions[buffer] = target
        tensor.written = True
        stored = cast(buffer.dtype, value)
        self._statements.append(Statement(buffer, subscripts, op, initialize, stored, axes, self._open, span=span))
        self._requirements += ranges.requirements
        self._doubts += ranges.cuts
        if not ranges.cuts:
            inferred = variables.keys() - {c.var.name for c in where}
            dimensions = {d for d, i in enumerate(subscripts) if not inferred.isdisjoint(free_vars(i))}
            self._inferred.setdefault(target, set()).update(dimensions)

    def _position(
        self, subscripts: Sequence[Expr], op: str, value: Expr, initialize: bool, result: DType, span: Span | None
    ) -> Var:
        """The one variable that an extreme is looked for over."""
        left = self._index_variables(subscripts)
        reductions = [v for n, v in self._index_variables([value]).items() if n not in left]
        rules.check_arg_reduction(op, reductions, initialize, result, span)
        return reductions[0]

    def _check_target(self, target: str, rank: int, span: Span | None) -> None:
        rules.check_writable(target, self.kind(target), span)
        if target in self._written and self._written[target].shape is not None:
            rules.check_rank(target, len(self._written[target].shape or ()), rank, span)

    def _range_clause(self, clause: RangeClause) -> RangeClause:
        for bound in (clause.lo, clause.hi):
            rules.check_bound(bound, clause)
        lo, hi = (self._canonical(cast(dt.index, b)) for b in (clause.lo, clause.hi))
        return replace(clause, lo=lo, hi=hi)

    def _index_variables(self, nodes: Iterable[Node]) -> dict[str, Var]:
        variables: dict[str, Var] = {}
        for node in nodes:
            for name, var in free_vars(node).items():
                if self.kind(name) not in ("a size", "a scalar", "a step"):
                    variables.setdefault(name, var)
        return variables

    def _infer(
        self,
        target: str,
        subscripts: Sequence[Expr],
        variables: dict[str, Var],
        value: Expr,
        where: Sequence[RangeClause],
        exists: Sequence[Expr],
        span: Span | None,
    ) -> Ranges:
        accesses = [a for e in (*subscripts, value, *exists) for a in accesses_of(e)]
        tensor = self._written.get(target)
        grows = tensor is not None and not tensor.declared_shape
        own = [a for a in accesses if a.buffer.name == target] if grows else []
        others = [a for a in accesses if not (grows and a.buffer.name == target)]
        last = [*own, *(a for e in (*subscripts, value) for a in plain_accesses_of(e))]
        if tensor is not None and tensor.provisional:
            last = last[len(own) :]
        elif tensor is not None and (buffer := tensor.buffer() or _shaped(tensor)) is not None:
            last.append(Access(buffer, tuple(subscripts), span))
        return infer_ranges(list(variables.values()), others, where, last)

    def _fix_dtype(self, tensor: _Tensor, op: str, value: Expr, given: DType | None, span: Span | None) -> None:
        if tensor.dtype is None:
            # A count of bools is a number.
            inferred = dt.int32 if value.dtype.is_bool and op in ("+", "*") else value.dtype
            tensor.dtype = given or inferred
            if given is None and op in ("+", "*") and inferred.is_integer and inferred.bits < 32:
                self.remark(rules.narrow_sum(tensor.name, inferred, span))
        rules.check_target_dtype(tensor.name, tensor.dtype, op, value, span)

    def _fix_shape(self, tensor: _Tensor, subscripts: Sequence[Expr], ranges: Ranges, span: Span | None) -> None:
        if tensor.declared_shape or (tensor.read and tensor.shape is not None):
            return
        if tensor.provisional:
            tensor.shape, tensor.provisional = None, False
        shape: list[Expr] = []
        for k, size in enumerate(shape_of_target(subscripts, ranges)):
            old = tensor.shape[k] if tensor.shape is not None else None
            if size is not None and old is not None:
                shape.append(maximum(Polynomial.of(old), size, ranges.at_most).expr())
            elif size is not None:
                shape.append(size.expr())
            elif old is not None:
                shape.append(old)
            else:
                raise rules.undeclared_size(tensor.name, subscripts, k, span)
        tensor.shape = tuple(shape)

    def _note_reads(self, nodes: Iterable[Node], target: str) -> None:
        for name in {load.buffer.name for node in nodes for load in loads(node)}:
            if name in self._growing:
                self._growing[name] = True
            elif name in self._written and name != target:
                self._written[name].read = True

    def _axes(
        self, variables: dict[str, Var], reductions: dict[str, Var], ranges: Ranges, span: Span | None
    ) -> tuple[Axis, ...]:
        """Left axes in order, then reductions; a range that depends on another variable comes after it."""
        wanted = {n: ranges.known[n] for n in sorted(variables, key=lambda n: n in reductions)}
        order = dependency_order(wanted)
        rules.check_axis_order(order, reductions, ranges, span)
        return tuple(Axis(Var(n), wanted[n].lo.expr(), wanted[n].hi.expr()) for n in order)

    def latest(self) -> Statement:
        """The statement that was stated last."""
        return self._statements[-1]

    def temporary_like(self, name: str, target: str, span: Span | None) -> str:
        """A new temporary of the size of ``target``, if that is declared; its name begins with ``name``."""
        fresh = fresh_name(name, {*self._written, *self._inputs, *self._scalars, *self._sizes})
        tensor = self._written.get(target)
        if tensor is not None and tensor.declared_shape:
            self.declare_temporary(fresh, None, tensor.shape, span)
        return fresh

    # The end

    def finish(self) -> TensorProgram:
        """The program, with every access proved in bounds, refused, or left to a requirement or a test at the call."""
        self._check_outputs()
        final = {b: f for b, name in self._versions.items() if (f := self.buffer(name)) is not None and f != b}
        statements = tuple(_with_buffers(s, final) for s in self._statements)
        requirements = list(dict.fromkeys(self._requirements))
        for s in statements:
            requirements += [r for r in check_bounds(s, requirements) if r not in requirements]
        tensors = [t for t in self._written.values() if t.written]
        buffers = {t.name: b for t in tensors if (b := t.buffer()) is not None}
        outputs = tuple(buffers[t.name] for t in tensors if t.is_output)
        program = TensorProgram(
            name=self.name,
            params=tuple(self._params),
            outputs=outputs,
            temporaries=tuple(buffers[t.name] for t in tensors if not t.is_output),
            statements=statements,
            sizes=tuple(self._sizes.values()),
            constants=infer_constants(self._scalars, statements, buffers.values(), requirements),
            requirements=tuple(requirements),
            carried=infer_carried(outputs, statements),
            source=self.source,
        )
        program = settle_carried(program)
        check_written(program)
        through = {t.name: self._inferred.get(t.name, ()) for t in tensors if t.is_output and t.declared_shape}
        return add_remarks(program, self._remarks, self._doubts, through, self._named)

    def _check_outputs(self) -> None:
        for t in self._written.values():
            if not t.written:
                raise LanguageError(
                    f"output `{t.name}` is never written" if t.is_output else f"`{t.name}` is never written",
                    span=t.span,
                    why="no statement has it on the left",
                    help=f"add a statement such as `{t.name}(i) = ...`, or remove it",
                )

    def _canonical(self, e: Expr) -> Expr:
        """The normal form of a size or bound; C's division rounds down where only sizes are divided."""

        def round_down(n: Node) -> Node | None:
            if isinstance(n, Binary) and n.op in ("tdiv", "tmod") and self._is_size(n.left) and self._is_size(n.right):
                return Binary("//" if n.op == "tdiv" else "%", n.left, n.right, span=n.span)
            return None

        return canonical(rewrite(cast(dt.index, e), round_down))

    def _is_size(self, e: Expr) -> bool:
        p = Polynomial.of(e)
        sizes = all(isinstance(a, Var) and a.name in self._sizes for a in p.atoms())
        return sizes and all(c > 0 for c in p.terms.values())


def _with_buffers(s: Statement, final: dict[Buffer, Buffer]) -> Statement:
    return replace(
        s,
        target=final.get(s.target, s.target),
        indices=tuple(replace_buffers(i, final) for i in s.indices),
        value=replace_buffers(s.value, final),
    )


def _shaped(tensor: _Tensor) -> Buffer | None:
    """A stand-in where only the shape is known: range inference asks for no type."""
    return None if tensor.shape is None else Buffer(tensor.name, dt.float32, tensor.shape)

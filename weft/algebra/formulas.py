"""Tensor programs as sums of products: every output as a function of inputs alone, temporaries written out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from weft.algebra import rules
from weft.algebra.functions import Functions
from weft.algebra.linear import Linear, Literal, UndecidedError, add, as_constant, fresh, negate, variable
from weft.algebra.positions import Case, Region, is_position, position, regions
from weft.algebra.terms import MOST_TERMS, ONE, Quotient, Sum, Term, number, read, restricted, scaled, summed, within
from weft.ir.dtype import DType
from weft.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Select, Unary, Var
from weft.tensor.access import is_injective, reads_target, written_axes
from weft.tensor.boundary import Outside
from weft.tensor.normalize import spell_out
from weft.tensor.program import Statement, TensorProgram
from weft.tensor.text import describe


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's elements: ``value`` over the names ``axes``, zero where no term says otherwise."""

    axes: tuple[str, ...]
    value: Sum

    def at(self, subscripts: tuple[Linear, ...]) -> Sum:
        by = dict(zip(self.axes, subscripts))
        return tuple(t.renamed().put(by) for t in self.value)


@dataclass
class Formulas:
    """Reads a program statement by statement; ``tensors`` holds what is written so far."""

    functions: Functions
    sizes: Mapping[str, Linear] = field(default_factory=dict)
    #: the names of this program's parameters in the comparison
    inputs: Mapping[str, str] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    names: dict[str, Linear] = field(default_factory=dict)

    def read_program(self, program: TensorProgram) -> dict[str, Tensor]:
        program = spell_out(program)
        if program.carried:
            raise UndecidedError(f"{program.carried[0]} is read before it is written")
        self.names = dict(self.sizes)
        for statement in program.statements:
            if statement.recurrences or reads_target(statement):
                raise UndecidedError(f"{statement.target.name} is a recurrence")
            self.tensors[statement.target.name] = self.written(statement)
        return {b.name: self.tensors.get(b.name, Tensor((), ())) for b in program.outputs}

    def written(self, statement: Statement) -> Tensor:
        """The target after the statement."""
        axes = tuple(f"%{statement.target.name}{n}_{fresh()[1:]}" for n in range(statement.target.rank))
        new = {a.var.name: fresh() for a in statement.axes}
        self.names = {**self.sizes, **{n: variable(v) for n, v in new.items()}}
        left = {a.var.name for a in statement.spatial_axes}
        inner = tuple(new[a.var.name] for a in statement.reduce_axes)
        before = self.tensors.get(statement.target.name)
        value = self.reduced(statement, inner, self.value(statement.value))
        where, quotients = self.places(statement, axes, new, left)
        value = summed(restricted(value, where, quotients), tuple(new[n] for n in new if n in left))
        extent = self.extent(statement, axes)
        value = tuple(t.solved() for t in value)
        value = tuple(replace(t, where=tuple(w for w in t.where if w not in extent)) for t in value)
        if before is None:
            return Tensor(axes, value)
        old = before.at(tuple(map(variable, axes)))
        if statement.op != "+" or statement.initialize:
            if statement.op not in ("=", "+") and not statement.initialize:
                raise UndecidedError(f"{statement.target.name} is updated by {statement.op} where it holds something")
            old = self.outside(statement, axes, old)
        return Tensor(axes, old + value)

    def extent(self, statement: Statement, axes: tuple[str, ...]) -> set[Literal]:
        """That subscripts are within the tensor, which every read of it is known to be."""
        found: set[Literal] = set()
        for axis, size in zip(axes, statement.target.shape):
            cases = position(size, self.sizes)
            if len(cases) == 1:
                found |= set(within(axis, (), cases[0].form))
        return found

    def reduced(self, statement: Statement, inner: tuple[str, ...], value: Sum) -> Sum:
        """The value over the inner axes, combined as the statement says."""
        if statement.op != "+" and not is_injective(statement):
            raise UndecidedError(f"{statement.target.name} is written several times at one place")
        ranges = self.ranges(statement, {a.var.name for a in statement.reduce_axes})
        if statement.op in ("=", "+"):
            return summed(restricted(value, ranges), inner)
        if statement.op == "*":
            one = self.functions.instance("factor", [value])
            return self.functions.instance("product", [summed(restricted(one, ranges), inner)])
        sign = 1 if statement.op == "max" else -1
        members = rules.apply(self.functions, "member", [scaled(value, sign)])
        members = summed(restricted(members, ranges), inner)
        return scaled(rules.apply(self.functions, "greatest", [members]), sign)

    def ranges(self, statement: Statement, names: set[str]) -> list[Literal]:
        found: list[Literal] = []
        for axis in statement.axes:
            if axis.var.name in names:
                name = dict(self.names[axis.var.name])
                lo, hi = (self.plain(position(e, self.names), e) for e in (axis.lo, axis.hi))
                found += within(next(iter(name)), lo, hi)
        return found

    def plain(self, cases: list[Case], e: Expr) -> Linear:
        if len(cases) != 1 or cases[0].where or cases[0].quotients:
            raise UndecidedError(f"the bound `{describe(e)}` of a range is not affine")
        return cases[0].form

    def places(
        self, statement: Statement, axes: tuple[str, ...], new: Mapping[str, str], left: set[str]
    ) -> tuple[list[Literal], list[Quotient]]:
        """The literals that tie the target's subscripts to the axes."""
        where = self.ranges(statement, left)
        quotients: list[Quotient] = []
        for axis, index in zip(axes, statement.indices):
            cases = position(index, self.names)
            if len(cases) != 1:
                raise UndecidedError(f"the subscript `{describe(index)}` of what is written has cases")
            where += [*cases[0].where, (add(variable(axis), cases[0].form, -1), True)]
            quotients += cases[0].quotients
        return where, quotients

    def outside(self, statement: Statement, axes: tuple[str, ...], old: Sum) -> Sum:
        """What stood in the target, where the statement does not write: its places must be a box."""
        named = {a.var.name: n for n, a in enumerate(written_axes(statement))}
        box: list[Literal] = []
        by: dict[str, Linear] = {}
        for axis, index in zip(axes, statement.indices):
            form = self.plain(position(index, self.names), index)
            own = [n for n, c in form if n.startswith("%")]
            if len(own) > 1 or any(c != 1 for n, c in form if n in own) or any(n in by for n in own):
                raise UndecidedError(f"the places of {statement.target.name} that a statement leaves are no box")
            rest = add(variable(axis), form, -1)
            if own:
                by[own[0]] = add(rest, variable(own[0]))
            else:
                box.append((rest, True))
        from weft.algebra.linear import put

        box += [(put(f, by), e) for f, e in self.ranges(statement, set(named))]
        kept: Sum = ()
        for n, literal in enumerate(box):
            for other in negate(literal):
                kept += tuple(t.renamed() for t in restricted(old, [*box[:n], other]))
        return kept

    def value(self, e: Expr) -> Sum:
        found = self._value(e)
        if len(found) > MOST_TERMS:
            raise UndecidedError(f"the formula has {len(found)} products, more than {MOST_TERMS}")
        return found

    def _value(self, e: Expr) -> Sum:
        match e:
            case Const(value=value):
                return _constant(value)
            case Load():
                return self.load(e)
            case Var(name=name, type=type_) if type_.is_float or name not in self.names:
                return read(self.inputs.get(name, name), ())
            case Cast():
                return self.cast(e)
            case Unary(op="-", operand=operand):
                return scaled(self.value(operand), -1)
            case Select():
                return self.select(e)
            case Compare(op=op, left=left, right=right):
                return self.comparison(op, left, right)
            case Call(name="pow", args=(base, Const(value=value))) if float(value).is_integer() and 0 <= value <= 16:
                return self.power(self.value(base), int(value))
            case Call(name=name, args=args):
                return rules.apply(self.functions, name, [self.value(a) for a in args])
            case Binary():
                return self.binary(e)
            case Var():
                return self.index_value(e)
            case Outside():
                raise UndecidedError("a read outside a tensor is left")
        return self.opaque(e)

    def opaque(self, e: Expr) -> Sum:
        raise UndecidedError(f"`{describe(e)}` is of a kind that is not known")

    def power(self, base: Sum, times: int) -> Sum:
        total = ONE
        for _ in range(times):
            total = rules.times(self.functions, total, base)
        return total

    def load(self, e: Load) -> Sum:
        cases: list[tuple[tuple[Linear, ...], Region]] = [((), Region())]
        if not all(map(is_position, e.indices)):
            args = [self.index_value(i) if is_position(i) else self.value(i) for i in e.indices]
            return (
                self.functions.instance(f"element of {self.inputs.get(e.buffer.name, e.buffer.name)}", args)
                if self.is_input(e)
                else self.gathered(e)
            )
        for index in e.indices:
            cases = [
                ((*forms, c.form), Region(r.where + c.where, r.quotients + c.quotients))
                for forms, r in cases
                for c in position(index, self.names)
            ]
        return tuple(
            t for forms, r in cases for t in restricted(self.element(e.buffer.name, forms), r.where, r.quotients)
        )

    def is_input(self, e: Load) -> bool:
        return e.buffer.name not in self.tensors

    def gathered(self, e: Load) -> Sum:
        raise UndecidedError(f"{e.buffer.name}, which the program computes, is read where data say")

    def element(self, name: str, subscripts: tuple[Linear, ...]) -> Sum:
        written = self.tensors.get(name)
        return read(self.inputs.get(name, name), subscripts) if written is None else written.at(subscripts)

    def cast(self, e: Cast) -> Sum:
        to, of = e.type, e.operand.dtype
        if is_position(e.operand) and of.is_integer and not isinstance(e.operand, Const):
            return self.index_value(e.operand)
        inner = self.value(e.operand)
        if is_exact(of, to):
            return inner
        return self.functions.instance(f"{to} of {of}", [inner])

    def select(self, e: Select) -> Sum:
        if is_position(e.condition):
            branches = [
                (r, b)
                for holds, b in ((True, e.then), (False, e.otherwise))
                for r in regions(e.condition, self.names, holds)
            ]
            return tuple(t for r, b in branches for t in restricted(self.value(b), r.where, r.quotients))
        test, then, otherwise = (self.value(x) for x in (e.condition, e.then, e.otherwise))
        self.functions.note("c ? a : b = c * a + (1 - c) * b", "finite")
        return rules.times(self.functions, test, then) + rules.times(
            self.functions, number(1) + scaled(test, -1), otherwise
        )

    def comparison(self, op: str, left: Expr, right: Expr) -> Sum:
        """1 where it holds, else 0."""
        if is_position(left) and is_position(right):
            where = regions(Compare(op, left, right), self.names)  # type: ignore[arg-type]
            return tuple(t for r in where for t in restricted(ONE, r.where, r.quotients))
        a, b = self.value(left), self.value(right)
        if op in (">", ">="):
            a, b, op = b, a, {">": "<", ">=": "<="}[op]
        return self.functions.instance(op, [a, b])

    def index_value(self, e: Expr) -> Sum:
        """An index expression as a number: a sum of multiples of indices."""
        found: list[Term] = []
        for c in position(e, self.names):
            parts = [number(k) if not n else scaled(read("index", [variable(n)]), k) for n, k in c.form]
            found += restricted(tuple(t for p in parts for t in p), c.where, c.quotients)
        return tuple(found)

    def binary(self, e: Binary) -> Sum:
        if e.op == "+":
            return self.added(e)
        if e.op in ("&&", "||") or (is_position(e) and e.dtype.is_integer and not isinstance(e, Const)):
            if is_position(e) and not e.dtype.is_bool:
                return self.index_value(e)
            return self.logical(e)
        left, right = self.value(e.left), self.value(e.right)
        operation = _OPERATIONS.get(e.op)
        if operation is None or (e.op == "/" and not e.dtype.is_float):
            return self.functions.instance(f"{e.op} of {e.dtype}", [left, right])
        return operation(self.functions, left, right)

    def added(self, e: Binary) -> Sum:
        """A chain of additions, however long, without a call for each."""
        if is_position(e) and e.dtype.is_integer and any(isinstance(x, Var) for x in (e.left, e.right)):
            return self.index_value(e)
        parts: list[Sum] = []
        node: Expr = e
        while isinstance(node, Binary) and node.op == "+":
            parts.append(self.value(node.right))
            node = node.left
        parts.append(self.value(node))
        return tuple(t for p in reversed(parts) for t in p)

    def logical(self, e: Binary) -> Sum:
        if e.op not in ("&&", "||"):
            return self.functions.instance(f"{e.op} of {e.dtype}", [self.value(e.left), self.value(e.right)])
        a, b = self.value(e.left), self.value(e.right)
        both = rules.times(self.functions, a, b)
        return both if e.op == "&&" else a + b + scaled(both, -1)


_OPERATIONS: dict[str, Callable[[Functions, Sum, Sum], Sum]] = {
    "-": lambda _, a, b: a + scaled(b, -1),
    "*": rules.times,
    "/": rules.divide,
    "min": lambda f, a, b: rules.apply(f, "minimum", [a, b]),
    "max": lambda f, a, b: rules.apply(f, "maximum", [a, b]),
}


def _constant(value: float) -> Sum:
    """A number as it is written: 0.1 is a tenth."""
    if value != value:
        return read("nan", ())
    if value in (float("inf"), float("-inf")):
        return scaled(read("inf", ()), 1 if value > 0 else -1)
    return number(Fraction(repr(float(value))) if isinstance(value, float) else Fraction(int(value)))


def is_exact(of: DType, to: DType) -> bool:
    """Whether a conversion keeps every value (or, of integers, computes on in the ring of fewer bits)."""
    if of == to:
        return True
    if of.is_bool:
        return True
    if of.is_float and to.is_float:
        return to.bits >= of.bits and not to.is_narrow_float
    if of.is_integer and to.is_integer:
        return to.bits <= of.bits
    return False


__all__ = ["Formulas", "Tensor", "UndecidedError", "as_constant"]

"""Expressions: what each name means in a statement, and which type every operation has.

An expression made of index variables, sizes and integer literals stays in int64, in which
subscripts and ranges are written; where it meets a value it counts as int32. A float literal
takes the type of the float it meets, so ``0.5 * X(i)`` is a half where ``X`` is.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType, promote
from weft.ir.errors import LanguageError
from weft.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Select, Unary, cast, const, idx
from weft.ir.visit import count_nodes
from weft.lang import ast
from weft.lang.builtins import (
    COMPOSED,
    OPERATORS,
    TAKE_SEVERAL,
    apply_builtin,
    builtin_arity,
    find_builtin,
    rule_of,
    takes_only_integers,
)
from weft.lang.inline_lets import MAX_NODES
from weft.lang.other_notations import FOREIGN_NAMES
from weft.lang.remark_arithmetic import INTEGER_OPS, remark_divisions, remark_narrow
from weft.lang.scope import Scope
from weft.lang.unknown_name import unknown_name
from weft.tensor.boundary import Outside, OutsideMode
from weft.tensor.text import describe

#: literal: integer literals and integer parameters, at home in values and in subscripts. real: float literals.
#: index: index variables and sizes, alone or with literals. value: everything else.
Kind = Literal["literal", "real", "index", "value"]
_BOOLS = {"true": True, "false": False}
#: Numbers that go by names, where nothing else does.
CONSTANTS = {"inf": math.inf, "nan": math.nan, "pi": math.pi}


@dataclass
class ExpressionReader:
    """Reads the expressions of one statement; ``outside`` says what reads beyond a tensor's edge give."""

    scope: Scope
    outside: Mapping[str, ast.Expr] = field(default_factory=dict)
    #: stands for the tensor being written while its type is found
    own: Buffer | None = None
    #: names that the statement uses where only an index variable can stand
    positions: frozenset[str] = frozenset()
    _kinds: dict[int, Kind] = field(default_factory=dict)

    # -- kinds

    def kind(self, node: ast.Expr) -> Kind:
        kept = self._kinds.get(id(node))
        if kept is None:
            kept = self._kinds[id(node)] = self._find_kind(node)
        return kept

    def _find_kind(self, node: ast.Expr) -> Kind:
        match node:
            case ast.Integer():
                return "literal"
            case ast.Real():
                return "real"
            case ast.SizeOf():
                return "index"
            case ast.Name():
                return "real" if self._is_constant(node.text) else self._kind_of_name(node.text)
            case ast.Unary(op="-", operand=operand):
                return self.kind(operand)
            case ast.Binary(op=op, left=left, right=right) if op in INTEGER_OPS:
                return self._join(left, right)
            case ast.Ternary(then=then, otherwise=otherwise):
                return "index" if self._join(then, otherwise) == "index" else "value"
            case ast.Apply(name=name, args=args) if name.text in OPERATORS and name.text not in self.scope.tensors:
                return "index" if self._join(*args) == "index" else "value"
        return "value"

    def _is_constant(self, name: str) -> bool:
        """Whether ``inf``, ``nan`` or ``pi`` is the number: nothing has that name, and no subscript runs over it."""
        scope = self.scope
        is_taken = scope.knows(name) or name in scope.steps or name in self.positions
        return name in CONSTANTS and not is_taken

    def _kind_of_name(self, name: str) -> Kind:
        if name in self.scope.scalars:
            return "literal" if self.scope.scalars[name].dtype.is_integer else "value"
        if name in self.scope.tensors or (name in _BOOLS and name not in self.scope.sizes):
            return "value"
        return "index"

    def _join(self, *nodes: ast.Expr) -> Kind:
        kinds = {self.kind(n) for n in nodes}
        if "value" in kinds or {"real", "index"} <= kinds:
            return "value"
        return "real" if "real" in kinds else "index" if "index" in kinds else "literal"

    # -- integers of subscripts and ranges

    def index(self, node: ast.Expr) -> Expr:
        """``node`` where an int64 is needed: a subscript, a bound, a size."""
        match node:
            case ast.Integer(value=value):
                if value > dt.index.max_value:
                    raise LanguageError(
                        "integer is too large for a subscript or size",
                        span=node.span,
                        why="positions are counted in int64",
                    )
                return idx(value)
            case ast.Name():
                return self._index_name(node)
            case ast.SizeOf():
                return self._size(node)
            case ast.Unary(op="-", operand=operand):
                inner = self.index(operand)
                return idx(-int(inner.value)) if isinstance(inner, Const) else Unary("-", inner, span=node.span)
            case ast.Binary(op=op, left=left, right=right) if op in INTEGER_OPS:
                return Binary(INTEGER_OPS[op], self.index(left), self.index(right), span=node.span)
            case ast.Ternary(condition=condition, then=then, otherwise=otherwise):
                return Select(self.condition(condition), self.index(then), self.index(otherwise), span=node.span)
            case ast.Apply(name=name, args=args) if name.text in OPERATORS and name.text not in self.scope.tensors:
                self._checkcounted(node, name.text)
                whole = self.index(args[0])
                for part in args[1:]:
                    whole = Binary(OPERATORS[name.text], whole, self.index(part), span=node.span)
                return whole
        return self._index_value(node)

    def _index_name(self, node: ast.Name) -> Expr:
        scope = self.scope
        if node.text in scope.scalars:
            return self._integral(unwrapped(scope.scalars[node.text]), node)
        if node.text in scope.tensors or (node.text in _BOOLS and node.text not in scope.sizes):
            return self._index_value(node)
        size = scope.sizes.get(node.text)
        if size is None and node.text in ("True", "False", "None"):
            raise LanguageError(f"there is no `{node.text}`", span=node.span, help=FOREIGN_NAMES[node.text])
        return scope.index_variable(node) if size is None else size

    def _index_value(self, node: ast.Expr) -> Expr:
        return self._integral(self.value(node), node)

    def _integral(self, value: Expr, node: ast.Expr) -> Expr:
        if value.dtype.is_float:
            raise LanguageError(
                f"a subscript or bound must be an integer, not {value.dtype}",
                span=node.span,
                why="it says which element",
                help="convert it: `int(...)` truncates, `int(floor(...))` rounds down",
            )
        return cast(dt.index, value)

    def _size(self, node: ast.SizeOf) -> Expr:
        buffer = self.scope.tensor(node.tensor)
        if node.dimension >= buffer.rank:
            raise LanguageError(
                f"`{node.tensor.text}` has no dimension {node.dimension}",
                span=node.span,
                why=f"it has {counted(buffer.rank, 'dimension')}, counted from 0",
            )
        return buffer.shape[node.dimension]

    # -- values

    def value(self, node: ast.Expr, literal: DType | None = None) -> Expr:
        """``node`` where a value is needed; float literals get the type ``literal``, or ``float``."""
        if self.kind(node) == "index":
            return Cast(dt.int32, self.index(node), span=node.span)
        match node:
            case ast.Integer(value=value):
                return _integer(value, node)
            case ast.Real(value=value):
                return Const(value, literal or self.scope.float_type, span=node.span)
            case ast.Name():
                return self._value_name(node, literal)
            case ast.Unary():
                return self._unary(node, literal)
            case ast.Binary():
                return self._binary(node, literal)
            case ast.Ternary(condition=condition, then=then, otherwise=otherwise):
                a, b = self._alike([then, otherwise], literal)
                return Select(self.condition(condition), a, b, span=node.span)
            case ast.Apply():
                return self._apply(node, literal)
        raise AssertionError(node)

    def condition(self, node: ast.Expr) -> Expr:
        """A bool; a number counts as true where it is not zero."""
        value = self.value(node)
        if value.dtype.is_bool:
            return value
        return Compare("!=", value, const(0, value.dtype), span=node.span)

    def _value_name(self, node: ast.Name, literal: DType | None) -> Expr:
        scope = self.scope
        if self._is_constant(node.text):
            return Const(CONSTANTS[node.text], literal or scope.float_type, span=node.span)
        if node.text in scope.scalars:
            return scope.scalars[node.text]
        if node.text in scope.tensors:
            if self.own is not None and self.own.name == scope.tensors[node.text]:
                return Load(self.own, ())
            buffer = scope.tensor(node)
            if buffer.rank:
                names = ",".join("ijkl"[d] if d < 4 else f"i{d}" for d in range(buffer.rank))
                raise LanguageError(
                    f"tensor `{node.text}` is used without subscripts",
                    span=node.span,
                    why=f"it has {counted(buffer.rank, 'dimension')}, and a statement is about single elements",
                    help=f"write `{node.text}({names})`",
                )
            return scope.builder.access(buffer.name, (), node.span)
        return Const(_BOOLS[node.text], dt.bool_, span=node.span)

    def _unary(self, node: ast.Unary, literal: DType | None) -> Expr:
        if node.op == "!":
            return Unary("!", self.condition(node.operand), span=node.span)
        operand = self.value(node.operand, literal)
        if operand.dtype.is_bool:
            operand = cast(dt.int32, operand)
        if isinstance(operand, Const) and operand.dtype.is_integer and operand.value != operand.dtype.min_value:
            return const(-operand.value, operand.dtype)
        if isinstance(operand, Const) and operand.dtype.is_float:
            return Const(-operand.value, operand.dtype, span=node.span)
        return Unary("-", operand, span=node.span)

    def _binary(self, node: ast.Binary, literal: DType | None) -> Expr:
        op: Any = node.op
        if op in ("&&", "||"):
            return Binary(op, self.condition(node.left), self.condition(node.right), span=node.span)
        if op not in INTEGER_OPS:
            if self._join(node.left, node.right) == "index":
                return Compare(op, self.index(node.left), self.index(node.right), span=node.span)
            literal = None
        left, right = self._alike([node.left, node.right], literal)
        if op not in INTEGER_OPS:
            return Compare(op, left, right, span=node.span)
        if left.dtype.is_bool:
            left, right = cast(dt.int32, left), cast(dt.int32, right)
        if left.dtype.is_integer:
            return Binary(INTEGER_OPS[op], left, right, span=node.span)
        if op == "%":
            return Call("fmod", (left, right), left.dtype, span=node.span)
        quotient = Binary("/" if op == "//" else op, left, right, span=node.span)
        return Call("floor", (quotient,), left.dtype, span=node.span) if op == "//" else quotient

    def _alike(self, nodes: list[ast.Expr], literal: DType | None) -> list[Expr]:
        """The operands promoted to one type, float literals yielding to the other floats among them."""
        values = [None if self.kind(n) == "real" else self.value(n, literal) for n in nodes]
        floats = [v.dtype for v in values if v is not None and v.dtype.is_float]
        for t in floats[1:]:
            floats[0] = promote(floats[0], t)
        operands = [self.value(n, floats[0] if floats else literal) if v is None else v for n, v in zip(nodes, values)]
        common = operands[0].dtype
        for v in operands[1:]:
            common = promote(common, v.dtype)
        return [self._convert(n, v, common) for n, v in zip(nodes, operands)]

    def _convert(self, node: ast.Expr, value: Expr, to: DType) -> Expr:
        """``value``, read from ``node``, as ``to``; an index expression does not wrap at int32 on its way."""
        if to.is_float and value.dtype.is_integer:
            remark_divisions(self.scope.builder, node)
        remark_narrow(self.scope.builder, value, to)
        if self.kind(node) == "index" and (to.is_float or to == dt.index):
            value = unwrapped(value)
        return cast(to, value)

    # -- applications

    def _apply(self, node: ast.Apply, literal: DType | None) -> Expr:
        name = node.name.text
        if name in self.scope.tensors:
            return self._access(node)
        if name in self.scope.scalars and not node.args:
            return self.scope.scalars[name]
        to = self.scope.element_type(name)
        if to is not None:
            return self._cast(node, to)
        if name == "outside":
            return self._outside(node)
        builtin = find_builtin(name)
        if builtin is None or name in self.scope.sizes or name in self.scope.scalars:
            raise unknown_name(self.scope, node)
        return self._builtin(node, builtin, literal)

    def _access(self, node: ast.Apply) -> Expr:
        indices = [self.index(a) for a in node.args]
        if self.own is not None and self.own.name == self.scope.tensors[node.name.text]:
            return Load(self.own, ())
        load = self.scope.builder.access(self.scope.tensors[node.name.text], indices, node.span)
        beyond = self.outside.get(node.name.text)
        return load if beyond is None else self._bounded(load, beyond)

    def _bounded(self, load: Load, beyond: ast.Expr) -> Expr:
        modes: dict[str, OutsideMode] = {"edge": "edge", "wrap": "wrap", "reflect": "reflect"}
        if isinstance(beyond, ast.Name) and beyond.text in modes and not self.scope.knows(beyond.text):
            return Outside(load, modes[beyond.text], span=load.span)
        if isinstance(beyond, ast.Name) and beyond.text == "zero" and not self.scope.knows("zero"):
            return Outside(load, "value", const(0, load.dtype), span=load.span)
        fill = self.fitted(beyond, load.dtype)
        if fill.dtype != load.dtype:
            raise LanguageError(
                f"`{load.buffer.name}` holds {load.dtype}, and what is outside is {describe(fill)}",
                span=beyond.span,
                why=f"what is read beyond an edge has the type of the elements, which does not hold {fill.dtype} here",
                help=f"convert it, `{load.dtype}(...)`, or choose by a test: `i >= 0 ? {load.buffer.name}(i) : ...`",
            )
        return Outside(load, "value", fill, span=load.span)

    def _outside(self, node: ast.Apply) -> Expr:
        """``outside(A(i-1), edge)``: a boundary for one access, where a clause would speak for all."""
        load = self.value(node.args[0]) if node.args else None
        if not isinstance(load, Load) or len(node.args) != 2:
            raise LanguageError(
                "`outside` takes a tensor access and what it gives beyond the edge",
                span=node.span,
                help="write `outside(A(i-1), zero)`, or edge, wrap, reflect, or a value",
            )
        return self._bounded(load, node.args[1])

    def fitted(self, node: ast.Expr, to: DType) -> Expr:
        """``node`` as a value for ``to``: literals take that type where they fit, and so do index expressions."""
        kind = self.kind(node)
        value = self.value(node, to if to.is_float else None)
        if isinstance(value, Const) and kind == "literal" and to.is_integer:
            return const(value.value, to) if to.min_value <= value.value <= to.max_value else value
        return self._convert(node, value, to) if promote(value.dtype, to) == to else value

    def _cast(self, node: ast.Apply, to: DType) -> Expr:
        if len(node.args) != 1:
            raise LanguageError(
                f"`{node.name.text}(...)` converts one value, not {len(node.args)}",
                span=node.span,
                help="declare tensors in the parameter list or as temporaries: `float(N) T`" if node.args else None,
            )
        value = self.value(node.args[0], to if to.is_float else None)
        if self.kind(node.args[0]) == "index":
            value = unwrapped(value)
        remark_narrow(self.scope.builder, value, to)
        if isinstance(value, Const) and to.is_bool:
            return Const(bool(value.value), to, span=node.span)
        return value if value.dtype == to else cast(to, value)

    def _builtin(self, node: ast.Apply, name: str, literal: DType | None) -> Expr:
        self._checkcounted(node, name)
        args = self._alike(list(node.args), literal)
        if takes_only_integers(name) and args[0].dtype.is_float:
            raise LanguageError(
                f"`{node.name.text}` takes integers, not {args[0].dtype}",
                span=node.span,
                help="convert with `int(...)`",
            )
        if rule_of(name) == "same" and args[0].dtype.is_bool and name not in OPERATORS:
            args = [cast(dt.int32, a) for a in args]
        if rule_of(name) == "float" and not args[0].dtype.is_float:
            for n in node.args:
                remark_divisions(self.scope.builder, n)
        made = apply_builtin(name, args[:2]) if name in TAKE_SEVERAL else apply_builtin(name, args)
        for more in args[2:] if name in TAKE_SEVERAL else ():
            made = apply_builtin(name, [made, more])
        if name in COMPOSED:
            self._check_size(node, made)
        return _with_span(made, node)

    def _check_size(self, node: ast.Apply, made: Expr) -> None:
        """A composed function repeats its argument, so a few of them inside one another could fill the memory."""
        if count_nodes(made) > MAX_NODES:
            raise LanguageError(
                f"expression is too large with `{node.name.text}` written out",
                span=node.span,
                why=f"it is made of other functions, which takes more than {MAX_NODES} operations here",
                help="write its argument to a temporary: `T(i) = ...`, then use `T(i)`",
            )

    def _checkcounted(self, node: ast.Apply, name: str) -> None:
        wanted = builtin_arity(name)
        if len(node.args) != wanted and not (name in TAKE_SEVERAL and len(node.args) > wanted):
            raise LanguageError(
                f"`{node.name.text}` takes {counted(wanted, 'argument')}, not {len(node.args)}",
                span=node.span,
                help=f"write `{node.name.text}({', '.join('xyzw'[:wanted])})`",
            )


def _integer(value: int, node: ast.Integer) -> Const:
    """An integer literal has the first of int32, int64, uint64 that holds it."""
    for t in (dt.int32, dt.int64):
        if value <= t.max_value:
            return Const(value, t, span=node.span)
    return Const(value, dt.uint64, span=node.span)


def unwrapped(value: Expr) -> Expr:
    """An index expression that was made a value, as the int64 it came from: sizes and ranges know no int32."""
    if isinstance(value, Cast) and value.type == dt.int32 and value.operand.dtype == dt.index:
        return value.operand
    return value


def _with_span(e: Expr, node: ast.Expr) -> Expr:
    made: Any = e
    return e if e.span is not None else dataclasses.replace(made, span=node.span)


def counted(n: int, noun: str) -> str:
    return f"{'no' if n == 0 else n} {noun}{'' if n == 1 else 's'}"

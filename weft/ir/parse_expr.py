"""Expressions of the text form: from lark's trees to nodes, with names looked up and spans attached."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from weft.ir import dtype as dt
from weft.ir import expr as ex
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType, parse_dtype
from weft.ir.errors import InternalError, LanguageError
from weft.ir.intrinsics import HINTS, INTRINSICS
from weft.ir.span import Source, Span

Built = TypeVar("Built")
_NUMBER = re.compile(r"(?P<digits>[^_x]+?)(_(?P<type>bf16|f8_e4m3fn|f8_e5m2|[iuf]\d+))?(_?x(?P<lanes>\d+))?\Z")
_KINDS = {"i": "int", "u": "uint"}


class ExprReader:
    """Reads expressions, with the variables and buffers in scope."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.vars: dict[str, ex.Var] = {}
        self.buffers: dict[str, Buffer] = {}

    # Places, names, types

    def span(self, tree: Any) -> Span:
        """Where ``tree`` (or a token) stands; of several lines, the first."""
        meta = getattr(tree, "meta", tree)
        line, column = getattr(meta, "line", 1), getattr(meta, "column", 1)
        if getattr(meta, "end_line", line) == line:
            return Span(self.source, line, column, getattr(meta, "end_column", column + 1))
        return Span(self.source, line, column, len(self.source.line(line)) + 1)

    def fail(self, tree: Any, what: str, why: str | None = None, help: str | None = None) -> NoReturn:
        raise LanguageError(what, span=self.span(tree), why=why, help=help)

    def build(self, tree: Any, make: Callable[..., Built], *args: Any) -> Built:
        """``make(*args)`` with a span; what the constructor refuses is an error at ``tree``."""
        place = {"span": self.span(tree)} if "span" in getattr(make, "__dataclass_fields__", ()) else {}
        try:
            return make(*args, **place)
        except InternalError as e:
            raise LanguageError(e.what, span=self.span(tree), why=e.why) from None

    def name(self, tree: Any) -> str:
        text = str(tree.children[0])
        return self.string(f'"{text[1:-1]}"', tree) if text.startswith("`") else text

    def string(self, text: str, tree: Any) -> str:
        try:
            return str(json.loads(text))
        except ValueError:
            self.fail(tree, "this is not a string", why="escapes are those of JSON")

    def dtype(self, token: Any) -> DType:
        dtype = parse_dtype(str(token))
        if dtype is None:
            self.fail(token, f"`{token}` is not a type", why="a vector has at least 2 lanes")
        return dtype

    def find_var(self, tree: Any) -> ex.Var:
        name = self.name(tree)
        declared = self.vars.get(name)
        if declared is None:
            buffer = name in self.buffers
            why = "it is a buffer, used without indices" if buffer else "no loop, let or parameter around it makes it"
            self.fail(tree, f"unknown variable `{name}`", why=why)
        return ex.Var(name, declared.type, span=self.span(tree))

    def find_buffer(self, tree: Any) -> Buffer:
        name = self.name(tree)
        declared = self.buffers.get(name)
        if declared is None:
            self.fail(tree, f"unknown buffer `{name}`", why="no parameter or alloc around it declares it")
        return declared

    # Expressions

    def exprs(self, tree: Any) -> tuple[ex.Expr, ...]:
        return tuple(self.expr(t) for t in present(tree))

    def expr(self, tree: Any) -> ex.Expr:
        """By the rule of the grammar, which is a method here."""
        made: ex.Expr = getattr(self, tree.data)(tree)
        return made

    def var(self, tree: Any) -> ex.Expr:
        return self.find_var(tree.children[0])

    def paren(self, tree: Any) -> ex.Expr:
        return self.expr(tree.children[0])

    def number(self, tree: Any, sign: str = "") -> ex.Expr:
        text = str(tree.children[0])
        match = _NUMBER.match(text)
        if match is None:
            self.fail(tree, f"`{text}` is not a number")
        digits = match["digits"]
        lanes = int(match["lanes"] or 1)
        is_decimal = any(c in digits for c in ".eEn")
        t = self.suffix(match["type"], tree) or (dt.float32 if is_decimal else dt.int64)
        if lanes > 1:
            t = t.with_lanes(lanes)
        if is_decimal and not t.is_float:
            self.fail(tree, f"`{text}` is not a number", why=f"{digits} is not a {t}")
        try:
            value = float(sign + digits) if t.is_float else int(sign + digits)
        except ValueError:
            self.fail(tree, "this number is too long")
        return self.constant(tree, value, t)

    def constant(self, tree: Any, value: int | float | bool, t: DType) -> ex.Expr:
        return self.build(tree, ex.Const, value, t)

    def suffix(self, text: str | None, tree: Any) -> DType | None:
        if text is None:
            return None
        dtype = parse_dtype(text.replace("f", "float", 1) if "f" in text else _KINDS[text[0]] + text[1:])
        if dtype is None:
            self.fail(tree, f"`{text}` is not a type", why="a number has a type such as i32, u8, bf16 or f64")
        return dtype

    def word(self, tree: Any, sign: str = "") -> ex.Expr:
        text = str(tree.children[0])
        if text[0] in "in":
            return self.number(tree, sign)
        value, _, lanes = text.partition("_x")
        if value not in ("true", "false") or lanes == "1":
            self.fail(tree, f"`{text}` is not a value", why="a vector of bools is written `true_x4`")
        return self.constant(tree, value == "true", dt.bool_.with_lanes(int(lanes or 1)))

    def unary(self, tree: Any) -> ex.Expr:
        op, operand = str(tree.children[0]), tree.children[1]
        if op == "-" and operand.data in ("number", "word") and not str(operand.children[0]).startswith(("t", "f")):
            negative = self.number(operand, "-")
            return self.constant(tree, negative.value, negative.type) if isinstance(negative, ex.Const) else negative
        if op == "+":
            self.fail(tree, "`+` stands between two operands")
        return self.build(tree, ex.Unary, op, self.expr(operand))

    def binary(self, tree: Any) -> ex.Expr:
        left, op, right = tree.children
        return self.build(tree, ex.Binary, str(op), self.expr(left), self.expr(right))

    def compare(self, tree: Any) -> ex.Expr:
        left, op, right = tree.children
        return self.build(tree, ex.Compare, str(op), self.expr(left), self.expr(right))

    def function(self, tree: Any) -> ex.Expr:
        op, left, right = tree.children
        return self.build(tree, ex.Binary, str(op), self.expr(left), self.expr(right))

    def select(self, tree: Any) -> ex.Expr:
        return self.build(tree, ex.Select, *(self.expr(t) for t in tree.children))

    def load(self, tree: Any) -> ex.Expr:
        name, indices = tree.children
        return self.build(tree, ex.Load, self.find_buffer(name), self.exprs(indices))

    def address(self, tree: Any) -> ex.Expr:
        _, name, indices = tree.children
        return self.build(tree, ex.AddressOf, self.find_buffer(name), self.exprs(indices))

    def cast(self, tree: Any) -> ex.Expr:
        return self.build(tree, ex.Cast, self.dtype(tree.children[0]), self.expr(tree.children[1]))

    def call(self, tree: Any) -> ex.Call:
        token, declared, arguments = tree.children
        name, args = self.name(token), self.exprs(arguments)
        intrinsic = INTRINSICS.get(name)
        if declared is not None:
            return ex.Call(name, args, self.dtype(declared), span=self.span(tree))
        if name in HINTS:
            return ex.Call(name, args, dt.index, span=self.span(tree))
        if intrinsic is None or not args:
            self.fail(tree, f"unknown function `{name}`", help=f"give its type, as in `{name}.float32(...)`")
        return ex.Call(name, args, intrinsic.result(args[0].dtype), span=self.span(tree))

    def lanes(self, token: Any) -> int:
        if not str(token).isdigit():
            self.fail(token, f"`{token}` is not a number of lanes")
        return int(token)

    def ramp(self, tree: Any) -> ex.Expr:
        base, stride, lanes = tree.children
        return self.build(tree, ex.Ramp, self.expr(base), self.expr(stride), self.lanes(lanes))

    def broadcast(self, tree: Any) -> ex.Expr:
        value, lanes = tree.children
        return self.build(tree, ex.Broadcast, self.expr(value), self.lanes(lanes))

    def shuffle(self, tree: Any) -> ex.Expr:
        vectors, positions = tree.children
        picked = tuple(self.lanes(t) for t in positions.children)
        return self.build(tree, ex.Shuffle, self.exprs(vectors), picked)

    def reduce(self, tree: Any) -> ex.Expr:
        op, axes, value = tree.children
        saved = dict(self.vars)
        read_axes = tuple(self.axis(t) for t in present(axes))
        result = self.build(tree, ex.Reduce, str(op), read_axes, self.expr(value))
        self.vars = saved
        return result

    def axis(self, tree: Any) -> ex.Axis:
        """An axis, in scope from here on: later axes may depend on it."""
        name, lo, hi = tree.children
        var = ex.Var(self.name(name), dt.index, span=self.span(name))
        found = self.build(tree, ex.Axis, var, self.expr(lo), self.expr(hi))
        self.vars[var.name] = var
        return found


def present(tree: Any) -> list[Any]:
    """The children of a list that may be empty (which lark marks by None)."""
    return [t for t in tree.children if t is not None]

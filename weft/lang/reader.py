"""Makes the nodes of `weft.lang.ast` while lark parses: one method for each rule of whiteboard.lark.

Lark calls a method the moment its rule is complete, so no tree is built or walked and nothing
here recurses, however deeply a text is nested.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, TypeAlias

from weft.ir.errors import LanguageError
from weft.ir.span import Source, Span
from weft.lang import ast

#: Passes over expressions recurse, so nesting is bounded well below Python's own limit.
MAX_DEPTH = 200

Children: TypeAlias = "list[Any]"


class Lines:
    """Offsets of a text as lines and columns, with the line ends `Source.line` knows."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._starts = [0]
        for line in source.text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, start: int, end: int) -> Span:
        line = min(bisect_right(self._starts, start), max(1, len(self._starts) - 1))
        begin = self._starts[line - 1]
        line_end = self._starts[line] if line < len(self._starts) else end
        return Span(self.source, line, start - begin + 1, max(start + 1, min(end, line_end)) - begin + 1)


def join(first: Span, last: Span) -> Span:
    """From the start of ``first`` to the end of ``last``, as far as it is on one line."""
    end = last.end if last.line == first.line else len(first.source.line(first.line)) + 1
    return Span(first.source, first.line, first.column, max(end, first.end))


#: What binds looser than the operators of a sum.
_LOOSE = ("||", "&&", "==", "!=", "<", ">", "<=", ">=")


def text_of(node: ast.Expr) -> str:
    """``node`` as it stands in the text; nothing where it does not stand on one line."""
    span = node.span
    line = span.source.line(span.line)
    text = line[span.column - 1 : span.end - 1]
    if span.end > len(line) + 1:
        return ""
    missing = text.count(")") - text.count("(")  # spans leave out parentheses at their ends
    text = "(" * missing + text + ")" * -missing
    loose = isinstance(node, ast.Ternary) or (isinstance(node, ast.Binary) and node.op in _LOOSE)
    return f"({text})" if loose else text


class Reader:
    """The node makers; ``lines`` is set before each parse."""

    lines: Lines

    def _span(self, token: Any) -> Span:
        return self.lines.span(token.start_pos, token.end_pos)

    def _name(self, token: Any) -> ast.Name:
        return ast.Name(str(token), span=self._span(token))

    # -- definitions

    def start(self, children: Children) -> list[ast.Definition]:
        return children

    def definition(self, children: Children) -> ast.Definition:
        name, params, outputs, *statements = children
        ident = self._name(name)
        return ast.Definition(ident, params, outputs, tuple(statements), ident.span)

    def several_outputs(self, children: Children) -> tuple[ast.Param, ...]:
        params: tuple[ast.Param, ...] = children[0]
        return params

    def params(self, children: Children) -> tuple[Any, ...]:
        return tuple(children)

    one_output = where = list = params

    def untyped_param(self, children: Children) -> ast.Param:
        return ast.Param(None, self._name(children[0]))

    def typed_param(self, children: Children) -> ast.Param:
        return ast.Param(children[0], self._name(children[1]))

    def scalar_type(self, children: Children) -> ast.Type:
        return ast.Type(self._name(children[0]), None)

    def tensor_type(self, children: Children) -> ast.Type:
        return ast.Type(self._name(children[0]), children[1])

    # -- statements

    def assign(self, children: Children) -> ast.Assign:
        (target, indices), op, value, _, clauses = children
        initialize = op.endswith("!")
        text: Any = str(op).rstrip("!").rstrip("=") or "="
        return ast.Assign(target, indices, text, initialize, value, clauses, join(target.span, value.span))

    def equivalent(self, children: Children) -> None:
        """A claim about a library call that nothing depends on."""

    def assign_tuple(self, children: Children) -> ast.AssignTuple:
        opening, names, _, value, clauses = children
        return ast.AssignTuple(names, value, clauses, join(self._span(opening), value.span))

    def declare(self, children: Children) -> ast.Declare:
        return ast.Declare(children[0], self._name(children[1]))

    def recurrence(self, children: Children) -> ast.Recurrence:
        opening, var, lo, hi, *statements = children
        span = join(self._span(opening), hi.span)
        return ast.Recurrence(self._name(var), lo, hi, tuple(statements), span)

    def bare_left(self, children: Children) -> tuple[ast.Name, None]:
        return self._name(children[0]), None

    def indexed_left(self, children: Children) -> tuple[ast.Name, tuple[ast.Expr, ...]]:
        return self._name(children[0]), children[1]

    def names(self, children: Children) -> tuple[ast.Name, ...]:
        return tuple(map(self._name, children))

    def range_clause(self, children: Children) -> ast.Range:
        var, lo, hi = children
        name = self._name(var)
        return ast.Range(name, lo, hi, join(name.span, hi.span))

    def let_clause(self, children: Children) -> ast.Let:
        return ast.Let(self._name(children[0]), children[2])

    def exists_clause(self, children: Children) -> ast.Exists:
        return ast.Exists(children[0])

    def outside_clause(self, children: Children) -> ast.Outside:
        return ast.Outside(self._name(children[0]), children[1])

    # -- expressions

    def _deeper(self, span: Span, *parts: ast.Expr) -> int:
        depth = 1 + max((p.depth for p in parts), default=0)
        if depth > MAX_DEPTH:
            raise LanguageError(
                "expression is nested too deeply",
                span=span,
                why=f"more than {MAX_DEPTH} operations depend on one another here",
                help="write parts of it to temporaries: `T(i) = ...`, then use `T(i)`",
            )
        return depth

    def ternary(self, children: Children) -> ast.Ternary:
        condition, then, otherwise = children
        span = join(condition.span, otherwise.span)
        depth = self._deeper(span, condition, then, otherwise)
        return ast.Ternary(condition, then, otherwise, span=span, depth=depth)

    def binary(self, children: Children) -> ast.Binary:
        left, op, right = children
        span = join(left.span, right.span)
        return ast.Binary(str(op), left, right, span=span, depth=self._deeper(span, left, right))

    def chained(self, children: Children) -> ast.Binary:
        """``a < b < c``, which C and mathematics read differently; in parentheses, a comparison is a value."""
        pair, op, right = children
        texts = [text_of(e) for e in (pair.left, pair.right, right)]
        a, b, c = texts if all(texts) else ("a", "b", "c")
        raise LanguageError(
            "comparisons in a chain",
            span=join(pair.span, right.span),
            why=f"`{a} {pair.op} {b}` would be compared as true or false with `{c}`, as in C",
            help=f"write `{a} {pair.op} {b} && {b} {op} {c}`",
        )

    def logical_or(self, children: Children) -> ast.Binary:
        return self.binary([children[0], "||", children[1]])

    def logical_and(self, children: Children) -> ast.Binary:
        return self.binary([children[0], "&&", children[1]])

    def unary(self, children: Children) -> ast.Unary:
        op, operand = children
        span = join(self._span(op), operand.span)
        return ast.Unary(str(op), operand, span=span, depth=self._deeper(span, operand))

    def integer(self, children: Children) -> ast.Integer:
        (token,) = children
        # Python refuses to convert thousands of digits, and no element type holds more than 20.
        digits = str(token).lstrip("0")
        value = int(str(token), 0) if token[:2] in ("0x", "0X") else int(digits[:30] or "0")
        if value >= 1 << 64:
            raise LanguageError(
                "integer is too large",
                span=self._span(token),
                why="no element type holds more than 64 bits",
                help="write it as a float, with a `.` or an exponent",
            )
        return ast.Integer(value, span=self._span(token))

    def real(self, children: Children) -> ast.Real:
        (token,) = children
        # Beyond the range of a double it is infinity, as in C.
        return ast.Real(float(str(token).rstrip("fF")), span=self._span(token))

    def name(self, children: Children) -> ast.Name:
        return self._name(children[0])

    def size_of(self, children: Children) -> ast.SizeOf:
        tensor, dimension = self._name(children[0]), self.integer([children[1]])
        return ast.SizeOf(tensor, dimension.value, span=join(tensor.span, dimension.span))

    def apply(self, children: Children) -> ast.Apply:
        first, args, closing = children
        name = self._name(first)
        span = join(name.span, self._span(closing))
        return ast.Apply(name, args, span=span, depth=self._deeper(span, *args))

"""Puts the values of ``name = exp`` clauses in the place of their names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from weft.ir.errors import LanguageError
from weft.lang import ast
from weft.lang.reader import MAX_DEPTH

#: Each clause may double an expression, so a few dozen of them could fill the memory.
MAX_NODES = 10_000


def inline_lets(statement: ast.Assign) -> ast.Assign:
    """The statement without `Let` clauses."""
    lets: dict[str, ast.Expr] = {}
    for clause in statement.clauses:
        if isinstance(clause, ast.Let):
            if clause.name.text in lets:
                raise LanguageError(f"`{clause.name.text}` is given twice in one `where`", span=clause.name.span)
            lets[clause.name.text] = clause.value
    if not lets:
        return statement
    inliner = _Inliner(lets)
    return dataclasses.replace(
        statement,
        indices=None if statement.indices is None else tuple(map(inliner.expr, statement.indices)),
        value=inliner.expr(statement.value),
        clauses=tuple(inliner.clause(c) for c in statement.clauses if not isinstance(c, ast.Let)),
    )


class _Inliner:
    def __init__(self, lets: Mapping[str, ast.Expr]) -> None:
        self.lets = lets
        self.done: dict[str, tuple[ast.Expr, int]] = {}
        self.open: list[str] = []

    def expr(self, node: ast.Expr) -> ast.Expr:
        return self._replace(node)[0]

    def clause(self, clause: ast.Clause) -> ast.Clause:
        match clause:
            case ast.Range(var=var, lo=lo, hi=hi):
                if var.text in self.lets:
                    raise LanguageError(
                        f"`{var.text}` has both a value and a range in one `where`",
                        span=var.span,
                        why=f"`{var.text} = ...` already says what it is",
                        help="keep one of the two clauses",
                    )
                return dataclasses.replace(clause, lo=self.expr(lo), hi=self.expr(hi))
            case ast.Exists(value=value) | ast.Outside(value=value):
                return dataclasses.replace(clause, value=self.expr(value))
        return clause

    def _replace(self, node: ast.Expr) -> tuple[ast.Expr, int]:
        """The expression with every let inlined, and how many nodes it has."""
        if isinstance(node, ast.Name):
            return self._let(node) if node.text in self.lets else (node, 1)
        parts = [self._replace(o) for o in ast.operands(node)]
        size = 1 + sum(count for _, count in parts)
        depth = 1 + max((e.depth for e, _ in parts), default=0)
        if size > MAX_NODES or depth > MAX_DEPTH:
            raise LanguageError(
                "expression is too large after its `where` clauses are put in",
                span=node.span,
                why=f"more than {MAX_NODES} operations, or more than {MAX_DEPTH} that depend on one another",
                help="write parts of it to temporaries: `T(i) = ...`, then use `T(i)`",
            )
        return ast.with_operands(node, [e for e, _ in parts], depth), size

    def _let(self, name: ast.Name) -> tuple[ast.Expr, int]:
        if name.text in self.open:
            raise LanguageError(
                f"`{name.text}` is defined by itself",
                span=name.span,
                why="its `where` clause leads back to it: " + " -> ".join([*self.open, name.text]),
                help=f"for a range write `{name.text} in lo:hi`",
            )
        if name.text not in self.done:
            self.open.append(name.text)
            self.done[name.text] = self._replace(self.lets[name.text])
            self.open.pop()
        return self.done[name.text]

"""What is said of a name that is neither a tensor nor a function."""

from __future__ import annotations

from weft.ir.errors import Error, LanguageError, UnsupportedError, did_you_mean
from weft.lang import ast
from weft.lang.builtins import MISSING, builtin_names
from weft.lang.other_notations import FOREIGN_NAMES
from weft.lang.scope import Scope, type_names


def unknown_name(scope: Scope, node: ast.Apply) -> Error:
    """The error for a name that is applied and means nothing there."""
    name = node.name.text
    if name in scope.sizes or name in scope.scalars:
        what = "a size" if name in scope.sizes else "a scalar"
        return LanguageError(
            f"`{name}` is {what}, not a tensor or function", span=node.name.span, help=f"write `{name}` alone"
        )
    if name in scope.definitions:
        return LanguageError(
            f"definition `{name}` is called inside an expression",
            span=node.name.span,
            why="a definition gives whole tensors, an expression is about single elements",
            help=f"give it a statement of its own: `T = {name}(...)`",
        )
    if name.removesuffix("f") in MISSING or name in MISSING:
        return UnsupportedError(
            f"function `{name}` is not available",
            span=node.name.span,
            why="Bessel functions and functions that give two results are missing",
            help="of two results, compute each: `sin(x)` and `cos(x)`, `trunc(x)` and `x - trunc(x)`",
        )
    candidates = [*scope.tensors, *builtin_names(), *type_names()]
    return LanguageError(
        f"unknown tensor or function `{name}`",
        span=node.name.span,
        why="it is not a parameter, not written by an earlier statement and not a builtin",
        help=FOREIGN_NAMES.get(name) or did_you_mean(name, candidates),
    )

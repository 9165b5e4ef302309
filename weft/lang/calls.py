"""Calls of one definition by another: the callee's statements, read again in the caller's program."""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir.dtype import can_hold
from weft.ir.errors import LanguageError, ShapeError
from weft.ir.expr import Compare, Const, Expr, cast
from weft.ir.span import Span
from weft.ir.visit import free_vars
from weft.lang import ast
from weft.lang.declare import output_shape, require_type
from weft.lang.expressions import ExpressionReader, counted
from weft.lang.scope import Scope

#: Definitions that call one another twice, n deep, would write 2**n statements.
MAX_CALL_DEPTH = 20


def open_call(caller: Scope, call: ast.Apply, targets: Sequence[ast.Name]) -> tuple[Scope, ast.Definition]:
    """The scope in which the callee's statements mean what the call asks for."""
    callee = caller.definitions[call.name.text]
    _check_call(caller, callee, call, targets)
    scope = Scope(
        caller.builder,
        caller.definitions,
        (*caller.callers, callee.name.text),
        caller.float_type,
        own_names=frozenset(name for s in callee.statements for name in ast.names_of(s)),
    )
    pairs = [(require_type(p), p, a) for p, a in zip(callee.params, call.args)]
    for kind, param, arg in pairs:
        if kind.sizes is None:
            scope.scalars[param.name.text] = _scalar_argument(caller, scope, kind, param, arg)
    for kind, param, arg in pairs:
        if kind.sizes is not None:
            _bind_tensor(caller, scope, kind, kind.sizes, param, arg)
    for output, target in zip(callee.outputs, targets):
        _bind_output(caller, scope, callee, output, target)
    return scope, callee


def _check_call(caller: Scope, callee: ast.Definition, call: ast.Apply, targets: Sequence[ast.Name]) -> None:
    name = callee.name.text
    if name in caller.callers:
        raise LanguageError(
            f"`{name}` calls itself",
            span=call.name.span,
            why="the calls go round: " + " -> ".join([*caller.callers, name]),
            help="a scan is written as a statement that reads its own earlier elements",
        )
    if len(caller.callers) >= MAX_CALL_DEPTH:
        raise LanguageError(f"definitions call one another more than {MAX_CALL_DEPTH} deep", span=call.name.span)
    if len(call.args) != len(callee.params):
        names = ", ".join(p.name.text for p in callee.params)
        raise LanguageError(
            f"`{name}` takes {counted(len(callee.params), 'argument')}, not {len(call.args)}",
            span=call.span,
            why=f"its parameters are {names or 'none'}",
        )
    if len(targets) != len(callee.outputs):
        names = ", ".join(o.name.text for o in callee.outputs)
        raise LanguageError(
            f"`{name}` gives {counted(len(callee.outputs), 'result')}, not {len(targets)}",
            span=targets[0].span,
            why=f"its outputs are {names}",
            help=f"write `({names}) = {name}(...)`" if len(callee.outputs) > 1 else f"write `{names} = {name}(...)`",
        )
    _check_targets(caller, call, targets)


def _check_targets(caller: Scope, call: ast.Apply, targets: Sequence[ast.Name]) -> None:
    given = {n.text for a in call.args for n in ast.names_in(a)}
    for place, target in enumerate(targets):
        if target.text in given:
            why = "a call may read its arguments after it has begun to write its results"
        elif target.text in [t.text for t in targets[:place]]:
            why = "each result needs a name of its own"
        elif caller.builder.is_written(caller.tensors.get(target.text, "")):
            why = "it is written already, and a call gives new tensors"
        else:
            continue
        raise LanguageError(
            f"`{target.text}` cannot receive a result of `{call.name.text}`",
            span=target.span,
            why=why,
            help=f"use another name, such as `{target.text}_new`",
        )


def _scalar_argument(caller: Scope, scope: Scope, kind: ast.Type, param: ast.Param, arg: ast.Expr) -> Expr:
    wanted = scope.parse_type(kind.scalar)
    value = ExpressionReader(caller).fitted(arg, wanted)
    variables = (*caller.sizes.values(), *caller.scalars.values(), *caller.steps.values())
    allowed = {n for e in variables for n in free_vars(e)}
    stray = [v for n, v in free_vars(value).items() if n not in allowed]
    if stray:
        raise LanguageError(
            f"unknown name `{stray[0].name}` in an argument of a call",
            span=stray[0].span or arg.span,
            why="an argument is a tensor, a scalar parameter, a size or a number",
        )
    if not can_hold(wanted, value.dtype):
        raise LanguageError(
            f"`{param.name.text}` is {wanted}, the argument is {value.dtype}",
            span=arg.span,
            why="values are never narrowed silently",
            help=f"convert it: `{wanted}(...)`",
        )
    return cast(wanted, value)


def _bind_tensor(
    caller: Scope, scope: Scope, kind: ast.Type, sizes: tuple[ast.Expr, ...], param: ast.Param, arg: ast.Expr
) -> None:
    if not isinstance(arg, ast.Name) or arg.text not in caller.tensors:
        raise LanguageError(
            f"`{param.name.text}` takes a whole tensor",
            span=arg.span,
            why="it is a tensor parameter" if isinstance(arg, ast.Name) else "an expression is about single elements",
            help="write the expression to a temporary first, then pass the temporary by its name",
        )
    buffer, wanted = caller.tensor(arg), scope.parse_type(kind.scalar)
    if buffer.dtype != wanted or buffer.rank != len(sizes):
        raise LanguageError(
            f"`{arg.text}` does not fit parameter `{param.name.text}`",
            span=arg.span,
            why=f"it is {buffer.dtype} with {counted(buffer.rank, 'dimension')}; {wanted} with {len(sizes)} is wanted",
        )
    scope.tensors[param.name.text] = caller.tensors[arg.text]
    for place, (size, actual) in enumerate(zip(sizes, buffer.shape)):
        what = f"dimension {place} of `{arg.text}`"
        _bind_size(scope, size, actual, f"{what}, passed as `{param.name.text}`,", arg.span)


def _bind_size(scope: Scope, size: ast.Expr, actual: Expr, what: str, span: Span) -> None:
    if isinstance(size, ast.Name) and not scope.knows(size.text):
        scope.sizes[size.text] = actual
        return
    if isinstance(size, ast.Name) and size.text in scope.sizes:
        wanted = scope.sizes[size.text]
    elif isinstance(size, ast.Integer) or (isinstance(size, ast.Name) and size.text in scope.scalars):
        wanted = ExpressionReader(scope).index(size)
    else:
        raise LanguageError("a size of a parameter must be a name or an integer", span=size.span)
    require_equal(scope, wanted, actual, what, span)


def require_equal(scope: Scope, wanted: Expr, actual: Expr, what: str, span: Span) -> None:
    """Two sizes that must agree: known now, or a requirement on the sizes of a call."""
    if wanted == actual:
        return
    if isinstance(wanted, Const) and isinstance(actual, Const):
        raise ShapeError(f"{what} is {actual.value}, but must be {wanted.value}", span=span)
    scope.builder.require(Compare("==", actual, wanted), f"{what} must agree with its other uses", span)


def _bind_output(caller: Scope, scope: Scope, callee: ast.Definition, output: ast.Param, target: ast.Name) -> None:
    name = target.text
    if name not in caller.tensors:
        if caller.knows(name):
            raise LanguageError(f"cannot write `{name}`", span=target.span, why="it is not a tensor")
        caller.tensors[name] = caller.fresh_tensor(name)
    made = scope.tensors[output.name.text] = caller.tensors[name]
    if output.type is None:
        return
    t = scope.parse_type(output.type.scalar)
    stated = caller.target_type(name)
    if stated is not None and stated != t:
        raise LanguageError(
            f"`{name}` is {stated}, but `{callee.name.text}` gives {t}",
            span=target.span,
            help=f"declare `{name}` as {t}, or convert in a statement of its own",
        )
    scope.builder.refine(made, t, output_shape(scope, output, callee), target.span)
    scope.declared[output.name.text] = t


__all__ = ["open_call", "require_equal"]

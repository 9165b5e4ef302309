"""Parameters, outputs and declared temporaries: their types and sizes."""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir import dtype as dt
from weft.ir.errors import LanguageError
from weft.ir.expr import Expr, Var, cast
from weft.ir.visit import free_vars
from weft.lang import ast
from weft.lang.expressions import ExpressionReader
from weft.lang.scope import Scope


def declare_params(scope: Scope, definition: ast.Definition) -> None:
    """Inputs and scalars of a definition that is called from outside, in order."""
    for param in definition.params:
        if param.type is not None and param.type.sizes is None:
            t = scope.parse_type(param.type.scalar)
            scope.scalars[param.name.text] = Var(param.name.text, t, span=param.name.span)
    for param in definition.params:
        kind = require_type(param)
        t = scope.parse_type(kind.scalar)
        if kind.sizes is None:
            scope.builder.scalar(param.name.text, t, param.name.span)
            continue
        shape = tuple(_input_size(scope, size) for size in kind.sizes)
        scope.builder.input(param.name.text, t, shape, param.name.span)
        scope.tensors[param.name.text] = param.name.text


def require_type(param: ast.Param) -> ast.Type:
    if param.type is None:
        raise LanguageError(
            f"parameter `{param.name.text}` has no type",
            span=param.name.span,
            why="only outputs may leave it out",
            help=f"write `float(N) {param.name.text}` for a tensor, `float {param.name.text}` for a number",
        )
    return param.type


def _input_size(scope: Scope, size: ast.Expr) -> Expr:
    match size:
        case ast.Integer():
            return ExpressionReader(scope).index(size)
        case ast.Name(text=text):
            if text in scope.scalars:
                return _scalar_size(scope.scalars[text], size)
            scope.sizes[text] = scope.builder.size(text, size.span)
            return scope.sizes[text]
    raise LanguageError(
        "a size of a parameter must be a name or an integer",
        span=size.span,
        why="sizes are read off the arguments of a call",
        help="give the size a name of its own",
    )


def _scalar_size(scalar: Expr, size: ast.Expr) -> Expr:
    if not scalar.dtype.is_integer:
        raise LanguageError(
            f"a size must be an integer, not {scalar.dtype}", span=size.span, help="declare the parameter as `int`"
        )
    return cast(dt.index, scalar)


def declare_outputs(scope: Scope, definition: ast.Definition) -> None:
    for output in definition.outputs:
        name = output.name.text
        t = None if output.type is None else scope.parse_type(output.type.scalar)
        shape = output_shape(scope, output, definition)
        scope.builder.declare_output(name, t, shape, output.name.span)
        scope.tensors[name] = name
        if t is not None:
            scope.declared[name] = t
    if not definition.outputs:
        raise LanguageError(
            f"`{definition.name.text}` has no outputs",
            span=definition.name.span,
            why="what it computes would be lost",
            help="name them after the arrow: `-> (C)`",
        )


def output_shape(scope: Scope, output: ast.Param, definition: ast.Definition) -> tuple[Expr, ...] | None:
    """The stated sizes; ``float O`` alone is a number, unless a statement gives ``O`` subscripts."""
    if output.type is None:
        return None
    if output.type.sizes is None:
        assigned = [s for s in ast.assignments(definition.statements) if isinstance(s, ast.Assign)]
        writes = [s for s in assigned if s.target.text == output.name.text]
        subscripted = any(s.indices for s in writes) or not writes
        return None if subscripted else ()
    return tuple(stated_size(scope, size) for size in output.type.sizes)


def stated_size(scope: Scope, size: ast.Expr) -> Expr:
    """A size of an output or temporary: an expression of sizes and integer parameters."""
    value = ExpressionReader(scope).index(size)
    names = {name for e in scope.sizes.values() for name in free_vars(e)}
    names |= {name for e in scope.scalars.values() for name in free_vars(e)}
    for name, var in free_vars(value).items():
        if name not in names:
            raise LanguageError(
                f"unknown size `{name}`",
                span=var.span or size.span,
                why="no input has a dimension of that name",
                help=f"pass it as a parameter: `int {name}`",
            )
    return value


def declare_temporary(scope: Scope, statement: ast.Declare) -> None:
    name = statement.name
    t = scope.parse_type(statement.type.scalar)
    if scope.knows(name.text):
        raise LanguageError(f"`{name.text}` is declared twice", span=name.span, help="give one of the two another name")
    sizes: Sequence[ast.Expr] = statement.type.sizes or ()
    made = scope.fresh_tensor(name.text)
    scope.builder.declare_temporary(made, t, tuple(stated_size(scope, s) for s in sizes), name.span)
    scope.tensors[name.text] = made
    scope.declared[name.text] = t

"""Definitions to tensor programs: statement by statement, through `ProgramBuilder`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.errors import Error, LanguageError, did_you_mean
from weft.ir.span import Source
from weft.lang import ast
from weft.lang.builtins import find_builtin
from weft.lang.calls import open_call
from weft.lang.declare import declare_outputs, declare_params, declare_temporary
from weft.lang.expressions import ExpressionReader
from weft.lang.inline_lets import inline_lets
from weft.lang.scope import Scope
from weft.tensor.build import ProgramBuilder, RangeClause
from weft.tensor.program import TensorProgram

#: Calls of calls multiply; more statements than this from calls alone are a slip.
MAX_CALLED = 1_000


@dataclass
class Elaborator:
    """Reads one definition. With ``errors`` given, it notes an error there and goes on with the next statement."""

    definitions: Mapping[str, ast.Definition]
    source: Source
    float_type: DType = dt.float32
    errors: list[Error] | None = None
    _called: int = 0
    _broken: set[str] = field(default_factory=set)

    def program(self, definition: ast.Definition) -> TensorProgram:
        builder = ProgramBuilder(definition.name.text, self.source, definition.name.span)
        scope = Scope(builder, self.definitions, (definition.name.text,), self.float_type)
        declare_params(scope, definition)
        declare_outputs(scope, definition)
        for statement in definition.statements:
            self._guarded(scope, statement)
        return builder.finish()

    def _guarded(self, scope: Scope, statement: ast.Statement) -> None:
        if self.errors is None:
            self.statement(scope, statement)
            return
        if self._broken & ast.names_of(statement):
            self._broken |= ast.targets(statement)
            return
        try:
            self.statement(scope, statement)
        except Error as e:
            self.errors.append(e)
            self._broken |= ast.targets(statement)

    def statement(self, scope: Scope, statement: ast.Statement) -> None:
        self._called += scope.is_called
        try:
            self._read(scope, statement)
        except Error as e:
            if e.span is not None:
                raise
            where = statement.name.span if isinstance(statement, ast.Declare) else statement.span
            raise type(e)(e.what, span=where, why=e.why, help=e.help, notes=e.notes) from None

    def _read(self, scope: Scope, statement: ast.Statement) -> None:
        if self._called > MAX_CALLED:
            raise LanguageError(
                f"calls of definitions give more than {MAX_CALLED} statements", help="call fewer of them"
            )
        match statement:
            case ast.Declare():
                declare_temporary(scope, statement)
            case ast.Recurrence():
                self._recurrence(scope, statement)
            case ast.AssignTuple(targets=targets, value=value):
                self._call(scope, statement, targets, value)
            case ast.Assign(target=target, value=value) if self._is_call(scope, value, statement.indices is None):
                self._call(scope, statement, (target,), value)
            case ast.Assign():
                _check_lets(scope, statement)
                self._assign(scope, inline_lets(statement))

    def _recurrence(self, scope: Scope, block: ast.Recurrence) -> None:
        name = block.var
        if scope.knows(name.text) or name.text in scope.steps:
            raise LanguageError(
                f"`{name.text}` cannot count the steps of a block",
                span=name.span,
                why="it names a tensor, a size, a parameter or the steps of a block around this one",
                help="give the variable of the block another name",
            )
        if not block.statements:
            raise LanguageError(
                "a block without statements", span=block.span, why="its steps do nothing", help="remove it"
            )
        reader = ExpressionReader(scope)
        clause = RangeClause(scope.index_variable(name), reader.index(block.lo), reader.index(block.hi), block.span)
        writes = {scope.tensors[n] for n in ast.targets(block) if n in scope.tensors}
        with scope.builder.recurrence(clause, writes):
            scope.steps[name.text] = clause.var
            for statement in block.statements:
                self._guarded(scope, statement)
            del scope.steps[name.text]

    def _is_call(self, scope: Scope, value: ast.Expr, whole: bool = True) -> bool:
        """Whether a definition is called; one named like a builtin only where a whole tensor is assigned."""
        if not isinstance(value, ast.Apply) or value.name.text in scope.tensors:
            return False
        name = value.name.text
        is_builtin = find_builtin(name) is not None and (not whole or name in scope.callers)
        return name in self.definitions and not is_builtin

    def _call(
        self, scope: Scope, statement: ast.Assign | ast.AssignTuple, targets: tuple[ast.Name, ...], value: ast.Expr
    ) -> None:
        if not isinstance(value, ast.Apply) or not self._is_call(scope, value):
            raise LanguageError(
                "several results, but no definition is called",
                span=value.span,
                why="only a call gives several tensors at once",
                help=_suggest_definition(value, self.definitions),
            )
        if isinstance(statement, ast.Assign) and (statement.indices is not None or statement.op != "="):
            raise LanguageError(
                f"the result of `{value.name.text}` is a whole tensor",
                span=statement.target.span,
                why="a call gives new tensors and cannot write single elements or accumulate",
                help=f"write `{statement.target.text} = {value.name.text}(...)`",
            )
        if statement.clauses:
            raise LanguageError("a call takes no `where`", span=statement.span, why="the callee has its own ranges")
        inner, callee = open_call(scope, value, targets)
        for s in callee.statements:
            self.statement(inner, s)

    def _assign(self, scope: Scope, statement: ast.Assign) -> None:
        target = statement.target
        self._check_target(scope, statement)
        positions = ast.position_names(statement, scope.tensors)
        reader = ExpressionReader(scope, outside_clauses(scope, statement), positions=positions)
        indices = tuple(map(reader.index, statement.indices or ()))
        made = scope.tensors.get(target.text) or scope.fresh_tensor(target.text)
        self._expect_own_reads(scope, statement, made, reader)
        stated = scope.target_type(target.text)
        value = reader.fitted(statement.value, stated) if stated else reader.value(statement.value)
        ranges = [c for c in statement.clauses if isinstance(c, ast.Range)]
        scope.builder.statement(
            made,
            indices,
            statement.op,
            statement.initialize,
            value,
            where=[self._range(scope, reader, c) for c in ranges],
            exists=[reader.value(c.value) for c in statement.clauses if isinstance(c, ast.Exists)],
            span=statement.span,
            dtype=scope.declared.get(target.text),
        )
        scope.tensors[target.text] = made

    def _expect_own_reads(self, scope: Scope, statement: ast.Assign, made: str, reader: ExpressionReader) -> None:
        """A scan may be the first to write its tensor: the type is then that of everything else it is made of."""
        own = statement.target.text
        if scope.builder.buffer(made) is not None or own not in {n.text for n in ast.names_in(statement.value)}:
            return
        scope.tensors[own] = made
        stated = scope.declared.get(own)
        if stated is None:
            # Any other type absorbs bool, so the first reading finds it.
            own_values = Buffer(made, dt.bool_, ())
            trial = ExpressionReader(scope, reader.outside, own_values, reader.positions)
            stated = trial.value(statement.value).dtype
        scope.builder.expect(made, stated, len(statement.indices or ()), statement.target.span)

    def _check_target(self, scope: Scope, statement: ast.Assign) -> None:
        name = statement.target
        if name.text in scope.steps:
            raise LanguageError(
                f"cannot write `{name.text}`",
                span=name.span,
                why="it counts the steps of the block around this statement",
                help="give the tensor another name",
            )
        if scope.is_called and (name.text in scope.sizes or name.text in scope.scalars):
            raise LanguageError(f"cannot write `{name.text}`", span=name.span, why="it is a parameter, not a tensor")

    def _range(self, scope: Scope, reader: ExpressionReader, clause: ast.Range) -> RangeClause:
        name = clause.var
        if name.text in scope.steps:
            raise LanguageError(
                f"`{name.text}` already has a range",
                span=name.span,
                why=f"it counts the steps of the block around this statement, which all run for each `{name.text}`",
                help="choose in the expression, `c ? a : b`, or write a block of its own",
            )
        if scope.knows(name.text):
            raise LanguageError(
                f"`{name.text}` is not an index variable",
                span=name.span,
                why="it names a tensor, a size or a parameter",
                help="give the index variable another name",
            )
        return RangeClause(scope.index_variable(name), reader.index(clause.lo), reader.index(clause.hi), clause.span)


def _check_lets(scope: Scope, statement: ast.Assign) -> None:
    for clause in statement.clauses:
        if isinstance(clause, ast.Let) and scope.knows(clause.name.text):
            raise LanguageError(
                f"`{clause.name.text}` already has a meaning",
                span=clause.name.span,
                why="it names a tensor, a size or a parameter",
                help="give what the clause defines another name",
            )


def outside_clauses(scope: Scope, statement: ast.Assign) -> dict[str, ast.Expr]:
    """What each tensor of an ``outside`` clause gives beyond its edge."""
    clauses: dict[str, ast.Expr] = {}
    read = {n.text for n in ast.names_in(statement.value)}
    for clause in statement.clauses:
        if not isinstance(clause, ast.Outside):
            continue
        name = clause.tensor
        if name.text not in scope.tensors or name.text not in read:
            tensors = [t for t in scope.tensors if t in read]
            raise LanguageError(
                f"`{name.text}` has an `outside` but is not read",
                span=name.span,
                why="the clause says what reads of a tensor beyond its edge give, in this statement",
                help=did_you_mean(name.text, tensors),
            )
        if name.text in clauses:
            raise LanguageError(f"two `outside` clauses for `{name.text}`", span=name.span)
        clauses[name.text] = clause.value
    return clauses


def _suggest_definition(value: ast.Expr, definitions: Mapping[str, ast.Definition]) -> str:
    if isinstance(value, ast.Apply):
        close = did_you_mean(value.name.text, definitions)
        if close:
            return close
    return "write one statement for each tensor"

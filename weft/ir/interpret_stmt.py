"""Statements as Python closures over a thread's variables.

A statement without a barrier becomes a function that runs it and returns a signal
(`DONE`, or which jump ended it). One that may wait at a barrier becomes a function that
returns a generator: it yields an `Arrival` at each barrier and returns the signal.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from weft.ir import stmt as st
from weft.ir.asserts import format_message
from weft.ir.errors import ProgramError
from weft.ir.expr import Var
from weft.ir.interpret_expr import Evaluator, compile_expr
from weft.ir.interpret_memory import Env, Scope
from weft.ir.span import Span
from weft.ir.visit import Node, children

Signal: TypeAlias = int
DONE, BREAK, CONTINUE, RETURN = range(4)

#: What resolves a barrier: a concurrent loop by number, or the warps of one.
Target: TypeAlias = "tuple[str, int]"


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """A barrier statement; threads wait at the same one where they hold the same object."""

    target: Target
    scope: str
    span: Span | None


Steps: TypeAlias = Generator[Arrival, None, Signal]


@dataclass(frozen=True, slots=True)
class Code:
    """A translated statement; ``run`` returns a generator where ``targets``, the barriers in it, is not empty."""

    run: Callable[[Env], Any]
    targets: frozenset[Target] = frozenset()

    def stepped(self) -> Callable[[Env], Steps]:
        if self.targets:
            return self.run
        run = self.run

        def steps(env: Env) -> Steps:
            return run(env)  # type: ignore[no-any-return]
            yield

        return steps


def compile_stmt(stmt: st.Stmt, scope: Scope) -> Code:
    if stmt.span is not None:
        scope = replace(scope, span=stmt.span)
    return COMPILERS[type(stmt)](stmt, scope)


def is_parallel(stmt: Node) -> bool:
    return isinstance(stmt, st.For) and stmt.kind not in ("serial", "unroll")


def has_parallel_loop(stmt: Node) -> bool:
    """Whether any loop in ``stmt`` runs its iterations concurrently."""
    pending = [stmt]
    while pending:
        node = pending.pop()
        if is_parallel(node):
            return True
        pending.extend(c for c in children(node) if isinstance(c, st.Stmt))
    return False


def in_order(parts: list[Code]) -> Code:
    targets = frozenset[Target]().union(*(p.targets for p in parts))
    if len(parts) == 1:
        return parts[0]
    if not targets:
        runs = [p.run for p in parts]

        def run(env: Env) -> Signal:
            for stmt in runs:
                signal: Signal = stmt(env)
                if signal:
                    return signal
            return DONE

        return Code(run)
    stepped = [p.stepped() for p in parts]

    def steps(env: Env) -> Steps:
        for stmt in stepped:
            signal = yield from stmt(env)
            if signal:
                return signal
        return DONE

    return Code(steps, targets)


def compile_serial(stmt: st.For, scope: Scope) -> Code:
    """A ``serial`` or ``unroll`` loop."""
    lo, hi = compile_expr(stmt.lo, scope), compile_expr(stmt.hi, scope)
    backward = None if stmt.backward is None else compile_expr(stmt.backward, scope)
    inner, slot = scope.with_loop(stmt.var)

    def passes(env: Env) -> Iterator[None]:
        turns = range(lo(env), hi(env))
        for i in reversed(turns) if backward is not None and backward(env) else turns:
            env[slot] = i
            yield

    return _repeated(passes, compile_stmt(stmt.body, replace(inner, in_loop=True)))


def _while(stmt: st.While, scope: Scope) -> Code:
    condition = compile_expr(stmt.condition, scope)

    def passes(env: Env) -> Iterator[None]:
        while condition(env):
            yield

    return _repeated(passes, compile_stmt(stmt.body, replace(scope, in_loop=True)))


def _repeated(passes: Callable[[Env], Iterator[None]], body: Code) -> Code:
    """``body`` for each of the ``passes``, until a break or return in it."""
    run_body, step_body = body.run, body.stepped()

    def run(env: Env) -> Signal:
        for _ in passes(env):
            signal = run_body(env)
            if signal and signal != CONTINUE:
                return RETURN if signal == RETURN else DONE
        return DONE

    def steps(env: Env) -> Steps:
        for _ in passes(env):
            signal = yield from step_body(env)
            if signal and signal != CONTINUE:
                return RETURN if signal == RETURN else DONE
        return DONE

    return Code(steps, body.targets) if body.targets else Code(run)


def _if(stmt: st.If, scope: Scope) -> Code:
    condition = compile_expr(stmt.condition, scope)
    then = compile_stmt(stmt.then, scope)
    otherwise = in_order([]) if stmt.otherwise is None else compile_stmt(stmt.otherwise, scope)
    return _either(condition, then, otherwise)


def _either(condition: Evaluator, then: Code, otherwise: Code) -> Code:
    targets = then.targets | otherwise.targets
    yes, no = (then.stepped(), otherwise.stepped()) if targets else (then.run, otherwise.run)
    return Code(lambda env: yes(env) if condition(env) else no(env), targets)


def _let(stmt: st.Let, scope: Scope) -> Code:
    value = compile_expr(stmt.value, scope)
    inner, slot = scope.with_var(stmt.var)
    body = compile_stmt(stmt.body, replace(inner, own=scope.own | {stmt.var.name}))
    run_body = body.run

    def run(env: Env) -> Any:
        env[slot] = value(env)
        return run_body(env)

    return Code(run, body.targets)


def own_slot(var: Var, scope: Scope, span: Span | None) -> int:
    slot = scope.var_slot(var)
    if var.name not in scope.own:
        raise ProgramError(
            f"cannot assign `{var.name}`",
            span=span or scope.span,
            why="only a variable that a `let` of the same thread made can change",
        )
    return slot


def _assign(stmt: st.Assign, scope: Scope) -> Code:
    slot, value = own_slot(stmt.var, scope, stmt.span), compile_expr(stmt.value, scope)

    def run(env: Env) -> Signal:
        env[slot] = value(env)
        return DONE

    return Code(run)


def _jump(signal: Signal) -> Callable[[st.Stmt, Scope], Code]:
    def compile_jump(stmt: st.Stmt, scope: Scope) -> Code:
        if signal != RETURN and not scope.in_loop:
            raise ProgramError(
                f"`{type(stmt).__name__.lower()}` outside a loop it can act on",
                span=stmt.span or scope.span,
                why="it acts on an enclosing serial loop or while, and not across a parallel one",
            )
        return Code(lambda env: signal)

    return compile_jump


def compile_evaluate(stmt: st.Evaluate, scope: Scope) -> Code:
    value = compile_expr(stmt.call, scope)

    def run(env: Env) -> Signal:
        value(env)
        return DONE

    return Code(run)


def _assert(stmt: st.Assert, scope: Scope) -> Code:
    condition, values = compile_expr(stmt.condition, scope), [compile_expr(v, scope) for v in stmt.values]
    span = stmt.span or scope.span

    def run(env: Env) -> Signal:
        if not condition(env):
            raise ProgramError(format_message(stmt.message, [v(env) for v in values]), span=span)
        return DONE

    return Code(run)


def _block(stmt: st.Block, scope: Scope) -> Code:
    inner, bound, starts = scope, list[tuple[int, Evaluator]](), list[tuple[int, Evaluator]]()
    for item in stmt.iters:
        binding, lo = compile_expr(item.binding, scope), compile_expr(item.lo, scope)
        inner, slot = inner.with_var(item.var)
        bound.append((slot, binding))
        if item.kind == "reduce":
            starts.append((slot, lo))
    parts = [compile_stmt(stmt.body, inner)]
    if stmt.init is not None:

        def at_start(env: Env) -> bool:
            return all(env[slot] == lo(env) for slot, lo in starts)

        parts.insert(0, _either(at_start, compile_stmt(stmt.init, inner), in_order([])))
    body = in_order(parts)

    def run(env: Env) -> Any:
        for slot, binding in bound:
            env[slot] = binding(env)
        return body.run(env)

    return Code(run, body.targets)


#: By statement kind; `interpret` adds those that touch memory, the loops and the barriers.
COMPILERS: dict[type[st.Stmt], Callable[[Any, Scope], Code]] = {
    st.Seq: lambda stmt, scope: in_order([compile_stmt(s, scope) for s in stmt.body]),
    st.While: _while,
    st.If: _if,
    st.Let: _let,
    st.Assign: _assign,
    st.Return: _jump(RETURN),
    st.Break: _jump(BREAK),
    st.Continue: _jump(CONTINUE),
    st.Evaluate: compile_evaluate,
    st.Tensorized: lambda stmt, scope: compile_stmt(stmt.body, scope),
    st.Assert: _assert,
    st.Block: _block,
}

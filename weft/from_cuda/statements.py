"""Statements: a function for each kind, and what jumps out of inlined functions and switches become."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.from_cuda import calls as _calls  # noqa: F401  registers what it reads
from weft.from_cuda import casts as _casts  # noqa: F401
from weft.from_cuda import operators as _operators  # noqa: F401
from weft.from_cuda.context import Context, Item, Loop, Unsupported, close, negate
from weft.from_cuda.expressions import VALUES, condition, expression, number
from weft.from_cuda.loops import counted_loop
from weft.from_cuda.places import assign
from weft.from_cuda.unit import Node
from weft.from_cuda.values import Nothing, Value
from weft.from_cuda.variables import declare_variable
from weft.from_cuda.waiting import refuse_waiting
from weft.ir import dtype as dt
from weft.ir.errors import UnsupportedError
from weft.ir.expr import Binary, Compare, Const, Expr, Var, cast, const, idx
from weft.ir.stmt import Assign, Break, Continue, For, If, Return, While
from weft.passes.gpu_to_cpu.part_lanes import part_lanes

_LOOPS = frozenset({"ForStmt", "WhileStmt", "DoStmt", "CXXForRangeStmt"})


def statement(c: Context, n: Node) -> None:
    """Writes down what ``n`` does."""
    found = _STATEMENTS.get(n.kind)
    before = c.span
    if n.line:
        c.span = c.unit.span(n)
    if found is not None:
        found(c, n)
    else:
        expression(c, n)
    c.span = before


def block(c: Context, statements: Sequence[Node]) -> None:
    """Statements one after another; what follows one that may return from an inlined function runs only if not."""
    for at, n in enumerate(statements):
        rest = statements[at + 1 :]
        if not c.frame.is_kernel and may_return(n):
            if n.kind == "IfStmt" and _leaves_early(c, n, rest):
                return
            statement(c, n)
            if rest and n.kind not in ("ReturnStmt",) and not c.frame.loops:
                with c.scope() as items:
                    block(c, rest)
                c.emit(If(negate(c.returned()), close(items), span=c.span))
                return
            if n.kind == "ReturnStmt":
                return
            continue
        _guarded(c, n)
        if n.kind in ("BreakStmt", "ContinueStmt", "ReturnStmt"):
            return


def _guarded(c: Context, n: Node) -> None:
    """A statement; why it cannot be translated is kept, so that all reasons are told at once."""
    try:
        statement(c, n)
    except Unsupported as problem:
        if problem.why:
            c.problems.append(problem)
        c.failed |= {d.id for d in n.inner if d.kind == "VarDecl"}


def _leaves_early(c: Context, n: Node, rest: Sequence[Node]) -> bool:
    """``if (c) return e; rest`` becomes a choice between the two, where the first side always returns."""
    then = n.inner[1] if not n.raw.get("hasInit") and not n.raw.get("hasVar") else None
    if then is None or not always_returns(then) or c.frame.loops:
        return False
    test = condition(c, n.inner[0])
    with c.scope() as then_items:
        block(c, _statements(then))
    with c.scope() as else_items:
        block(c, [*([*_statements(n.inner[2])] if n.raw.get("hasElse") else []), *rest])
    _emit_if(c, test, then_items, else_items)
    return True


def _emit_if(c: Context, test: Expr, then: list[Item], otherwise: list[Item]) -> None:
    if isinstance(test, Const):
        chosen = then if test.value else otherwise
        if chosen:
            c.emit(close(chosen))
    elif then or otherwise:
        c.emit(If(test, close(then), close(otherwise) if otherwise else None, span=c.span))


def may_return(n: Node) -> bool:
    if n.kind == "ReturnStmt":
        return True
    return n.kind != "LambdaExpr" and any(may_return(i) for i in n.inner)


def always_returns(n: Node) -> bool:
    if n.kind == "ReturnStmt":
        return True
    if n.kind == "CompoundStmt":
        return any(always_returns(i) for i in n.inner)
    if n.kind == "IfStmt" and n.raw.get("hasElse"):
        return always_returns(n.inner[-2]) and always_returns(n.inner[-1])
    return False


def _statements(n: Node) -> list[Node]:
    return n.inner if n.kind == "CompoundStmt" else [n]


def _compound(c: Context, n: Node) -> None:
    with c.scope() as items:
        block(c, n.inner)
    if items:
        c.emit(close(items))


def _nested(c: Context, n: Node) -> list[Item]:
    with c.scope() as items:
        block(c, _statements(n))
    return items


def _if(c: Context, n: Node) -> None:
    parts = list(n.inner)
    with c.scope() as items:
        if n.raw.get("hasInit"):
            statement(c, parts.pop(0))
        if n.raw.get("hasVar"):
            statement(c, parts.pop(0))
        test = condition(c, parts[0])
        if n.raw.get("isConstexpr") and isinstance(test, Const):
            taken = parts[1] if test.value else parts[2] if len(parts) > 2 else None
            chosen = _nested(c, taken) if taken is not None else []
            if chosen:
                c.emit(close(chosen))
        else:
            met = len(c.meetings)
            then = _nested(c, parts[1])
            otherwise = _nested(c, parts[2]) if n.raw.get("hasElse") else []
            if len(c.meetings) > met:
                c.branches.add(n.id)
            (_part if n.id in c.facts.parted else _emit_if)(c, test, then, otherwise)
    if (any(not isinstance(i, (If, For, While)) for i in items) and n.raw.get("hasInit")) or n.raw.get("hasVar"):
        c.emit(close(items))
    else:
        c.items.extend(items)


def _part(c: Context, test: Expr, then: list[Item], otherwise: list[Item]) -> None:
    """A branch whose meetings all lanes of the warp pass; what else is in it is for those alone that come there."""
    inside = c.keep("inside", test)
    if not isinstance(inside, Var):
        return _emit_if(c, test, then, otherwise)
    outside = c.keep("outside", negate(inside)) if otherwise else inside
    try:
        parts = [
            part_lanes(mask, close(items), c.names)
            for mask, items in ((inside, then), (outside, otherwise))
            if items and isinstance(mask, Var)
        ]
    except UnsupportedError:  # the branch as it is, which passes refuse
        return _emit_if(c, test, then, otherwise)
    for part in parts:
        c.emit(part)
    return None


_WITHOUT_EFFECT = (
    "TypedefDecl", "TypeAliasDecl", "CXXRecordDecl", "UsingDecl", "StaticAssertDecl", "EnumDecl", "UsingDirectiveDecl",
    "NamespaceAliasDecl", "EmptyDecl", "FunctionDecl",
)  # fmt: skip


def _declarations(c: Context, n: Node) -> None:
    for d in n.inner:
        if d.kind == "VarDecl":
            declare_variable(c, d)
        elif d.kind not in _WITHOUT_EFFECT:
            c.refuse(d, f"a declaration of the kind {d.kind}")


def _return(c: Context, n: Node) -> None:
    frame = c.frame
    if frame.is_kernel:
        c.emit(Return(span=c.span))
        return
    if n.inner:
        value = _returned_value(c, n)
        if frame.is_simple:
            frame.value = value
            return
        if frame.result is not None and not isinstance(value, Nothing):
            assign(c, n, frame.result, value)
    if frame.loops:
        c.emit(Assign(c.returned(), Const(True, dt.bool_), span=c.span))
        c.emit(Break(span=c.span))
    elif frame.flag is not None or _needs_flag(frame.function):
        c.emit(Assign(c.returned(), Const(True, dt.bool_), span=c.span))


def _returned_value(c: Context, n: Node) -> Nothing:
    from weft.from_cuda.calls import returned_value

    return returned_value(c, n.inner[0])  # type: ignore[return-value]


def _needs_flag(function: Node) -> bool:
    """Whether something may follow a return: one that is in a statement which does not always return."""
    body = function.body
    return body is not None and not _returns_last(body.inner)


def _returns_last(statements: Sequence[Node]) -> bool:
    """Whether every return is the last thing done on its path, as `block` writes it."""
    for at, n in enumerate(statements):
        if not may_return(n) or n.kind == "ReturnStmt":
            continue
        if n.kind == "IfStmt" and not n.raw.get("hasInit") and not n.raw.get("hasVar"):
            branches = [_statements(i) for i in n.inner[1:]]
            if not all(_returns_last(b) for b in branches):
                return False
            if at + 1 < len(statements) and not always_returns(n.inner[1]):
                return False
        elif n.kind == "CompoundStmt":
            if not _returns_last(n.inner) or (at + 1 < len(statements) and not always_returns(n)):
                return False
        else:
            return False
    return True


# ---- loops


def _for(c: Context, n: Node) -> None:
    init, _, test, step, body = _five(n)
    with c.scope() as items:
        if init is not None:
            if counted_loop(c, n, init, test, step, body, run_body):
                c.frame.loops[-1:] = c.frame.loops[-1:]
            else:
                statement(c, init)
                _while_loop(c, n, test, step, body)
        else:
            _while_loop(c, n, test, step, body)
    c.items.extend(items)
    _leave_further(c, n)


def _five(n: Node) -> tuple[Node | None, ...]:
    return tuple(i if i.kind else None for i in n.inner)


def run_body(c: Context, body: Node | None, step: Callable[[], None] | None) -> list[Item]:
    """The statements of a loop's body; ``step`` is what a `continue` does first."""
    c.frame.loops.append(Loop("loop", step))
    try:
        return _nested(c, body) if body is not None else []
    finally:
        c.frame.loops.pop()


def _while_loop(c: Context, n: Node, test: Node | None, step: Node | None, body: Node | None) -> None:
    refuse_waiting(c, n)

    def advance() -> None:
        if step is not None:
            expression(c, step)

    with c.scope() as inner:
        held: Expr = Const(True, dt.bool_)
        if test is not None:
            held = condition(c, test)
        is_plain = not inner
        if not is_plain:
            c.emit(If(negate(held), Break(), span=c.span))
        items = run_body(c, body, advance)
        c.items.extend(items)
        if not items or not isinstance(items[-1], (Break, Continue, Return)):
            advance()
    c.emit(While(held if is_plain else Const(True, dt.bool_), close(inner), span=c.span))


def _while(c: Context, n: Node) -> None:
    if n.raw.get("hasVar"):
        c.refuse(n, "a while loop that declares a variable in its condition")
    _while_loop(c, n, n.inner[0], None, n.inner[1])
    _leave_further(c, n)


def _do(c: Context, n: Node) -> None:
    refuse_waiting(c, n)
    body, test = n.inner

    def again() -> None:
        c.emit(If(negate(condition(c, test)), Break(), span=c.span))

    with c.scope() as inner:
        items = run_body(c, body, again)
        c.items.extend(items)
        again()
    c.emit(While(Const(True, dt.bool_), close(inner), span=c.span))
    _leave_further(c, n)


def _leave_further(c: Context, n: Node) -> None:
    """A return from an inlined function inside this loop leaves the loops around it, too."""
    if not c.frame.is_kernel and may_return(n) and c.frame.loops:
        c.emit(If(c.returned(), Break(), span=c.span))


def _break(c: Context, n: Node) -> None:
    c.emit(Break(span=c.span))


def _continue(c: Context, n: Node) -> None:
    loops = c.frame.loops
    if loops and loops[-1].kind == "switch":
        flag = loops[-1].flag
        assert flag is not None
        c.emit(Assign(flag, Const(True, dt.bool_), span=c.span))
        c.emit(Break(span=c.span))
        return
    if loops and loops[-1].step is not None:
        loops[-1].step()
    c.emit(Continue(span=c.span))


# ---- switch


def _switch(c: Context, n: Node) -> None:
    value = number(c, n.inner[0])
    key = c.keep("switched", value.expr)
    cases = _cases(c, n.inner[-1])
    taken = any(_has(b, "BreakStmt", at_end=False) or may_return(b) for _, body in cases for b in body)
    continues = any(_has(b, "ContinueStmt", at_end=True) for _, body in cases for b in body)
    flag = c.let("continues", Const(False, dt.bool_)) if continues else None
    with c.scope() as items:
        if taken or continues:
            c.frame.loops.append(Loop("switch", None, flag))
        _case_chain(c, key, cases, needs_break=taken or continues)
        if taken or continues:
            c.frame.loops.pop()
    if taken or continues:
        once = Var(c.fresh("once"), dt.index)
        c.emit(For(once, idx(0), idx(1), "serial", close(items), span=c.span))
    else:
        c.items.extend(items)
    if flag is not None:
        with c.scope() as after:
            _continue(c, n)
        c.emit(If(flag, close(after), span=c.span))
    _leave_further(c, n)


def _cases(c: Context, body: Node) -> list[tuple[list[int] | None, list[Node]]]:
    """The values of each case, None for default, and all it runs, with what it falls through to."""
    found: list[tuple[list[int], bool, list[Node]]] = []
    for n in body.inner:
        values: list[int] = []
        is_default = False
        while n.kind in ("CaseStmt", "DefaultStmt"):
            if n.kind == "CaseStmt":
                e = number(c, n.inner[0]).expr
                if not isinstance(e, Const):
                    c.refuse(n, "a case that is no constant")
                values.append(int(e.value))
            else:
                is_default = True
            n = n.inner[-1]
        if values or is_default:
            found.append((values, is_default, [n]))
        elif found:
            found[-1][2].append(n)
    cases: list[tuple[list[int] | None, list[Node]]] = []
    for at, (values, is_default, _) in enumerate(found):
        run: list[Node] = []
        for _, _, statements in found[at:]:
            run += statements
            if any(s.kind in ("BreakStmt", "ReturnStmt", "ContinueStmt") or always_returns(s) for s in statements):
                break
        cases.append((None if is_default else values, run))
    return sorted(cases, key=lambda case: case[0] is None)


def _case_chain(c: Context, key: Expr, cases: Sequence[tuple[list[int] | None, list[Node]]], needs_break: bool) -> None:
    if not cases:
        return
    values, body = cases[0]
    cut = list(body)
    for at, s in enumerate(cut):
        if s.kind == "BreakStmt":
            cut = cut[:at]
            break
        if s.kind == "CompoundStmt" and s.inner and s.inner[-1].kind == "BreakStmt":
            cut = [*cut[:at], *s.inner[:-1]]
            break
    with c.scope() as then:
        block(c, cut)
    if values is None:
        c.items.extend(then)
        return
    test: Expr | None = None
    for v in values:
        one = Compare("==", key, cast(key.dtype, const(v, dt.index)))
        test = one if test is None else Binary("||", test, one)
    with c.scope() as otherwise:
        _case_chain(c, key, cases[1:], needs_break)
    assert test is not None
    c.emit(If(test, close(then), close(otherwise) if otherwise else None, span=c.span))


def _has(n: Node, kind: str, *, at_end: bool) -> bool:
    """Whether ``n`` has a jump of ``kind`` that is its own (not of a loop inside), below its first level."""
    if n.kind == kind:
        return at_end
    if n.kind in _LOOPS or (n.kind == "SwitchStmt" and kind == "BreakStmt"):
        return False
    inner = (
        n.inner[:-1] if n.kind == "CompoundStmt" and n.inner and n.inner[-1].kind == kind and not at_end else n.inner
    )
    return any(_has(i, kind, at_end=True) for i in inner)


def _nothing(c: Context, n: Node) -> None:
    return


def _attributed(c: Context, n: Node) -> None:
    statement(c, n.inner[-1])


def _statement_expression(c: Context, n: Node) -> Value:
    """``({ int a = x; a * a; })``: the value of its last statement."""
    *before, last = n.inner[0].inner
    for one in before:
        statement(c, one)
    return expression(c, last)


VALUES["StmtExpr"] = _statement_expression
_STATEMENTS: dict[str, Callable[[Context, Node], None]] = {
    "CompoundStmt": _compound,
    "DeclStmt": _declarations,
    "IfStmt": _if,
    "ForStmt": _for,
    "WhileStmt": _while,
    "DoStmt": _do,
    "BreakStmt": _break,
    "ContinueStmt": _continue,
    "ReturnStmt": _return,
    "SwitchStmt": _switch,
    "NullStmt": _nothing,
    "AttributedStmt": _attributed,
}

"""``for`` loops that count: their variable is a loop variable, which the affine passes see."""

from __future__ import annotations

from collections.abc import Callable

from weft.from_cuda import arithmetic as ar
from weft.from_cuda.context import Context, Item, close
from weft.from_cuda.expressions import number
from weft.from_cuda.types import Scalar
from weft.from_cuda.unit import Node
from weft.from_cuda.values import Fixed, Number, Variable
from weft.ir import dtype as dt
from weft.ir.expr import Binary, Const, Expr, Var, cast, idx
from weft.ir.interval import Interval, bounds
from weft.ir.stmt import Assign, For

#: Functions that neither write to memory nor wait.
PURE = frozenset(
    {"min", "max", "abs", "fabs", "fabsf", "sqrt", "sqrtf", "exp", "expf", "fmin", "fmax", "fminf", "fmaxf"}
)
Body = Callable[[Context, "Node | None", "Callable[[], None] | None"], "list[Item]"]


def counted_loop(
    c: Context, n: Node, init: Node, test: Node | None, step: Node | None, body: Node | None, run: Body
) -> bool:
    """Writes the loop down as one that counts, where it is: one variable from a start, by an amount, to a limit, none
    of which the body changes. False where it is not."""
    found = _variable(c, init)
    if found is None or test is None or step is None or body is None:
        return False
    key, start_node, declared = found
    by = _step(c, step, key)
    limit = _limit(test, key)
    if by is None or limit is None or _changes(body, key):
        return False
    op, limit_node = limit
    by_node, down = by
    if (down and op not in (">", ">=")) or (not down and op not in ("<", "<=", "!=")):
        return False
    if not _is_steady(c, limit_node, n) or (isinstance(by_node, Node) and not _is_steady(c, by_node, n)):
        return False
    stride = by_node if isinstance(by_node, int) else None
    if op == "!=" and stride != 1:
        return False
    _write(c, n, key, declared, start_node, (op, limit_node), by_node, down, body, run)
    return True


def _write(
    c: Context, n: Node, key: str, declared: Node | None, start_node: Node, limit: tuple[str, Node],
    by_node: Node | int, down: bool, body: Node, run: Body,
) -> None:  # fmt: skip
    op, limit_node = limit
    outer = c.places.get(key)
    type = c.type_of(declared) if declared is not None else outer.type if isinstance(outer, Variable) else None
    assert isinstance(type, Scalar)
    start = c.keep("start", _exact(c, ar.convert(number(c, start_node), type, c.ranges)))
    end = _exact(c, number(c, limit_node))
    by: Expr = idx(by_node) if isinstance(by_node, int) else c.keep("step", _exact(c, number(c, by_node)))
    name = declared.name if declared is not None else outer.var.name if isinstance(outer, Variable) else "i"
    if op in ("<=", ">="):
        end = ar.fold(Binary("+" if op == "<=" else "-", end, idx(1)))
    end = c.keep("end", end) if not isinstance(end, (Const, Var)) and outer is not None else end
    is_plain = not down and isinstance(by, Const) and by.value == 1
    if is_plain:
        var = Var(c.fresh(name), dt.index)
        value: Expr = var
        lo, hi = start, end
    else:
        var = Var(c.fresh(f"{name}_step"), dt.index)
        distance = ar.fold(Binary("-", start, end) if down else Binary("-", end, start))
        lo, hi = idx(0), _trips(distance, by)
        moved = ar.fold(Binary("*", var, by))
        value = ar.fold(Binary("-" if down else "+", start, moved))
    _set_ranges(c, var, lo, hi)
    with c.scope() as items:
        if not is_plain:
            value = c.keep(name, value)
            assert isinstance(value, Var)
            c.ranges[value.name] = _moved_range(c, start, end, down)
        c.places[key] = Fixed(Number(type, value))
        c.items.extend(run(c, body, None))
        if outer is not None and declared is None and isinstance(outer, Variable):
            pass
    if outer is not None:
        c.places[key] = outer
    c.emit(For(var, lo, hi, "serial", close(items), span=c.span))
    if isinstance(outer, Variable) and declared is None:
        last = ar.fold(Binary("-" if down else "+", start, ar.fold(Binary("*", Binary("max", hi, idx(0)), by))))
        if is_plain:
            last = Binary("max", start, end)
        c.emit(Assign(outer.var, cast(outer.var.dtype, last), span=c.span))


def _trips(distance: Expr, by: Expr) -> Expr:
    if isinstance(by, Const) and by.value == 1:
        return distance
    return ar.fold(Binary("//", ar.fold(Binary("+", distance, ar.fold(Binary("-", by, idx(1))))), by))


def _exact(c: Context, n: Number) -> Expr:
    return cast(dt.index, ar.settle(n, c.ranges))


def _set_ranges(c: Context, var: Var, lo: Expr, hi: Expr) -> None:
    low, high = bounds(lo, c.ranges).lo, bounds(hi, c.ranges).hi
    c.ranges[var.name] = Interval(low, None if high is None else high - 1)
    c.fixed.add(var.name)


def _moved_range(c: Context, start: Expr, end: Expr, down: bool) -> Interval:
    first, last = bounds(start, c.ranges), bounds(end, c.ranges)
    if down:
        return Interval(None if last.lo is None else last.lo + 1, first.hi)
    return Interval(first.lo, None if last.hi is None else last.hi - 1)


def _variable(c: Context, init: Node) -> tuple[str, Node, Node | None] | None:
    """The variable that a loop starts with, its first value, and its declaration where that is here."""
    if init.kind == "DeclStmt" and len(init.inner) == 1:
        d = init.inner[0]
        if d.kind == "VarDecl" and d.inner and _is_whole(c, d) and "init" in d.raw:
            return d.id, d.inner[0], d
    if init.kind == "BinaryOperator" and init.raw["opcode"] == "=":
        left = init.inner[0]
        if left.kind == "DeclRefExpr" and _is_whole(c, left):
            key = left.referenced["id"]
            if isinstance(c.places.get(key), Variable):
                return key, init.inner[1], None
    return None


def _is_whole(c: Context, n: Node) -> bool:
    type = c.type_of(n)
    return isinstance(type, Scalar) and type.is_integer and type.size >= 4


def _bare(n: Node) -> Node:
    while n.kind in ("ParenExpr", "ImplicitCastExpr") and n.inner:
        n = n.inner[-1]
    return n


def _is_var(n: Node, key: str) -> bool:
    n = _bare(n)
    return n.kind == "DeclRefExpr" and n.referenced.get("id") == key


def _step(c: Context, n: Node, key: str) -> tuple[Node | int, bool] | None:
    """By how much the variable moves, and whether it moves down."""
    if n.kind == "UnaryOperator" and n.raw["opcode"] in ("++", "--") and _is_var(n.inner[0], key):
        return 1, n.raw["opcode"] == "--"
    if n.kind == "CompoundAssignOperator" and n.raw["opcode"] in ("+=", "-=") and _is_var(n.inner[0], key):
        return _amount(n.inner[1], n.raw["opcode"] == "-=")
    if n.kind == "BinaryOperator" and n.raw["opcode"] == "=" and _is_var(n.inner[0], key):
        right = _bare(n.inner[1])
        if right.kind == "BinaryOperator" and right.raw["opcode"] in ("+", "-"):
            a, b = right.inner
            if _is_var(a, key):
                return _amount(b, right.raw["opcode"] == "-")
            if _is_var(b, key) and right.raw["opcode"] == "+":
                return _amount(a, False)
    return None


def _amount(n: Node, down: bool) -> tuple[Node | int, bool] | None:
    bare = _bare(n)
    if bare.kind == "IntegerLiteral":
        value = int(bare.raw["value"])
        return (value, down) if value > 0 else None
    if bare.kind == "UnaryOperator" and bare.raw["opcode"] == "-":
        return None
    positive = any(i.kind == "DeclRefExpr" and i.referenced.get("name") in ("blockDim", "gridDim") for i in n.walk())
    return (n, down) if positive and not down else None


def _limit(n: Node, key: str) -> tuple[str, Node] | None:
    n = n if n.kind != "ExprWithCleanups" else n.inner[0]
    if n.kind != "BinaryOperator" or n.raw["opcode"] not in ("<", "<=", ">", ">=", "!="):
        return None
    a, b = n.inner
    op = n.raw["opcode"]
    if _is_var(a, key):
        return op, b
    if _is_var(b, key):
        return {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}[op], a
    return None


def _changes(n: Node, key: str) -> bool:
    """Whether anything but a plain read is done with the variable."""
    if n.kind == "ImplicitCastExpr" and n.raw.get("castKind") == "LValueToRValue" and _is_var(n.inner[0], key):
        return False
    if n.kind == "DeclRefExpr" and n.referenced.get("id") == key:
        return True
    return any(_changes(i, key) for i in n.inner)


def _is_steady(c: Context, limit: Node, loop: Node) -> bool:
    """Whether the loop cannot change what ``limit`` is made of: variables and arrays that it does not write to."""
    body = loop.inner[-1]
    for n in limit.walk():
        if n.kind in ("CallExpr", "CXXMemberCallExpr", "CXXOperatorCallExpr") and not _is_pure(n):
            return False
        if n.kind == "UnaryOperator" and n.raw["opcode"] not in ("-", "+", "~"):
            return False
        if n.kind == "MemberExpr" and n.raw.get("isArrow"):
            return False
        if n.kind == "DeclRefExpr" and n.referenced.get("kind") in ("VarDecl", "ParmVarDecl"):
            key = n.referenced["id"]
            is_one_memory = bool(c.launch.alias) or "heap" in c.facts.flat
            if _is_memory(n) and (_may_write(body, key) or (is_one_memory and _writes_memory(body))):
                return False
            if not _is_memory(n) and _changes(body, key) and not _only_fields_read(c, body, key):
                return False
    return True


def _is_memory(n: Node) -> bool:
    return n.type.rstrip().endswith(("*", "]", "__restrict"))


def _may_write(body: Node, key: str) -> bool:
    """Whether the body may write to the array that a name stands for: itself, or by a function, or another thread."""
    for n in body.walk():
        if n.kind in ("CallExpr", "CXXMemberCallExpr") and not _is_pure(n):
            return True
        writes = n.kind == "CompoundAssignOperator" or (n.kind == "BinaryOperator" and n.raw["opcode"] == "=")
        if writes or (n.kind == "UnaryOperator" and n.raw["opcode"] in ("++", "--", "&")):
            left = n.inner[0]
            if any(i.kind == "DeclRefExpr" and i.referenced.get("id") == key for i in left.walk()):
                return True
    return False


def _writes_memory(body: Node) -> bool:
    for n in body.walk():
        writes = n.kind == "CompoundAssignOperator" or (n.kind == "BinaryOperator" and n.raw["opcode"] == "=")
        writes = writes or (n.kind == "UnaryOperator" and n.raw["opcode"] in ("++", "--"))
        if writes and n.inner[0].kind != "DeclRefExpr":
            return True
    return False


def _is_pure(n: Node) -> bool:
    return _bare(n.inner[0]).referenced.get("name") in PURE


def _only_fields_read(c: Context, body: Node, key: str) -> bool:
    """A record whose fields are only read, such as blockDim."""

    def reads(n: Node) -> bool:
        if n.kind == "ImplicitCastExpr" and n.raw.get("castKind") == "LValueToRValue":
            member = n.inner[0]
            if member.kind == "MemberExpr" and _is_var(member.inner[0], key):
                return True
        if n.kind == "DeclRefExpr" and n.referenced.get("id") == key:
            return False
        return all(reads(i) for i in n.inner)

    return reads(body)

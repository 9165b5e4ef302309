"""Simplification of programs: smaller, with the same meaning, and stable under a second run.

>>> print_expr(simplify((i * 4 + j) // 4, {"j": Interval(0, 3)}))
'i'

Ranges of loop variables, block iterators, ``let`` variables and sizes are picked up on the way
down, and so is what an enclosing condition says. Loops that run once or never, branches that
are decided, and empty statements go; ``block`` and ``thread`` loops stay while they run at all,
since barriers refer to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, TypeVar, cast

from weft.ir import dtype as dt
from weft.ir import stmt as st
from weft.ir.errors import ProgramError
from weft.ir.expr import Const, Expr, Unary, Var
from weft.ir.interval import Interval
from weft.ir.nesting import inner_statements
from weft.ir.quick_init import replace
from weft.ir.simplify_expr import ExprSimplifier
from weft.ir.visit import Node, fact, rebuild, substitute, united

N = TypeVar("N", bound=Node)
_NOTHING = st.Seq(())


def simplify(node: N, ranges: Mapping[str, Interval] | None = None) -> N:
    """``node`` simplified, where the variables named in ``ranges`` lie in those intervals."""
    if isinstance(node, Const):
        return node
    if isinstance(node, Var) and (ranges is None or node.name not in ranges):
        return node
    simplifier = Simplifier(ranges)
    try:
        if isinstance(node, Expr):
            return cast(N, simplifier.expr(node))
        return cast(N, simplifier.node(node))
    except RecursionError:
        raise ProgramError("the program is nested too deeply to simplify", span=getattr(node, "span", None)) from None


class Simplifier(ExprSimplifier):
    """Rules over statements."""

    def node(self, node: Any) -> Any:
        if isinstance(node, st.Kernel):
            return self.kernel(node)
        if isinstance(node, st.Stmt):
            self.mutable = set(assigned_names(node))
            return self.stmt(node)
        return rebuild(node, self.child)

    def stmt(self, s: st.Stmt) -> st.Stmt:
        rule = _RULES.get(type(s))
        return rule(self, s) if rule is not None else rebuild(s, self.child)

    def child(self, n: Any) -> Any:
        return self.stmt(n) if isinstance(n, st.Stmt) else super().child(n)

    def kernel(self, k: st.Kernel) -> st.Kernel:
        self.mutable = set(assigned_names(k.body))
        sizes = {e.name for b in k.buffers for e in b.shape if isinstance(e, Var)}
        facts = {name: Interval(0, None) for name in sizes if name not in self.ranges}
        with self.knowing(facts):
            body = self.stmt(k.body)
        return k if body is k.body else replace(k, body=body)

    def loop(self, s: st.For) -> st.Stmt:
        lo, hi, backward = self.expr(s.lo), self.expr(s.hi), self.backward(s)
        trips = self.difference(hi, lo, dt.index)
        if trips.hi is not None and trips.hi <= 0:
            return _NOTHING
        if trips.point == 1 and _can_unwrap(s.kind, s.body):
            return self.stmt(substitute(s.body, {s.var: lo}))
        if s.kind == "thread":
            self.threads.add(s.var.name)
        with self.running(s.var, lo, hi):
            body = self.stmt(s.body)
            only = self.only_value(s.var, body)
        if is_empty(body):
            return _NOTHING
        if only is not None and self.is_within(only, lo, hi) and _can_unwrap(s.kind, body):
            return self.stmt(substitute(body, {s.var: only}))
        if trips.point == 1 and _can_unwrap(s.kind, body):  # a break that stood in the way may be gone
            return self.stmt(substitute(body, {s.var: lo}))
        if lo is s.lo and hi is s.hi and body is s.body and backward is s.backward:
            return s
        return st.For(s.var, lo, hi, s.kind, body, s.ahead, backward, span=s.span)

    def backward(self, s: st.For) -> Expr | None:
        """When the loop runs backward, if it ever does."""
        made = None if s.backward is None else self.expr(s.backward)
        return None if made == Const(False, dt.bool_) else made

    def only_value(self, var: Var, body: st.Stmt) -> Const | None:
        """The one value of ``var`` for which ``body``, all of which is tested, does anything."""
        if not isinstance(body, st.If) or body.otherwise is not None:
            return None
        point = self.facts(body.condition, True).get(var.name, Interval(None, None)).point
        return None if point is None else Const(point, dt.index)

    def is_within(self, value: Expr, lo: Expr, hi: Expr) -> bool:
        below, above = self.difference(value, lo, dt.index).lo, self.difference(hi, value, dt.index).lo
        return below is not None and below >= 0 and above is not None and above >= 1

    def while_(self, s: st.While) -> st.Stmt:
        condition = self.expr(s.condition)
        if isinstance(condition, Const) and not condition.value:
            return _NOTHING
        with self.knowing(self.facts(condition, True)):
            body = self.stmt(s.body)
        return s if condition is s.condition and body is s.body else st.While(condition, body, span=s.span)

    def if_(self, s: st.If) -> st.Stmt:
        condition = self.expr(s.condition)
        if isinstance(condition, Const):
            chosen = s.then if condition.value else s.otherwise
            return _NOTHING if chosen is None else self.stmt(chosen)
        with self.knowing(self.facts(condition, True)):
            then = self.stmt(s.then)
        otherwise = None
        if s.otherwise is not None:
            with self.knowing(self.facts(condition, False)):
                otherwise = self.stmt(s.otherwise)
        if otherwise is not None and is_empty(otherwise):
            otherwise = None
        if is_empty(then):
            if otherwise is None:
                return _NOTHING
            condition, then, otherwise = self.expr(Unary("!", condition, span=condition.span)), otherwise, None
        if condition is s.condition and then is s.then and otherwise is s.otherwise:
            return s
        return st.If(condition, then, otherwise, span=s.span)

    def seq(self, s: st.Seq) -> st.Stmt:
        body: list[st.Stmt] = []
        for stmt in s.body:
            simple = self.stmt(stmt)
            body += simple.body if isinstance(simple, st.Seq) else (simple,)
            if body and isinstance(body[-1], (st.Return, st.Break, st.Continue)):
                break
        if len(body) == 1:
            return body[0]
        if len(body) == len(s.body) and all(a is b for a, b in zip(body, s.body)):
            return s
        return st.Seq(tuple(body), span=s.span)

    def let(self, s: st.Let) -> st.Stmt:
        value = self.expr(s.value)
        known = s.var.type.is_integer and s.var.type.lanes == 1 and s.var.name not in self.mutable
        with self.knowing({s.var.name: self.bounds(value)} if known else {}):
            body = self.stmt(s.body)
        if is_empty(body):
            return _NOTHING
        return s if value is s.value and body is s.body else st.Let(s.var, value, body, span=s.span)

    def assign(self, s: st.Assign) -> st.Stmt:
        value = self.expr(s.value)
        return s if value is s.value else st.Assign(s.var, value, span=s.span)

    def store(self, s: st.Store) -> st.Stmt:
        indices, value = self.exprs(s.indices), self.expr(s.value)
        if indices is s.indices and value is s.value:
            return s
        return st.Store(s.buffer, indices, value, span=s.span)

    def alloc(self, s: st.Alloc) -> st.Stmt:
        body = self.stmt(s.body)
        if is_empty(body):
            return _NOTHING
        return s if body is s.body else st.Alloc(s.buffer, body, span=s.span)

    def assert_(self, s: st.Assert) -> st.Stmt:
        condition = self.expr(s.condition)
        if isinstance(condition, Const) and condition.value:
            return _NOTHING
        values = self.exprs(s.values)
        if condition is s.condition and values is s.values:
            return s
        return st.Assert(condition, s.message, values, span=s.span)

    def block(self, s: st.Block) -> st.Stmt:
        iters = tuple(map(self.iter, s.iters))
        with ExitStack() as inner:
            for i in iters:
                inner.enter_context(self.running(i.var, i.lo, i.hi))
            reads, writes = (tuple(map(self.region, regions)) for regions in (s.reads, s.writes))
            init = None if s.init is None else self.stmt(s.init)
            body = self.stmt(s.body)
        new = st.Block(s.name, iters, reads, writes, init, body, span=s.span)
        return s if new == s else new

    def iter(self, i: st.Iter) -> st.Iter:
        return st.Iter(i.var, self.expr(i.lo), self.expr(i.hi), i.kind, self.expr(i.binding))

    def region(self, r: st.Region) -> st.Region:
        return st.Region(r.buffer, self.exprs(r.starts), self.exprs(r.extents))


_RULES: dict[type, Callable[[Any, Any], st.Stmt]] = {
    st.For: Simplifier.loop,
    st.While: Simplifier.while_,
    st.If: Simplifier.if_,
    st.Seq: Simplifier.seq,
    st.Let: Simplifier.let,
    st.Assign: Simplifier.assign,
    st.Store: Simplifier.store,
    st.Alloc: Simplifier.alloc,
    st.Assert: Simplifier.assert_,
    st.Block: Simplifier.block,
}


def is_empty(s: st.Stmt) -> bool:
    """Whether ``s`` is the statement that does nothing."""
    return isinstance(s, st.Seq) and not s.body


@fact
def assigned_names(s: st.Stmt) -> frozenset[str]:
    """Variables that some statement in ``s`` gives a new value: what is said of them does not hold for long."""
    var = s.var if isinstance(s, st.Assign) else s.result if isinstance(s, st.Atomic) else None
    return united(() if var is None else (var.name,), [assigned_names(n) for n in inner_statements(s)])


def _can_unwrap(kind: str, body: st.Stmt) -> bool:
    """Whether a loop of one trip may be replaced by its body."""
    if kind in ("block", "thread"):
        return False
    leaves = (st.Break, st.Continue) if kind in ("serial", "unroll") else (st.Break, st.Continue, st.Return)
    return not _has_exit(body, leaves)


def _has_exit(s: st.Stmt, leaves: tuple[type[st.Stmt], ...]) -> bool:
    if isinstance(s, leaves):
        return True
    if isinstance(s, (st.For, st.While)):
        # A break or continue in there belongs to the inner loop; a return does not.
        leaves = tuple(kind for kind in leaves if kind is st.Return)
    return bool(leaves) and any(_has_exit(inner, leaves) for inner in inner_statements(s))


__all__ = ["Simplifier", "assigned_names", "is_empty", "simplify"]

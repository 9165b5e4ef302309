"""Reading the text form of loop programs, as `weft.ir.printer` writes it.

>>> parse_kernel("kernel twice(x: float32[8], out y: float32[8]) { for i in 0:8 { y[i] = x[i] * 2.0 } }")

The grammar is `loops.lark`; here its trees become programs: names are looked up where they are
used, so a variable's type is written once, and every node gets the span it was read from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from weft.ir import dtype as dt
from weft.ir import stmt as st
from weft.ir.buffer import Buffer
from weft.ir.errors import LanguageError
from weft.ir.expr import Var
from weft.ir.parse_expr import ExprReader, present
from weft.ir.parse_tables import Grammar
from weft.ir.span import Source, Span


def parse_kernel(text: str, name: str = "<text>") -> st.Kernel:
    """The kernel that ``text`` writes out; a `LanguageError` points at the place where it does not.

    The result is well typed but not yet verified.
    """
    source = Source(name, text)
    try:
        return KernelReader(source).kernel(_parse_tree(source))
    except RecursionError:
        raise LanguageError(
            f"{name}: the program is nested too deeply to read",
            why="reading it needs more levels of recursion than Python allows",
            help="name parts of long expressions with `let`",
        ) from None


@cache
def _grammar() -> Any:
    return Grammar(Path(__file__).with_name("loops.lark")).parser()


def _parse_tree(source: Source) -> Any:
    from lark.exceptions import UnexpectedCharacters, UnexpectedInput

    try:
        return _grammar().parse(source.text)
    except UnexpectedInput as e:
        token = getattr(e, "token", None)
        at_end = token is not None and token.type == "$END"
        found = source.text[e.pos_in_stream :][:1] if isinstance(e, UnexpectedCharacters) else str(token)
        what = "the text ends too early" if at_end else f"unexpected `{found}`"
        expected = _expected(getattr(e, "accepts", None) or getattr(e, "expected", None) or e.allowed or ())
        span = _end_span(source) if at_end else Span(source, e.line, e.column, e.column + max(1, len(found)))
    raise LanguageError(what, span=span, why=f"expected {expected}" if expected else None)


def _end_span(source: Source) -> Span:
    lines = source.text.splitlines() or [""]
    return Span(source, len(lines), len(lines[-1]) + 1, len(lines[-1]) + 2)


_TERMINALS = {
    "NAME": "a name", "QUOTED": "", "NUMBER": "a number", "WORD": "", "DTYPE": "a type", "STRING": "a string",
    "LOOP": "a loop", "FUNCTION": "", "COMPARE": "a comparison", "SUM": "`+` or `-`", "PRODUCT": "`*` or `/`",
    "SCOPE": "a scope", "ITER": "`spatial` or `reduce`", "ATOMIC": "an update such as `+=`",
}  # fmt: skip


def _expected(names: Sequence[str]) -> str:
    """What may stand here, in words; nothing where almost anything may."""
    patterns = {t.name: t.pattern for t in _grammar().terminals}
    words = set()
    for n in names:
        if n in patterns:
            words.add(_TERMINALS.get(n, f"`{patterns[n].value}`"))
    listed = sorted(words - {""}, key=lambda w: (w.startswith("`"), w))
    return " or ".join(listed) if len(listed) <= 6 else ""


class KernelReader(ExprReader):
    """Statements and the signature."""

    def kernel(self, tree: Any) -> st.Kernel:
        name, param_trees, body = tree.children
        params = present(param_trees)
        for p in params:
            if p.data == "scalar_param":
                token, t = p.children[-2:]
                var = Var(self.name(token), self.dtype(t), span=self.span(token))
                self.vars[var.name] = var
        parameters = [self.param(p) for p in params]
        outputs = tuple(p.name for p, t in zip(parameters, params) if getattr(t.children[0], "type", None) == "OUT")
        return st.Kernel(self.name(name), tuple(parameters), outputs, self.body(body), span=self.span(name))

    def param(self, tree: Any) -> st.Param:
        if tree.data == "scalar_param":
            return self.vars[self.name(tree.children[-2])]
        buffer = self.buffer(tree.children[-1])
        self.buffers[buffer.name] = buffer
        return buffer

    def buffer(self, tree: Any) -> Buffer:
        name, t, shape, strides, scope = tree.children
        return self.build(
            tree,
            Buffer,
            self.name(name),
            self.dtype(t),
            self.exprs(shape),
            None if strides is None else self.exprs(strides),
            "global" if scope is None else self.scope_name(scope),
        )

    def scope_name(self, node: Any) -> str:
        return str(node) if isinstance(node, str) else self.name(node)

    def body(self, tree: Any) -> st.Stmt:
        """What stands between braces: one statement, or a sequence of them."""
        return self.joined(tree.children, tree)

    def joined(self, trees: Sequence[Any], tree: Any) -> st.Stmt:
        items = self.items(trees)
        return items[0] if len(items) == 1 else st.Seq(tuple(items), span=self.span(tree))

    def items(self, trees: Sequence[Any]) -> list[st.Stmt]:
        """The statements; a ``let`` or ``alloc`` without braces takes all that follow it as its body."""
        statements: list[st.Stmt] = []
        for at, tree in enumerate(trees):
            if tree.data in ("let", "alloc") and tree.children[-1] is None:
                statements.append(self.bind(tree, partial(self.joined, trees[at + 1 :], tree)))
                break
            statements.append(self.stmt(tree))
        return statements

    def stmt(self, tree: Any) -> st.Stmt:
        """By the rule of the grammar, which is a method here."""
        made: st.Stmt = getattr(self, tree.data)(tree)
        return made

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names declared inside the ``with`` end with it."""
        variables, buffers = dict(self.vars), dict(self.buffers)
        try:
            yield
        finally:
            self.vars, self.buffers = variables, buffers

    def bind(self, tree: Any, body: Callable[[], st.Stmt]) -> st.Stmt:
        """A ``let`` or ``alloc`` around ``body``."""
        if tree.data == "alloc":
            buffer = self.buffer(tree.children[0])
            with self.scope():
                self.buffers[buffer.name] = buffer
                return st.Alloc(buffer, body(), span=self.span(tree))
        name, t, value = tree.children[:3]
        var, held = Var(self.name(name), self.dtype(t), span=self.span(name)), self.expr(value)
        with self.scope():
            self.vars[var.name] = var
            inner = body()
        return self.build(tree, st.Let, var, held, inner)

    def let(self, tree: Any) -> st.Stmt:
        return self.bind(tree, lambda: self.body(tree.children[-1]))

    alloc = let

    def loop(self, tree: Any) -> st.Stmt:
        word, name, lo, hi, back, ahead, body = tree.children
        var = Var(self.name(name), dt.index, span=self.span(name))
        low, high = self.expr(lo), self.expr(hi)
        backward = None if back is None else self.expr(back.children[0])
        with self.scope():
            self.vars[var.name] = var
            inner = self.body(body)
        kind = "serial" if word == "for" else str(word)
        runs_ahead = None if ahead is None else self.ahead(ahead)
        return self.build(tree, st.For, var, low, high, kind, inner, runs_ahead, backward)

    def ahead(self, tree: Any) -> st.Ahead:
        distance, *rings = tree.children
        if not str(distance).isdigit():
            self.fail(distance, f"`{distance}` is not a number of turns")
        return st.Ahead(int(distance), tuple(map(self.name, rings)))

    def while_(self, tree: Any) -> st.Stmt:
        condition, body = tree.children
        return self.build(tree, st.While, self.expr(condition), self.body(body))

    def if_(self, tree: Any) -> st.Stmt:
        condition, then, otherwise = tree.children
        last = None
        if otherwise is not None:
            last = self.body(otherwise) if otherwise.data == "body" else self.if_(otherwise)
        return self.build(tree, st.If, self.expr(condition), self.body(then), last)

    def seq(self, tree: Any) -> st.Stmt:
        return st.Seq(tuple(self.items(tree.children[0].children)), span=self.span(tree))

    def tensorized(self, tree: Any) -> st.Stmt:
        name, body = tree.children
        return st.Tensorized(self.name(name), self.body(body), span=self.span(tree))

    def store(self, tree: Any) -> st.Stmt:
        name, indices, value = tree.children
        return self.build(tree, st.Store, self.find_buffer(name), self.exprs(indices), self.expr(value))

    def assign(self, tree: Any) -> st.Stmt:
        name, value = tree.children
        return self.build(tree, st.Assign, self.find_var(name), self.expr(value))

    def atomic(self, tree: Any) -> st.Stmt:
        result, name, indices, op, value, *expected = tree.children
        return self.build(
            tree,
            st.Atomic,
            str(op)[:-1],
            self.find_buffer(name),
            self.exprs(indices),
            self.expr(value),
            self.expr(expected[0]) if expected else None,
            None if result is None else self.find_var(result),
        )

    def assert_(self, tree: Any) -> st.Stmt:
        condition, message, *values = tree.children
        parts = tuple(self.expr(v) for v in values)
        return self.build(tree, st.Assert, self.expr(condition), self.string(str(message), message), parts)

    def evaluate(self, tree: Any) -> st.Stmt:
        return st.Evaluate(self.call(tree.children[0]), span=self.span(tree))

    def return_(self, tree: Any) -> st.Stmt:
        return st.Return(span=self.span(tree))

    def break_(self, tree: Any) -> st.Stmt:
        return st.Break(span=self.span(tree))

    def continue_(self, tree: Any) -> st.Stmt:
        return st.Continue(span=self.span(tree))

    def barrier(self, tree: Any) -> st.Stmt:
        return self.build(tree, st.Barrier, str(tree.children[0]))

    def block(self, tree: Any) -> st.Stmt:
        name, iter_trees, reads, writes, init, *rest = tree.children[1:]
        iters = [self.iter(t) for t in present(iter_trees)]
        with self.scope():
            self.vars.update({i.var.name: i.var for i in iters})
            read, written = (() if r is None else tuple(map(self.region, r.children)) for r in (reads, writes))
            first = None if init is None else self.body(init)
            body = self.joined(rest, tree)
        return st.Block(self.name(name), tuple(iters), read, written, first, body, span=self.span(tree))

    def iter(self, tree: Any) -> st.Iter:
        name, kind, lo, hi, binding = tree.children
        var = Var(self.name(name), dt.index, span=self.span(name))
        return self.build(tree, st.Iter, var, self.expr(lo), self.expr(hi), str(kind), self.expr(binding))

    def region(self, tree: Any) -> st.Region:
        name, *sides = tree.children
        pairs = [s.children for s in sides if s is not None]
        extents = tuple(self.constant(start, 1, dt.index) if n is None else self.expr(n) for start, n in pairs)
        return st.Region(self.find_buffer(name), tuple(self.expr(start) for start, _ in pairs), extents)

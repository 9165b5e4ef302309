"""What one thread loop stores and the next one reads, handed on without memory.

A shared array that a thread loop fills from memory which does not change is read from there (`_read_through`). Two
thread loops over the same threads, of which the second reads only what its own thread stored, become one, and the
value is handed on in a variable (`_joined`). Two arrays of which one is copied to the other change places
(`swap_copies`). Stores that nothing reads any more go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Expr, Load, Var
from weft.ir.nesting import perfect_nest, strip
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import (
    Alloc,
    Assert,
    Assign,
    Atomic,
    Break,
    Continue,
    Evaluate,
    For,
    If,
    Kernel,
    Let,
    Return,
    Seq,
    Stmt,
    Store,
)
from weft.ir.visit import fresh_name, loads, mentions, rebuild, substitute, used_names, walk
from weft.passes.analysis.conditions import guarded, is_pure, peel_guards
from weft.passes.analysis.thread_teams import Team
from weft.passes.gpu_to_cpu.forward_shared import is_cheap
from weft.passes.gpu_to_cpu.swap_copies import Box, common_tests, contains, own_box, swap_copies, touches

#: Statements that do something.
_EFFECTS = (Assert, Assign, Atomic, Break, Continue, Evaluate, Return, Store)


def forward_phases(kernel: Kernel) -> Kernel:
    """``kernel`` with less in shared memory."""
    return replace(kernel, body=_visit(kernel.body, {}, used_names(kernel)))


def _visit(s: Stmt, shared: dict[str, Buffer], taken: set[str]) -> Stmt:
    """``shared`` are arrays that nothing after ``s`` touches."""
    if isinstance(s, Alloc) and s.buffer.scope == "shared":
        shared = {**shared, s.buffer.name: s.buffer}
    inner = shared if isinstance(s, (Alloc, Let, If)) else {}
    s = rebuild(s, lambda n: _visit(n, inner, taken) if isinstance(n, Stmt) else n)
    if not isinstance(s, Seq) or not shared:
        return s
    return replace(s, body=tuple(forwarded(s.body, shared, taken)))


def forwarded(parts: Sequence[Stmt], shared: Mapping[str, Buffer], taken: set[str]) -> list[Stmt]:
    """``parts``, which run one after another and alone touch the arrays ``shared``, with less in these."""
    parts = swap_copies(parts, shared)
    done = _without_unread(_joined(_read_through(parts, shared), shared, taken), shared)
    return [stmt for stmt in done if any(isinstance(n, _EFFECTS) for n in walk(stmt))]


@dataclass(frozen=True, slots=True)
class _Fill:
    """``if tests { buffer[indices] = value }`` by every thread of a nest, and the elements filled."""

    buffer: str
    threads: tuple[Var, ...]
    value: Expr
    box: Box
    tests: frozenset[Expr]


def _read_through(parts: list[Stmt], shared: Mapping[str, Buffer]) -> list[Stmt]:
    """Reads of arrays filled from memory that does not change, read from that memory."""
    for n, part in enumerate(parts):
        fill = _fill(part)
        if fill is None or fill.buffer not in shared:
            continue
        leaves = [leaf for leaf in walk(fill.value) if isinstance(leaf, (Load, Var))]
        fixed = {leaf.name if isinstance(leaf, Var) else leaf.buffer.name for leaf in leaves}
        rest = parts[n + 1 :]
        ignored = common_tests(parts, {fill.buffer})
        last = _last_reader(fill, rest, ignored) if fill.tests <= ignored else None
        if last is None or any(fixed & (mentions(p).stored | set(assigned_names(p))) for p in (part, *rest)):
            continue
        parts[n + 1 : n + 1 + last] = [_substituted(p, fill) for p in rest[:last]]
    return parts


def _fill(s: Stmt) -> _Fill | None:
    if not isinstance(s, For) or s.kind != "thread":
        return None
    loops, inside = perfect_nest(s, "thread")
    tests, body = peel_guards(inside)
    body = strip(body)
    if not isinstance(body, Store) or not is_cheap(body.value) or not loads(body.value):
        return None
    box = own_box(loops, body.indices)
    if box is None:
        return None
    threads = tuple(i for i in body.indices if isinstance(i, Var))
    return _Fill(body.buffer.name, threads, body.value, box, frozenset(tests))


def _last_reader(fill: _Fill, rest: list[Stmt], ignored: frozenset[Expr]) -> int | None:
    """How many parts read what ``fill`` stored, before it is overwritten; None where that is not known."""
    written: list[Box] = []
    is_written = False
    count = 0
    for n, part in enumerate(rest):
        touched = list(touches(part, {fill.buffer}, ignored))
        if any(t is None for t in touched):
            return None
        reads = [t.box for t in touched if t is not None and not t.writes]
        writes = [t for t in touched if t is not None and t.writes]
        is_written |= bool(writes)
        if is_written:
            if not all(any(contains(box, read) for box in written) for read in reads):
                return None
            written += [t.box for t in writes if t.always]
        elif not all(contains(fill.box, read) for read in reads):
            return None
        else:
            count = n + 1
    return count


def _substituted(s: Stmt, fill: _Fill) -> Stmt:
    def visit(n: Any) -> Any:
        n = n if isinstance(n, Buffer) else rebuild(n, visit)
        if isinstance(n, Load) and n.buffer.name == fill.buffer:
            return simplify(substitute(fill.value, dict(zip(fill.threads, n.indices))))
        return n

    return visit(s)  # type: ignore[no-any-return]


def _joined(parts: list[Stmt], shared: Mapping[str, Buffer], taken: set[str]) -> list[Stmt]:
    """Neighbours over the same threads in one loop, where the second reads only what its own thread stored."""
    done: list[Stmt] = []
    for stmt in parts:
        made = _join(done[-1], stmt, shared, taken) if done else None
        if made is None:
            done.append(stmt)
        else:
            done[-1] = made
    return done


def _join(first: Stmt, second: Stmt, shared: Mapping[str, Buffer], taken: set[str]) -> Stmt | None:
    if not (isinstance(first, For) and isinstance(second, For) and first.kind == second.kind == "thread"):
        return None
    loops, inside = perfect_nest(first, "thread")
    others, body = perfect_nest(second, "thread")
    tests, store = peel_guards(inside)
    store = strip(store)
    if not isinstance(store, Store) or store.buffer.name not in shared or not _same_loops(loops, others):
        return None
    same, body = peel_guards(substitute(body, {b.var: a.var for a, b in zip(loops, others)}))
    if same != tests or not all(map(is_pure, tests)):
        return None
    own = all(isinstance(i, Var) for i in store.indices) and {loop.var for loop in loops} == set(store.indices)
    reads = [load for load in loads(body) if load.buffer.name == store.buffer.name]
    stored = mentions(body).stored
    if not own or not reads or any(load.indices != store.indices for load in reads) or store.buffer.name in stored:
        return None
    if any(load.buffer.name in stored for load in loads(store)) or any(isinstance(n, AddressOf) for n in walk(body)):
        return None
    kept = Var(fresh_name(f"{store.buffer.name}_value", taken), store.buffer.dtype)
    body = _replaced(body, lambda n: kept if n == reads[0] else None)
    return Team(loops).around(guarded(tests, Let(kept, store.value, Seq((replace(store, value=kept), body)))))


def _same_loops(a: tuple[For, ...], b: tuple[For, ...]) -> bool:
    return len(a) == len(b) and all(x.lo == y.lo and x.hi == y.hi for x, y in zip(a, b))


def _replaced(s: Stmt, fn: Callable[[Any], Any]) -> Stmt:
    def visit(n: Any) -> Any:
        n = n if isinstance(n, Buffer) else rebuild(n, visit)
        replacement = fn(n)
        return n if replacement is None else replacement

    return visit(s)  # type: ignore[no-any-return]


def _without_stores(s: Stmt, gone: set[str]) -> Stmt:
    return _replaced(s, lambda n: Seq(()) if isinstance(n, Store) and n.buffer.name in gone else None)


def _without_unread(parts: list[Stmt], shared: Mapping[str, Buffer]) -> list[Stmt]:
    """From the last part on, stores to shared arrays that no later part reads go."""
    read: set[str] = set()
    done: list[Stmt] = []
    for stmt in reversed(parts):
        held = mentions(stmt)
        gone = {name for name in held.stored if name in shared and name not in read | held.loaded | held.addressed}
        if gone and not any(isinstance(n, Atomic) for n in walk(stmt)):
            stmt = _without_stores(stmt, gone)
        read |= held.loaded | held.addressed
        done.append(stmt)
    return done[::-1]

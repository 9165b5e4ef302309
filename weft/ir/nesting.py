"""Which statements stand inside which: a step down, nests of loops, and the way from one to another."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from weft.ir.errors import InternalError
from weft.ir.quick_init import replace
from weft.ir.stmt import JUMPS, Alloc, Block, For, If, Kernel, Let, Return, Seq, Stmt, Store, Tensorized, While
from weft.ir.visit import fact, map_statements, recently

S = TypeVar("S", bound=Stmt)


def inner_statements(s: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside ``s``, in program order."""
    kind = type(s)
    if kind in _HAS_BODY:
        return (s.body,)  # type: ignore[attr-defined]
    read = _INNER.get(kind)
    return () if read is None else read(s)


_HAS_BODY = frozenset({For, While, Let, Alloc, Tensorized})
_INNER: dict[type[Stmt], Callable[[Any], tuple[Stmt, ...]]] = {
    Seq: lambda s: s.body,
    If: lambda s: (s.then,) if s.otherwise is None else (s.then, s.otherwise),
    Block: lambda s: (s.body,) if s.init is None else (s.init, s.body),
}


@fact
def statement_kinds(s: Stmt) -> frozenset[type[Stmt]]:
    """The classes of ``s`` and of all statements in it."""
    own, inner = type(s), [statement_kinds(stmt) for stmt in inner_statements(s)]
    if len(inner) == 1:
        return inner[0] if own in inner[0] else inner[0] | {own}
    return frozenset((own,)).union(*inner)


def statements(root: Stmt) -> Iterator[Stmt]:
    """``root`` and every statement in it, parents first, in program order."""
    pending = [root]
    while pending:
        stmt = pending.pop()
        yield stmt
        if isinstance(stmt, For):  # the common case, for speed
            pending.append(stmt.body)
        elif not isinstance(stmt, Store):
            pending.extend(reversed(inner_statements(stmt)))


def statements_in(root: Kernel | Stmt, kind: type[S]) -> list[S]:
    """The statements of class ``kind`` in ``root``, parents first, in program order; where there are none, at once."""
    found: list[S] = []
    pending: list[Stmt] = [root.body if isinstance(root, Kernel) else root]
    while pending:
        s = pending.pop()
        if kind in statement_kinds(s):
            if isinstance(s, kind):
                found.append(s)
            pending += inner_statements(s)[::-1]
    return found


def flat(s: Stmt) -> tuple[Stmt, ...]:
    """The statements that ``s`` is one after another, sequences taken apart."""
    return tuple(part for inner in s.body for part in flat(inner)) if isinstance(s, Seq) else (s,)


def statements_in_turn(s: Stmt) -> Iterator[Stmt]:
    """The statements that ``s`` runs one after another; storage made around some of them is no statement."""
    if isinstance(s, (Seq, Alloc)):
        for inner in inner_statements(s):
            yield from statements_in_turn(inner)
    else:
        yield s


def sequence(body: Iterable[Stmt]) -> Stmt:
    """The statements one after another, sequences among them flattened."""
    found = [stmt for s in body for stmt in (s.body if isinstance(s, Seq) else (s,))]
    return found[0] if len(found) == 1 else Seq(tuple(found))


def grouped(parts: Iterable[Stmt], alone: Callable[[Stmt], bool]) -> list[Stmt]:
    """``parts`` with neighbours joined, but for those that stand ``alone``."""
    groups: list[Stmt] = []
    for stands_alone, neighbours in itertools.groupby(parts, alone):
        run = list(neighbours)
        groups += run if stands_alone else [sequence(run)]
    return groups


def strip(s: Stmt) -> Stmt:
    """A sequence of one statement is that statement."""
    while isinstance(s, Seq) and len(s.body) == 1:
        s = s.body[0]
    return s


def around(loops: Sequence[For], body: Stmt) -> Stmt:
    """``body`` in ``loops``, outermost first."""
    for loop in reversed(loops):
        body = loop if loop.body is body else replace(loop, body=body)
    return body


def has_loop(s: Stmt, kind: str) -> bool:
    """Whether there is a loop of ``kind`` in ``s``."""
    return (isinstance(s, For) and s.kind == kind) or any(has_loop(inner, kind) for inner in inner_statements(s))


def exits(s: Stmt) -> bool:
    """Whether a break, continue or return in ``s`` leaves an iteration of the loop whose body ``s`` is."""
    if isinstance(s, (For, While)):
        return Return in statement_kinds(s.body)
    if statement_kinds(s).isdisjoint(JUMPS):
        return False
    return isinstance(s, JUMPS) or any(exits(inner) for inner in inner_statements(s))


def in_turn(s: Stmt, *kinds: str) -> Stmt:
    """``s`` with its loops of these kinds run one iteration after another."""
    inside = map_statements(s, lambda n: in_turn(n, *kinds))
    return replace(inside, kind="serial") if isinstance(inside, For) and inside.kind in kinds else inside


def perfect_nest(s: Stmt, kind: str) -> tuple[tuple[For, ...], Stmt]:
    """The loops of ``kind`` that stand directly inside one another from ``s`` on, and what is inside them."""
    loops: list[For] = []
    s = strip(s)
    while isinstance(s, For) and s.kind == kind:
        loops.append(s)
        s = strip(s.body)
    return tuple(loops), s


def find_path(root: Stmt, target: Stmt) -> list[Stmt] | None:
    """The statements from ``root`` down to ``target`` (by identity), both included; None where it is not inside."""
    found = _find_path(root, target)
    return None if found is None else list(found)


@recently(24)  # the steps of a check ask for the same way again and again
def _find_path(root: Stmt, target: Stmt) -> tuple[Stmt, ...] | None:
    path, sought = [root], id(target)
    while root is not target:
        if type(root) is For:  # the common case, for speed
            root = root.body
            path.append(root)
            continue
        inner = inner_statements(root)
        found = inner[0] if len(inner) == 1 else next((s for s in inner if sought in _held(s)), None)
        if found is None:
            return None
        root = found
        path.append(root)
    return tuple(path)


@fact
def _held(s: Stmt) -> frozenset[int]:
    """The identities of ``s`` and of all statements in it, put together where there are several next to each other."""
    own = [id(s)]
    while len(inner := inner_statements(s)) == 1:
        s = inner[0]
        own.append(id(s))
    return frozenset(own).union(*map(_held, inner))


def path_to(root: Kernel | Stmt, target: Stmt) -> list[Stmt]:
    """`find_path` in the body of ``root``, where ``target`` is surely inside."""
    path = find_path(root.body if isinstance(root, Kernel) else root, target)
    if path is None:
        raise InternalError("a statement to be rewritten is not in the program")
    return path


def replace_in(root: Stmt, old: Stmt, new: Stmt) -> Stmt:
    """``root`` with the one statement ``old`` (found by identity) replaced."""
    below = old
    for parent in path_to(root, old)[-2::-1]:
        made = with_child(parent, below, new)
        below, new = parent, made
    return new


def with_child(parent: Stmt, old: Stmt, new: Stmt) -> Stmt:
    """``parent`` with ``old``, which stands directly in it, replaced."""
    if isinstance(parent, Seq):
        return sequence([new if s is old else s for s in parent.body])
    return map_statements(parent, lambda n: new if n is old else n)

"""What threads hand each other through shared memory computed where it is used.

``S[t] = A[b * 16 + t]; barrier; B[i] = S[t + 1]`` becomes ``B[i] = A[b * 16 + t + 1]``: the thread that stored the
element is found from the subscript, and what it stored is written out for that thread. The array goes, and with it
most often the barrier. A shared array qualifies where one statement fills it, once, with something cheap that reads
only memory the kernel does not write. An element that was not stored is not read either.

Blocks at the edges of a grid (``if bx == 0``) often store something else. Where that alone keeps an array, all other
blocks get code of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Binary, Call, Compare, Const, Expr, Load, Reduce, Select, Var
from weft.ir.nesting import has_loop, inner_statements, perfect_nest
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, Atomic, For, If, Kernel, Let, Seq, Stmt, Store, While
from weft.ir.visit import (
    Node,
    count_nodes,
    free_vars,
    loads,
    map_statements,
    mentions,
    names_in,
    rewrite,
    substitute,
    walk,
)
from weft.passes.analysis.conditions import all_of, conjuncts

#: Nodes of a value that may be computed again at every use.
LONGEST = 40
#: Nodes of a block's code that may be written out twice.
LONGEST_BLOCK = 3000


@dataclass(frozen=True, slots=True)
class Filling:
    """The statement that fills a shared array: element ``var + constant`` of each dimension, by the thread ``var``."""

    threads: tuple[Var, ...]
    indices: tuple[Expr, ...]
    value: Expr

    def at(self, indices: tuple[Expr, ...]) -> Expr:
        """What is in the element at ``indices``."""
        places = zip(self.threads, self.indices, indices)
        return substitute(self.value, {t: simplify(Binary("+", t, Binary("-", i, own))) for t, own, i in places})


def forward_shared(kernel: Kernel) -> Kernel:
    """``kernel`` without shared arrays that only hand on what is cheap to compute."""
    return replace(kernel, body=_visit(kernel.body, frozenset()))


def _visit(s: Stmt, blocks: frozenset[str]) -> Stmt:
    if isinstance(s, For) and s.kind == "block":
        blocks |= {s.var.name}
        if not has_loop(s.body, "block"):
            return replace(s, body=_without_edges(s.body, blocks))
    return map_statements(s, lambda n: _visit(n, blocks)) if has_loop(s, "block") else _forward(s)


def _without_edges(body: Stmt, blocks: frozenset[str]) -> Stmt:
    """The code of a block, twice where one away from the edges can leave out shared arrays that others keep."""
    whole = _forward(body)
    edges = set(_edges(body, blocks))
    if not edges or count_nodes(body) > LONGEST_BLOCK:
        return whole
    never = Const(False, dt.bool_)
    middle = _forward(simplify(rewrite(body, lambda n: never if isinstance(n, Compare) and n in edges else None)))
    if len(_arrays(middle)) >= len(_arrays(whole)):
        return whole
    inside = sorted((Compare("!=", e.left, e.right) for e in edges), key=str)
    return If(all_of(inside), middle, whole, span=body.span)


def _edges(body: Stmt, blocks: frozenset[str]) -> Iterator[Compare]:
    """Tests for a number of the block, the same for all its threads."""
    bound = mentions(body).bound | assigned_names(body)
    for n in walk(body):
        if isinstance(n, If):
            for test in conjuncts(n.condition):
                names = set(free_vars(test))
                if not isinstance(test, Compare) or test.op != "==" or test.left.dtype != dt.index or loads(test):
                    continue
                if names & blocks and not names & bound:
                    yield test


def _arrays(s: Stmt) -> list[Alloc]:
    return [n for n in walk(s) if isinstance(n, Alloc) and n.buffer.scope == "shared"]


def _forward(s: Stmt) -> Stmt:
    s = map_statements(s, _forward)
    if isinstance(s, Alloc) and s.buffer.scope == "shared":
        filling = _find_filling(s)
        if filling is not None:
            return _forwarded(s.body, s.buffer, filling)
    return s


def _find_filling(alloc: Alloc) -> Filling | None:
    name = alloc.buffer.name
    team = next((n for n in walk(alloc.body) if isinstance(n, For) and n.kind == "thread"), None)
    touching = [n for n in walk(alloc.body) if isinstance(n, (Store, Atomic, AddressOf)) and n.buffer.name == name]
    if team is None or name not in mentions(team).stored or not isinstance(touching[0], Store) or len(touching) > 1:
        return None
    loops, body = perfect_nest(team, "thread")
    changing, written = assigned_names(alloc.body), mentions(alloc.body).stored
    fillings = list(_fillings(alloc.body, name, {}, changing, in_loop=False))
    if len(fillings) != 1 or fillings[0] is None:
        return None
    indices, value = fillings[0]
    threads = _threads(indices, tuple(loop.var for loop in loops))
    inside = mentions(body).bound | {loop.var.name for loop in loops} - {t.name for t in threads or ()}
    if threads is None or (inside | changing) & set(free_vars(value)):
        return None
    fixed = not any(load.buffer.name in written for load in loads(value))
    return Filling(threads, indices, value) if fixed and is_cheap(value) else None


def _fillings(
    s: Stmt, name: str, lets: dict[Var, Expr], changing: frozenset[str], *, in_loop: bool
) -> Iterator[tuple[tuple[Expr, ...], Expr] | None]:
    """Subscripts and value of each store, in terms of what is known before the threads start; None in a loop.

    Names that are ``changing`` stay: at the store, they need not have the value they started with.
    """
    if isinstance(s, Store) and s.buffer.name == name:
        yield None if in_loop else (tuple(substitute(i, lets) for i in s.indices), substitute(s.value, lets))
    if isinstance(s, Let) and s.var.name not in changing:
        lets = {**lets, s.var: substitute(s.value, lets)}
    in_loop |= isinstance(s, While) or (isinstance(s, For) and s.kind != "thread")
    for inner in inner_statements(s):
        yield from _fillings(inner, name, lets, changing, in_loop=in_loop)


def _threads(indices: tuple[Expr, ...], team: tuple[Var, ...]) -> tuple[Var, ...] | None:
    """The thread variable of each subscript, where it is one plus a constant and each is another."""
    variables: list[Var] = []
    for i in indices:
        inside = [t for t in team if t in free_vars(i).values()]
        if len(inside) != 1 or inside[0] in variables or free_vars(simplify(Binary("-", i, inside[0]))):
            return None
        variables += inside
    return tuple(variables)


def is_cheap(value: Expr) -> bool:
    """Whether ``value`` may be computed wherever it is used."""
    if count_nodes(value) > LONGEST or any(isinstance(n, (Call, Reduce)) for n in walk(value)):
        return False
    slow = ("/", "//", "%", "tdiv", "tmod")
    return not any(isinstance(n, Binary) and n.op in slow and n.dtype.is_float for n in walk(value))


def _forwarded(body: Stmt, buffer: Buffer, filling: Filling) -> Stmt:
    def forwarded(n: object) -> Stmt | Expr | None:
        if not isinstance(n, (Load, Store)) or n.buffer.name != buffer.name:
            return None
        return Seq(()) if isinstance(n, Store) else filling.at(n.indices)

    made = rewrite(body, forwarded)
    assert buffer.name not in names_in(made)
    return merge_arms(made)


def merge_arms(s: Stmt) -> Stmt:
    """``t == 0 ? A[3] : A[t + 3]`` as ``A[t + 3]``, everywhere in ``s``: a border that the block had is none."""

    def merged(n: object) -> Node | None:
        if not isinstance(n, (Select, If)) or n.otherwise is None:
            return None
        there = _place(n.condition)
        if there is None or (isinstance(n, If) and assigned_names(n) & {v.name for v in there}):
            return None
        same = simplify(substitute(n.then, there)) == simplify(substitute(n.otherwise, there))
        return n.otherwise if same else None

    return rewrite(s, merged)


def _place(condition: Expr) -> dict[Var, Expr] | None:
    """The constants that variables are compared with, where that is all ``condition`` does."""
    there: dict[Var, Expr] = {}
    for test in conjuncts(condition):
        if not isinstance(test, Compare) or test.op != "==" or not isinstance(test.left, Var):
            return None
        if not isinstance(test.right, Const) or test.left in there:
            return None
        there[test.left] = test.right
    return there

"""``reorder``: loops of one nest change places: loop interchange.

The loops given take, in the order given, the places they have among themselves; others stay. Guards
between them are put as far out as the variables they test allow; a range that depends on a loop which
comes to stand inside (a triangle, a skewed loop) is turned around.
"""

from __future__ import annotations

from weft.ir.expr import Expr
from weft.ir.nesting import path_to
from weft.ir.quick_init import replace
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Alloc, Block, For, If, Kernel, Let, Seq, Stmt
from weft.ir.visit import free_vars
from weft.poly.check_reorder import check_reorder as check_order
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_loop, listed, ranges_at
from weft.schedules.loop_facts import check_runs_through, check_valid, first_no, has_barrier, is_guard
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, simplify_bounds
from weft.schedules.trace import Numerics
from weft.schedules.widen import narrow_ranges, widen_ranges


def check_reorder(kernel: Kernel, *loops: str, numerics: Numerics) -> Verdict:
    """The loops must form a nest with nothing between them, with ranges that fit the new order."""
    if not loops:
        return refuse("no loop is named")
    nodes = {name: find_loop(kernel, name) for name in loops}
    if len(nodes) != len(loops):
        twice = next(name for name in loops if loops.count(name) > 1)
        return refuse(f"`{twice}` is named twice")
    chain = chain_of(kernel, list(nodes.values()))
    if isinstance(chain, Verdict):
        return chain
    old, new = new_order(chain, loops)
    if old == new:
        return OK
    nest = [s for s in chain if isinstance(s, For)]
    sound = first_no([*map(check_runs_through, nest), _check_guards(chain)])
    if not sound.ok:
        return sound
    if has_barrier(chain[0]):
        return refuse("there is a barrier inside; it orders the threads between the loops")
    widened = widen_ranges(kernel, nest, new)
    if isinstance(widened, Verdict):
        return widened
    if any(loop.kind != "serial" for loop in nest):
        valid = check_valid(reorder(kernel, *loops).kernel)
        if not valid.ok:
            return valid
    loops_by_name = {name: find_loop(widened[0], name) for name in old}
    return check_order(widened[0], list(loops_by_name.values()), [loops_by_name[name] for name in new], numerics)


@primitive(check_reorder, "cannot reorder loops {*}")
def reorder(kernel: Kernel, *loops: str) -> Rewrite:
    chain = _chain(kernel, loops)
    _, new = new_order(chain, loops)
    widened = widen_ranges(kernel, [s for s in chain if isinstance(s, For)], new)
    assert not isinstance(widened, Verdict), "check_reorder answers this first"
    wide, tests = widened
    chain = chain if wide is kernel else _chain(wide, loops)
    if isinstance(chain[-1], For) and tests:
        chain = _with_tests(chain, tests)
    ranges = ranges_at(wide, chain[0])
    made = rebuild_chain(chain, new)
    if tests:
        made = simplify_bounds(narrow_ranges(made, tests), ranges)
    return Rewrite(replace_stmt(wide, chain[0], made))


def _chain(kernel: Kernel, loops: tuple[str, ...]) -> list[For | If]:
    chain = chain_of(kernel, [find_loop(kernel, name) for name in loops])
    assert not isinstance(chain, Verdict), "check_reorder answers this first"
    return chain


def _with_tests(chain: list[For | If], tests: list[Expr]) -> list[For | If]:
    """The chain with the tests that stand directly in its innermost loop."""
    last = chain[-1]
    inside = last.body if isinstance(last, For) else last.then
    while isinstance(inside, If) and inside.condition in tests:
        chain = [*chain, inside]
        inside = inside.then
    return chain


def deepest_path(kernel: Kernel, loops: list[For]) -> list[Stmt] | Verdict:
    """The statements around the innermost of ``loops``, and it; all of them are to be there."""
    sought = {id(loop) for loop in loops}
    innermost = next(loop for loop in reversed(listed(kernel).loops) if id(loop) in sought)
    deepest = path_to(kernel, innermost)
    if sought.issubset(map(id, deepest)):
        return deepest
    deepest = max((path_to(kernel, loop) for loop in loops), key=len)
    for loop in loops:
        if not any(s is loop for s in deepest):
            return refuse(
                f"`{loop.var.name}` is not in one nest with `{_name(deepest[-1])}`: neither is inside the other"
            )
    return deepest


def chain_of(kernel: Kernel, loops: list[For]) -> list[For | If] | Verdict:
    """The loops and guards from the outermost to the innermost of ``loops``, or what stands between them."""
    deepest = deepest_path(kernel, loops)
    if isinstance(deepest, Verdict):
        return deepest
    chain = deepest[next(n for n, s in enumerate(deepest) if any(s is loop for loop in loops)) :]
    for position, s in enumerate(chain):
        if not isinstance(s, For) and not is_guard(s):
            outer = next(c for c in reversed(chain[:position]) if isinstance(c, For))
            inner = next(c for c in chain[position:] if isinstance(c, For))
            return refuse(f"{_standing(s)} stands between `{outer.var.name}` and `{inner.var.name}`")
    return [s for s in chain if isinstance(s, (For, If))]


def _name(s: Stmt) -> str:
    return s.var.name if isinstance(s, For) else "?"


def _standing(s: Stmt) -> str:
    match s:
        case Seq():
            return "a sequence of statements"
        case Alloc():
            return f"the allocation of `{s.buffer.name}`"
        case Let():
            return f"the definition of `{s.var.name}`"
        case Block():
            return f"block `{s.name}`"
        case If():
            return "a branch that depends on data" if s.otherwise is None else "a branch with two sides"
    return f"a {type(s).__name__.lower()}"


def new_order(chain: list[For | If], loops: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The names of the chain's loops now and after ``loops`` took their new places."""
    old = [s.var.name for s in chain if isinstance(s, For)]
    coming = iter(loops)
    return old, [next(coming) if name in loops else name for name in old]


def _check_guards(chain: list[For | If]) -> Verdict:
    """Guards move with the loops, so what they test must not be changed by the body."""
    changed = assigned_names(chain[0])
    for s in chain:
        if isinstance(s, If) and _names(s.condition) & changed:
            return refuse(f"a guard tests `{sorted(_names(s.condition) & changed)[0]}`, which the loop changes")
    return OK


def _names(*parts: Expr) -> set[str]:
    return {name for e in parts for name in free_vars(e)}


def rebuild_chain(chain: list[For | If], order: list[str]) -> Stmt:
    """The chain with its loops in ``order`` and each guard inside the last loop it tests."""
    last = chain[-1]
    body = last.body if isinstance(last, For) else last.then
    nodes = {s.var.name: s for s in chain if isinstance(s, For)}
    guards = [s for s in chain if isinstance(s, If)]
    for position in range(len(order) - 1, -1, -1):
        for guard in reversed([g for g in guards if _depth(g, order) == position]):
            body = replace(guard, then=body)
        body = replace(nodes[order[position]], body=body)
    for guard in reversed([g for g in guards if _depth(g, order) == -1]):
        body = replace(guard, then=body)
    return body


def _depth(guard: If, order: list[str]) -> int:
    """The position of the last loop that ``guard`` tests, -1 where it tests none."""
    tested = _names(guard.condition)
    return max((i for i, name in enumerate(order) if name in tested), default=-1)

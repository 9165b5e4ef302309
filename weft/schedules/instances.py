"""Whether the loops around a block run every instance it declares, each once, and in which order.

A block says which instances there are (``vm spatial 0:M``); rewrites that make its loops anew rely on the
loops there now running exactly those. Loops that were split or fused read as the digits of a number:
``m_o*14 + m_i``, or ``f // 8``, ``f // 2 % 4`` and ``f % 2``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from weft.ir import dtype as dt
from weft.ir.affine import linear_form
from weft.ir.expr import Binary, Compare, Const, Expr, Var, idx
from weft.ir.inequality import conjuncts
from weft.ir.interval import Interval, ranges_through
from weft.ir.nesting import path_to
from weft.ir.simplify import simplify
from weft.ir.stmt import Block, For, If, Iter, Kernel, Stmt
from weft.ir.visit import free_vars, substitute
from weft.poly.leaves import leaves
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import ranges_at

Ranges = Mapping[str, Interval]

#: The place of the first digit of a loop.
GREATEST = -(1 << 62)


@dataclass(frozen=True, slots=True)
class Digit:
    """A part of an iterator's value: ``weight`` times what loop number ``loop`` says: what of it ``divisor`` leaves
    below ``extent``. Greater digits of a loop have a lower ``place``."""

    loop: int
    place: int
    weight: int
    extent: Expr
    divisor: Expr = idx(1)


@dataclass(frozen=True, slots=True)
class Nest:
    """The loops and tests from ``root`` down to ``block``, and what is known of the variables there."""

    block: Block
    loops: tuple[For, ...]
    tests: tuple[Expr, ...]
    ranges: Ranges


def nest_between(kernel: Kernel, root: Stmt, block: Block) -> Nest:
    path = path_to(root, block)
    loops = [s for s in path if isinstance(s, For)]
    ranges = ranges_through(loops, ranges_at(kernel, root))
    tests = [c for s in path if isinstance(s, If) for c in conjuncts(s.condition)]
    return Nest(block, tuple(loops), tuple(simplify(t, ranges) for t in tests), ranges)


def stands_still(it: Iter) -> bool:
    """Whether an iterator is a name for what loops around the nest give, such as the step of a recurrence."""
    return it.lo == it.binding and it.hi == it.binding + idx(1)


def check_instances(
    kernel: Kernel, root: Stmt, block: Block, ordered: Sequence[str], *, exact: bool, partial: bool = False
) -> Verdict:
    """Whether the loops from ``root`` on run all instances once, those of the iterators ``ordered`` in their order.

    Where the order does not matter to the bit (``exact``), any will do. ``partial`` lets the other iterators
    run through a part of their range.
    """
    nest = nest_between(kernel, root, block)
    if _is_branch(root, block):
        return refuse(f"block `{block.name}` runs in one of two branches")
    found: dict[str, list[Digit]] = {}
    for it in block.iters:
        digits = _digits(it, nest)
        if digits is None and partial and it.var.name not in ordered:
            digits = _part(it, nest)
        if digits is None:
            return refuse(f"it is not proved that the loops run `{it.var.name}` of block `{block.name}` once each")
        found[it.var.name] = digits
    used = [(d.loop, d.place) for digits in found.values() for d in digits]
    every = [d for digits in found.values() for d in digits]
    if len(set(used)) != len(used) or not _repeating(nest) <= {loop for loop, _ in used} or not _are_apart(every, nest):
        return refuse(f"some loop around block `{block.name}` repeats it")
    order = [(d.loop, d.place) for name in ordered for d in found[name]]
    if order != sorted(order) and not exact:
        return refuse(f"the loops around block `{block.name}` now add up in another order")
    if _leaves_out(nest, [nest.loops[loop] for loop, _ in order], partial=partial):
        return refuse(f"a test around block `{block.name}` leaves instances out")
    return OK


def runs_everywhere(kernel: Kernel, root: Stmt, block: Block) -> bool:
    """Whether the tests from ``root`` on are no more than the ends of the iterators' ranges."""
    return not _is_branch(root, block) and not _leaves_out(nest_between(kernel, root, block), (), partial=False)


def _is_branch(root: Stmt, block: Block) -> bool:
    """Whether ``block`` is in one of two branches."""
    return any(isinstance(s, If) and s.otherwise is not None for s in path_to(root, block))


def _repeating(nest: Nest) -> set[int]:
    """The loops that may run more than once."""
    ranges = [nest.ranges[loop.var.name] for loop in nest.loops]
    return {p for p, r in enumerate(ranges) if r.lo is None or r.hi is None or r.lo < r.hi}


def _leaves_out(nest: Nest, ordered: Sequence[For], *, partial: bool) -> bool:
    """Whether a test around the block is more than the end of an iterator's range."""
    needed = [simplify(_end_test(it), nest.ranges) for it in nest.block.iters]
    names = {loop.var.name for loop in ordered}
    others = [test for test in nest.tests if test not in needed]
    return any(not partial or names & free_vars(test).keys() for test in others)


def _part(it: Iter, nest: Nest) -> list[Digit] | None:
    """One loop that runs through a part of the range, or none where the iterator stands still."""
    linear = linear_form(simplify(it.binding, nest.ranges))
    moving = [atom for atom in linear.terms if _mentions_loop(atom, nest)]
    if not moving:
        return []
    (atom, *more) = moving
    position = next((p for p, loop in enumerate(nest.loops) if loop.var == atom), None)
    return None if more or position is None else [Digit(position, 0, linear.terms[atom], idx(1))]


def infer_digits(kernel: Kernel, root: Stmt, block: Block) -> dict[str, list[Digit]]:
    """The loops that make up each iterator, greatest weight first, where `check_instances` says yes."""
    nest = nest_between(kernel, root, block)
    return {it.var.name: _digits(it, nest) or [] for it in block.iters}


def _end_test(it: Iter) -> Expr:
    return Compare("<", it.binding, it.hi)


def _digits(it: Iter, nest: Nest) -> list[Digit] | None:
    """The digits of the binding, greatest weight first, where they count through ``lo:hi`` exactly once."""
    ranges = nest.ranges
    linear = linear_form(simplify(it.binding, ranges))
    ends = simplify(_end_test(it), ranges) in nest.tests
    digits = []
    for position, loop in reversed(list(enumerate(nest.loops))):
        weight = linear.terms.get(loop.var)
        if weight is None or not _mentions_loop(loop.lo, nest):
            continue
        extent, stops = _relative_extent(loop, it, nest)
        if extent is None:
            return None
        digits.append(Digit(position, 0, weight, extent))
        del linear.terms[loop.var]
        linear.add(linear_form(simplify(loop.lo, ranges)), weight)
        ends = ends or stops
    start: Expr = linear.expr(dt.index)
    for atom, weight in linear.terms.items():
        digit = _digit(atom, weight, nest)
        if digit is not None:
            digits.append(digit)
        elif _mentions_loop(atom, nest):
            return None
    digits.sort(key=lambda d: -d.weight)
    start = simplify(substitute(start, {loop.var: loop.lo for loop in nest.loops}) - it.lo, ranges)
    size = simplify(it.hi - it.lo, ranges)
    return digits if start == idx(0) and _counts_through(digits, size, nest.ranges, ends=ends) else None


def _relative_extent(loop: For, it: Iter, nest: Nest) -> tuple[Expr | None, bool]:
    """How far a loop runs from a start that other loops give, and whether it stops at the iterator's end."""
    ranges = nest.ranges
    extent = simplify(loop.hi - loop.lo, ranges)
    if isinstance(extent, Const):
        return extent, False
    if it.binding == loop.var and isinstance(loop.hi, Binary) and loop.hi.op == "min":
        for end, limit in ((loop.hi.left, loop.hi.right), (loop.hi.right, loop.hi.left)):
            extent = simplify(end - loop.lo, ranges)
            if isinstance(extent, Const) and simplify(limit - it.hi, ranges) == idx(0):
                return extent, True
    return None, False


def _mentions_loop(e: Expr, nest: Nest) -> bool:
    changed = substitute(e, {loop.var: loop.var + idx(1) for loop in nest.loops})
    return changed != e


def _digit(atom: Expr, weight: int, nest: Nest) -> Digit | None:
    for position, loop in enumerate(nest.loops):
        extent = simplify(loop.hi - loop.lo, nest.ranges)
        if atom == loop.var:
            return Digit(position, 0, weight, extent)
        if not isinstance(atom, Binary) or loop.lo != idx(0):
            continue
        left, right = atom.left, atom.right
        if atom.op == "%" and left == loop.var:
            return Digit(position, 0, weight, right)
        if atom.op == "%" and isinstance(left, Binary) and left.op == "//" and left.left == loop.var:
            known = isinstance(left.right, Const) and isinstance(right, Const)
            whole = simplify(extent % (left.right * right), nest.ranges) == idx(0)
            place = -int(left.right.value) if isinstance(left.right, Const) else 0
            return Digit(position, place, weight, right, left.right) if known and whole else None
        if atom.op == "//" and left == loop.var and simplify(extent % right, nest.ranges) == idx(0):
            return Digit(position, GREATEST, weight, simplify(extent // right, nest.ranges), right)
    return None


def _are_apart(digits: Sequence[Digit], nest: Nest) -> bool:
    """Whether the digits of each loop that has several are all of it, each once."""
    for position in {d.loop for d in digits}:
        reached: Expr = idx(1)
        own = sorted((d for d in digits if d.loop == position), key=lambda d: -d.place)
        for digit in own if len(own) > 1 else ():
            if simplify(digit.divisor - reached, nest.ranges) != idx(0):
                return False
            reached = simplify(reached * digit.extent, nest.ranges)
    return True


def _counts_through(digits: Sequence[Digit], size: Expr, ranges: Ranges, *, ends: bool) -> bool:
    """Whether the digits give every number below ``size`` once; those above do not count where a test ``ends`` it."""
    if not digits:
        return size == idx(1)
    weight = 1
    for digit in reversed(digits[1:]):
        if digit.weight != weight or not isinstance(digit.extent, Const):
            return False
        weight *= int(digit.extent.value)
    top = digits[0]
    if top.weight != weight or weight == 0:
        return False
    if simplify(top.extent * idx(weight) - size, ranges) == idx(0):
        return True
    return ends and _covers(top.extent, weight, size, ranges)


def _covers(extent: Expr, weight: int, size: Expr, ranges: Ranges) -> bool:
    """Whether ``extent`` digits of that weight reach ``size``."""
    if isinstance(extent, Const) and isinstance(size, Const):
        return int(extent.value) * weight >= int(size.value)
    return extent == simplify((size + idx(weight - 1)) // idx(weight), ranges)


def is_exact(kernel: Kernel, block: Block) -> bool:
    """Whether the updates of ``block`` give the same bits in any order."""
    writes = [a for leaf in leaves(kernel, block) for a in leaf.accesses if a.writes and leaf.stmt is not block.init]
    return bool(writes) and all(a.is_exact for a in writes if a.update is not None) and any(a.update for a in writes)


def plain_name(it: Iter, taken: Set[str]) -> str:
    """What to call a loop made for an iterator."""
    if isinstance(it.binding, Var) and it.binding.name not in taken:
        return it.binding.name
    name = it.var.name
    return name[1:] if name.startswith("v") and len(name) > 1 else name

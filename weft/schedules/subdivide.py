"""``subdivide``: a loop split by one factor after another (strip-mining) in one step: its digits in a mixed radix.

A tile that is spread over warps, lanes and what a lane has is cut several times. Where all tiles come out even nothing
stands between the digits, and one substitution makes all of them; else it is one `split` after the other.
"""

from __future__ import annotations

from itertools import pairwise

from weft.ir.expr import Const, Expr, Var, idx
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Kernel, Stmt
from weft.ir.visit import fresh_name, substitute
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_loop, ranges_at
from weft.schedules.loop_facts import check_number, check_runs_through, extent, first_no
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, simplify_bounds, taken_names
from weft.schedules.split import KINDS, check_split, split
from weft.schedules.trace import Numerics


def check_subdivide(kernel: Kernel, loop: str, *factors: int, numerics: Numerics) -> Verdict:
    """Splits keep the order of all iterations."""
    old = find_loop(kernel, loop)
    if not factors:
        return refuse("no factor is given")
    wrong = first_no([check_number("factor", factor, 1) for factor in factors])
    if not wrong.ok:
        return wrong
    if _even_counts(kernel, old, factors) is not None:
        return check_runs_through(old)
    for factor in factors:
        verdict = check_split(kernel, loop, factor, numerics=numerics)
        if not verdict.ok:
            return verdict
        made = split(kernel, loop, factor)
        kernel, loop = made.kernel, made.made[1]
    return OK


@primitive(check_subdivide, "cannot subdivide loop `{0}`")
def subdivide(kernel: Kernel, loop: str, *factors: int) -> Rewrite:
    """Makes ``m_o``, ``m_i_o`` and ``m_i_i`` of ``m`` and two factors, named as two splits would."""
    old = find_loop(kernel, loop)
    counts = _even_counts(kernel, old, factors)
    made = _one_by_one(kernel, loop, factors) if counts is None else _at_once(kernel, old, factors, counts)
    *most, last = made.made
    return Rewrite(made.kernel, made.made, {loop: f"was split into {', '.join(most)} and {last}"})


def _even_counts(kernel: Kernel, loop: For, factors: tuple[int, ...]) -> tuple[int, ...] | None:
    """How often each digit runs, where all tiles come out even."""
    total = extent(loop, ranges_at(kernel, loop))
    if not isinstance(total, Const) or total.value <= 0:
        return None
    sizes = (int(total.value), *factors)
    if any(size % factor for size, factor in pairwise(sizes)):
        return None
    return (*(size // factor for size, factor in pairwise(sizes)), factors[-1])


def _one_by_one(kernel: Kernel, loop: str, factors: tuple[int, ...]) -> Rewrite:
    digits: list[str] = []
    for factor in factors:
        made = split(kernel, loop, factor)
        kernel, (outer, loop) = made.kernel, made.made
        digits.append(outer)
    return Rewrite(kernel, (*digits, loop))


def _at_once(kernel: Kernel, old: For, factors: tuple[int, ...], counts: tuple[int, ...]) -> Rewrite:
    digits = _digits(old, len(factors), taken_names(kernel))
    point: Expr = old.lo + digits[-1]
    for digit, factor in zip(digits, factors):
        point = point + digit * factor
    nest: Stmt = substitute(old.body, {old.var: simplify(point, {})})
    kinds = [old.kind]
    for _ in factors:
        kinds[-1:] = KINDS[kinds[-1]]
    for digit, count, kind in reversed([*zip(digits, counts, kinds)]):
        nest = For(digit, idx(0), idx(count), kind, nest, span=old.span)
    made = simplify_bounds(nest, ranges_at(kernel, old))
    return Rewrite(replace_stmt(kernel, old, made), tuple(digit.name for digit in digits))


def _digits(old: For, cuts: int, taken: set[str]) -> list[Var]:
    digits, name = list[str](), old.var.name
    for _ in range(cuts):
        outer, name = (fresh_name(f"{name}_{part}", taken) for part in "oi")
        digits.append(outer)
    return [Var(digit, span=old.var.span) for digit in (*digits, name)]

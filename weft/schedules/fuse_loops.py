"""``fuse_loops``: two loops that follow one another become one that does the work of both in each iteration."""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Binary, idx
from weft.ir.printer import print_expr
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Kernel, Seq
from weft.ir.visit import substitute
from weft.poly.check_fuse_loops import check_fuse_loops as check_mergeable
from weft.poly.check_parallel import check_parallel as check_independent
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.loop_facts import check_no_barrier, check_runs_through, extent, first_no
from weft.schedules.rewrite import (
    Rewrite,
    find_loop,
    path_to,
    ranges_at,
    remembered,
    replace_stmt,
    sequence,
    simplify_bounds,
)
from weft.schedules.trace import Numerics


def check_fuse_loops(kernel: Kernel, first: str, second: str, *, numerics: Numerics) -> Verdict:
    """The loops must be neighbours of the same length, and no work of ``first`` may have to wait for ``second``'s."""
    a, b = find_loop(kernel, first), find_loop(kernel, second)
    wrong = first_no([_check_neighbours(kernel, a, b), _check_length(kernel, a, b)])
    if not wrong.ok:
        return wrong
    sound = [check_runs_through(a), check_runs_through(b)]
    sound += [check_no_barrier(s, "merging it") for s in (a, b)]
    wrong = first_no(sound)
    if not wrong.ok:
        return wrong
    verdict = check_mergeable(kernel, first, second, numerics)
    if not verdict.ok or a.kind in ("serial", "unroll"):
        return verdict
    return check_independent(fuse_loops(kernel, first, second).kernel, first, a.kind, numerics)


def _check_neighbours(kernel: Kernel, a: For, b: For) -> Verdict:
    first, second = a.var.name, b.var.name
    if a is b:
        return refuse("these are one loop")
    around = [s for s in path_to(kernel, a)[:-1] if isinstance(s, Seq)]
    if not around or not any(s is b for s in around[-1].body) or not any(s is a for s in around[-1].body):
        return refuse(f"`{first}` and `{second}` do not follow one another in one place")
    body = around[-1].body
    where_a, where_b = (next(i for i, s in enumerate(body) if s is loop) for loop in (a, b))
    if where_b < where_a:
        return refuse(f"`{second}` comes before `{first}`", alternatives=(f's.fuse_loops("{second}", "{first}")',))
    if where_b > where_a + 1:
        return refuse(f"other statements stand between `{first}` and `{second}`")
    if a.kind != b.kind:
        return refuse(f"`{first}` is {a.kind} and `{second}` is {b.kind}")
    return OK


def _check_length(kernel: Kernel, a: For, b: For) -> Verdict:
    ranges = ranges_at(kernel, a)
    one, other = extent(a, ranges), extent(b, ranges)
    if simplify(Binary("-", one, other), ranges) == idx(0):
        return OK
    names = f"`{a.var.name}` runs {print_expr(one)} times and `{b.var.name}` {print_expr(other)}"
    return refuse(f"{names}; both must run equally often")


@remembered
def fuse_loops(kernel: Kernel, first: str, second: str) -> Rewrite:
    """``first`` keeps its name and takes over the body of ``second``."""
    a, b = find_loop(kernel, first), find_loop(kernel, second)
    seq = next(s for s in reversed(path_to(kernel, a)[:-1]) if isinstance(s, Seq))
    body = substitute(b.body, {b.var: a.var + Binary("-", b.lo, a.lo)})
    merged = simplify_bounds(replace(a, body=sequence([a.body, body])), ranges_at(kernel, a))
    together = sequence(merged if s is a else s for s in seq.body if s is not b)
    return Rewrite(replace_stmt(kernel, seq, together), (), {second: f"was merged into {first}"})

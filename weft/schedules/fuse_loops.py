"""``fuse_loops``: two loops that follow one another become one that does the work of both in each iteration.

This is loop fusion; `fuse` makes one loop of a nest of two.

``by="count"`` pairs the n-th iterations of loops of one length; ``by="value"`` pairs equal values of the loop
variables: the loop then runs over all values of both, and each body is guarded by its own range.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from weft.ir.expr import Binary, Compare, idx
from weft.ir.interval import Interval
from weft.ir.nesting import find_path, path_to, sequence
from weft.ir.printer import print_expr
from weft.ir.quick_init import replace
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, For, If, Kernel, Seq
from weft.ir.visit import substitute
from weft.poly.check_neighbours import check_fuse_loops as check_mergeable
from weft.poly.check_parallel import check_parallel as check_independent
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import blocks_inside, find_loop, ranges_at
from weft.schedules.loop_facts import check_no_barrier, check_runs_through, extent, first_no
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, simplify_bounds
from weft.schedules.trace import Numerics

Pairing = Literal["count", "value"]


def check_fuse_loops(kernel: Kernel, first: str, second: str, by: Pairing = "count", *, numerics: Numerics) -> Verdict:
    """The loops must be neighbours, and no work of ``first`` may have to wait for ``second``'s."""
    a, b = find_loop(kernel, first), find_loop(kernel, second)
    kernel = _with_storage_before(kernel, a, b)
    if by not in get_args(Pairing):
        return refuse(f"by={by!r} is not known", alternatives=tuple(f'by="{p}"' for p in get_args(Pairing)))
    wrong = first_no([_check_neighbours(kernel, a, b), OK if by == "value" else _check_length(kernel, a, b)])
    if not wrong.ok:
        return wrong
    sound = [check_runs_through(a), check_runs_through(b)]
    sound += [check_no_barrier(s, "merging it") for s in (a, b)]
    wrong = first_no(sound)
    if not wrong.ok:
        return wrong
    verdict = check_mergeable(kernel, a, b, numerics, by_value=by == "value")
    if not verdict.ok:
        return replace(verdict, offers=lambda: _otherwise(a, b, by))
    if a.kind in ("serial", "unroll"):
        return verdict
    return check_independent(fuse_loops(kernel, first, second, by).kernel, first, a.kind, numerics)


def _otherwise(a: For, b: For, by: Pairing) -> tuple[str, ...]:
    """Other ways to run the two together; which of them are legal is found by trying."""
    first, second = a.var.name, b.var.name
    other = "" if by == "value" else ', by="value"'
    calls = [f's.fuse_loops("{first}", "{second}"{other})']
    calls += [f's.compute_at("{block.name}", "{second}")' for block in blocks_inside(a)[-1:]]
    calls += [f's.reverse_compute_at("{block.name}", "{first}")' for block in blocks_inside(b)[:1]]
    return tuple(calls)


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


def _with_storage_before(kernel: Kernel, a: For, b: For) -> Kernel:
    """``kernel`` with storage that begins between the loops made before both."""
    around = [s for s in path_to(kernel, a)[:-1] if isinstance(s, Seq)]
    body = around[-1].body if around else ()
    place = next((n for n, s in enumerate(body) if s is a), -1)
    after = body[place + 1] if 0 <= place < len(body) - 1 else None
    if not isinstance(after, Alloc) or find_path(after, b) is None:
        return kernel
    both = replace(after, body=sequence([a, after.body]))
    outer = sequence([*body[:place], both, *body[place + 2 :]])
    return _with_storage_before(replace_stmt(kernel, around[-1], outer), a, b)


def _check_length(kernel: Kernel, a: For, b: For) -> Verdict:
    ranges = ranges_at(kernel, a)
    one, other = extent(a, ranges), extent(b, ranges)
    if simplify(Binary("-", one, other), ranges) == idx(0):
        return OK
    names = f"`{a.var.name}` runs {print_expr(one)} times and `{b.var.name}` {print_expr(other)}"
    legal = f's.fuse_loops("{a.var.name}", "{b.var.name}", by="value")'
    return refuse(f"{names}; both must run equally often", alternatives=(legal,))


@primitive(check_fuse_loops, "cannot merge loops `{0}` and `{1}`")
def fuse_loops(kernel: Kernel, first: str, second: str, by: Pairing = "count") -> Rewrite:
    """``first`` keeps its name and takes over the body of ``second``."""
    a, b = find_loop(kernel, first), find_loop(kernel, second)
    kernel = _with_storage_before(kernel, a, b)
    seq = next(s for s in reversed(path_to(kernel, a)[:-1]) if isinstance(s, Seq))
    ranges = ranges_at(kernel, a)
    if by == "value":
        merged = _over_both(a, b, ranges)
    else:
        body = substitute(b.body, {b.var: a.var + Binary("-", b.lo, a.lo)})
        merged = replace(a, body=sequence([a.body, body]))
    merged = simplify_bounds(merged, ranges)
    together = sequence(merged if s is a else s for s in seq.body if s is not b)
    return Rewrite(replace_stmt(kernel, seq, together), (), {second: f"was merged into {first}"})


def _over_both(a: For, b: For, ranges: Mapping[str, Interval]) -> For:
    """A loop over the values of both, each body where its own loop ran."""
    lo, hi = simplify(Binary("min", a.lo, b.lo), ranges), simplify(Binary("max", a.hi, b.hi), ranges)
    bodies = []
    for loop in (a, b):
        body = substitute(loop.body, {loop.var: a.var})
        if loop.hi != hi:
            body = If(Compare("<", a.var, loop.hi), body)
        if loop.lo != lo:
            body = If(Compare(">=", a.var, loop.lo), body)
        bodies.append(body)
    return replace(a, lo=lo, hi=hi, body=sequence(bodies))

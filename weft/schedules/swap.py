"""``swap``: two neighbouring statements change places.

Storage that exists from the second on may as well exist before the first, so that what else uses it stays behind both.
"""

from __future__ import annotations

from weft.ir.nesting import exits, path_to, sequence, statements
from weft.ir.quick_init import replace
from weft.ir.stmt import Alloc, Assert, Kernel, Seq, Stmt
from weft.poly.check_neighbours import check_swap as check_independent
from weft.poly.verdict import Verdict, refuse
from weft.schedules.find import node_of
from weft.schedules.loop_facts import has_barrier
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt
from weft.schedules.trace import Numerics


def check_swap(kernel: Kernel, first: str, second: str, *, numerics: Numerics) -> Verdict:
    """Nothing that one of them writes may be read or written by the other."""
    kernel = _opened(kernel, first, second)
    neighbours = _neighbours(kernel, first, second)
    if isinstance(neighbours, Verdict):
        return neighbours
    _, a, b = neighbours
    for s, name in ((a, first), (b, second)):
        if has_barrier(s) or exits(s) or any(isinstance(n, Assert) for n in statements(s)):
            return refuse(f"what is done around `{name}` is not only reading and writing")
    return check_independent(kernel, a, b, numerics)


@primitive(check_swap, "cannot exchange `{0}` and `{1}`")
def swap(kernel: Kernel, first: str, second: str) -> Rewrite:
    """The statement that is, or holds, ``second`` runs before the one that is, or holds, ``first``."""
    kernel = _opened(kernel, first, second)
    neighbours = _neighbours(kernel, first, second)
    assert not isinstance(neighbours, Verdict), "check_swap answers this first"
    around, a, b = neighbours
    order = [b if s is a else a if s is b else s for s in around.body]
    return Rewrite(replace_stmt(kernel, around, sequence(order)))


def _neighbours(kernel: Kernel, first: str, second: str) -> tuple[Seq, Stmt, Stmt] | Verdict:
    """The sequence in which the two part ways, and the statements in it that hold them."""
    one, other = (path_to(kernel, node_of(kernel, name)) for name in (first, second))
    common = [s for s, t in zip(one, other) if s is t]
    around = common[-1] if common else None
    if not isinstance(around, Seq):
        return refuse(f"`{first}` and `{second}` do not follow one another in one place")
    a, b = one[len(common)], other[len(common)]
    place, where = (next(n for n, s in enumerate(around.body) if s is t) for t in (a, b))
    if where != place + 1:
        return refuse(f"`{second}` does not directly follow `{first}`")
    return around, a, b


def _opened(kernel: Kernel, first: str, second: str) -> Kernel:
    """``kernel`` with the statement that holds ``first`` in the reach of storage that begins with ``second``."""
    neighbours = _neighbours(kernel, first, second)
    if isinstance(neighbours, Verdict):
        return kernel
    around, a, b = neighbours
    if not isinstance(b, Alloc):
        return kernel
    rest = [replace(b, body=sequence([a, b.body])) if s is b else s for s in around.body if s is not a]
    return _opened(replace_stmt(kernel, around, sequence(rest)), first, second)

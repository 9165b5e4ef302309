"""Which values all threads of a team agree on, and which differ from thread to thread.

What differs is called divergent. A variable is uniform where no thread variable reaches it: neither through the values
given to it nor through the tests and loops that decide whether it gets one. Memory that threads share, read at a place
they agree on, holds one value for all of them: a thread that wrote it between two barriers would race with those that
read.
"""

from __future__ import annotations

from collections.abc import Collection

from weft.ir.expr import AddressOf, Call, Expr, Load, Var
from weft.ir.nesting import inner_statements
from weft.ir.stmt import Assign, Atomic, Break, Continue, For, If, Let, Return, Stmt, While
from weft.ir.visit import children, fact, mentions

#: Calls that passes make and take out again: whether a test holds for some thread, or for the first one, of those that
#: barriers of a scope hold together.
ANY = {"grid": "any_in_grid", "block": "any_thread", "warp": "any_lane"}
FIRST = {"grid": "first_in_grid", "block": "first_thread", "warp": "first_lane"}
_VOTES = frozenset((*ANY.values(), *FIRST.values()))


def is_vote(e: Expr) -> bool:
    return isinstance(e, Call) and e.name in _VOTES


@fact
def votes_in(s: Stmt) -> frozenset[str]:
    """The names of the votes that variables in ``s`` stand for."""
    own = {s.value.name} if isinstance(s, Let) and isinstance(s.value, Call) and is_vote(s.value) else set()
    return frozenset(own).union(*map(votes_in, inner_statements(s)))


def differs(e: Expr, varying: Collection[str]) -> bool:
    """Whether ``e`` may have another value in another thread."""
    if is_vote(e) or isinstance(e, Var):
        return e.name in varying  # type: ignore[attr-defined]
    if isinstance(e, AddressOf) or (isinstance(e, Load) and e.buffer.name in varying):
        return True
    return any(differs(c, varying) for c in children(e) if isinstance(c, Expr)) or _has_axes(e, varying)


def _has_axes(e: Expr, varying: Collection[str]) -> bool:
    """Bounds of reductions, which are not expressions themselves."""
    axes = getattr(e, "axes", ())
    return any(differs(b, varying) for axis in axes for b in (axis.lo, axis.hi))


def infer_varying_values(threads: Collection[str], body: Stmt, scope: str) -> frozenset[str]:
    """Names in ``body`` of what differs between ``threads``, given by their variables, that ``scope`` holds together.

    Variables, private buffers, and votes that are taken in each warp where the threads are those of a block.
    """
    smaller = {"grid": ("block", "warp"), "block": ("warp",), "warp": ()}[scope]
    apart = {vote[s] for s in smaller for vote in (ANY, FIRST)}
    search = _Search({*threads, *mentions(body).allocated, *apart})
    while search.has_changed:
        search.has_changed = False
        search.visit(body, masked=search.has_returned, loops=())
    return frozenset(search.varying)


class _Search:
    """Rounds over a program until nothing new varies."""

    def __init__(self, varying: set[str]) -> None:
        self.varying = varying
        self.diverged: set[int] = set()  # loops that some threads leave while others stay
        self.has_returned = False
        self.has_changed = True

    def add(self, var: Var) -> None:
        if var.name not in self.varying:
            self.varying.add(var.name)
            self.has_changed = True

    def visit(self, s: Stmt, *, masked: bool, loops: tuple[Stmt, ...]) -> None:
        match s:
            case Let(var=var, value=value):
                if differs(value, self.varying):
                    self.add(var)
            case Assign(var=var, value=value):
                if masked or differs(value, self.varying):
                    self.add(var)
            case Atomic(result=Var() as result):
                self.add(result)
            case If(condition=condition):
                masked = masked or differs(condition, self.varying)
            case For(var=var, lo=lo, hi=hi):
                if differs(lo, self.varying):
                    self.add(var)
                masked = masked or differs(lo, self.varying) or differs(hi, self.varying) or id(s) in self.diverged
                loops = (*loops, s)
            case While(condition=condition):
                masked = masked or differs(condition, self.varying) or id(s) in self.diverged
                loops = (*loops, s)
            case Break() | Continue() if masked and loops:
                self.has_changed |= id(loops[-1]) not in self.diverged
                self.diverged.add(id(loops[-1]))
            case Return() if masked:
                self.has_changed |= not self.has_returned
                self.has_returned = True
        for inner in inner_statements(s):
            self.visit(inner, masked=masked, loops=loops)

"""Replacing parts of a kernel: what every primitive is written with.

Loops, blocks and allocated buffers are known by name, so `unique_names` gives each a name of its
own first, and primitives keep it so: new names come from `taken_names` and `fresh_name`, and a
second copy of a statement from `fresh_copy`.
"""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from weft.ir.expr import Reduce
from weft.ir.interval import Interval, half_open
from weft.ir.nesting import replace_in, statements
from weft.ir.quick_init import replace
from weft.ir.simplify import Simplifier
from weft.ir.stmt import Alloc, Block, For, If, Iter, Kernel, Let, Stmt
from weft.ir.visit import fresh_name, rebuild, replace_buffers, substitute, used_names, walk
from weft.poly.verdict import Verdict
from weft.schedules.find import blocks_inside, ranges_at
from weft.schedules.focus import NestAlone

S = TypeVar("S", bound=Stmt)
T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a primitive did: the new program, the names it made, and what became of names that are gone.

    ``made`` has loops, blocks and buffers in the order the `Schedule` method returns them; a fate
    completes the sentence "loop `m` ...": ``{"m": "was split into m_o and m_i"}``.
    """

    kernel: Kernel
    made: tuple[str, ...] = ()
    fates: Mapping[str, str] = field(default_factory=dict)


class Primitive(NamedTuple):
    """A rewrite, the check that says whether it is legal, and the first line of the error that refuses it.

    ``{0}``, ``{1}`` ... in that line are the positional arguments, ``{*}`` all of them.
    """

    rewrite: Callable[..., Rewrite]
    check: Callable[..., Verdict]
    refusal: str

    def refuse(self, args: tuple[object, ...]) -> str:
        """The first line of the error for a step with ``args``."""
        return self.refusal.replace("{*}", ", ".join(f"`{a}`" for a in args)).format(*args).rstrip()


#: Every primitive by name, once `weft.schedules.schedule` is there.
PRIMITIVES: dict[str, Primitive] = {}


def primitive(
    check: Callable[..., Verdict], refusal: str
) -> Callable[[Callable[Concatenate[Kernel, P], Rewrite]], Callable[Concatenate[Kernel, P], Rewrite]]:
    """Declares the rewrite below it as a primitive."""

    def declare(rewrite: Callable[Concatenate[Kernel, P], Rewrite]) -> Callable[Concatenate[Kernel, P], Rewrite]:
        kept = remembered(rewrite)
        PRIMITIVES[rewrite.__name__] = Primitive(kept, check, refusal)
        return kept

    return declare


_KEPT = 16


def remembered(fn: Callable[Concatenate[Kernel, P], T]) -> Callable[Concatenate[Kernel, P], T]:
    """``fn`` keeping its last few answers: a check looks at the outcome just before it is wanted."""
    kept: list[tuple[Kernel, tuple[object, ...], T]] = []
    _, *parameters = inspect.signature(fn).parameters.values()
    named = [p for p in parameters if p.kind is not p.VAR_POSITIONAL]
    in_order = len(named) == len(parameters)

    @wraps(fn)
    def answer(kernel: Kernel, /, *args: P.args, **kwargs: P.kwargs) -> T:
        # Whether an argument is given by its place, by its name, or left at its default is all the same.
        rest = named[len(args) :] if in_order else [p for p in named if p.kind is p.KEYWORD_ONLY]
        given = (*args, *(kwargs.get(p.name, p.default) for p in rest))
        for known, before, result in kept:
            if known is kernel and before == given:
                return result
        result = fn(kernel, *args, **kwargs)
        kept[:] = [(kernel, given, result), *kept[: _KEPT - 1]]
        return result

    return answer


# Replacing


def replace_stmt(kernel: Kernel, old: Stmt, new: Stmt) -> Kernel:
    """``kernel`` with the one statement ``old`` (found by identity) replaced."""
    return replace(kernel, body=replace_in(kernel.body, old, new))


def replace_loop(kernel: Kernel, old: For, new: Stmt) -> Kernel:
    """``kernel`` with loop ``old`` replaced, and the bounds, guards and bindings of ``new`` simplified."""
    return replace_stmt(kernel, old, simplify_bounds(new, ranges_at(kernel, old)))


def simplify_bounds(root: S, ranges: Mapping[str, Interval]) -> S:
    """Loop bounds, guards and block bindings below ``root`` simplified; no loop, branch or block goes away."""
    known = dict(ranges)
    return _simplify_below(root, Simplifier(known), known)


def _simplify_below(root: S, simple: Simplifier, known: dict[str, Interval]) -> S:
    """The same with what is ``known`` to ``simple``; a name means one thing in all of it, so that nothing is taken back
    of what is learnt about loops."""

    def child(n: Any) -> Any:
        return _simplify_below(n, simple, known) if isinstance(n, Stmt) else n

    match root:
        case For():
            lo, hi = simple.expr(root.lo), simple.expr(root.hi)
            known[root.var.name] = half_open(simple.bounds(lo), simple.bounds(hi))
            body = _simplify_below(root.body, simple, known)
            if lo is root.lo and hi is root.hi and body is root.body:
                return root
            return replace(root, lo=lo, hi=hi, body=body)
        case If():
            condition, then, otherwise = simple.expr(root.condition), child(root.then), child(root.otherwise)
            if condition is root.condition and then is root.then and otherwise is root.otherwise:
                return root
            return replace(root, condition=condition, then=then, otherwise=otherwise)
        case Block():
            iters = tuple([_simplify_iter(i, simple) for i in root.iters])
            return root if all(map(operator.is_, iters, root.iters)) else replace(root, iters=iters)
    return rebuild(root, child)


def _simplify_iter(i: Iter, simple: Simplifier) -> Iter:
    lo, hi, binding = simple.expr(i.lo), simple.expr(i.hi), simple.expr(i.binding)
    return i if lo is i.lo and hi is i.hi and binding is i.binding else Iter(i.var, lo, hi, i.kind, binding)


# Names


def taken_names(kernel: Kernel) -> set[str]:
    """Every name in use: variables, buffers, blocks."""
    names = used_names(kernel) | {b.name for b in blocks_inside(kernel)}
    return names | kernel.reserved if isinstance(kernel, NestAlone) else names


def unique_names(kernel: Kernel) -> Kernel:
    """Every loop variable, ``let``, block and allocated buffer named apart from all others.

    The first keeps its name, except that loops which only initialize (``C_init``, ``C_fill``) or check
    leave the plain names to the computation they prepare: which of those there are depends on what
    is known of the sizes, and a schedule must fit either way.
    """
    params = {p.name for p in kernel.params}
    local = {i.var.name for b in blocks_inside(kernel) for i in b.iters}
    local |= {a.var.name for n in walk(kernel.body) if isinstance(n, Reduce) for a in n.axes}
    variables, blocks = params | local, set[str]()
    nodes = list(statements(kernel.body))
    names: dict[int, str] = {}
    for prepares in (False, True):
        for position, s in enumerate(nodes):
            if _prepares(s) != prepares:
                continue
            if isinstance(s, Block):
                names[position] = fresh_name(s.name, blocks)
            elif isinstance(s, (For, Let)):
                names[position] = fresh_name(s.var.name, variables)
            elif isinstance(s, Alloc):
                names[position] = fresh_name(s.buffer.name, variables)
    return replace(kernel, body=_rename(kernel.body, itertools.count(), names))


def _prepares(s: Stmt) -> bool:
    if not isinstance(s, (For, Block)):
        return False
    return all(b.name.endswith(("_init", "_fill")) for b in blocks_inside(s))


def fresh_copy(root: S, taken: set[str], suffix: str = "") -> S:
    """A second copy of ``root`` for the same kernel: everything it binds is renamed apart from ``taken``."""
    names = {}
    for position, s in enumerate(statements(root)):
        name = s.name if isinstance(s, Block) else s.var.name if isinstance(s, (For, Let)) else None
        if isinstance(s, Alloc):
            name = s.buffer.name
        if name is not None:
            names[position] = fresh_name(name + suffix, taken)
    return _rename(root, itertools.count(), names)


def _rename(root: S, positions: Iterator[int], names: Mapping[int, str]) -> S:
    """``root`` with its binding statements, counted parents first, named as ``names`` says."""
    name = names.get(next(positions))
    renamed = rebuild(root, lambda n: _rename(n, positions, names) if isinstance(n, Stmt) else n)
    if name is None:
        return renamed
    result: Any = renamed
    if isinstance(renamed, Block):
        result = renamed if renamed.name == name else replace(renamed, name=name)
    elif isinstance(renamed, (For, Let)) and renamed.var.name != name:
        var = replace(renamed.var, name=name)
        result = replace(renamed, var=var, body=substitute(renamed.body, {renamed.var: var}))
    elif isinstance(renamed, Alloc) and renamed.buffer.name != name:
        buffer = replace(renamed.buffer, name=name)
        result = Alloc(buffer, replace_buffers(renamed.body, {renamed.buffer: buffer}), span=renamed.span)
    return result  # type: ignore[no-any-return]

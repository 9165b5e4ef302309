"""Dimensions of temporaries, and results that are only copied, as their readers have them; who comes first. Exact.

=========  =====================================================================================================
rewrite    before → after
=========  =====================================================================================================
flatten    ``T(m,y) +=! A(m*4+y,k)`` → ``T(m) +=! A(m,k)``, read as ``T(m*4+y)``
turn       ``T(n,m) +=! e``, ``O(m,n) = T(n,m) + 1`` → ``T(m,n) +=! e``, ``O(m,n) = T(m,n) + 1``
straight   ``T +=! e``, ``O(m,n) = T(m,n)`` → ``O +=! e``
order      of two sums that could come in either order, the one with fewer results first
=========  =====================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from weft.ir.buffer import Buffer
from weft.ir.expr import Const, Expr, Load, Var
from weft.ir.visit import walk
from weft.tensor.boundary import Outside
from weft.tensor.normal_form.axes import merge_digits
from weft.tensor.normal_form.statements import is_formula, is_whole, reads, reads_of, replace_reads, writers
from weft.tensor.normal_form.views import inline
from weft.tensor.polynomial import canonical
from weft.tensor.program import Statement

Places = tuple[Expr, ...]


def flatten(statements: list[Statement], free: set[str], fast: bool) -> list[Statement]:
    """Neighbouring dimensions of temporaries in ``free`` as one, where the axes that write them are digits of one."""
    for s in statements:
        if s.target.name not in free or any(isinstance(i, Var) is False for i in s.indices):
            continue
        shape, indices = s.target.shape, s.indices
        for d in range(len(indices) - 1):
            join = _joiner(d, shape)
            one = replace(s, target=replace(s.target, shape=_one(d, shape)), indices=join(indices))
            merged = merge_digits(one, fast)
            if len(merged.axes) < len(one.axes) and not _is_read_with_outside(s.target.name, statements):
                statements = _put_dimensions(statements, s.target, merged.target, join, merged)
                return flatten(statements, free, fast)
    return statements


def _one(d: int, shape: Places) -> Places:
    return (*shape[:d], canonical(shape[d] * shape[d + 1]), *shape[d + 2 :])


def _joiner(d: int, shape: Places) -> Callable[[Places], Places]:
    return lambda i: (*i[:d], canonical(i[d] * shape[d + 1] + i[d + 1]), *i[d + 2 :])


def _is_read_with_outside(name: str, statements: Sequence[Statement]) -> bool:
    boundaries = (n for s in statements for n in walk(s.value) if isinstance(n, Outside))
    return any(n.load.buffer.name == name for n in boundaries)


def _put_dimensions(
    statements: Sequence[Statement], old: Buffer, new: Buffer, places: Callable[[Places], Places], writer: Statement
) -> list[Statement]:
    """``writer`` writes ``new`` in the place of ``old``; all others read it."""

    def moved(load: Load) -> Load:
        return Load(new, places(load.indices), span=load.span)

    return [
        writer if s.target.name == old.name else replace_reads(s, old.name, moved) if old.name in reads(s) else s
        for s in statements
    ]


def turn(statements: list[Statement], free: set[str]) -> list[Statement]:
    """Dimensions of sums in ``free`` in the order in which a reader's axes go along with them.

    The last that reads element by element says which, else the first that looks for the greatest or least, else the
    last that multiplies them with what its own last axis goes along with: they are its rows then. Columns stay: which
    order is good for those is a question of tiles.
    """
    for s in statements:
        found = list(reads_of(s.target.name, statements)) if s.target.name in free and s.reduce_axes else []
        plain = [(r, load) for r, load in found if not r.reduce_axes][-1:]
        plain += [(r, load) for r, load in found if r.op in ("min", "max")][:1]
        plain += [(r, load) for r, load in found if r.spatial_axes and r.spatial_axes[-1].var not in load.indices][-1:]
        if not plain or not is_whole(s):
            continue
        order = _wanted_order(*plain[0])
        if order is None or order == [*range(len(order))] or _is_read_with_outside(s.target.name, statements):
            continue
        by = _picker(order)
        own = replace(s.target, shape=by(s.target.shape), strides=None)
        axes = {a.var: a for a in s.axes}
        spatial = tuple(axes[i] for i in by(s.indices))  # type: ignore[index]
        writer = replace(s, target=own, indices=by(s.indices), axes=(*spatial, *s.reduce_axes))
        return turn(_put_dimensions(statements, s.target, own, by, writer), free)
    return statements


def _wanted_order(reader: Statement, load: Load) -> list[int] | None:
    """The dimensions of what ``load`` reads in the order of the reader's axes, where each is one of those."""
    names = [a.var for a in reader.axes]
    if reader.indices != tuple(a.var for a in reader.spatial_axes) or not all(i in names for i in load.indices):
        return None
    places = [names.index(i) for i in load.indices]  # type: ignore[arg-type]
    return sorted(range(len(places)), key=places.__getitem__) if len({*places}) == len(places) else None


def _picker(order: Sequence[int]) -> Callable[[Places], Places]:
    return lambda places: tuple(places[d] for d in order)


def straight_out(statements: list[Statement], free: set[str]) -> list[Statement]:
    """Sums in ``free`` that are only copied to where they are wanted are made there."""
    count = writers(statements)
    for copy in statements:
        load = copy.value
        if copy.op != "=" or not isinstance(load, Load) or load.buffer.name not in free or not is_whole(copy):
            continue
        source, target = load.buffer, copy.target
        found = list(reads_of(source.name, statements))
        alike = load.indices == copy.indices and source.dtype == target.dtype and source.shape == target.shape
        maker = next(s for s in statements if s.target.name == source.name)
        if not alike or len(found) != 1 or count[target.name] != 1 or not maker.reduce_axes:
            continue
        between = statements[statements.index(maker) : statements.index(copy)]
        if any(target.name in reads(s) for s in between):
            continue
        made = replace(maker, target=target)
        return straight_out([made if s is maker else s for s in statements if s is not copy], free)
    return statements


def join_ends(statements: list[Statement], free: set[str], ends: set[str]) -> list[Statement]:
    """A formula in its only reader, which reads each element once: where that is a copy, or the name is in ``ends``."""
    for s in statements:
        found = list(reads_of(s.target.name, statements)) if s.target.name in free and is_formula(s) else []
        if len(found) != 1:
            continue
        reader, load = found[0]
        names = {a.var for a in reader.axes}
        if (reader.value != load and s.target.name not in ends) or not is_formula(reader):
            continue
        if len({*load.indices} & names) == len(load.indices) == len(names):
            value = inline(reader.value, {s.target.name: (s.indices, s.value)})
            rest = [replace(r, value=value) if r is reader else r for r in statements if r is not s]
            return join_ends(rest, free, ends)
    return statements


def order(statements: list[Statement]) -> list[Statement]:
    """Of neighbouring sums that need nothing of each other, those with fewer results first."""
    done: list[Statement] = []
    for s in statements:
        at = len(done)
        while at and _comes_before(s, done[at - 1]):
            at -= 1
        done.insert(at, s)
    return done


def _comes_before(s: Statement, other: Statement) -> bool:
    apart = s.target.name not in reads(other) and other.target.name not in reads(s) and s.target != other.target
    sums = bool(s.reduce_axes) and bool(other.reduce_axes)
    return apart and sums and reads(s) & reads(other) != set() and _elements(s.target) < _elements(other.target)


def _elements(buffer: Buffer) -> int:
    return prod(int(n.value) if isinstance(n, Const) else 1 for n in buffer.shape)

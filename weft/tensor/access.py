"""Which elements a statement touches: access maps, what its left side pins down, and its mapping type.

>>> access_maps(statement)[0].matrix          # rows: dimensions of the tensor, columns: statement.axes
((1, 0, 0), (0, 1, 0))
>>> infer_mapping(statement)
'many-to-many'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weft.ir.affine import Affine, affine_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Expr, Load, Var
from weft.ir.visit import free_vars, loads, walk
from weft.tensor.program import Statement, TensorProgram, axes_for

#: How elements of the read tensors reach elements of the written one, from simplest to hardest to fuse:
#: one-to-one keeps the index, reorganize and shuffle move each element to another place (renumbered, or with
#: dimensions permuted), one-to-many repeats elements, many-to-many combines several into one.
Mapping = Literal["one-to-one", "reorganize", "shuffle", "one-to-many", "many-to-many"]
MAPPINGS: tuple[Mapping, ...] = ("one-to-one", "reorganize", "shuffle", "one-to-many", "many-to-many")


@dataclass(frozen=True, slots=True)
class AccessMap:
    """One access as ``matrix @ axes + offsets``; both are None where a subscript is not affine.

    A matrix row belongs to a dimension of ``buffer``, a column to an axis of the statement;
    ``offsets`` hold what remains: a constant, plus multiples of sizes where those are symbolic.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    is_write: bool
    matrix: tuple[tuple[int, ...], ...] | None
    offsets: tuple[Affine, ...] | None


def access_maps(statement: Statement) -> tuple[AccessMap, ...]:
    """The write first, then every read in program order."""
    names = [a.var.name for a in statement.axes]
    written = access_map(statement.target, statement.indices, names, is_write=True)
    return (written, *(access_map(r.buffer, r.indices, names) for r in statement_reads(statement)))


def access_map(buffer: Buffer, indices: tuple[Expr, ...], axes: list[str], *, is_write: bool = False) -> AccessMap:
    rows, offsets = [], []
    for index in indices:
        form = affine_form(index)
        if form is None:
            return AccessMap(buffer, indices, is_write, None, None)
        rows.append(tuple(form.coefficients.get(name, 0) for name in axes))
        rest = {name: c for name, c in form.coefficients.items() if name not in axes}
        offsets.append(Affine(rest, form.constant))
    return AccessMap(buffer, indices, is_write, tuple(rows), tuple(offsets))


def statement_reads(statement: Statement) -> tuple[Load, ...]:
    """Loads of the value and of the left side's subscripts; the old value of ``op=`` is not among them."""
    return tuple(load for e in (*statement.indices, statement.value) for load in loads(e))


def reads_target(statement: Statement) -> bool:
    """Whether the statement explicitly reads the tensor it writes (a recurrence, an in-place update)."""
    return any(load.buffer.name == statement.target.name for load in statement_reads(statement))


def is_scatter(statement: Statement) -> bool:
    """Whether data decide which elements are written."""
    return any(isinstance(n, Load) for i in statement.indices for n in walk(i))


def pinned_axes(statement: Statement) -> frozenset[str]:
    """Axes whose value follows from the written index: no two of their points write one element.

    Solved one dimension at a time: a subscript that is affine in a single axis not yet known gives that axis.
    """
    axes = {a.var.name for a in statement.axes}
    forms = [affine_form(i) for i in statement.indices]
    pinned: set[str] = set()
    progress = True
    while progress:
        progress = False
        for form in forms:
            unknown = [] if form is None else [v for v, c in form.coefficients.items() if c and v in axes - pinned]
            if len(unknown) == 1:
                pinned.add(unknown[0])
                progress = True
    return frozenset(pinned)


def is_injective(statement: Statement) -> bool:
    """Whether different points of the left side's axes provably write different elements."""
    return {a.var.name for a in statement.spatial_axes} <= pinned_axes(statement)


def independent_axes(statement: Statement) -> frozenset[str]:
    """Axes along which points of a statement that reads its own target touch disjoint slices of it.

    Such an axis is a subscript by itself, the same one in every access of the target.
    """
    accesses = [statement.indices]
    accesses += [r.indices for r in statement_reads(statement) if r.buffer.name == statement.target.name]
    names = set()
    for position, index in enumerate(statement.indices):
        if isinstance(index, Var) and all(access[position] == index for access in accesses):
            names.add(index.name)
    return frozenset(names)


def infer_mapping(statement: Statement) -> Mapping:
    """The mapping type of a statement: the hardest among its reads."""
    mapping: Mapping = "one-to-one"
    for load in statement_reads(statement):
        kind = _read_mapping(statement, load)
        mapping = max(mapping, kind, key=MAPPINGS.index)
    if statement.reduce_axes or not is_injective(statement):
        return "many-to-many"
    return mapping


def _read_mapping(statement: Statement, load: Load) -> Mapping:
    left = {name for i in statement.indices for name in free_vars(i)}
    used = {name for i in load.indices for name in free_vars(i)}
    if load.indices == statement.indices:
        return "one-to-one"
    if any(isinstance(n, Load) for i in load.indices for n in walk(i)) or not left & _axis_names(statement) <= used:
        return "one-to-many"
    plain = all(isinstance(i, Var) for i in (*load.indices, *statement.indices))
    if plain and len(set(load.indices)) == len(load.indices) and set(load.indices) == set(statement.indices):
        return "shuffle"
    return "reorganize"


def _axis_names(statement: Statement) -> set[str]:
    return {a.var.name for a in statement.axes}


def first_writers(program: TensorProgram) -> dict[str, int]:
    """For each tensor, the position of the statement that writes it first."""
    addresses: dict[str, int] = {}
    for position, statement in enumerate(program.statements):
        addresses.setdefault(statement.target.name, position)
    return addresses


def written_axes(statement: Statement) -> tuple[Axis, ...]:
    """The axes that choose what is written: those of the target and those that their ranges depend on.

    ``op=!`` sets every element they choose, even where there is nothing to reduce over.
    """
    return axes_for((a.var.name for a in statement.spatial_axes), statement.axes)

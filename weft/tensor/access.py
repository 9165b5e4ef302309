"""Which elements a statement touches: what it reads, and what its left side pins down."""

from __future__ import annotations

from weft.ir.affine import affine_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Expr, Load, Var
from weft.ir.visit import loads, walk
from weft.tensor.program import Statement, TensorProgram, axes_for


def statement_reads(statement: Statement) -> tuple[Load, ...]:
    """Loads of the value and of the left side's subscripts; the old value of ``op=`` is not among them."""
    return tuple(load for e in (*statement.indices, statement.value) for load in loads(e))


def accesses(statement: Statement) -> tuple[tuple[Buffer, tuple[Expr, ...]], ...]:
    """What is written and what is read, each a buffer and its subscripts."""
    read = ((load.buffer, load.indices) for load in statement_reads(statement))
    return ((statement.target, statement.indices), *read)


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
            unknown = [] if form is None else [v for v in form if v in axes - pinned]
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

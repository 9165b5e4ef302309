"""A read as a matrix: a row for every iteration of the loops that are kept, a column for every one that is summed.

What a lowered convolution (im2col) stores is that matrix. Loops that the read does not depend on are not in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from weft.ir.affine import Linear, linear_form
from weft.ir.buffer import Buffer
from weft.ir.evaluated import Test
from weft.ir.expr import Binary, Compare, Const, Expr, Load, Var
from weft.ir.nesting import statements
from weft.ir.stmt import Block, Kernel
from weft.ir.visit import free_vars, walk
from weft.poly.leaves import Access, Leaf, leaves


@dataclass(frozen=True, slots=True)
class MatrixAxis:
    """A loop from ``lo`` to ``hi`` that a read depends on."""

    name: str
    lo: int
    hi: int

    @property
    def extent(self) -> int:
        return max(self.hi - self.lo, 0)


@dataclass(frozen=True, slots=True)
class Dimension:
    """A subscript, ``constant`` and so many times each axis; nothing is read where it is not in ``lo:hi``."""

    terms: tuple[tuple[str, int], ...]
    constant: int
    lo: int
    hi: int


@dataclass(frozen=True, eq=False)
class MatrixRead:
    """One read of a program, its loops sorted into rows and columns, outermost first."""

    buffer: Buffer
    rows: tuple[MatrixAxis, ...]
    columns: tuple[MatrixAxis, ...]
    indices: tuple[Expr, ...]
    tests: tuple[Test, ...]
    #: The subscripts, where each is a sum of loops that no other subscript uses; None elsewhere.
    dimensions: tuple[Dimension, ...] | None

    @cached_property
    def axes(self) -> Mapping[str, MatrixAxis]:
        return {a.name: a for a in (*self.rows, *self.columns)}

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Of the tensor that is read."""
        return tuple(int(n.value) for n in self.buffer.shape if isinstance(n, Const))

    @property
    def row_count(self) -> int:
        return math.prod(a.extent for a in self.rows)

    @property
    def column_count(self) -> int:
        return math.prod(a.extent for a in self.columns)


def matrix_reads(kernel: Kernel) -> dict[str, MatrixRead]:
    """The reads of parameters in the blocks of ``kernel``, by tensor; of one that is read often, ``X``, ``X.2`` ..."""
    found: dict[str, MatrixRead] = {}
    params = {b.name for b in kernel.buffers}
    for block in (s for s in statements(kernel.body) if isinstance(s, Block)):
        for leaf in leaves(kernel, block.body):
            for access in leaf.accesses:
                read = _matrix_read(block, leaf, access) if access.buffer.name in params else None
                if read is not None:
                    found[_free_name(access.buffer.name, found)] = read
    return found


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    count = 1
    while (numbered := name if count == 1 else f"{name}.{count}") in taken:
        count += 1
    return numbered


def _matrix_read(block: Block, leaf: Leaf, access: Access) -> MatrixRead | None:
    """None for what is no read of numbers of known loops: updates, reads at places that other reads give."""
    if access.writes or access.axes or not all(isinstance(n, Const) for n in access.buffer.shape):
        return None
    indices = tuple(leaf.resolve(i) for i in access.indices)
    tests = tuple(Test(leaf.resolve(t.condition), t.holds) for t in (*leaf.tests, *access.tests))
    if any(isinstance(n, Load) for e in (*indices, *(t.condition for t in tests)) for n in walk(e)):
        return None
    used = {name for e in (*indices, *(t.condition for t in tests)) for name in free_vars(e)}
    summed = {name for i in block.iters if i.kind == "reduce" for name in free_vars(leaf.resolve(i.binding))}
    loops = [loop for loop in leaf.loops if loop.name in used]
    if not used <= {loop.name for loop in loops}:
        return None
    axes = [MatrixAxis(x.name, int(x.lo.value), int(x.hi.value)) for x in loops if _is_plain(x.lo, x.hi)]  # type: ignore[attr-defined, union-attr]
    if len(axes) < len(loops):
        return None
    rows = tuple(a for a in axes if a.name not in summed)
    columns = tuple(a for a in axes if a.name in summed)
    return MatrixRead(access.buffer, rows, columns, indices, tests, _dimensions(access.buffer, indices, tests))


def _is_plain(lo: Expr, hi: Expr | None) -> bool:
    return isinstance(lo, Const) and isinstance(hi, Const)


def _dimensions(buffer: Buffer, indices: tuple[Expr, ...], tests: Iterable[Test]) -> tuple[Dimension, ...] | None:
    forms = [linear_form(i) for i in indices]
    names = [v for form in forms for v in form.terms]
    if not all(isinstance(v, Var) for v in names) or len(set(names)) < len(names):
        return None
    ranges = [[0, int(n.value)] for n in buffer.shape if isinstance(n, Const)]
    for test in tests:
        for comparison in _conjuncts(test):
            if comparison is None or not _narrow(comparison, forms, ranges):
                return None
    return tuple(
        Dimension(tuple((v.name, c) for v, c in form.terms.items() if isinstance(v, Var)), form.constant, lo, hi)
        for form, (lo, hi) in zip(forms, ranges)
    )


def _conjuncts(test: Test) -> Iterator[Compare | None]:
    """The comparisons that hold together; None for what is something else."""
    e = test.condition
    if test.holds and isinstance(e, Binary) and e.op == "&&":
        yield from _conjuncts(Test(e.left))
        yield from _conjuncts(Test(e.right))
    elif isinstance(e, Const):
        yield from () if bool(e.value) == test.holds else (None,)
    else:
        yield e if isinstance(e, Compare) and test.holds else None


def _narrow(test: Compare, forms: list[Linear], ranges: list[list[int]]) -> bool:
    """Takes ``test`` into the range of the subscript it is about, in place; False where it is about none."""
    difference = linear_form(test.left).add(linear_form(test.right), -1)
    for form, bounds in zip(forms, ranges):
        times = _multiple(form, difference)
        if times:  # subscript - form.constant = times * (difference - difference.constant)
            at = form.constant - times * difference.constant
            return _narrow_range(test.op if times > 0 else _TURNED[test.op], at, bounds)
    return False


def _multiple(form: Linear, difference: Linear) -> int:
    """How many times the terms of ``difference`` those of ``form`` are; 0 where that is no whole number."""
    first = next(iter(form.terms), None)
    if first is None or not difference.terms.get(first):
        return 0
    times = form.terms[first] // difference.terms[first]
    return times if form.terms == {v: times * c for v, c in difference.terms.items()} else 0


_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}


def _narrow_range(op: str, at: int, bounds: list[int]) -> bool:
    """``subscript op at`` as a range."""
    if op == "!=":
        return False
    if op in (">", ">=", "=="):
        bounds[0] = max(bounds[0], at + (op == ">"))
    if op in ("<", "<=", "=="):
        bounds[1] = min(bounds[1], at + (op != "<"))
    return True

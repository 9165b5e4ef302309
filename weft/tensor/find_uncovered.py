"""Elements of outputs of declared size that no statement writes, though no range was stated that leaves them out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from weft.ir.remark import Remark
from weft.ir.visit import free_vars
from weft.tensor.array_arithmetic import Array
from weft.tensor.check_written import unwritten
from weft.tensor.coverage import covers, written_box
from weft.tensor.program import TensorProgram
from weft.tensor.text import describe


def find_uncovered(program: TensorProgram, inferred: Mapping[str, Collection[int]]) -> Iterator[Remark]:
    """A remark for each output that is not covered at any of the sizes that are tried.

    ``inferred`` has outputs of declared size with the dimensions that variables of inferred range run through: what a
    stated range leaves out was meant to be left out.
    """
    inputs = {v for b in program.inputs for size in b.shape for v in free_vars(size)}
    inputs |= {p.name for p in program.scalars}
    for output in program.outputs:
        sizes = {v for size in output.shape for v in free_vars(size)}
        writers = [s for s in program.statements if s.target.name == output.name]
        boxes = [box for s in writers if not s.recurrences and (box := written_box(s)) is not None]
        if output.name in program.carried or not sizes <= inputs or covers(boxes, output.shape):
            continue
        if inferred.get(output.name):
            yield from _uncovered(program, output.name, inferred[output.name])


def _uncovered(program: TensorProgram, name: str, dimensions: Collection[int]) -> Iterator[Remark]:
    found = [(sizes, _whole_slices(places, dimensions)) for sizes, places in unwritten(program, name)]
    if not found or not all(places.any() for _, places in found):
        return
    sizes, places = found[0]
    first = np.argwhere(places)[0]
    element = f"{name}({', '.join(map(str, first))})"
    given = ", ".join(f"{n} = {v}" for n, v in sizes.items())
    output = next(b for b in program.outputs if b.name == name)
    writer = next(s for s in program.statements if s.target.name == name)
    ranges = ", ".join(f"`{a.var.name}` in {describe(a.lo)}:{describe(a.hi)}" for a in writer.axes)
    yield Remark(
        "uncovered-output",
        f"no statement writes all of `{name}`",
        writer.span or output.span,
        f"{f'with {given}, ' if given else ''}`{element}` stays zero; `{name}` is written for {ranges}",
        f"leave out the size of `{name}` to have what is written, or state ranges: "
        f"`where {writer.axes[0].var.name if writer.axes else 'i'} in ...`",
    )


def _whole_slices(places: Array, dimensions: Collection[int]) -> Array:
    """Of elements that are not written, those at positions of one of ``dimensions`` where nothing is written at all."""
    empty = np.zeros_like(places)
    for d in dimensions:
        empty |= places.all(axis=tuple(k for k in range(places.ndim) if k != d), keepdims=True)
    return empty

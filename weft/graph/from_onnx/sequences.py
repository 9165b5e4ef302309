"""Entries of the table of ONNX's operators: sequences of tensors, which are known as lists while the graph is made."""

from __future__ import annotations

import numpy as np

from weft.graph.formulas import views
from weft.graph.formulas.common import axis
from weft.graph.from_onnx.shapes import joined, reshape
from weft.graph.from_onnx.table import Many, Site, Term, known_term, lowers
from weft.ir.errors import UnsupportedError


@lowers("SequenceEmpty")
def _none(t: Site) -> Many:
    return Many(())


@lowers("SequenceConstruct")
def _together(t: Site, *terms: Term) -> Many:
    return Many(terms)


@lowers("SequenceLength")
def _length(t: Site, given: Many) -> Term:
    return known_term(np.array(len(given.terms), np.int64))


@lowers("SequenceAt")
def _at(t: Site, given: Many, place: Term) -> Term:
    return given.terms[_place(t, place, len(given.terms))]


@lowers("SequenceInsert")
def _with(t: Site, given: Many, new: Term, place: Term | None = None) -> Many:
    number = len(given.terms)
    n = number if place is None else _place(t, place, number, also=number)
    return Many((*given.terms[:n], new, *given.terms[n:]))


@lowers("SequenceErase")
def _without(t: Site, given: Many, place: Term | None = None) -> Many:
    number = len(given.terms)
    n = number - 1 if place is None else _place(t, place, number)
    return Many((*given.terms[:n], *given.terms[n + 1 :]))


def _place(t: Site, place: Term, number: int, also: int = -1) -> int:
    n = int(t.known(place).item())
    if n != also and not -number <= n < number:
        raise UnsupportedError(f"place {n} of {number} tensors")
    return n + number if n < 0 else n


@lowers("SplitToSequence")
def _split(t: Site, x: Term, parts: Term | None = None) -> Many:
    d = axis(t.get("axis", 0), x.rank)
    size, keeps = x.shape[d], parts is not None or bool(t.get("keepdims", 1))
    lengths = (1,) * size if parts is None else t.ints(parts)
    if parts is not None and not parts.shape:
        each = lengths[0]
        if each < 1:
            raise UnsupportedError(f"parts of {each} elements")
        lengths = tuple(min(each, size - n) for n in range(0, size, each))
    if sum(lengths) != size or min(lengths, default=0) < 0:
        raise UnsupportedError(f"{size} elements in parts of {lengths}")
    made, start = [], 0
    for length in lengths:
        begin, sizes = [0] * x.rank, list(x.shape)
        begin[d], sizes[d] = start, length
        part = t.make([x], views.cut, tuple(begin), (1,) * x.rank, tuple(sizes))
        made.append(part if keeps else reshape(t, part, (*x.shape[:d], *x.shape[d + 1 :])))
        start += length
    return Many(tuple(made))


@lowers("ConcatFromSequence")
def _joined(t: Site, given: Many) -> Term:
    terms, is_new = given.terms, bool(t.get("new_axis", 0))
    if not terms:
        raise UnsupportedError("a tensor put together of none")
    d = axis(t.get("axis"), terms[0].rank + is_new)
    return joined(t, [reshape(t, x, (*x.shape[:d], 1, *x.shape[d:])) for x in terms] if is_new else terms, d)


#: Operators that take sequences; of others none may be an input.
TAKE_SEQUENCES = ("SequenceLength", "SequenceAt", "SequenceInsert", "SequenceErase", "ConcatFromSequence", "Identity")

"""No element is read before something has written it: what the ranges of a program prove to be wrong is refused.

A program is run at a few small sizes without its values: every write marks elements, every read is held
against the marks. Reads that data decide are passed over. (Outputs are zero where nothing writes them, which
callers see; a program that reads such elements itself was hardly meant.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weft.ir.buffer import Buffer
from weft.ir.errors import LanguageError, ShapeError
from weft.ir.expr import Expr
from weft.ir.visit import loads
from weft.tensor.access import first_writers, is_scatter, statement_reads
from weft.tensor.array_arithmetic import Array
from weft.tensor.coverage import Box, covers, initialization, reads_follow, written_box
from weft.tensor.evaluate import Evaluation
from weft.tensor.evaluate_expr import Point, evaluate_expr
from weft.tensor.program import Statement, TensorProgram
from weft.tensor.prove_bounds import guarded_accesses
from weft.tensor.recurrences import Step, constant_of, in_order
from weft.tensor.specialize import specialize
from weft.tensor.text import describe, describe_access

#: Larger programs (stated sizes) would take long to run; they are accepted.
MAX_ELEMENTS, MAX_PIECES = 1 << 16, 1000
#: Sizes to try, in the order of the program's sizes, and values for its integer parameters.
SAMPLES = (((5, 6, 7, 8), 1), ((6, 6, 6, 6), 2), ((8, 7, 5, 4), 3))


def check_written(program: TensorProgram) -> None:
    """Raises for a read of what is not written, or only later, at sizes that the program accepts."""
    suspects = _suspects(program)
    for sizes, early, _ in _runs(program, suspects) if suspects else ():
        if early is not None:
            raise _refusal(program, early, sizes)


def settle_carried(program: TensorProgram) -> TensorProgram:
    """``program`` without the outputs among its carried ones of which it reads only what it wrote before, as its runs
    show: a factor that grows step by step is nothing that a caller passes in."""
    kept = tuple(name for name in program.carried if not _is_settled(program, name))
    return program if kept == program.carried else replace(program, carried=kept)


def _is_settled(program: TensorProgram, name: str) -> bool:
    writers = [s for s in program.statements if s.target.name == name]
    if not all(s.recurrences and not is_scatter(s) and (s.op == "=" or s.initialize) for s in writers):
        return False
    reads = [a for s in program.statements for a in guarded_accesses(s) if a.buffer.name == name and not a.is_write]
    if any(loads(e) for a in reads for e in (*a.indices, *a.guards)):  # data decide
        return False
    runs = list(_runs(program, frozenset({name})))
    return bool(runs) and all(early is None and is_whole for _, early, is_whole in runs)


def _runs(program: TensorProgram, names: frozenset[str]) -> Iterator[tuple[dict[str, int], _Early | None, bool]]:
    """Sizes, the first read of an element of ``names`` that is not written, and whether the run came to its end."""
    for sizes, marks in _marked(program, names):
        yield sizes, marks.first, marks.is_whole


def _marked(program: TensorProgram, names: frozenset[str]) -> Iterator[tuple[dict[str, int], _Marks]]:
    """The program run at each of the sizes to try that it accepts."""
    is_open = bool(program.sizes or program.constants)
    for values, parameter in SAMPLES if is_open else SAMPLES[:1]:
        sizes = {v.name: values[n % len(values)] for n, v in enumerate(program.sizes)}
        sizes |= {v.name: parameter for v in program.constants}
        try:
            marks = _Marks(specialize(program, sizes), names)
            marks.first = marks.find()
        except ShapeError:
            continue  # a call with these sizes is refused too
        yield sizes, marks


def _suspects(program: TensorProgram) -> frozenset[str]:
    """Written tensors that are read where what came before is not seen at once to have set all of them."""
    boxes: dict[str, list[Box]] = {b.name: [] for b in (*program.outputs, *program.temporaries)}
    names: set[str] = set()
    for s in program.statements:
        read = {load.buffer for load in statement_reads(s) if load.buffer.name in boxes}
        names |= {b.name for b in read if not covers(boxes[b.name], b.shape)}
        box = None if is_scatter(s) or s.recurrences else written_box(s)
        if box is not None:
            boxes[s.target.name].append(box)
    first = first_writers(program)
    return frozenset(
        n for n in names - set(program.carried) if n not in first or not reads_follow(program, n, first[n])
    )


@dataclass(frozen=True)
class _Early:
    """Reads by the access numbered ``access`` of statement ``reader`` that found nothing, one row for each."""

    reader: int
    access: int
    name: str
    places: tuple[Array, ...]
    points: Mapping[str, Array]
    #: positions of the statements that had run
    before: frozenset[int]

    def row(self, n: int) -> _Early:
        point = {name: values[n : n + 1] for name, values in self.points.items()}
        return replace(self, places=tuple(p[n : n + 1] for p in self.places), points=point)


class _Marks:
    """The elements that are written so far, while a specialized program runs."""

    def __init__(self, program: TensorProgram, suspects: frozenset[str]) -> None:
        self.program = program
        buffers = [b for b in (*program.outputs, *program.temporaries) if b.name in suspects]
        self.is_small = sum(math.prod(_shape(b)) for b in buffers) <= MAX_ELEMENTS
        self.written = {b.name: np.zeros(_shape(b), bool) for b in buffers} if self.is_small else {}
        self.ran: set[int] = set()
        self.early: list[_Early] = []
        #: of those, the first
        self.first: _Early | None = None
        #: whether all of it ran
        self.is_whole = False

    def find(self) -> _Early | None:
        """The first read of an element that is not written."""
        if not self.is_small:
            return None
        pieces = 0
        for step in in_order(self.program.statements):
            for piece in self._pieces(step.statement) if self._matters(step.statement) else ():
                pieces += 1
                if pieces > MAX_PIECES or math.prod(map(len, piece.values())) > MAX_ELEMENTS:
                    return None
                self._read(step, piece)
                self._write(step.statement, piece)
            self.ran.add(step.position)
            if self.early:
                return self.early[0].row(0)
        self.is_whole = True
        return None

    def _matters(self, statement: Statement) -> bool:
        """Whether it reads or writes what is looked at."""
        names = {statement.target.name, *(load.buffer.name for load in statement_reads(statement))}
        return not names.isdisjoint(self.written)

    def _pieces(self, statement: Statement) -> Iterator[dict[str, range]]:
        if statement.initialize:
            start = initialization(statement)
            for piece in Evaluation(start, {}, wide=False).boxes():
                self._write(start, piece)
        return Evaluation(statement, {}, wide=False).boxes()

    def _read(self, step: Step, piece: Mapping[str, range]) -> None:
        for number, access in enumerate(guarded_accesses(step.statement)):
            name = access.buffer.name
            decided = not any(loads(e) for e in (*access.indices, *access.guards))
            if access.is_write or name not in self.written or not decided:
                continue
            point = Point.over(step.statement.axes, piece, {}, wide=False)
            for guard in access.guards:
                point = point.where(np.broadcast_to(evaluate_expr(guard, point), point.shape))
            places = self._places(name, access.indices, point)
            missing = np.broadcast_to(~self.written[name][places], point.select(np.ones(())).shape)
            if missing.any():
                at = {n: point.select(v)[missing] for n, v in point.variables.items()}
                at = {v.name: np.full(missing.sum(), constant_of(e)) for v, e in step.point.items()} | at
                places = tuple(p[missing] for p in places)
                self.early.append(_Early(step.position, number, name, places, at, frozenset(self.ran)))

    def _write(self, statement: Statement, piece: Mapping[str, range]) -> None:
        marks = self.written.get(statement.target.name)
        if marks is None:
            return
        if is_scatter(statement) or (statement.op != "=" and not statement.initialize and not marks.any()):
            marks[...] = True  # where data say, or all elements at the identity
            return
        point = Point.over(statement.axes, piece, {}, wide=False)
        marks[self._places(statement.target.name, statement.indices, point)] = True

    def _places(self, name: str, indices: Sequence[Expr], point: Point) -> tuple[Array, ...]:
        """Where an access goes at ``point``; ranges that depend on each other may lead outside at some sizes only."""
        places = tuple(point.select(evaluate_expr(i, point)) for i in indices)
        if any((place < 0).any() or (place >= size).any() for place, size in zip(places, self.written[name].shape)):
            raise ShapeError(f"`{describe_access(name, indices)}` goes outside `{name}`")
        return places


def _shape(buffer: Buffer) -> list[int]:
    return [constant_of(size) for size in buffer.shape]


def _refusal(program: TensorProgram, early: _Early, sizes: Mapping[str, int]) -> LanguageError:
    reader = program.statements[early.reader]
    access = list(guarded_accesses(reader))[early.access]
    point = ", ".join(f"{name} = {values[0]}" for name, values in early.points.items())
    given = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    element = f"{early.name}({', '.join(str(p[0]) for p in early.places)})" if early.places else early.name
    why = f"at {point or 'its only point'}{f' (with {given})' if given else ''} it reads `{element}`; "
    earlier = [program.statements[p] for p in sorted(early.before) if program.statements[p].target.name == early.name]
    before = " and ".join(_describe_write(s) for s in earlier)
    why += f"so far, only {before} {'is' if len(earlier) == 1 else 'are'} written" if earlier else "nothing wrote it"
    return LanguageError(
        f"`{access}` reads what nothing has written yet",
        span=access.span or reader.span,
        why=why,
        help=_remedy(program, early, reader),
    )


def _describe_write(statement: Statement) -> str:
    ranges = [f"{a.var.name} in {describe(a.lo)}:{describe(a.hi)}" for a in statement.all_axes]
    left = describe_access(statement.target.name, statement.indices)
    return f"`{left}`" + (f" for {', '.join(ranges)}" if ranges else "")


def _remedy(program: TensorProgram, early: _Early, reader: Statement) -> str:
    if reader.recurrences:
        step = reader.recurrences[-1].axis.var.name
        return f"steps run in order: read what an earlier one wrote, as at `{step}-1`, and set what the first needs"
    later = any(s.target.name == early.name for s in program.statements[early.reader :])
    if not later or not reader.axes:
        return "set those elements before"
    axis = reader.axes[0]
    block = f"for {axis.var.name} in {describe(axis.lo)}:{describe(axis.hi)} {{ ... }}"
    return f"put what goes on together in a block, `{block}`, or set those elements before"

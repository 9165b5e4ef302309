"""What a call must know of a program beyond its parameters: constants to specialize on, outputs carried in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Load, Var
from weft.ir.visit import Node, free_vars, loads
from weft.tensor.coverage import written_box
from weft.tensor.polynomial import Polynomial
from weft.tensor.program import Requirement, Statement
from weft.tensor.prove_bounds import is_within
from weft.tensor.recurrences import steps_behind


def infer_constants(
    scalars: Mapping[str, Var],
    statements: Iterable[Statement],
    buffers: Iterable[Buffer],
    requirements: Iterable[Requirement],
) -> tuple[Var, ...]:
    """The integer parameters that shapes, ranges or subscripts depend on."""
    nodes: list[Node] = [r.condition for r in requirements]
    for s in statements:
        nodes += [*s.indices, *(bound for a in s.all_axes for bound in (a.lo, a.hi))]
        nodes += [i for load in loads(s.value) for i in load.indices]
    nodes += [size for b in buffers for size in b.shape]
    names = {name for n in nodes for name in free_vars(n)}
    return tuple(v for name, v in scalars.items() if name in names)


def infer_carried(outputs: Iterable[Buffer], statements: Sequence[Statement]) -> tuple[str, ...]:
    """Outputs whose value before the call matters: accumulated into, or read, before anything sets them."""
    return tuple(b.name for b in outputs if _is_carried(b.name, statements))


def _is_carried(name: str, statements: Sequence[Statement]) -> bool:
    for s in statements:
        reads = [n for e in (*s.indices, s.value) for n in loads(e) if n.buffer.name == name]
        if s.target.name == name:
            accumulates = s.op != "=" and not s.initialize
            return accumulates or (bool(reads) and not _reads_own_past(s, reads))
        if reads:
            return not _reads_earlier_steps(s, reads, statements)
    return False


def _reads_earlier_steps(s: Statement, reads: Sequence[Load], statements: Sequence[Statement]) -> bool:
    """Whether every read is of an element that an earlier step of the block around ``s`` set."""
    writers = [w for w in statements if s.recurrences and w.recurrences == s.recurrences and w.op == "="]
    return all(any(_is_of_earlier_step(s, r, w) for w in writers if w.target.name == r.buffer.name) for r in reads)


def _is_of_earlier_step(s: Statement, read: Load, writer: Statement) -> bool:
    box = written_box(writer)
    behind = any(distance > 0 for distance in steps_behind(writer, read).values())
    return behind and box is not None and all(is_within(s, read, k, lo, hi) for k, (lo, hi) in enumerate(box))


def _reads_own_past(s: Statement, reads: Sequence[Load]) -> bool:
    """Whether every read is of an element that an earlier point of the same statement wrote (a scan)."""
    axes = {a.var.name: a for a in s.axes}
    if s.op != "=" or len({i for i in s.indices if isinstance(i, Var)}) != len(s.indices):
        return False
    own = [axes[i.name] for i in s.indices if isinstance(i, Var)]
    return all(_is_earlier(own, r) and _is_inside(own, s, r) for r in reads)


def _is_earlier(own: Sequence[Axis], read: Load) -> bool:
    """Whether the first subscript that differs is behind by a constant."""
    for axis, index in zip(own, read.indices):
        distance = (Polynomial.of(axis.var) - Polynomial.of(index)).as_int
        if distance is None or distance < 0:
            return False
        if distance > 0:
            return True
    return False


def _is_inside(own: Sequence[Axis], s: Statement, read: Load) -> bool:
    """Whether the read stays in the box the statement writes, wherever it is evaluated at all."""
    written = tuple((a.lo, a.hi) for a in own)
    return all(is_within(s, read, k, lo, hi) for k, (lo, hi) in enumerate(written))

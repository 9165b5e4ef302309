"""Which loop of a statement becomes the lanes of vectors, and how many lanes: as the code generator will decide.

A loop that a schedule vectorized is taken; nests without any get the loop that the generator's own vectorizer takes
(`weft.passes.vectors.vectorize_innermost`), by the same costs in short.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from weft.ir.expr import Binary, Call, Expr
from weft.ir.visit import walk
from weft.passes.vectors.choose_lanes import CALLS, MOST, PLAIN, REDUCTION, SIMPLE_CALLS
from weft.passes.vectors.vectorize_innermost import FOLD, GATHER, SCATTER, SHORT_STEP
from weft.schedules.index_forms import Form, variables
from weft.schedules.nests import Access, Leaf, Nest
from weft.target.cpu.machine_model import MachineModel


@dataclass(frozen=True, slots=True)
class Lanes:
    """``nest`` runs as ``count`` lanes of ``bits`` at a time, in ``registers`` vectors; ``folded`` over a reduction."""

    nest: Nest
    count: int
    registers: float
    bits: int = 32
    folded: bool = False


def choose_vectors(root: Nest, model: MachineModel, fast: bool) -> dict[Leaf, Lanes]:
    """The lanes of every statement that has any."""
    found: dict[Leaf, Lanes] = {}
    for nest in root.nests():
        if nest.kind == "vector":
            for leaf in nest.below():
                found.setdefault(leaf, _asked(nest, leaf, model))
    for part in root.parts:
        if isinstance(part, Nest) and not all(leaf in found for leaf in part.below()):
            _default(part, model, fast, found)
    return found


def data_bits(leaf: Leaf) -> int:
    """Bits of the widest element that takes part; 16-bit floats are computed in 32."""
    widest = 8
    for a in leaf.accesses:
        t = a.buffer.dtype
        widest = max(widest, 32 if t.is_narrow_float else t.bits)
    return widest


def _asked(nest: Nest, leaf: Leaf, model: MachineModel) -> Lanes:
    """A vector loop's extent is kept up to some registers; what fills none is masked, or done in smaller ones."""
    bits = data_bits(leaf)
    register, extent = model.lanes(bits), max(1, int(nest.trips))
    even, most = extent & -extent, model.lanes(bits) * MOST
    if even == extent or register <= even:
        return Lanes(nest, min(most, even), max(1.0, min(most, even) / register), bits)
    if extent > most:
        return Lanes(nest, register, 1.0, bits)
    whole, rest = divmod(extent, register)
    return Lanes(nest, (whole + 1) * register, float(whole + (1 if model.has_masks else rest.bit_count())), bits)


def _default(nest: Nest, model: MachineModel, fast: bool, touching: dict[Leaf, Lanes]) -> tuple[float, bool]:
    """Fills ``touching`` for nests without vectors; the cost of ``nest`` and whether somebody chose vectors in it."""
    cost, decided = 0.0, nest.kind == "vector"
    for child in nest.parts:
        if isinstance(child, Leaf):
            cost += _cost(child, None, 1)
            decided = decided or child in touching or child.intrinsic is not None
        else:
            inside, chosen = _default(child, model, fast, touching)
            cost, decided = cost + inside, decided or chosen
    cost *= max(1.0, nest.trips)
    if decided or nest.kind not in ("serial", "unroll") or nest.trips <= 1 or nest.name == "while":
        return cost, decided
    leaves = list(nest.below())
    register = model.lanes(max(map(data_bits, leaves), default=32))
    as_lanes = _cost_as_lanes(nest, leaves, register) if nest.kind == "serial" else None
    folded = _cost_folded(nest, leaves, register, fast)
    best = min(c for c in (cost, as_lanes, folded) if c is not None)
    if best < cost:
        _take(nest, leaves, register, best == folded, touching)
    return best, False


def _take(nest: Nest, leaves: list[Leaf], register: int, folded: bool, touching: dict[Leaf, Lanes]) -> None:
    calls = any(_has_calls(leaf.value) for leaf in leaves)
    loops = any(isinstance(child, Nest) for child in nest.parts)
    most = register * (CALLS if calls else REDUCTION if loops else PLAIN)
    extent = int(nest.trips)
    count = max(1, min(most, 1 << (extent - 1).bit_length()))
    for leaf in leaves:
        touching[leaf] = Lanes(nest, count, max(1.0, min(count, extent) / register), data_bits(leaf), folded)


@lru_cache(maxsize=1024)
def _has_calls(value: Expr) -> bool:
    return any(isinstance(n, Call) and n.name not in SIMPLE_CALLS for n in walk(value))


def _cost_as_lanes(nest: Nest, leaves: list[Leaf], lanes: int) -> float | None:
    if not _is_independent(nest, leaves):
        return None
    total = 0.0
    for leaf in leaves:
        inside = 1.0
        for inner in leaf.nests[nest.depth :]:
            inside *= max(1.0, inner.trips)
        total += inside * leaf.share * _cost(leaf, nest, lanes)
    return max(1.0, nest.trips / lanes) * total


def _is_independent(nest: Nest, leaves: list[Leaf]) -> bool:
    """Whether every iteration writes elements of its own, and reads no others of what it writes.

    As in `passes.analysis.check_independent`, one subscript must tell iterations apart whatever the loops inside do.
    """
    inside = {n.name for n in nest.nests()} - {nest.name}
    written: dict[str, list[Form | None]] = {}
    for leaf in leaves:
        if leaf.is_atomic:
            return False
        if leaf.accesses and leaf.write.is_store and nest.name not in leaf.write.private:
            written[leaf.write.buffer.name] = []
    for leaf in leaves:
        for a in leaf.accesses:
            if a.buffer.name in written:
                written[a.buffer.name].append(_telling(a, nest.name, inside))
    return all(found[0] is not None and all(f == found[0] for f in found) for found in written.values())


def _telling(access: Access, name: str, inside: set[str]) -> Form | None:
    """A subscript that moves with a loop and with none inside it."""
    for form in access.forms:
        names = variables(form)
        if name in names and not names & inside and not form.scattered:
            return form
    return None


def _cost_folded(nest: Nest, leaves: list[Leaf], lanes: int, fast: bool) -> float | None:
    """The iterations of a reduction spread over lanes."""
    updates = [leaf for leaf in leaves if not leaf.starts]
    if len(updates) != 1 or any(isinstance(p, Nest) for p in nest.parts) or not updates[0].accesses:
        return None
    leaf = updates[0]
    op = leaf.value.op if isinstance(leaf.value, Binary) else ""
    if op not in ("+", "*", "min", "max") or leaf.write.moves_with(nest.name) or not leaf.write.is_store:
        return None
    if leaf.write.buffer.dtype.is_float and op in ("+", "*") and not fast:
        return None
    return nest.trips / lanes * (_cost(leaf, nest, lanes) + 1) + FOLD


@lru_cache(maxsize=1024)
def _operations(value: Expr) -> int:
    return sum(isinstance(n, (Binary, Call)) for n in walk(value))


def _cost(leaf: Leaf, lane: Nest | None, lanes: int) -> float:
    """Simple instructions for one run, for all lanes at once where there are any."""
    cost = 1.0 + _operations(leaf.value)
    if lane is None:
        return cost + len(leaf.accesses)
    for a in leaf.accesses:
        step = a.step(lane.name)
        if step in (0, 1):
            cost += 1.0
        elif step is not None and 1 < step <= SHORT_STEP and not a.is_store:
            cost += 2.0 * step
        else:
            cost += 2.0 if step == -1 else (SCATTER if a.is_store else GATHER) * lanes
    return cost

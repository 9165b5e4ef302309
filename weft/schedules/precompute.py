"""``precompute``: a part of a formula that depends on fewer iterators gets a stage of its own.

::

    for s, e, t                                        for s, t
      Y[s, e] += exp(P[s, t] - Top[s]) * V[t, e]   =>    Y_part[s, t] = exp(P[s, t] - Top[s])
                                                       for s, e, t
                                                         Y[s, e] += Y_part[s, t] * V[t, e]

The same part in neighbouring nests reads the new storage too. Values are computed as before, only once, so
results are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from weft.ir.buffer import Buffer
from weft.ir.evaluated import evaluated
from weft.ir.expr import Binary, Call, Compare, Expr, Load, Reduce, Select, Unary, Var, idx
from weft.ir.interval import bounds
from weft.ir.nesting import path_to, sequence, statements
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Block, For, If, Iter, Kernel, Region, Seq, Stmt, Store
from weft.ir.visit import children, free_vars, fresh_name, loads, rewrite, substitute, walk
from weft.poly.infer_spans import knowing_loops
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.compute_at import written_names
from weft.schedules.find import all_allocs, blocks_inside, find_block, loops_around, ranges_at, size_ranges
from weft.schedules.infer_stage import root_of
from weft.schedules.instances import plain_name, runs_everywhere
from weft.schedules.loop_facts import check_valid, first_no, is_true
from weft.schedules.make_blocks import declared_anew
from weft.schedules.place_stage import in_new_loops
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, taken_names
from weft.schedules.trace import Numerics
from weft.tensor.cost import count_operations


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """``formula`` of ``block``, in terms of its iterators ``iters``; of the loops around, the first are ``outer``.

    ``siblings`` follow one another where the block's nest is one of them; it is computed in front of number ``first``
    and read in those from there to ``last``.
    """

    block: Block
    formula: Expr
    iters: tuple[Iter, ...]
    outer: tuple[For, ...]
    parent: Stmt
    siblings: tuple[Stmt, ...]
    first: int
    last: int

    @property
    def looped(self) -> tuple[Iter, ...]:
        """The iterators that run in loops of the nest; the others have one value there."""
        names = {loop.var.name for loop in self.outer}
        return tuple(i for i in self.iters if not names.issuperset(free_vars(i.binding)))


def check_precompute(kernel: Kernel, block: str, *iters: str, numerics: Numerics) -> Verdict:
    """The part must be computed at every point of its iterators, and its inputs stay as they are until it is read."""
    part = infer_part(kernel, find_block(kernel, block), iters)
    if isinstance(part, Verdict):
        return part
    verdict = first_no([_check_loops(kernel, part), _check_bounds(kernel, part)])
    return check_valid(precompute(kernel, block, *iters).kernel) if verdict.ok else verdict


@primitive(check_precompute, "cannot compute a part of block `{0}` beforehand")
def precompute(kernel: Kernel, block: str, *iters: str) -> Rewrite:
    """Makes ``C_part``, block and storage, of a part of block ``C``."""
    part = infer_part(kernel, find_block(kernel, block), iters)
    assert isinstance(part, Part), "the check answers this first"
    taken = taken_names(kernel)
    name = fresh_name(f"{block}_part", taken)
    shape = storage_shape(kernel, part)
    assert shape is not None, "the check answers this first"
    buffer = Buffer(name, part.formula.dtype, shape)
    readers = [_reading(s, part, buffer) for s in part.siblings[part.first : part.last + 1]]
    before, after = part.siblings[: part.first], part.siblings[part.last + 1 :]
    rest = Alloc(buffer, sequence([_nest(part, buffer, taken | {name}), *readers, *after]), span=part.block.span)
    return Rewrite(replace_stmt(kernel, part.parent, sequence([*before, rest])), (name, name))


def infer_part(kernel: Kernel, block: Block, names: Sequence[str]) -> Part | Verdict:
    iters = tuple(i for i in block.iters if i.var.name in names)
    unknown = [name for name in names if name not in [i.var.name for i in iters]]
    if unknown:
        known = ", ".join(f"`{i.var.name}`" for i in block.iters)
        return refuse(f"`{unknown[0]}` is no iterator of block `{block.name}`; they are {known}")
    found = [e for s in statements(block.body) for e in parts_of(s) if used_iters(e, block) == set(names)]
    if not found:
        listed = ", ".join(f"`{n}`" for n in names)
        return refuse(f"no part of what `{block.name}` computes depends on {listed} and nothing else")
    formula = max(found, key=count_operations)
    root = root_of(kernel, block, {block.name})
    above = path_to(kernel, root)[:-1]
    parent = above[-1] if above and isinstance(above[-1], Seq) else root
    siblings = parent.body if isinstance(parent, Seq) and parent is not root else (root,)
    here = next(i for i, s in enumerate(siblings) if s is root)
    inputs = {load.buffer.name for load in loads(formula)}
    settled = _settled(siblings, here, inputs)
    if settled is None:
        return refuse(f"block `{block.name}` changes what the part is computed from")
    outer = tuple(s for s in above if isinstance(s, For))
    part = Part(block, formula, iters, outer, parent, siblings, *settled)
    first = next(i for i in range(settled[0], here + 1) if i == here or _matches_in(siblings[i], part))
    return replace(part, first=first)


def _settled(siblings: Sequence[Stmt], here: int, inputs: set[str]) -> tuple[int, int] | None:
    """The statements around number ``here``, first and last, that do not write ``inputs``."""
    writes = [bool(written_names(s) & inputs) for s in siblings]
    if writes[here]:
        return None
    first = next((i + 1 for i in range(here, -1, -1) if writes[i]), 0)
    last = next((i - 1 for i in range(here, len(siblings)) if writes[i]), len(siblings) - 1)
    return first, last


def parts_of(s: Stmt) -> Iterator[Expr]:
    """The formulas in ``s``, largest first, that are computed at every point and from inputs alone."""
    if isinstance(s, Store):
        targets = {s.buffer.name}
        yield from (e for e in _always(s.value) if not targets & {load.buffer.name for load in loads(e)})


def _always(e: Expr) -> Iterator[Expr]:
    """``e`` and what is inside it that is evaluated whenever ``e`` is; operations only."""
    for n, tests, _ in evaluated(e, inside=lambda n: () if isinstance(n, (Load, Reduce)) else children(n)):
        if not tests and isinstance(n, (Binary, Unary, Call, Compare, Select)) and n.dtype.lanes == 1:
            yield n


def used_iters(e: Expr, block: Block) -> set[str]:
    return free_vars(e).keys() & {i.var.name for i in block.iters}


def _check_loops(kernel: Kernel, part: Part) -> Verdict:
    """Every point of the part's iterators must be reached, each iterator by a loop of its own or none."""
    root = root_of(kernel, part.block, {part.block.name})
    lanes = next((f for f in part.outer if f.kind == "vector"), None)
    if lanes is not None:
        return refuse(f"the iterations of `{lanes.var.name}` are lanes of vectors; no loops fit in there")
    inside = {loop.var: loop for loop in loops_around(kernel, part.block)[len(part.outer) :]}
    for it in part.looped:
        loop = inside.get(it.binding) if isinstance(it.binding, Var) else None
        if loop is None or (loop.lo, loop.hi) != (it.lo, it.hi):
            return refuse(f"`{it.var.name}` does not run in a loop of its own through all its values")
        dropped = {i.binding for i in part.block.iters if i not in part.iters}
        if any(isinstance(b, Var) and b.name in {*free_vars(it.lo), *free_vars(it.hi)} for b in dropped):
            return refuse(f"the range of `{it.var.name}` depends on more than the part does")
    if not runs_everywhere(kernel, root, part.block) or any(isinstance(s, If) for s in statements(part.block.body)):
        return refuse(f"a test around block `{part.block.name}` leaves instances out")
    if storage_shape(kernel, part) is None:
        return refuse("how many elements the part has is not known")
    return first_no([_check_ranges(kernel, part), _check_tests(kernel, part, root)])


def _check_ranges(kernel: Kernel, part: Part) -> Verdict:
    """Storage has places for the range of an iterator: the values that outer loops give it must be in there."""
    ranges = ranges_at(kernel, root_of(kernel, part.block, {part.block.name}))
    for it in (i for i in part.iters if i not in part.looped):
        inside = (Compare("<=", it.lo, it.binding), Compare("<", it.binding, it.hi))
        if not all(is_true(simplify(test, ranges)) for test in inside):
            return refuse(f"it is not proved that `{it.var.name}` of block `{part.block.name}` stays within its range")
    return OK


def _check_tests(kernel: Kernel, part: Part, root: Stmt) -> Verdict:
    """Without the tests around the block the part may run where iterators, or what it reads, have no values."""
    if not any(isinstance(s, If) for s in path_to(root, part.block)):
        return OK
    computed = sorted({load.buffer.name for load in loads(part.formula)} & {a.buffer.name for a in all_allocs(kernel)})
    if computed:
        return refuse(f"a test around block `{part.block.name}` may keep it from reading what `{computed[0]}` lacks")
    return OK


def _check_bounds(kernel: Kernel, part: Part) -> Verdict:
    """All that the part reads must be there even if the block's other iterators have no values at all."""
    same = {i.var: i.var for i in part.block.iters}
    own = [in_new_loops(i, part.block, same) for i in part.iters]
    loops = [For(i.var, i.lo, i.hi, "serial", part.block) for i in own]
    with knowing_loops([*part.outer, *loops], size_ranges(kernel)) as simple:
        for read in loads(part.formula):
            for e, size in zip(read.indices, read.buffer.shape):
                if not all(is_true(simple.expr(t)) for t in (Compare("<=", idx(0), e), Compare("<", e, size))):
                    return refuse(f"it is not proved that it reads `{read.buffer.name}` within bounds everywhere")
    return OK


def storage_shape(kernel: Kernel, part: Part) -> tuple[Expr, ...] | None:
    """A dimension for each iterator, up to its greatest value; None where that is not known."""
    ranges = ranges_at(kernel, part.block)
    shape: list[Expr] = []
    for it in part.iters:
        if not set(free_vars(it.hi)) & {f.var.name for f in loops_around(kernel, part.block)}:
            shape.append(it.hi)
            continue
        most = bounds(it.hi, ranges).hi
        if most is None:
            return None
        shape.append(idx(max(most, 0)))
    return tuple(shape)


def _nest(part: Part, buffer: Buffer, taken: set[str]) -> Stmt:
    """The loops that compute the part."""
    loop_vars: dict[Var, Var] = {}
    for it in part.looped:
        loop_vars[it.var] = Var(fresh_name(plain_name(it, taken), taken), span=it.var.span)
        taken = taken | {loop_vars[it.var].name}
    anew = {it.var: in_new_loops(it, replace(part.block, iters=part.looped), loop_vars) for it in part.looped}
    iters = tuple(replace(anew.get(it.var, it), kind="spatial") for it in part.iters)
    indices = tuple(it.var for it in iters)
    body = Store(buffer, indices, part.formula, span=part.formula.span)
    reads: tuple[Region, ...] = ()
    stmt: Stmt = declared_anew(Block(buffer.name, iters, reads, (), None, body, span=part.block.span))
    for it in reversed(part.looped):
        stmt = For(loop_vars[it.var], anew[it.var].lo, anew[it.var].hi, "serial", stmt, span=part.block.span)
    return stmt


def _reading(s: Stmt, part: Part, buffer: Buffer) -> Stmt:
    """``s`` with the part read from ``buffer`` wherever it is computed."""

    def visit(n: object) -> Block | None:
        if not isinstance(n, Block):
            return None
        read = rewrite(n.body, lambda e: _as_load(e, n, part, buffer) if isinstance(e, Expr) else None)
        return None if read is n.body else declared_anew(replace(n, body=read))

    return rewrite(s, visit)


def _as_load(e: Expr, block: Block, part: Part, buffer: Buffer) -> Load | None:
    values = _match(e, block, part)
    return None if values is None else Load(buffer, tuple(values[it.var.name] for it in part.iters), span=e.span)


def _matches_in(s: Stmt, part: Part) -> bool:
    blocks = blocks_inside(s)
    return any(_match(e, b, part) is not None for b in blocks for e in walk(b.body) if isinstance(e, Expr))


def _match(e: Expr, block: Block, part: Part) -> dict[str, Var] | None:
    """The iterators of ``block`` in place of the part's, where ``e`` is the same formula over the same values."""
    values: dict[str, Var] = {}
    names = {it.var.name for it in part.iters}
    if not _unify(part.formula, e, names, values) or len({v.name for v in values.values()}) < len(values):
        return None
    if block is part.block:
        return values if all(name == v.name for name, v in values.items()) else None
    theirs = {i.var.name: i for i in block.iters}
    renamed = {it.var: values[it.var.name] for it in part.iters}
    for it in part.iters:
        other = theirs.get(values[it.var.name].name)
        if other is None or not _same_range(it, part, other, block, renamed):
            return None
    return values


def _same_range(it: Iter, part: Part, other: Iter, block: Block, renamed: dict[Var, Var]) -> bool:
    """Whether two iterators run through the same values, or have the same single one."""
    if it not in part.looped:
        return it.binding == other.binding
    ours = in_new_loops(it, part.block, {i.var: i.var for i in part.block.iters})
    yours = in_new_loops(other, block, {i.var: i.var for i in block.iters})
    return all(substitute(a, dict(renamed)) == b for a, b in ((ours.lo, yours.lo), (ours.hi, yours.hi)))


def _unify(pattern: Expr, e: Expr, names: set[str], values: dict[str, Var]) -> bool:
    """Whether ``e`` is ``pattern`` with its variables ``names`` replaced by variables, noted in ``values``."""
    if isinstance(pattern, Var) and pattern.name in names:
        return isinstance(e, Var) and values.setdefault(pattern.name, e) == e
    if type(pattern) is not type(e) or pattern.dtype != e.dtype:
        return False
    below, theirs = children(pattern), children(e)
    if not below:
        return pattern == e
    if len(below) != len(theirs) or not _same_kind(pattern, e):
        return False
    pairs = zip(below, theirs)
    return all(isinstance(a, Expr) and isinstance(b, Expr) and _unify(a, b, names, values) for a, b in pairs)


def _same_kind(a: Expr, b: Expr) -> bool:
    """Whether two nodes are alike but for their children."""
    for f in fields(a):  # type: ignore[arg-type]
        x, y = getattr(a, f.name), getattr(b, f.name)
        if f.compare and not isinstance(x, (Expr, tuple)) and x != y:
            return False
    return True

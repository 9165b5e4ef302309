"""Products of formulas of products: attention's backward pass, and whatever else is connected like it.

Elements of products of 16-bit matrices (``scores``) go through ``formulas``, and what these give (weights) is
multiplied again, summed along one axis of the scores or along the other (``sums``)::

    X = Q K^T    Y = G V^T    P = exp(X - L)    Z = P (Y - R)
    dV = P^T G   dK = Z^T Q       summed along rows: a tile of columns goes through all rows
    dQ = Z K                      summed along columns: a tile of rows goes through all columns

Sums along the same axis are a group, one launch, in which scores are computed tile by tile and stay in registers. What
several groups need, each computes itself (`recompute`). Told by how stages are connected, never by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.online_chain import is_along, is_product, iterators, narrow_loads, uses
from weft.auto.stages import Stage
from weft.ir.errors import ScheduleError
from weft.ir.expr import Load
from weft.ir.stmt import Store
from weft.ir.visit import loads
from weft.poly.leaves import update_of


@dataclass(frozen=True)
class Score:
    """A product, the matrix of its rows and that of its columns."""

    name: str
    left: Load
    right: Load


@dataclass(frozen=True)
class WeighedSum:
    """Sums of ``weight`` times ``values``, and the formula of them; ``row`` and ``column`` are their dimensions."""

    name: str
    weight: str
    values: Load
    result: str
    row: int
    column: int


@dataclass(frozen=True)
class Group:
    """What one launch computes; ``rows`` and ``keys`` are the dimensions of scores that its tiles have rows along, and
    that it sums along."""

    scores: tuple[Score, ...]
    formulas: tuple[str, ...]
    sums: tuple[WeighedSum, ...]
    rows: int
    keys: int

    @property
    def dtype(self) -> str:
        return self.scores[0].left.buffer.dtype.name

    @property
    def products(self) -> tuple[str, ...]:
        return (*(x.name for x in self.scores), *(x.name for x in self.sums))

    @property
    def blocks(self) -> tuple[str, ...]:
        """All of them, in the order in which they run."""
        return (*(x.name for x in self.scores), *self.formulas, *(x.name for x in self.sums),
                *(x.result for x in self.sums))  # fmt: skip


def find_groups(draft: GpuDraft) -> list[list[str]]:
    """Sums that are products of formulas of the same scores, together with those along the same axis; none where they
    are but one, which `chained_products` takes."""
    found: dict[str, tuple[frozenset[str], int]] = {}
    for s in draft.stages:
        axis = _axis(draft, s) if s.op == "+" and len(s.reductions) == 1 and _is_free(draft, s) else None
        if axis is not None:
            found[s.name] = axis
    shared = {n for n, (scores, _) in found.items() if any(scores & found[m][0] for m in found if m != n)}
    axes = dict.fromkeys(found[n][1] for n in found if n in shared)
    return [[n for n in found if n in shared and found[n][1] == axis] for axis in axes]


def part_sums(draft: GpuDraft) -> None:
    """Sums of such formulas along several axes at once, as gradients of what several heads share are: along the longest
    one in the group, along the others after it. Whatever is made of sums as they are is a formula of them."""
    for name in [s.name for s in draft.stages if s.op == "+" and is_weighed(draft, s)]:
        stage = draft.stage(name)
        kept = max(stage.reductions, key=lambda r: r.count)
        for r in [r for r in stage.reductions if r is not kept]:
            name = _apart(draft, name, r.name)
        stage = draft.stage(name)
        readers = draft.stages.consumers(stage)
        if draft.stages.is_output(stage) or any(r.op != "=" for r in readers):
            draft.s.set_aside(name)


def is_weighed(draft: GpuDraft, s: Stage) -> bool:
    """Whether ``s`` sums elements of a matrix times formulas of scores."""
    if not s.reductions or not _is_free(draft, s) or len(s.distinct_reads) != 2 or len(narrow_loads(s)) != 1:
        return False
    return any(is_matrix(draft, score) for score in _above(draft, s))


def _apart(draft: GpuDraft, name: str, along: str) -> str:
    """The sums of block ``name`` for each step of ``along`` by itself; the block that computes them."""
    stage = draft.stage(name)
    weighed = next(a for a in stage.distinct_reads if draft.stages.writers(a.buffer.name))
    order = [next((n for n, c in row.items() if c), "") for row in weighed.rows or ()]
    before = order[order.index(along) - 1] if along in order[1:] else ""  # dimensions follow one another as in scores
    own = [n for row in stage.write.rows or () for n, c in row.items() if c and any(a.uses(n) for a in stage.reads)]
    return str(draft.s.part_sum(name, along, own.index(before) + 1 if before in own else 0)[0])


def _is_free(draft: GpuDraft, s: Stage) -> bool:
    return draft.is_fast and not s.is_inside and s.name not in draft.scheduled


def _axis(draft: GpuDraft, s: Stage) -> tuple[frozenset[str], int] | None:
    """The scores that ``s`` sums formulas of, and the dimension of them along which it does; None where it is no
    product of such a formula."""
    (along,), scores, axes = s.reductions, set[str](), set[int]()
    for score in _above(draft, s):
        if is_matrix(draft, score):
            scores.add(score.name)
    for read in (a for a in s.distinct_reads if _is_made_of(draft, a.buffer.name, scores)):
        rows = read.rows or ()
        axes |= {d for d, row in enumerate(rows) if row.get(along.name)}
    return (frozenset(scores), axes.pop()) if scores and len(axes) == 1 and narrow_loads(s) else None


def _is_made_of(draft: GpuDraft, buffer: str, scores: set[str]) -> bool:
    made = draft.stages.writers(buffer)
    return any(w.name in scores or (w.op == "=" and scores & {x.name for x in _above(draft, w)}) for w in made)


def _above(draft: GpuDraft, s: Stage) -> list[Stage]:
    """Stages that ``s`` is made of by way of formulas, those among them."""
    found: list[Stage] = []
    waiting = [s]
    while waiting:
        for n in draft.stages.producers(waiting.pop()):
            if n not in found and n is not s:
                found.append(n)
                waiting += [n] if n.op == "=" else []
    return found


def is_matrix(draft: GpuDraft, s: Stage) -> bool:
    """Whether ``s`` multiplies two matrices: one has an iterator that the other has not, and the other way round."""
    if not is_product(s) or not _is_free(draft, s) or draft.stages.is_output(s):
        return False
    one, other = narrow_loads(s)
    alone = [[i for i in s.spatial if uses(a, i.name) and not uses(b, i.name)] for a, b in ((one, other), (other, one))]
    return all(alone)


def make_groups(draft: GpuDraft, found: Sequence[Sequence[str]]) -> list[Group]:
    """Stages of each group apart from those of others, and read."""
    groups = []
    for names in found:
        _take_apart(draft, names)
        groups.append(_read(draft, names))
    return groups


def _take_apart(draft: GpuDraft, names: Sequence[str]) -> None:
    """What the sums ``names`` need that others need too is computed again for them, and formulas between are written
    out where they are used."""
    above = [s for s in draft.stages if any(s in _above(draft, draft.stage(n)) for n in names)]
    order = [s.name for s in above if s.op == "=" or is_matrix(draft, s)]
    own = set(names)
    for name in reversed(order):
        users = [r.name for r in draft.stages.consumers(draft.stage(name))]
        mine = [r for r in users if r in own]
        if len(mine) < len(users) or draft.stages.is_output(draft.stage(name)):
            name = str(draft.s.recompute(name, *mine)[0])
        own.add(name)
    for name in [n for n in own - set(names) if draft.stage(n).op == "="]:
        if not any(r.name in names for r in draft.stages.consumers(draft.stage(name))):
            draft.s.compute_inline(name)


def _read(draft: GpuDraft, names: Sequence[str]) -> Group:
    sums = [_weighed(draft, name) for name in names]
    weights = list(dict.fromkeys(w for w, *_ in sums))
    above = [s for s in draft.stages if any(s in _above(draft, draft.stage(w)) for w in weights)]
    scores = [s for s in above if is_matrix(draft, s)]
    formulas = [s.name for s in draft.stages if s.name in weights or (s in above and s.op == "=")]
    first = scores[0].name
    rank = draft.stage(first).write.buffer.rank
    for name in (*(s.name for s in scores[1:]), *formulas):
        _check_same_elements(draft, name, [*(s.name for s in scores), *formulas], rank)
    keys = {iterators(draft, name, weight).index(draft.stage(name).reductions[0].name) for name, (weight, *_) in
            zip(names, sums)}  # fmt: skip
    if len(keys) != 1:
        raise ScheduleError(f"`{names[0]}` and others are not summed along the same axis")
    (key,) = keys
    made = [_read_score(s, iterators(draft, s.name, s.name), key) for s in scores]
    rows = {row for _, row in made}
    if len(rows) != 1:
        raise ScheduleError(f"`{first}` and others do not have rows along the same axis")
    (row,) = rows
    read = [_read_sum(draft, name, *found, row, key) for name, found in zip(names, sums)]
    types = {x.buffer.dtype for s, _ in made for x in (s.left, s.right)} | {x.values.buffer.dtype for x in read}
    if len(types) != 1:
        raise ScheduleError(f"types of what `{first}` and others multiply differ")
    return Group(tuple(s for s, _ in made), tuple(formulas), tuple(read), row, key)


def _check_same_elements(draft: GpuDraft, name: str, others: Sequence[str], rank: int) -> None:
    """An element of a formula is of the same elements of scores and formulas."""
    own = iterators(draft, name, name)
    read = {a.buffer.name for a in draft.stage(name).reads}
    for other in others:
        if draft.stage(other).write.buffer.name in read and iterators(draft, name, other) != own:
            raise ScheduleError(f"`{name}` has the elements of `{other}` elsewhere")
    if len(own) != rank:
        raise ScheduleError(f"`{name}` has other elements than scores")


def _weighed(draft: GpuDraft, name: str) -> tuple[str, Load]:
    """The stage whose elements ``name`` sums times those of a matrix, and what it reads of that."""
    stage = draft.stage(name)
    update = update_of(stage.block.body) if isinstance(stage.block.body, Store) else None
    reads = list(dict.fromkeys(loads(update[1]))) if update is not None else []
    values = [x for x in narrow_loads(stage) if not draft.stages.writers(x.buffer.name)]
    weights = [w.name for x in reads if x not in values for w in draft.stages.writers(x.buffer.name)]
    if len(values) != 1 or len(weights) != 1 or len(reads) != 2 or draft.stage(weights[0]).op != "=":
        raise ScheduleError(f"`{name}` is no sum of weights times elements of a matrix")
    return weights[0], values[0]


def _read_score(s: Stage, own: Sequence[str], key: int) -> tuple[Score, int]:
    """A product, and the dimension of its rows."""
    right = [x for x in narrow_loads(s) if uses(x, own[key])]
    left = [x for x in narrow_loads(s) if not uses(x, own[key])]
    if len(left) != 1 or len(right) != 1:
        raise ScheduleError(f"`{s.name}` does not multiply two matrices, of which one has the axis of sums")
    alone = [d for d, i in enumerate(own) if uses(left[0], i) and not uses(right[0], i)]
    (deep,) = s.reductions
    if not alone or not all(is_along(x, deep.name) for x in (left[0], right[0])):
        raise ScheduleError(f"elements of what `{s.name}` multiplies do not lie side by side along the sums")
    return Score(s.name, left[0], right[0]), max(alone, key=lambda d: s.by_name[own[d]].count)


def _read_sum(draft: GpuDraft, name: str, weight: str, values: Load, row: int, key: int) -> WeighedSum:
    weighed, own = iterators(draft, name, weight), iterators(draft, name, name)
    columns = [d for d, i in enumerate(own) if i not in weighed]
    if len(columns) != 1 or not is_along(values, own[columns[0]]) or not uses(values, weighed[key]):
        raise ScheduleError(f"columns of `{name}` do not lie side by side")
    stage = draft.stage(name)
    readers = draft.stages.consumers(stage)
    if len(readers) != 1 or readers[0].op != "=" or draft.stages.is_output(stage):
        raise ScheduleError(f"what is made of `{name}` is not one formula")
    return WeighedSum(name, weight, values, readers[0].name, own.index(weighed[row]), columns[0])

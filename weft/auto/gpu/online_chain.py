"""Two products with an extremum and sums of exponentials between them: attention, however its formulas are written.

Told by how stages are connected, never by name: a product of 16-bit matrices; formulas of its elements and their
positions; their extremum along one axis; sums along that axis of what depends on the extremum by a factor, one of them
the product with another 16-bit matrix; and a formula of those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from weft.auto.gpu.draft import GpuDraft
from weft.auto.stages import Stage, StageAccess
from weft.ir.buffer import Buffer
from weft.ir.errors import ScheduleError
from weft.ir.expr import Binary, Const, Load, Var, idx
from weft.ir.stmt import Store
from weft.ir.visit import free_vars, loads
from weft.poly.leaves import update_of
from weft.schedules.redirect import is_in_part

#: The types of matrices, by what instructions of warp groups are called.
INSTRUCTIONS = {"bfloat16": "wgmma_bf16", "float16": "wgmma_f16"}
#: Fewer rows than these are worth tiles only where what they are multiplied with is read once for all of them.
FEW_ROWS = 32


@dataclass(frozen=True)
class Chain:
    """Blocks by what they compute: ``scores`` of queries and keys, the ``formula`` of each, their ``extremum``, its
    ``weight``, the ``totals`` of weights, the weighted ``sums`` of values, and what is made of them in the end
    (``result``, and of each row ``row_results``). ``rows``, ``keys`` and ``columns`` are dimensions of weights (the
    last: of sums). Scores, whose iterators are ``of_scores``, have one less where keys are in parts of ``part``. Of two
    products with but a formula between them, that is the weight (`make_pair`)."""

    scores: str
    formula: str
    extremum: str
    weight: str
    totals: tuple[str, ...]
    sums: str
    result: str
    queries: Load
    keyed: Load
    values: Load
    rows: int
    keys: int
    columns: int
    of_scores: tuple[str, ...]
    row_results: tuple[str, ...] = ()
    #: What each of those is made of, or one of these.
    row_sources: tuple[str, ...] = ()
    part: int | None = None

    @property
    def row_iterator(self) -> str:
        return self.of_scores[self.rows - (self.part is not None)]

    @property
    def key_iterator(self) -> str:
        return self.of_scores[self.keys - (self.part is not None)]

    @property
    def blocks(self) -> tuple[str, ...]:
        return (*self.per_row[:1], self.weight, *self.totals, self.sums)

    @property
    def per_row(self) -> tuple[str, ...]:
        """Reductions of rows of scores, which are no products."""
        return (self.extremum, *self.totals) if self.extremum else ()

    @property
    def formulas(self) -> tuple[str, ...]:
        """The product, and the formula of its elements where there is one."""
        return (self.scores,) if self.formula == self.scores else (self.scores, self.formula)

    @property
    def dtype(self) -> str:
        return self.queries.buffer.dtype.name


def find_matrices(draft: GpuDraft, extremum: Stage) -> tuple[Stage, Buffer] | None:
    """The product whose elements ``extremum`` is of, and what sums that depend on it are with; None where it is no
    such chain."""
    if extremum.op != "max" or len(extremum.reductions) != 1 or extremum.is_inside or not draft.is_fast:
        return None
    above = [s for s in _connected(draft, extremum, down=False) if is_product(s)]
    sums = [s for s in _connected(draft, extremum, down=True) if s.op == "+"]
    below = [x.buffer for s in sums for x in narrow_loads(s) if not _is_summed_along(x, s)]
    return (above[0], below[0]) if above and below else None


def _connected(draft: GpuDraft, stage: Stage, *, down: bool) -> list[Stage]:
    """Stages that use ``stage``, or that it uses, by way of formulas."""
    found: list[Stage] = []
    waiting = [stage]
    while waiting:
        s = waiting.pop()
        for n in draft.stages.consumers(s) if down else draft.stages.producers(s):
            if n not in found and n is not stage:
                found.append(n)
                waiting += [n] if n.op == "=" else []
    return found


def _narrow_reads(s: Stage) -> list[StageAccess]:
    return [a for a in s.distinct_reads if _is_narrow(a.buffer)]


def _is_narrow(buffer: Buffer) -> bool:
    """Whether instructions multiply its elements, and its size is known."""
    return buffer.dtype.name in INSTRUCTIONS and all(isinstance(n, Const) for n in buffer.shape)


def _is_summed_along(x: Load, s: Stage) -> bool:
    """Whether elements side by side are of one sum: then they are no columns of values."""
    return any(r.name in free_vars(x.indices[-1]) for r in s.reductions)


def is_product(s: Stage) -> bool:
    return s.op == "+" and len(s.reductions) == 1 and len(s.distinct_reads) == len(_narrow_reads(s)) == 2


def make_chain(draft: GpuDraft, name: str, parts: Callable[[Chain], int | None]) -> Chain:
    """The chain around extremum ``name``, with one stage each for the formula of scores and for weights; in parts of as
    many keys as ``parts`` says."""
    found = find_matrices(draft, draft.stage(name))
    if found is None:
        raise ScheduleError(f"`{name}` is no extremum between two products")
    scores = found[0].name
    _inline_formulas(draft, scores)
    extremum = draft.stage(name)
    sums = [s for s in draft.stages.consumers(extremum) if s.op == "+"]
    products = [s.name for s in sums if _values(draft, s, scores)]
    totals = tuple(s.name for s in sums if s.name not in products)
    for product in products[:1]:
        _normalize_in_the_end(draft, product, totals)
    sums = [s for s in draft.stages.consumers(draft.stage(name)) if s.op == "+"]
    others = [s for s in draft.stages.consumers(draft.stage(scores)) if s.name not in (name, *(x.name for x in sums))]
    if len(products) != 1 or not totals or others:
        raise ScheduleError(f"sums that depend on `{name}` are not those of weights and of weighted values")
    draft.attempt(draft.s.clear_masks, name)
    draft.attempt(draft.s.unscale, name)
    chain = _read(draft, scores, name, totals, products[0])
    part = parts(chain)
    if part is not None:
        return _in_parts(draft, chain, part)
    order = [_iterator(draft, chain.extremum, chain.scores, d) for d in range(_rank(draft, scores))]
    formula = scores if _is_plain(draft.stage(name)) else _part(draft, name, order)
    order = [_iterator(draft, totals[0], formula, d) for d in range(_rank(draft, scores))]
    weight = _part(draft, totals[0], order)
    return replace(chain, formula=formula, weight=weight)


def _in_parts(draft: GpuDraft, c: Chain, size: int) -> Chain:
    """The chain of each part of so many keys; what all parts give is found after it."""
    rank = _rank(draft, c.scores)
    if c.keys != rank - 1 or iterators(draft, c.extremum, c.scores)[:-1] != iterators(draft, c.extremum, c.extremum):
        raise ScheduleError(f"keys are not the last dimension of `{c.scores}`, or `{c.extremum}` has others in between")
    made = [str(b) for b in draft.s.in_parts(c.extremum, *c.totals, c.sums, size=size)]
    value, (extremum, *totals, sums), (*row_results, result) = made[0], made[1::2], made[2::2]
    order = [_iterator(draft, totals[0], value, d) for d in range(rank + 1)]
    weight = _part(draft, totals[0], order)
    values = _values(draft, draft.stage(sums), weight)
    return replace(c, formula=value, extremum=extremum, weight=weight, totals=tuple(totals), sums=sums, result=result,
                   values=values[0], rows=c.rows + 1, keys=c.keys + 1, columns=c.columns + 1,
                   row_results=tuple(row_results), row_sources=(extremum, *totals), part=size)  # fmt: skip


def _is_plain(extremum: Stage) -> bool:
    """Whether it is of elements as they are."""
    update = update_of(extremum.block.body) if isinstance(extremum.block.body, Store) else None
    return update is not None and isinstance(update[1], Load)


def _part(draft: GpuDraft, name: str, order: list[str]) -> str:
    """What block ``name`` reduces as a stage of its own, which all that use it read."""
    return str(draft.s.precompute(name, *order)[0])


def _inline_formulas(draft: GpuDraft, scores: str) -> None:
    """Formulas of scores written out where they are used, results aside."""
    for s in _connected(draft, draft.stage(scores), down=True):
        if s.op == "=" and not draft.stages.is_output(s):
            draft.s.compute_inline(s.name)


def _normalize_in_the_end(draft: GpuDraft, product: str, totals: tuple[str, ...]) -> None:
    """What weights are divided by, or multiplied with, before they are summed: done with the sums, in a formula that is
    the only one of them."""
    above = {s.name for s in _connected(draft, draft.stage(product), down=False)}
    for total in totals:
        for s in _connected(draft, draft.stage(total), down=True):
            if s.op == "=" and s.name in above:
                draft.s.compute_inline(s.name)
    draft.attempt(draft.s.unscale, product)
    for s in _connected(draft, draft.stage(product), down=True):
        used = draft.stages.consumers(s)
        if s.op == "=" and used and all(r.op == "=" for r in used) and not draft.stages.is_output(s):
            draft.s.compute_inline(s.name)


def split_groups(draft: GpuDraft, scores: Stage) -> None:
    """Groups of queries that share keys, as an axis, where there are but few queries else: its rows are one tile."""
    alone = [i.count for i in scores.spatial if sum(uses(x, i.name) for x in narrow_loads(scores)) == 1]
    if min(alone, default=1) < FEW_ROWS:
        split_shared(draft, scores)


def split_shared(draft: GpuDraft, scores: Stage) -> None:
    """Groups along an axis that share what it is multiplied with (``h / 4``), as an axis."""
    written = scores.block.body
    if not isinstance(written, Store):
        return
    for e in dict.fromkeys(e for x in loads(written.value) for e in x.indices):
        if isinstance(e, Binary) and e.op == "//" and e.left in written.indices and isinstance(e.right, Const):
            place, size = written.indices.index(e.left), int(e.right.value)
            if draft.attempt(draft.s.split_axis, written.buffer.name, place, size) is None:
                draft.decide("tiling", scores.name, f"groups of {size} along dimension {place} are an axis",
                             "what they are multiplied with is the same")  # fmt: skip


def split_shared_axes(draft: GpuDraft) -> None:
    """Of all products that are not in one pass with others: what groups share is read by a subscript then."""
    for name in [s.name for s in draft.stages if s.op == "+" and len(s.distinct_reads) == 2]:
        if name not in draft.scheduled and not draft.stage(name).is_inside:
            split_shared(draft, draft.stage(name))


def _rank(draft: GpuDraft, name: str) -> int:
    return draft.stage(name).write.buffer.rank


def _read(draft: GpuDraft, scores: str, extremum: str, totals: tuple[str, ...], sums: str) -> Chain:
    """What is multiplied, and along what."""
    first, second = draft.stage(scores), draft.stage(sums)
    (deep,), own, keys = first.reductions, iterators(draft, scores, scores), _keys(draft, scores, extremum)
    if keys is None or any(_keys(draft, scores, s) != keys for s in (*totals, sums)):
        raise ScheduleError(f"`{extremum}` and `{sums}` do not go through the same elements of `{scores}`")
    keyed = [x for x in narrow_loads(first) if uses(x, own[keys])]
    queries = [x for x in narrow_loads(first) if not uses(x, own[keys])]
    values = _values(draft, second, scores)
    if len(keyed) != 1 or len(queries) != 1 or len(values) != 1:
        raise ScheduleError(f"`{scores}` and `{sums}` are no products with keys and values")
    alone = [d for d in range(len(own)) if uses(queries[0], own[d]) and not uses(keyed[0], own[d])]
    rows = max(alone, key=lambda d: first.by_name[own[d]].count, default=None)
    target, weighed = iterators(draft, sums, sums), iterators(draft, sums, scores)
    mine = [d for d, i in enumerate(target) if is_along(values[0], i) and i not in weighed]
    if rows is None or not mine or not all(is_along(x, deep.name) for x in (queries[0], keyed[0])):
        raise ScheduleError(f"elements of what `{scores}` and `{sums}` multiply do not lie side by side along the sums")
    row_results = _check_users(draft, (scores, extremum, *totals, sums))
    if len({x.buffer.dtype for x in (*queries, *keyed, *values)}) > 1:
        raise ScheduleError(f"types of what `{scores}` and `{sums}` multiply differ")
    (result,) = (s.name for s in draft.stages.consumers(second) if s.op == "=")
    return Chain(scores, "", extremum, "", totals, sums, result, queries[0], keyed[0], values[0], rows, keys, mine[0],
                 tuple(own), tuple(row_results), tuple(row_results.values()))  # fmt: skip


def _keys(draft: GpuDraft, scores: str, name: str) -> int | None:
    """The dimension of scores along which block ``name`` goes through them; None where it is not one."""
    along = [r.name for r in draft.stage(name).reductions]
    found = [d for d, i in enumerate(iterators(draft, name, scores)) if i in along]
    return found[0] if len(found) == len(along) == 1 else None


def _values(draft: GpuDraft, s: Stage, scores: str) -> list[Load]:
    """What ``s`` reads of 16-bit matrices by an iterator that scores do not have: a mask is none, nor is a bias."""
    weighed = iterators(draft, s.name, scores)
    return [x for x in narrow_loads(s) if any(free_vars(i).keys() - {*weighed} for i in x.indices)]


def _check_users(draft: GpuDraft, inside: tuple[str, ...]) -> dict[str, str]:
    """One formula is made of the sums, and of nothing else of the chain anything but results of each row, such as the
    logarithm of a total: these, each with one stage that it is made of."""
    scores, *per_row, sums = inside
    readers = [s.name for s in draft.stages.consumers(draft.stage(sums)) if s.op == "="]
    users = {r.name: n for n in (scores, *reversed(per_row)) for r in draft.stages.consumers(draft.stage(n))}
    others = {name: n for name, n in users.items() if name not in (*inside, *readers)}
    of_rows = all(n != scores and _is_of_rows(draft, draft.stage(name), per_row) for name, n in others.items())
    if len(readers) != 1 or not of_rows or any(draft.stages.is_output(draft.stage(n)) for n in inside):
        raise ScheduleError(f"what is made of `{sums}` is not one formula, or others need what it is made from")
    return others


def _is_of_rows(draft: GpuDraft, s: Stage, per_row: Sequence[str]) -> bool:
    """Whether ``s`` is a result that is a formula of what is known of each row."""
    made = {draft.stage(n).write.buffer.name: n for n in per_row}
    own = iterators(draft, s.name, s.name)
    read = [made[a.buffer.name] for a in s.distinct_reads if a.buffer.name in made]
    return s.op == "=" and draft.stages.is_output(s) and all(iterators(draft, s.name, n) == own for n in read)


def narrow_loads(s: Stage) -> list[Load]:
    return list(dict.fromkeys(n for n in loads(s.block.body) if _is_narrow(n.buffer)))


def uses(x: Load, iterator: str) -> bool:
    return any(iterator in free_vars(i) for i in x.indices)


def is_along(x: Load, iterator: str) -> bool:
    """Whether neighbours along ``iterator`` lie side by side, and it is in no other subscript."""
    *others, last = x.indices
    strides = x.buffer.element_strides()
    return last == Var(iterator) and strides[-1] == idx(1) and not any(iterator in free_vars(i) for i in others)


def iterators(draft: GpuDraft, name: str, of: str) -> list[str]:
    """The iterator of block ``name`` in each dimension of what block ``of`` computes."""
    stage, buffer = draft.stage(name), draft.stage(of).write.buffer.name
    access = next((a for a in stage.accesses if a.buffer.name == buffer), None)
    found = [[n for n, c in row.items() if c] for row in (access.rows if access is not None else None) or ()]
    if not found or any(len(names) != 1 for names in found):
        raise ScheduleError(f"`{name}` uses elements of `{buffer}` elsewhere than one of each row and key")
    return [names[0] for names in found]


def _iterator(draft: GpuDraft, name: str, of: str, dimension: int) -> str:
    return iterators(draft, name, of)[dimension]


def loops_of(draft: GpuDraft, name: str, of: str) -> list[str]:
    """The loop of block ``name`` through each dimension of what block ``of`` computes."""
    loops = [draft.stage(name).by_name[i].loop for i in iterators(draft, name, of)]
    if None in loops:
        raise ScheduleError(f"iterators of `{name}` have no loops of their own")
    return [loop for loop in loops if loop is not None]


def loads_of(stage: Stage, like: Load) -> Load:
    """What ``stage`` reads of the buffer that ``like`` is of, and of the same part of it."""
    part = part_of(like)
    found = [x for x in loads(stage.block.body) if x.buffer == like.buffer and is_in_part(x.indices, part)]
    if len(set(found)) != 1:
        raise ScheduleError(f"`{stage.name}` reads `{like.buffer.name}` in more than one way")
    return found[0]


def part_of(read: Load) -> tuple[int, int] | None:
    """The first dimension of which ``read`` takes one place by number, and that: queries, keys and values may be parts
    of one array."""
    numbers = ((d, int(i.value)) for d, i in enumerate(read.indices) if isinstance(i, Const))
    return next(numbers, None)


def find_pair(draft: GpuDraft, sums: Stage) -> tuple[Stage, Stage] | None:
    """The product and the formula of its elements that ``sums``, a product too, is of; None where it is no such one."""
    if sums.op != "+" or len(sums.reductions) != 1 or sums.is_inside or not draft.is_fast:
        return None
    formulas = [s for s in draft.stages.producers(sums) if _is_between(draft, s, sums)]
    products = [p for s in formulas for p in draft.stages.producers(s) if is_product(p) and _is_between(draft, p, s)]
    is_pair = len(formulas) == len(products) == 1 and formulas[0].op == "=" and len(sums.distinct_reads) == 2
    return (products[0], formulas[0]) if is_pair and not products[0].is_inside else None


def _is_between(draft: GpuDraft, s: Stage, reader: Stage) -> bool:
    """Whether ``reader`` alone needs ``s``."""
    return [r.name for r in draft.stages.consumers(s)] == [reader.name] and not draft.stages.is_output(s)


def make_pair(draft: GpuDraft, name: str) -> Chain:
    """The two products of which block ``name`` is the second one."""
    second = draft.stage(name)
    found = find_pair(draft, second)
    readers = [s for s in draft.stages.consumers(second) if s.op == "="]
    if found is None or len(readers) != 1 or draft.stages.is_output(second):
        raise ScheduleError(f"`{name}` is no product of a formula of another one")
    scores, weight = (s.name for s in found)
    own, weighed = iterators(draft, scores, scores), iterators(draft, name, weight)
    if iterators(draft, weight, scores) != iterators(draft, weight, weight):
        raise ScheduleError(f"`{weight}` has the elements of `{scores}` elsewhere")
    keys = weighed.index(second.reductions[0].name)
    keyed = [x for x in narrow_loads(found[0]) if uses(x, own[keys])]
    queries = [x for x in narrow_loads(found[0]) if not uses(x, own[keys])]
    values = [x for x in narrow_loads(second) if x.buffer.name != found[1].write.buffer.name]
    if not len(keyed) == len(queries) == len(values) == 1:
        raise ScheduleError(f"`{scores}` and `{name}` do not multiply two matrices each")
    (deep,) = found[0].reductions
    alone = [d for d in range(len(own)) if uses(queries[0], own[d]) and not uses(keyed[0], own[d])]
    rows = max(alone, key=lambda d: found[0].by_name[own[d]].count, default=None)
    mine = [d for d, i in enumerate(iterators(draft, name, name)) if i not in weighed and uses(values[0], i)]
    if rows is None or len(mine) != 1 or not all(is_along(x, deep.name) for x in (queries[0], keyed[0])):
        raise ScheduleError(f"elements of what `{scores}` multiplies do not lie side by side along the sums")
    if len({x.buffer.dtype for x in (*queries, *keyed, *values)}) > 1:
        raise ScheduleError(f"types of what `{scores}` and `{name}` multiply differ")
    return Chain(scores, scores, "", weight, (), name, readers[0].name, queries[0], keyed[0], values[0], rows, keys,
                 mine[0], tuple(own))  # fmt: skip

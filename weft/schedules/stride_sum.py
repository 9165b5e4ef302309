"""``stride_sum``: a sum of which a test lets every m-th step pass, as a sum over these alone.

::

    for y, p in 0:4: S[y] += (y - p + 1) % 2 == 0 ? X[(y - p + 1) // 2] * V[p] : 0
    =>
    for y, p in 0:2: S[y] += X[(y + 1) // 2 - p] * V[2 * p + (y + 1) % 2]

The test is one of what is added: a remainder that is 0, of a sum with the iterator in it. For all other iterators it
then says which steps pass: they begin at a remainder of these and are m apart. Where steps do not come out even, a test
for the last one is left. With results in groups of m (`split_axis`) the remainder is the same along all groups, and
subscripts are sums of iterators: of a strided transposed convolution, ordinary ones are left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.ir.affine import Linear, linear_form
from weft.ir.expr import Binary, Compare, Const, Expr, Select, Var, idx
from weft.ir.inequality import all_of, conjuncts
from weft.ir.interval import Interval, bounds
from weft.ir.nesting import path_to
from weft.ir.numerics import is_fast
from weft.ir.simplify import simplify
from weft.ir.stmt import Block, For, Iter, Kernel, Store
from weft.ir.visit import free_vars, fresh_name, rebuild, substitute
from weft.poly.leaves import update_of
from weft.poly.verdict import Verdict, refuse
from weft.schedules.find import find_block
from weft.schedules.loop_facts import check_valid
from weft.schedules.make_blocks import declared_anew
from weft.schedules.rewrite import Rewrite, primitive, remembered, replace_stmt, taken_names
from weft.schedules.trace import Numerics

#: Values of an iterator, at most, that are tried for a remainder that is a sum.
MOST_VALUES = 16


@dataclass(frozen=True, slots=True)
class Passing:
    """Steps of ``iterator`` pass where ``test`` holds: every ``every``-th, from ``first`` on, which others decide."""

    iterator: str
    test: Expr
    every: int
    first: Expr


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """A block, the iterator and its loop, and which of its steps pass; what it adds, without that test."""

    block: Block
    old: Iter
    loop: For
    passing: Passing
    added: Select
    tests: tuple[Expr, ...]

    @property
    def first(self) -> Interval:
        return bounds(self.passing.first, iterator_ranges(self.block))

    @property
    def count(self) -> int:
        """Steps that pass, where most do; one at least, to start the sum."""
        least = self.first.lo or 0
        return max(1, -(-(_size(self.old) - least) // self.passing.every))

    @property
    def is_even(self) -> bool:
        """Whether as many pass wherever the first is."""
        most = self.first.hi
        return most is not None and self.passing.every * (self.count - 1) + most < _size(self.old)


def iterator_ranges(block: Block) -> dict[str, Interval]:
    """What is known of its iterators."""
    known = [(i, i.lo, i.hi) for i in block.iters]
    return {i.var.name: Interval(int(lo.value), int(hi.value) - 1) for i, lo, hi in known
            if isinstance(lo, Const) and isinstance(hi, Const) and hi.value > lo.value}  # fmt: skip


def passing_steps(block: Block) -> list[Passing]:
    """Of which iterators that ``block`` sums over a test lets some steps pass."""
    added = _added(block)
    summed = [i for i in block.iters if i.kind == "reduce"]
    tests = [] if added is None else conjuncts(added.condition)
    found = (_passing(block, i, test) for test in tests for i in summed)
    return [f for f in found if f is not None]


def is_even(kernel: Kernel, block: str, iterator: str) -> bool:
    """Whether `stride_sum` would leave as many steps for all results."""
    found = _find(kernel, block, iterator)
    return isinstance(found, _Found) and found.is_even


def check_stride_sum(kernel: Kernel, block: str, iterator: str, *, numerics: Numerics) -> Verdict:
    """Steps that do not pass add zeros; that makes no difference to a sum that starts at zero."""
    found = _find(kernel, block, iterator)
    if isinstance(found, str):
        return refuse(found)
    if not is_fast(numerics) and not _starts_at_zero(found.block):
        return refuse(f"`{block}` does not start at zero: adding nothing is not the same as adding zeros")
    return check_valid(stride_sum(kernel, block, iterator).kernel)


@primitive(check_stride_sum, "cannot leave out steps of block `{0}`")
def stride_sum(kernel: Kernel, block: str, iterator: str) -> Rewrite:
    """Makes the loop over steps that pass."""
    found, taken = _find(kernel, block, iterator), taken_names(kernel)
    assert isinstance(found, _Found), "the check answers this first"
    name = fresh_name(f"{found.loop.var.name}_s", taken)
    var = Var(fresh_name(f"v{name}", taken | {name}))
    count, every = idx(found.count), found.passing.every
    step: Expr = var * every + found.passing.first
    tests = [*found.tests, *([] if found.is_even else [Compare("<", step, found.old.hi)])]
    value = found.added.then if not tests else replace(found.added, condition=all_of(tests))
    ranges = {**iterator_ranges(found.block), var.name: Interval(0, found.count - 1)}
    body = rebuild(found.block.body, lambda n: _with(n, found.added, value))
    body = simplify(substitute(body, {found.old.var: step}), ranges)
    iters = tuple(Iter(var, idx(0), count, "reduce", Var(name)) if i is found.old else i for i in found.block.iters)
    inner = declared_anew(replace(found.block, iters=iters, body=body))
    loop = replace(found.loop, var=Var(name), hi=count)
    changed = replace_stmt(kernel, found.block, inner)
    old = next(s for s in path_to(changed, inner) if isinstance(s, For) and s.var == found.loop.var)
    done = replace_stmt(changed, old, replace(loop, body=old.body))
    return Rewrite(done, (name,), {found.loop.var.name: f"became {name}, over steps that pass a test"})


def _with(n: object, old: Expr, new: Expr) -> object:
    """``n`` with one expression in place of another."""
    if n is old:
        return new
    return rebuild(n, lambda m: _with(m, old, new)) if isinstance(n, (Expr, Store)) else n


@remembered
def _find(kernel: Kernel, name: str, iterator: str) -> _Found | str:
    """The steps that pass, or why there are none to leave out."""
    block = find_block(kernel, name)
    old = next((i for i in block.iters if i.var.name == iterator and i.kind == "reduce"), None)
    if old is None:
        summed = ", ".join(f"`{i.var.name}`" for i in block.iters if i.kind == "reduce") or "none"
        return f"`{name}` does not sum over `{iterator}`; it does over: {summed}"
    added = _added(block)
    tests = [] if added is None else conjuncts(added.condition)
    passing = next((f for test in tests if (f := _passing(block, old, test)) is not None), None)
    if added is None or passing is None:
        return f"no test of what `{name}` adds lets every second step of `{iterator}` pass, or every third, and so on"
    loop = next((s for s in path_to(kernel, block) if isinstance(s, For) and s.var == old.binding), None)
    others = {n for i in block.iters if i is not old for n in free_vars(i.binding)}
    if loop is None or loop.kind != "serial" or (loop.lo, loop.hi) != (old.lo, old.hi) or loop.var.name in others:
        return f"`{iterator}` does not run in a loop of its own"
    return _Found(block, old, loop, passing, added, tuple(t for t in tests if t is not passing.test))


def _added(block: Block) -> Select | None:
    """What a block adds to its target where a test holds; None where it adds something else elsewhere than zero."""
    update = update_of(block.body) if isinstance(block.body, Store) else None
    if update is None or update[0] != "+" or not isinstance(update[1], Select):
        return None
    added = update[1]
    return added if isinstance(added.otherwise, Const) and added.otherwise.value == 0 else None


def _passing(block: Block, i: Iter, test: Expr) -> Passing | None:
    """Which steps of ``i`` pass ``test``: those for which a sum with it is a multiple of a number."""
    if not (isinstance(test, Compare) and test.op == "==" and isinstance(i.hi, Const) and i.lo == idx(0)):
        return None
    remainder, zero = (test.left, test.right) if isinstance(test.left, Binary) else (test.right, test.left)
    if not (isinstance(remainder, Binary) and remainder.op == "%" and isinstance(remainder.right, Const)):
        return None
    every, form = int(remainder.right.value), linear_form(remainder.left)
    step = form.terms.pop(i.var, 0)
    hidden = any(i.var.name in free_vars(atom) for atom in form.terms)
    if zero != idx(0) or every < 2 or hidden or not _has_inverse(step, every):
        return None
    rest = Linear().add(form, -pow(step, -1, every))
    ranges = iterator_ranges(block)
    first = simplify(rest.expr(remainder.dtype) % every, ranges)
    return Passing(i.var.name, test, every, _as_sum(first, ranges))


def _has_inverse(step: int, every: int) -> bool:
    """Whether steps that pass are ``every`` apart."""
    return step != 0 and any(step * n % every == 1 for n in range(every))


def _as_sum(e: Expr, ranges: dict[str, Interval]) -> Expr:
    """``e`` of one iterator with few values as a multiple of it and a number, where it is that."""
    names = [*free_vars(e)]
    known = ranges.get(names[0]) if len(names) == 1 else None
    if known is None or known.lo != 0 or known.hi is None or not 0 < known.hi < MOST_VALUES:
        return e
    values = [simplify(substitute(e, {Var(names[0]): idx(n)})) for n in range(known.hi + 1)]
    numbers = [int(v.value) for v in values if isinstance(v, Const)]
    line = [numbers[0] + n * (numbers[1] - numbers[0]) for n in range(len(values))] if len(numbers) > 1 else []
    return simplify(Var(names[0]) * (numbers[1] - numbers[0]) + numbers[0]) if line == numbers else e


def _starts_at_zero(block: Block) -> bool:
    start = block.init.value if isinstance(block.init, Store) else None
    return isinstance(start, Const) and start.value == 0


def _size(i: Iter) -> int:
    assert isinstance(i.hi, Const)
    return int(i.hi.value)

"""``compute_inline``: every read of a temporary becomes the expression it was computed with.

Nothing is stored; what several readers need is computed for each of them. Only elementwise blocks can be
written into their readers: a reduction needs storage to add up in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.ir.expr import Compare, Const, Expr, Load, Reduce, Select, Var, idx
from weft.ir.inequality import all_of
from weft.ir.nesting import path_to, strip
from weft.ir.simplify import simplify
from weft.ir.stmt import Block, Iter, Kernel, Store
from weft.ir.visit import free_vars, fresh_name, rewrite, substitute, walk
from weft.poly.conflicts import after, before
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.compute_at import (
    check_between,
    check_inputs,
    check_movable,
    lasting_loops,
    refuse_change,
    written_names,
)
from weft.schedules.find import size_ranges
from weft.schedules.infer_stage import Member, Stage, infer_stage
from weft.schedules.instances import stands_still
from weft.schedules.loop_facts import check_valid, first_no
from weft.schedules.make_blocks import declare_accesses
from weft.schedules.place_stage import in_new_loops, without_stage
from weft.schedules.rewrite import Rewrite, primitive, taken_names
from weft.schedules.trace import Numerics


@dataclass(frozen=True, slots=True)
class Formula:
    """The value of a temporary's element: ``value`` of the block's iterators, ``fill`` where it has no instance."""

    member: Member
    value: Expr
    fill: Const | None


def check_compute_inline(kernel: Kernel, block: str, *, numerics: Numerics) -> Verdict:
    """The block must be a formula of its subscripts, and its inputs the same where it is read."""
    stage = infer_stage(kernel, block)
    if isinstance(stage, Verdict):
        return stage
    formula = infer_formula(stage)
    if isinstance(formula, Verdict):
        return formula
    readers = stage.readers(kernel)
    if not readers:
        return refuse(f"nothing reads `{stage.buffer.name}`")
    verdict = check_movable(kernel, stage, numerics) if formula.fill is not None else OK
    roots = [path_to(kernel, root) for root in stage.roots]
    pairs = [(root, reader) for root in roots for reader in readers]
    checks = (check(kernel, *pair, stage) for check in (check_between, check_inputs) for pair in pairs)
    verdict = first_no([verdict, _check_lasting(kernel, stage), *checks])
    return check_valid(compute_inline(kernel, block).kernel) if verdict.ok else verdict


def _check_lasting(kernel: Kernel, stage: Stage) -> Verdict:
    """Where storage outlives iterations, readers in later ones must still find the inputs as they were."""
    for loop in lasting_loops(kernel, stage)[:1]:
        changed = sorted(written_names(loop) & stage.inputs)
        if changed:
            reason = f"`{changed[0]}`, which it is computed from, changes as `{loop.var.name}` runs"
            orders = [[after(loop.var.name)], [before(loop.var.name)], []]
            return refuse_change(reason, kernel, stage, changed[0], orders)
    return OK


@primitive(check_compute_inline, "cannot write `{0}` into its readers")
def compute_inline(kernel: Kernel, block: str) -> Rewrite:
    """The temporary that ``block`` computes is gone, its formula in its place."""
    stage = infer_stage(kernel, block)
    assert isinstance(stage, Stage), "the check answers this first"
    formula = infer_formula(stage)
    assert isinstance(formula, Formula), "the check answers this first"
    ranges, taken = size_ranges(kernel), taken_names(kernel)
    still = [i for i in formula.member.block.iters if i.var.name in free_vars(formula.value) and stands_still(i)]
    steps = [replace(it, var=Var(fresh_name(it.var.name, taken))) for it in still]
    formula = replace(formula, value=substitute(formula.value, {a.var: b.var for a, b in zip(still, steps)}))

    def inlined(n: object) -> Expr | None:
        if isinstance(n, Load) and n.buffer.name == stage.buffer.name:
            return formula_at(formula, tuple(simplify(i, ranges) for i in n.indices))
        return None

    bare = without_stage(kernel, stage)
    body = rewrite(bare.body, inlined)
    if steps:
        body = rewrite(body, lambda n: _with_steps(n, steps) if isinstance(n, Block) else None)
    fate = f"was written into what reads `{stage.buffer.name}`"
    fates = dict.fromkeys((*stage.names, stage.buffer.name), fate)
    return Rewrite(replace(bare, body=declare_accesses(body, [stage.buffer.name])), (), fates)


def _with_steps(block: Block, steps: Sequence[Iter]) -> Block | None:
    """``block`` with iterators for the ``steps`` of loops around it that a formula written into it mentions."""
    iters, names = list(block.iters), dict[Var, Expr]()
    for it in (it for it in steps if it.var.name in free_vars(block.body)):
        own = next((i for i in iters if stands_still(i) and i.binding == it.binding), it)
        names[it.var] = own.var
        iters += [it] if own is it else []
    return replace(block, iters=tuple(iters), body=substitute(block.body, names)) if names else None


def infer_formula(stage: Stage) -> Formula | Verdict:
    """What every element is, or why there is no formula for it."""
    *before, last = stage.members
    fill: Const | None = None
    for m in before:
        store = strip(m.block.body)
        if m.updates or not isinstance(store, Store) or not isinstance(store.value, Const):
            return refuse(f"`{stage.buffer.name}` is computed in several steps")
        fill = store.value
    store = strip(last.block.body)
    if last.block.init is not None or last.reads_itself or any(i.kind == "reduce" for i in last.block.iters):
        return refuse(f"block `{last.block.name}` is a reduction; its elements need storage to add up in")
    if not isinstance(store, Store):
        return refuse(f"block `{last.block.name}` is more than one formula")
    if last.repeated or any(isinstance(n, Reduce) for n in walk(store.value)):
        return refuse(f"the subscripts of `{stage.buffer.name}` do not tell which instance computes an element")
    return Formula(last, store.value, fill)


def formula_at(formula: Formula, indices: tuple[Expr, ...]) -> Expr:
    """The value of the element at ``indices``; the formula is evaluated only where it has an instance."""
    member = formula.member
    by_name = {i.var.name: i.var for i in member.block.iters}
    values: dict[Var, Expr] = {
        by_name[name]: simplify(indices[dim] - idx(shift)) for name, (dim, shift) in member.pinned.items()
    }
    value = substitute(formula.value, values)
    if formula.fill is None:
        return value
    tests = _instance_tests(member.block, values)
    tests += [
        Compare("==", indices[dim], substitute(e, values))
        for dim, e in enumerate(member.indices)
        if dim not in {d for d, _ in member.pinned.values()}
    ]
    return Select(all_of(tests), value, formula.fill) if tests else value


def _instance_tests(block: Block, values: dict[Var, Expr]) -> list[Expr]:
    same = {i.var: i.var for i in block.iters}
    tests: list[Expr] = []
    for i in (i for i in block.iters if i.var in values):
        it = in_new_loops(i, block, same)
        lo, hi = substitute(it.lo, values), substitute(it.hi, values)
        tests += [Compare("<=", lo, values[i.var]), Compare("<", values[i.var], hi)]
    return tests

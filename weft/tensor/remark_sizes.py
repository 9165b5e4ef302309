"""Remarks that depend on sizes: true at some, told when these are known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from weft.ir.expr import Const, Expr, Var, const
from weft.ir.remark import Remark, is_allowed, told
from weft.ir.simplify import simplify
from weft.ir.span import Span
from weft.ir.visit import free_vars, substitute
from weft.tensor.find_uncovered import doubt_coverage, find_uncovered, uncovered_at
from weft.tensor.program import Doubt, TensorProgram
from weft.tensor.specialize import describe_sizes
from weft.tensor.text import describe


def add_remarks(
    program: TensorProgram,
    remarks: Iterable[Remark],
    doubts: Iterable[Doubt],
    run_through: Mapping[str, Collection[int]],
    definition: Span | None,
) -> TensorProgram:
    """``program`` with what is to be told of it; ``run_through`` has the outputs whose coverage is looked at."""
    first = {s.target.name: s.span for s in reversed(program.statements)}
    through = {
        o.name: tuple(sorted(run_through[o.name]))
        for o in program.outputs
        if run_through.get(o.name) and not is_allowed("uncovered-output", first[o.name] or o.span, definition)
    }
    program = replace(program, run_through=tuple(through.items()))
    kept = (d for d in doubts if not is_allowed(d.remark.name, d.remark.span, definition))
    told_always = told((*remarks, *find_uncovered(program)), definition)
    return replace(program, remarks=told_always, doubts=tuple(dict.fromkeys(kept)))


def remarks_at(program: TensorProgram, sizes: Mapping[str, int]) -> tuple[Remark, ...]:
    """What is true of ``program`` at ``sizes`` and was not told without them."""
    values: dict[Var, Expr] = {v: const(sizes[v.name], v.dtype) for v in (*program.sizes, *program.constants)}
    found: dict[Remark, None] = {}
    for doubt in program.doubts:
        holds = simplify(substitute(doubt.condition, values))
        if isinstance(holds, Const) and holds.value:
            given = describe_sizes(doubt.condition, sizes)
            found[doubt.remark._replace(why=f"with {given}, {doubt.remark.why}")] = None
    sure = {(r.name, r.what) for r in program.remarks}
    return tuple(r for r in (*found, *uncovered_at(program, sizes)) if (r.name, r.what) not in sure)


def possible_remarks(program: TensorProgram) -> Iterator[Remark]:
    """What is true at some sizes, each with these."""
    for doubt in (*program.doubts, *doubt_coverage(program)):
        if free_vars(doubt.condition):
            when = f"for sizes where {describe(doubt.condition)}"
            yield doubt.remark._replace(why=f"{when}, {doubt.remark.why}")

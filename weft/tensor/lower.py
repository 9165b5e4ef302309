"""A tensor program as a plain loop program: one serial loop nest per statement, in order, in the loops of blocks.

The result is right for every shape, symbolic or specialized, and fast for none: schedules
make it so. Each statement becomes loops in the order of its axes around one block; fills,
initializations and call-time checks are nests of their own where they cannot share one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.ir.affine import affine_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Binary, BinaryOp, Expr, Load, Var, cast, identity, idx
from weft.ir.interval import bounds
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Assert, Block, For, Iter, Kernel, Region, Seq, Stmt, Store
from weft.ir.visit import free_vars, fresh_name, loads, substitute
from weft.tensor.access import independent_axes, is_injective, is_scatter, pinned_axes, reads_target
from weft.tensor.coverage import Fill, infer_fills, infer_homes, initialization
from weft.tensor.guard_accesses import Guard, emit_guard, guard_accesses
from weft.tensor.normalize import spell_out, widen_accumulators
from weft.tensor.program import AssignOp, Recurrence, Statement, TensorProgram
from weft.tensor.recurrences import by_recurrence, put
from weft.tensor.specialize import axis_ranges


def lower(program: TensorProgram, *, checks: bool = True) -> Kernel:
    """The kernel of ``program``: its parameters, sizes still symbolic as int64 scalars, then its outputs.

    ``checks=False`` leaves out the call-time tests of accesses that could not be proved in bounds.
    """
    plain = spell_out(program)
    # Checks are found before accumulators are widened, so that their messages speak of the user's tensors.
    guards = guard_accesses(plain) if checks else ()
    program, starts = widen_accumulators(plain)
    taken = {p.name for p in (*program.params, *program.sizes, *program.outputs, *program.temporaries)}
    naming = Naming(frozenset(taken), set())
    fills = infer_fills(program)
    body: list[Stmt] = [Assert(r.condition, r.message, span=r.span) for r in program.requirements if checks]
    body += [emit_guard(g, naming.loop_names(), {}) for g in guards if g.position is None]
    placed = [(starts[g.position], g) for g in guards if g.position is not None]
    homes = infer_homes(program, fills)
    body += _Emission(program.statements, fills, placed, homes).emit(range(len(program.statements)), naming, {})
    if not program.statements:
        body += [_emit_fill(f, naming) for f in fills]
    return Kernel(
        program.name,
        (*program.params, *program.sizes, *program.outputs),
        tuple(b.name for b in program.outputs),
        _allocate([b for b in program.temporaries if b not in homes], _sequence(body)),
        span=program.statements[0].span if program.statements else None,
    )


@dataclass(frozen=True)
class Naming:
    """Names for loops and blocks: a loop may reuse another nest's names, never those of the kernel."""

    kernel_names: frozenset[str]
    block_names: set[str]

    def loop_names(self) -> set[str]:
        return set(self.kernel_names)

    def block(self, base: str) -> str:
        return fresh_name(base, self.block_names)


@dataclass(frozen=True)
class _Emission:
    """Statements to write down, with the fills and the call-time tests that stand before them."""

    statements: tuple[Statement, ...]
    fills: tuple[Fill, ...]
    guards: list[tuple[int, Guard]]
    #: temporaries that are made in each step of a block
    homes: dict[Buffer, tuple[Recurrence, ...]]

    def emit(self, positions: Sequence[int], naming: Naming, steps: dict[Var, Var]) -> list[Stmt]:
        """The nests of the statements at ``positions``, in a loop for each block; ``steps`` are those around."""
        body: list[Stmt] = []
        for recurrence, run in by_recurrence(self.statements, positions, len(steps)):
            if recurrence is None:
                body += [s for p in run for s in self._emit_at(p, naming, steps)]
            else:
                body += [] if steps else self._emit_fills(run[0], naming)
                body.append(self._emit_steps(recurrence, run, naming, steps))
        return body

    def _emit_fills(self, position: int, naming: Naming) -> list[Stmt]:
        return [_emit_fill(f, naming) for f in self.fills if f.position == position]

    def _emit_steps(self, block: Recurrence, run: list[int], naming: Naming, steps: dict[Var, Var]) -> Stmt:
        taken = naming.loop_names()
        axis = block.axis
        var = Var(fresh_name(axis.var.name, taken), span=axis.var.span)
        inner = self.emit(run, Naming(frozenset(taken), naming.block_names), {**steps, axis.var: var})
        lo, hi = (substitute(e, dict(steps)) for e in (axis.lo, axis.hi))
        around = self.statements[run[0]].recurrences[: len(steps) + 1]
        body = _allocate([b for b, home in self.homes.items() if home == around], _sequence(inner))
        return For(var, lo, hi, "serial", body, span=self.statements[run[0]].span)

    def _emit_at(self, position: int, naming: Naming, steps: dict[Var, Var]) -> list[Stmt]:
        body = [] if steps else self._emit_fills(position, naming)
        here = [g for p, g in self.guards if p == position]
        body += [emit_guard(g, naming.loop_names(), steps) for g in here if not g.inside]
        inside = [g for g in here if g.inside]
        return body + _emit_statement(put(self.statements[position], steps), naming, inside, steps)


def _sequence(body: Sequence[Stmt]) -> Stmt:
    return body[0] if len(body) == 1 else Seq(tuple(body))


def _allocate(temporaries: Sequence[Buffer], body: Stmt) -> Stmt:
    for buffer in reversed(temporaries):
        body = Alloc(buffer, body, span=buffer.span)
    return body


def _emit_fill(fill: Fill, naming: Naming) -> Stmt:
    buffer = fill.buffer
    axes = [Axis(Var(f"i{d}"), idx(0), size) for d, size in enumerate(buffer.shape)]
    indices = tuple(a.var for a in axes)
    statement = Statement(buffer, indices, "=", False, fill.value, tuple(axes), span=buffer.span)
    return _emit_nest(statement, naming, f"{buffer.name}_fill")


def _emit_statement(
    statement: Statement, naming: Naming, inside: Sequence[Guard], steps: Mapping[Var, Var]
) -> list[Stmt]:
    name = statement.target.name
    tests = [substitute(g.test(), dict(steps)) for g in inside]
    if not statement.initialize:
        return [_emit_nest(statement, naming, name, tests=tests)]
    if can_initialize_in_nest(statement):
        return [_emit_nest(statement, naming, name, init=True, tests=tests)]
    init = _emit_nest(initialization(statement), naming, f"{name}_init")
    return [init, _emit_nest(statement, naming, name, tests=tests)]


def can_initialize_in_nest(statement: Statement) -> bool:
    """Whether each element's first update is known, so that the identity can be set right before it."""
    if is_scatter(statement) or not is_injective(statement) or reads_target(statement):
        return False
    ranges = axis_ranges(statement.all_axes)
    reduce_names = {a.var.name for a in statement.reduce_axes}
    for axis in statement.axes:
        if axis.var.name not in reduce_names:
            if reduce_names & {*free_vars(axis.lo), *free_vars(axis.hi)}:
                return False
            continue
        extent = bounds(simplify(axis.hi - axis.lo, ranges), ranges).lo
        if extent is None or extent < 1:
            return False
    return True


def _emit_nest(
    statement: Statement, naming: Naming, base: str, *, init: bool = False, tests: Sequence[Stmt] = ()
) -> Stmt:
    """Loops in the order of the axes around the statement's block."""
    taken = naming.loop_names()
    loop_vars = {a.var: Var(fresh_name(a.var.name, taken), span=a.var.span) for a in statement.axes}
    loop_vars = {r.axis.var: r.axis.var for r in statement.recurrences} | loop_vars
    iter_vars = {a.var: Var(fresh_name(f"v{a.var.name}", taken), span=a.var.span) for a in statement.all_axes}
    body: Stmt = _emit_block(statement, naming.block(base), loop_vars, iter_vars, init=init, tests=tests)
    for axis in reversed(statement.axes):
        lo, hi = substitute(axis.lo, loop_vars), substitute(axis.hi, loop_vars)
        body = For(loop_vars[axis.var], lo, hi, "serial", body, span=statement.span)
    return body


def _emit_block(
    statement: Statement,
    name: str,
    loop_vars: dict[Var, Var],
    iter_vars: dict[Var, Var],
    *,
    init: bool,
    tests: Sequence[Stmt],
) -> Block:
    target, span = statement.target, statement.span
    indices = tuple(substitute(i, iter_vars) for i in statement.indices)
    value = cast(target.dtype, substitute(statement.value, iter_vars))
    if statement.op != "=":
        value = combine(statement.op, Load(target, indices, span=span), value)
    store: Stmt = Store(target, indices, value, span=span)
    start = Store(target, indices, identity(statement.op, target.dtype), span=span) if init else None
    body = _sequence([*(substitute(t, iter_vars) for t in tests), store])
    ordered, used = _ordered_axes(statement), {*free_vars(body)}
    steps = tuple(r.axis for r in statement.recurrences if iter_vars[r.axis.var].name in used)
    iters = [Iter(iter_vars[a.var], a.var, a.var + idx(1), "spatial", a.var) for a in steps]  # one value each
    iters += [
        Iter(
            iter_vars[a.var],
            substitute(a.lo, loop_vars),
            substitute(a.hi, loop_vars),
            "reduce" if a.var.name in ordered else "spatial",
            loop_vars[a.var],
        )
        for a in statement.axes
    ]
    return Block(name, tuple(iters), _reads(body), (_region(target, indices),), start, body, span=span)


def _ordered_axes(statement: Statement) -> set[str]:
    """Axes whose iterations may touch one element several times: reductions, collisions, recurrences."""
    names = {a.var.name for a in statement.axes}
    ordered = names - pinned_axes(statement)
    if reads_target(statement):
        ordered |= names - independent_axes(statement)
    return ordered


def combine(op: AssignOp, old: Expr, value: Expr) -> Expr:
    """``old op value``; on bools + and max mean or, * and min mean and."""
    if value.dtype.is_bool:
        return Binary("||" if op in ("+", "max") else "&&", old, value, span=value.span)
    operator: BinaryOp = "+" if op == "=" else op
    return Binary(operator, old, value, span=value.span)


def _reads(body: Stmt) -> tuple[Region, ...]:
    found = {_region(load.buffer, load.indices): None for load in loads(body)}
    return tuple(found)


def _region(buffer: Buffer, indices: tuple[Expr, ...]) -> Region:
    """One element; where data decide which, the whole buffer."""
    if all(affine_form(i) is not None or not loads(i) for i in indices):
        return Region(buffer, indices, tuple(idx(1) for _ in indices))
    return Region(buffer, tuple(idx(0) for _ in indices), buffer.shape)

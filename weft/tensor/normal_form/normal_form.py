"""A specialized tensor program in its normal form: the rewrites of this folder, in their order.

>>> normal_form(specialize(program, sizes), fast=True)     # every rewrite: numerics="fast"
>>> normal_form(specialize(program, sizes), fast=False)    # those that change no bit: numerics="strict"

Names stay those of the program. What cannot be proved stays as it is: recurrences, tensors of several writers (but for
initializations apart), accesses that only data decide and whatever a program of open sizes leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from weft.ir.errors import Error
from weft.ir.expr import Const, Expr
from weft.tensor.normal_form.axes import drop_single, from_zero, merge_digits, order_sums, turn_factors
from weft.tensor.normal_form.conversions import push_conversions
from weft.tensor.normal_form.factors import fold_numbers
from weft.tensor.normal_form.pull import open_logarithms, open_reciprocals, pull_factors
from weft.tensor.normal_form.results import flatten, join_ends, order, straight_out, turn
from weft.tensor.normal_form.starts import merge_starts
from weft.tensor.normal_form.statements import is_formula, reads, renamed, with_value, writers
from weft.tensor.normal_form.tests_by_hand import read_tests
from weft.tensor.normal_form.views import Formulas, inline, is_scaled, is_view
from weft.tensor.normalize import needs_wide_accumulator, set_once, widen_accumulators
from weft.tensor.program import Statement, TensorProgram
from weft.tensor.prove_bounds import unproved_accesses


def normal_form(program: TensorProgram, fast: bool) -> TensorProgram:
    """``program`` in the form that strategies see; applied twice, nothing changes."""
    if not _is_closed(program) or any(s.recurrences for s in program.statements):
        return program
    if any(b.strides for b in program.temporaries) or _is_left_to_calls(program):
        return program
    form = _Form(program, fast)
    statements = form.widened(form.started([form.placed(s) for s in program.statements]))
    statements = [form.settled(s) for s in form.started(statements)]
    statements = form.composed(statements)
    statements = form.named(order(form.laid_out(statements)))
    if statements == list(program.statements):
        return program
    own = {s.target: None for s in statements if s.target not in program.outputs}
    return replace(program, statements=tuple(statements), temporaries=tuple(own))


def _is_closed(program: TensorProgram) -> bool:
    """Whether every size and range is a number (and what depends on other axes)."""
    shapes = (n for b in (*program.inputs, *program.outputs, *program.temporaries) for n in b.shape)
    return all(isinstance(n, Const) for n in shapes)


def _is_left_to_calls(program: TensorProgram) -> bool:
    """Whether calls test accesses, or one is wrong: what is said of them then is said of the statements as written."""
    try:
        return any(unproved_accesses(s, program.requirements) for s in program.statements)
    except Error:
        return True


@dataclass
class _Form:
    """A program on its way."""

    program: TensorProgram
    fast: bool
    taken: set[str] = field(default_factory=set)
    temporaries: set[str] = field(default_factory=set)
    #: what is written more than once, and what reads that while it changes
    changing: set[str] = field(default_factory=set)
    #: what holds what is done with sums that had it inside
    ends: set[str] = field(default_factory=set)
    #: sums without what was done with them, and the names of those that had it
    sums: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        p = self.program
        self.taken = {x.name for x in (*p.params, *p.outputs, *p.temporaries, *p.sizes)}
        self.taken |= {a.var.name for s in p.statements for a in s.axes}
        self.temporaries = {b.name for b in p.temporaries}

    def started(self, statements: list[Statement]) -> list[Statement]:
        merged = merge_starts(statements, self.temporaries, set(self.program.carried), self.taken, self.fast)
        self.temporaries |= {s.target.name for s in merged} - {b.name for b in self.program.outputs}
        return merged

    def widened(self, statements: list[Statement]) -> list[Statement]:
        """Sums of narrow numbers in float32, so that what is done with them is not rounded in between."""
        if any(s.target.name in self.program.carried and needs_wide_accumulator(s) for s in statements):
            return statements  # how that begins with what the caller gave is said when it is lowered
        wide, _ = widen_accumulators(replace(self.program, statements=tuple(statements)))
        self.temporaries |= {b.name for b in wide.temporaries} | {s.target.name for s in statements}
        self.temporaries -= {b.name for b in self.program.outputs}
        self.taken |= self.temporaries
        return list(wide.statements)

    def placed(self, s: Statement) -> Statement:
        """Axes from 0, digits of one number as one."""
        return merge_digits(set_once(drop_single(from_zero(s))), self.fast)

    def settled(self, s: Statement) -> Statement:
        """The rewrites of one statement."""
        s = self.placed(s)
        tested = with_value(s, push_conversions(read_tests(push_conversions(s.value), s.axes)))
        s = s if tested is s else self.placed(tested)
        return with_value(s, fold_numbers(s.value)) if self.fast else s

    def composed(self, statements: list[Statement]) -> list[Statement]:
        """Views in their readers, factors out of sums; what nobody reads any more goes."""
        self.changing = {name for name, n in writers(statements).items() if n > 1} | set(self.program.carried)
        views: dict[str, tuple[tuple[Expr, ...], Expr]] = {}
        known: dict[str, tuple[tuple[Expr, ...], Expr]] = {}
        done: list[Statement] = []
        for s in statements:
            fixed = not self.changing & {s.target.name, *reads(s)}
            s = self._with_formulas(s, views, known, fixed)
            parts = pull_factors(s, known, self.taken) if self.fast and fixed else [s]
            self.sums |= {parts[0].target.name: s.target.name} if len(parts) > 1 else {}
            for part in parts:
                self.temporaries |= {part.target.name} - {b.name for b in self.program.outputs}
                if fixed and part.target.name in self.temporaries and is_formula(part):
                    known[part.target.name] = part.indices, part.value
                    if is_view(part) or (part is not s and is_scaled(part)):
                        views[part.target.name] = part.indices, part.value
                        continue
                self.ends |= {part.target.name} if part is not s else set()
                done.append(self._with_formulas(part, {}, known, fixed))
        done = join_ends(done, self.temporaries - self.changing, self.ends)
        return [self.settled(s) for s in _needed(done, {b.name for b in self.program.outputs})]

    def laid_out(self, statements: list[Statement]) -> list[Statement]:
        """Temporaries with the dimensions that their readers have, and results made where they are wanted."""
        free = {s.target.name for s in statements} & self.temporaries - self.changing
        flat = flatten(statements, free, self.fast)
        if flat is not statements:
            flat = join_ends([self.settled(s) for s in flat], free, self.ends)
        made = straight_out(turn(flat, free), free)
        return [order_sums(turn_factors(s), self.fast) for s in made]

    def named(self, statements: list[Statement]) -> list[Statement]:
        """A sum under the name of what was done with it, where that is not stored any more."""
        names = {s.target.name for s in statements} | {b.name for b in self.program.params}
        for s in statements:
            old = s.target
            if old.name in self.sums and self.sums[old.name] not in names:
                new = replace(old, name=self.sums[old.name])
                names.add(new.name)
                statements = [renamed(x, old, new) for x in statements]
        return statements

    def _with_formulas(self, s: Statement, views: Formulas, known: Formulas, fixed: bool) -> Statement:
        if views.keys() & reads(s):
            s = replace(s, indices=tuple(inline(i, views) for i in s.indices), value=inline(s.value, views))
            s = self.settled(s)
        if self.fast and fixed:
            s = with_value(s, open_logarithms(s.value, known))
            s = with_value(s, open_reciprocals(s, known))
        return s


def _needed(statements: list[Statement], outputs: set[str]) -> list[Statement]:
    """Without those whose results nobody reads."""
    kept: list[Statement] = []
    wanted = set(outputs)
    for s in reversed(statements):
        if s.target.name in wanted:
            kept.append(s)
            wanted |= reads(s)
    return kept[::-1]

"""Whether a loop nest does what a hardware intrinsic means, and with which operands.

The nest and the meaning are compared node by node: loops of the same extents in the same order,
the same statements, the same operators on the same types (the operands of ``+``, ``*``, ``min``,
``max`` in either order). An access of the meaning stands for an access whose address moves
by the same strides with every loop; where it starts is the operand. Of an intrinsic of a whole warp, the
loops of its lanes are those of the thread nest around.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from weft.ir import dtype as dt
from weft.ir.affine import Linear, linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Binary, Call, Cast, Compare, Const, Expr, Load, Select, Unary, Var, idx
from weft.ir.hardware import Hardware
from weft.ir.interval import Interval, bounds, loop_range
from weft.ir.offsets import linear_offset
from weft.ir.printer import print_expr, print_stmt
from weft.ir.simplify import simplify
from weft.ir.stmt import Block, For, If, Seq, Stmt, Store
from weft.ir.visit import substitute, walk

_COMMUTATIVE = ("+", "*", "min", "max", "&", "|", "^")
Ranges = Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Where a nest and a meaning part, in words; ``depth`` counts what agreed before.

    ``block`` is one that initializes its result as well, where that is the difference.
    """

    reason: str
    depth: int = 0
    block: Block | None = None


class _Differs(Exception):
    def __init__(self, mismatch: Mismatch) -> None:
        self.mismatch = mismatch


@dataclass(frozen=True, slots=True)
class _Operand:
    """The actual buffer behind one of the meaning, where it starts, and the same as a flat offset."""

    buffer: Buffer
    starts: tuple[Expr, ...]
    offset: Linear


@dataclass
class _Matcher:
    hardware: Hardware
    ranges: dict[str, Interval]
    #: Loops of the meaning to those of the nest, and where each of those begins.
    loops: dict[str, For] = field(default_factory=dict)
    own: dict[str, For] = field(default_factory=dict)
    lanes: frozenset[str] = frozenset()
    operands: dict[str, _Operand] = field(default_factory=dict)
    scalars: dict[str, Expr] = field(default_factory=dict)
    depth: int = 0

    def differ(self, reason: str, block: Block | None = None) -> NoReturn:
        raise _Differs(Mismatch(reason, self.depth, block))

    # Statements

    def stmt(self, meaning: Stmt, nest: Stmt) -> None:
        nest, meaning = self.plain(nest), self.plain(meaning)
        self.depth += 1
        match meaning, nest:
            case For(), For():
                self.loop(meaning, nest)
            case Store(), Store():
                self.access(meaning, nest)
                self.expr(meaning.value, nest.value)
            case If(), If():
                self.expr(meaning.condition, nest.condition)
                self.stmt(meaning.then, nest.then)
                self.stmt(meaning.otherwise or Seq(()), nest.otherwise or Seq(()))
            case Seq(), Seq() if len(meaning.body) == len(nest.body):
                for a, b in zip(meaning.body, nest.body):
                    self.stmt(a, b)
            case _:
                self.differ(f"where it has `{_first_line(meaning)}`, the loop nest has `{_first_line(nest)}`")

    def plain(self, s: Stmt) -> Stmt:
        """``s`` without blocks around it, their iterators replaced by what they are bound to."""
        while True:
            if isinstance(s, Block):
                if s.init is not None:
                    self.differ(f"block `{s.name}` initializes its result too", s)
                s = substitute(s.body, {i.var: i.binding for i in s.iters})
            elif isinstance(s, Seq) and len(s.body) == 1:
                s = s.body[0]
            else:
                return s

    def warp(self, lanes: tuple[For, ...]) -> None:
        """The lanes that the intrinsic needs, among ``lanes``, the thread loops around the nest."""
        wanted = self.hardware.lanes
        found = lanes[len(lanes) - len(wanted) :] if len(lanes) >= len(wanted) else ()
        extents = [simplify(loop.hi - loop.lo, self.ranges) for loop in found]
        needed = [simplify(loop.hi - loop.lo) for loop in wanted]
        if extents != needed:
            shape = " by ".join(print_expr(n) for n in needed)
            self.differ(f"it is what {shape} lanes of a warp do, the innermost thread loops around it are not these")
        self.lanes = frozenset(loop.var.name for loop in found)
        for meaning, loop in zip(wanted, found):
            self.enter(meaning, loop)

    def loop(self, meaning: For, nest: For) -> None:
        if nest.kind not in ("serial", "unroll", "vector"):
            self.differ(f"loop `{nest.var.name}` is {nest.kind}")
        extent = simplify(Binary("-", nest.hi, nest.lo), self.ranges)
        wanted = simplify(Binary("-", meaning.hi, meaning.lo))
        if not self.equal(linear_form(wanted), linear_form(extent)):
            here, there = nest.var.name, meaning.var.name
            self.differ(f"loop `{here}` runs {print_expr(extent)} times, its `{there}` runs {print_expr(wanted)} times")
        if not _is_zero(meaning.lo):
            self.differ(f"its loop `{meaning.var.name}` does not start at 0")
        self.enter(meaning, nest)
        self.stmt(meaning.body, nest.body)

    def enter(self, meaning: For, nest: For) -> None:
        self.loops[meaning.var.name], self.own[nest.var.name] = nest, nest
        self.ranges[nest.var.name] = loop_range(nest, self.ranges)

    # Memory

    def access(self, meaning: Load | Store, nest: Load | Store) -> None:
        pattern, buffer = meaning.buffer, nest.buffer

        def shown() -> str:  # texts take longer than all else
            return f"`{_element(nest)}` for its `{_element(meaning)}`"

        if pattern.dtype != buffer.dtype:
            self.differ(f"{shown()}: `{buffer.name}` is {buffer.dtype}, not {pattern.dtype}")
        indices = tuple(simplify(i, self.ranges) for i in nest.indices)
        theirs, ours = _Address.of(meaning.indices, pattern), _Address.of(indices, buffer, self.ranges)
        for there, loop in self.loops.items():
            if self.ranges[loop.var.name].point is not None:
                continue  # it runs once: there is no step
            wanted, found = theirs.step(Var(there)), ours.step(loop.var)
            if wanted is None or found is None:
                self.differ(f"{shown()}: a subscript is not a sum of multiples of the loop variables")
            if not self.equal(wanted, found):
                here = loop.var.name
                self.differ(
                    f"{shown()}: with `{here}` the address moves by {_text(found)} elements, not {_text(wanted)}"
                )
        if isinstance(meaning, Store):
            self.check_distinct(meaning, replace(nest, indices=indices), shown)
        self.start(meaning, replace(nest, indices=indices), shown)

    def check_distinct(self, meaning: Store, nest: Load | Store, shown: Callable[[], str]) -> None:
        """Loops that lead to different elements of an output must do so here: all are read before one is written.

        What is a thread's own is different in every lane.
        """
        told = set(self.lanes) if nest.buffer.scope in ("register", "local") else set()
        for index in (*map(linear_form, nest.indices), linear_offset(nest.buffer, nest.indices)):
            told |= set() if index is None else _distinguished(index, self.own, self.ranges)
        for there, loop in self.loops.items():
            used = any(Var(there) in linear_form(i).terms for i in meaning.indices)
            runs_once = self.ranges[loop.var.name].point is not None
            if used and not runs_once and loop.var.name not in told:
                self.differ(f"{shown()}: iterations of `{loop.var.name}` may write the same element")

    def start(self, meaning: Load | Store, nest: Load | Store, shown: Callable[[], str]) -> None:
        """The first element: what the operand points at, the same for all accesses of one buffer."""
        first = {loop.var: loop.lo for loop in self.own.values()}
        starts = tuple(simplify(substitute(i, first), self.ranges) for i in nest.indices)
        if any(n.name in self.own for e in starts for n in walk(e) if isinstance(n, Var)):
            self.differ(f"{shown()}: a subscript depends on a loop in a way that is not affine")
        origin = {Var(name): idx(0) for name in self.loops}
        own_offset = self.bound(_flat([substitute(i, origin) for i in meaning.indices], meaning.buffer))
        offset = _flat(starts, nest.buffer)
        declared = self.operands.get(meaning.buffer.name)
        if declared is None:
            if own_offset.terms or own_offset.constant:
                self.differ(f"its first access of `{meaning.buffer.name}` is not at the start of it")
            self.operands[meaning.buffer.name] = _Operand(nest.buffer, starts, offset)
            return
        if declared.buffer != nest.buffer:
            self.differ(f"{shown()}: its other accesses of `{meaning.buffer.name}` are to `{declared.buffer.name}`")
        apart = Linear().add(offset).add(declared.offset, -1).add(own_offset, -1)
        if apart.terms or apart.constant:
            self.differ(f"{shown()}: the two are not equally far from where the others start")

    # Numbers

    def bound(self, e: Linear) -> Linear:
        """``e``, an expression of the meaning, with the scalars known so far replaced."""
        result = Linear({}, e.constant)
        for atom, factor in e.terms.items():
            value = self.scalars.get(atom.name) if isinstance(atom, Var) else None
            result.add(Linear({atom: 1}) if value is None else linear_form(value), factor)
        return result

    def equal(self, wanted: Linear, given: Linear) -> bool:
        """Whether a size or stride of the meaning is ``given``; a scalar not known yet becomes it."""
        if not wanted.terms:
            return not given.terms and wanted.constant == given.constant
        rest = self.bound(wanted)
        names = {p.name for p in self.hardware.meaning.scalars} - self.scalars.keys()
        free = [a for a in rest.terms if isinstance(a, Var) and a.name in names]
        if len(rest.terms) == len(free) == 1 and rest.constant == 0:
            (scalar,) = free
            assert isinstance(scalar, Var)
            times = rest.terms[scalar]
            if times and given.constant % times == 0 and all(c % times == 0 for c in given.terms.values()):
                part = Linear({a: c // times for a, c in given.terms.items()}, given.constant // times)
                self.scalars[scalar.name] = simplify(part.expr(dt.index), self.ranges)
                return True
        apart = Linear().add(rest).add(given, -1)
        return not apart.terms and apart.constant == 0

    # Expressions

    def expr(self, meaning: Expr, nest: Expr) -> None:
        self.depth += 1
        match meaning, nest:
            case Load(), Load():
                self.access(meaning, nest)
            case Var(), _:
                self.variable(meaning, nest)
            case _ if meaning.dtype != nest.dtype:
                self.unequal(meaning, nest)
            case Binary(), Binary() if meaning.op == nest.op:
                self.operands_of(meaning, nest)
            case Compare(), Compare() if meaning.op == nest.op:
                self.parts(meaning, nest)
            case Unary(), Unary() if meaning.op == nest.op:
                self.parts(meaning, nest)
            case Call(), Call() if meaning.name == nest.name and len(meaning.args) == len(nest.args):
                for a, b in zip(meaning.args, nest.args):
                    self.expr(a, b)
            case (Cast(), Cast()) | (Select(), Select()):
                self.parts(meaning, nest)
            case Const(), Const() if meaning == nest:
                pass
            case _:
                self.unequal(meaning, nest)

    def unequal(self, meaning: Expr, nest: Expr) -> NoReturn:
        types = "" if meaning.dtype == nest.dtype else f" ({meaning.dtype} and {nest.dtype})"
        self.differ(f"where it has `{print_expr(meaning)}`, the loop nest has `{print_expr(nest)}`{types}")

    def parts(self, meaning: Any, nest: Any) -> None:
        for name in ("operand", "condition", "left", "right", "then", "otherwise"):
            if hasattr(meaning, name):
                self.expr(getattr(meaning, name), getattr(nest, name))

    def operands_of(self, meaning: Binary, nest: Binary) -> None:
        if meaning.op not in _COMMUTATIVE:
            return self.parts(meaning, nest)
        saved = dict(self.operands), dict(self.scalars), self.depth
        try:
            self.parts(meaning, nest)
        except _Differs as first:
            self.operands, self.scalars, self.depth = dict(saved[0]), dict(saved[1]), saved[2]
            try:
                self.parts(meaning, Binary(nest.op, nest.right, nest.left))
            except _Differs as second:
                raise max(first, second, key=lambda e: e.mismatch.depth) from None
        return None

    def variable(self, meaning: Var, nest: Expr) -> None:
        loop = self.loops.get(meaning.name)
        if loop is not None:
            if nest != loop.var or not _is_zero(loop.lo):
                self.unequal(meaning, nest)
            return
        declared = self.scalars.get(meaning.name)
        inside = any(isinstance(n, Load) or (isinstance(n, Var) and n.name in self.own) for n in walk(nest))
        if inside or nest.dtype != meaning.dtype or (declared is not None and declared != nest):
            self.unequal(meaning, nest)
        self.scalars[meaning.name] = nest


def match_hardware(
    hardware: Hardware, nest: Stmt, ranges: Ranges, lanes: tuple[For, ...] = ()
) -> tuple[Expr, ...] | Mismatch:
    """The arguments of a call of ``hardware`` that does what ``nest`` does, or where the two differ.

    ``ranges`` are those of the variables around the nest, ``lanes`` the thread loops around it: addresses are those
    of the first lane.
    """
    meaning = hardware.meaning
    matcher = _Matcher(hardware, dict(ranges))
    try:
        matcher.warp(lanes)
        matcher.stmt(hardware.nest, nest)
    except _Differs as differs:
        return differs.mismatch
    args: list[Expr] = []
    for param in meaning.params:
        if isinstance(param, Var):
            args.append(matcher.scalars.get(param.name, idx(0)))
            continue
        operand = matcher.operands.get(param.name)
        if operand is None:
            return Mismatch(f"it does not use its `{param.name}`")
        args.append(AddressOf(operand.buffer, operand.starts))
    return _check_apart(hardware, matcher.operands) or tuple(args)


def _check_apart(hardware: Hardware, operands: Mapping[str, _Operand]) -> Mismatch | None:
    """What is written is read through no other operand: the instruction reads all before it writes."""
    for out in hardware.meaning.outputs:
        for name, operand in operands.items():
            if name != out and operand.buffer.name == operands[out].buffer.name:
                return Mismatch(f"`{operand.buffer.name}` is both its `{out}` and its `{name}`, which it keeps apart")
    return None


@dataclass(frozen=True, slots=True)
class _Address:
    """The subscripts of an access, and how far apart elements are that differ by one in each."""

    indices: tuple[Linear, ...]
    strides: tuple[Linear, ...]
    #: Elements from the start of the buffer, where several subscripts take a loop apart, as rows of a box are.
    joined: Linear | None = None

    @staticmethod
    def of(indices: tuple[Expr, ...], buffer: Buffer, ranges: Ranges | None = None) -> _Address:
        forms = tuple(map(linear_form, indices))
        whole = all(isinstance(atom, Var) for form in forms for atom in form.terms)
        joined = None if whole else linear_offset(buffer, indices, ranges)
        return _Address(forms, tuple(map(linear_form, buffer.element_strides())), joined)

    def step(self, var: Var) -> Linear | None:
        """How far the address moves, in elements, where ``var`` grows by one; None where that depends."""
        total = Linear()
        for index, stride in zip(self.indices, self.strides):
            if _hides(index, var):
                return None if self.joined is None or _hides(self.joined, var) else Linear({}, self.joined.terms[var])
            if factor := index.terms.get(var, 0):
                total.add(stride, factor)
        return total


def _hides(form: Linear, var: Var) -> bool:
    """Whether ``var`` is in ``form`` otherwise than as a term."""
    return any(n == var for atom in form.terms if not isinstance(atom, Var) for n in walk(atom))


def _distinguished(index: Linear, loops: Mapping[str, For], ranges: Ranges) -> set[str]:
    """The loops whose values a subscript tells: each of its steps is longer than all shorter ones together reach."""
    factors = {a.name: abs(c) for a, c in index.terms.items() if isinstance(a, Var) and a.name in loops}
    if any(n.name in loops for a in index.terms if not isinstance(a, Var) for n in walk(a) if isinstance(n, Var)):
        return set()
    reach: int | None = 0
    for name in sorted(factors, key=lambda n: factors[n]):
        if reach is None or factors[name] <= reach:
            return set()
        most = bounds(Binary("-", loops[name].hi, loops[name].lo), ranges).hi
        reach = None if most is None else reach + factors[name] * max(0, most - 1)
    return set(factors)


def _flat(indices: Any, buffer: Buffer) -> Linear:
    total = Linear()
    for index, stride in zip(indices, buffer.element_strides()):
        form = linear_form(index)
        if isinstance(stride, Const) and all(isinstance(atom, Var) for atom in form.terms):  # as most are
            total.add(form, int(stride.value))
        else:
            total.add(linear_form(simplify(Binary("*", index, stride))))
    return total


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 0


def _text(e: Linear) -> str:
    return print_expr(Linear().add(e).expr(dt.index))


def _element(access: Load | Store) -> str:
    return print_expr(Load(access.buffer, access.indices))


def _first_line(s: Stmt) -> str:
    lines = print_stmt(s).splitlines()
    return lines[0].strip().removesuffix("{").strip() if lines else "nothing"

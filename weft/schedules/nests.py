"""A loop program as nests of loops with the statements in them, each access in terms of the loops around it.

This is what estimates of time and traffic look at: blocks are seen through, bounds that depend on outer loops are
taken in the middle of those, and a test counts by the share of iterations that pass it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from weft.ir import stmt as st
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Cast, Compare, Const, Expr, Load, Select, Unary, Var
from weft.ir.inequality import conjuncts
from weft.ir.interval import bounds
from weft.ir.visit import free_vars, loads, walk
from weft.schedules.index_forms import NOTHING, Form, Forms, Term, add_forms, index_form, joined_digits, variables
from weft.schedules.passed_tests import TestShare, are_first, passing, share_of

#: Values taken for sizes that are not known, and iterations for loops that run until something happens.
TYPICAL_SIZE, TYPICAL_LOOP = 512, 8


@dataclass(slots=True, eq=False)
class Nest:
    """A loop, or the whole program, and what is in it; ``trips`` is how often it runs, on average."""

    name: str
    kind: st.LoopKind
    trips: float
    depth: int
    loop: st.For | None = None
    parts: list[Nest | Leaf] = field(default_factory=list)

    def turns_in(self, outer: str) -> bool:
        """Whether it runs backward in some iterations of a loop."""
        return self.loop is not None and self.loop.backward is not None and outer in free_vars(self.loop.backward)

    def below(self) -> Iterator[Leaf]:
        """Every statement inside, in program order."""
        for part in self.parts:
            if isinstance(part, Leaf):
                yield part
            else:
                yield from part.below()

    def nests(self) -> Iterator[Nest]:
        """Itself and every loop inside."""
        yield self
        for part in self.parts:
            if isinstance(part, Nest):
                yield from part.nests()


@dataclass(slots=True, eq=False)
class Access:
    """A read or write; ``forms`` has a form for each dimension.

    ``private`` names loops of which each iteration has the buffer for its own; a temporary is made by the program.
    """

    buffer: Buffer
    forms: tuple[Form, ...]
    is_store: bool
    strides: tuple[int, ...]
    indices: tuple[Expr, ...] = ()
    private: frozenset[str] = frozenset()
    is_temporary: bool = False
    #: What the value of the statement calls the buffer, where a copy of it is read.
    alias: str = ""
    #: The loops that choose the element.
    moving: frozenset[str] = field(init=False)
    #: Whether subscripts are made of digits of loops.
    has_digits: bool = field(init=False)

    def __post_init__(self) -> None:
        self.has_digits = not all(t.is_plain for f in self.forms for t in f.coefficients)
        self.moving = frozenset([t[0] for f in self.forms for t in f.coefficients])
        for form in self.forms:
            if form.scattered:
                self.moving |= form.scattered

    @property
    def key(self) -> tuple[str, tuple[Expr, ...]]:
        """What a load of the same element in the value looks like."""
        return self.alias or self.buffer.name, self.indices

    def step(self, variable: str, lanes: int = 0) -> int | None:
        """Elements between neighbouring iterations of a loop, or between ``lanes`` of them from a multiple of it on.

        None where they are not even.
        """
        if variable in self.private:
            return 1  # lanes that have it for their own have it side by side
        if variable not in self.moving:
            return 0
        through = self._step_through(variable) if self.has_digits else None
        if through is not None:
            return through
        total = 0
        for form, stride in zip(self.forms, self.strides):
            if variable in form.scattered:
                return None
            for term, times in form.coefficients.items():
                if term.variable != variable:
                    continue
                if term.is_plain:
                    total += times * stride
                elif not lanes or any(not t.is_plain for t in form.coefficients if t is not term):
                    return None
                elif term.divisor == 1 and term.modulus % lanes == 0:
                    total += times * stride
                elif term.divisor % lanes:
                    return None
        return total

    def _step_through(self, variable: str) -> int | None:
        """The step where the digits of a loop count through dimensions that follow one another in memory."""
        terms: dict[Term, int] = {}
        for form, stride in zip(self.forms, self.strides):
            if variable in form.scattered:
                return None
            for term, times in form.coefficients.items():
                if term.variable == variable:
                    terms[term] = terms.get(term, 0) + times * stride
        if len(terms) < 2:
            return None
        joined = joined_digits(terms)
        return next(iter(joined.values())) if all(term.is_plain for term in joined) else None

    def moves_with(self, variable: str) -> bool:
        """Whether the element depends on a loop."""
        return variable in self.moving


@dataclass(slots=True, eq=False)
class Leaf:
    """A statement: what it computes, its accesses (the store last), the loops around it, outermost first.

    ``share`` of the iterations reach it, past all ``tests``. ``starts`` marks the start of a
    reduction, which only the first iteration of the loops ``reduced`` runs, ``restarts`` the statement that has such
    a start; ``intrinsic`` names an instruction that does the work, with the loops from ``outside`` on at once.
    """

    value: Expr
    accesses: tuple[Access, ...]
    nests: tuple[Nest, ...]
    share: float
    tests: tuple[TestShare, ...]
    forms: Forms
    block: str = ""
    starts: bool = False
    restarts: bool = False
    reduced: frozenset[str] = frozenset()
    intrinsic: str | None = None
    outside: int = 0
    is_atomic: bool = False

    @property
    def write(self) -> Access:
        return self.accesses[-1]

    @property
    def at_once(self) -> tuple[Nest, ...]:
        """The loops that an instruction does by itself."""
        return () if self.intrinsic is None else self.nests[self.outside :]


@dataclass(slots=True)
class Program:
    """The whole: its outermost nest, every loop by name, buffers that are stored past the caches."""

    root: Nest
    nests: dict[str, Nest]
    streamed: set[str]
    unknown: tuple[str, ...]


class Place(NamedTuple):
    """Where a statement stands."""

    nest: Nest
    around: tuple[Nest, ...]
    forms: dict[str, Form]
    share: float = 1.0
    tests: tuple[TestShare, ...] = ()
    block: str = ""
    reduced: frozenset[str] = frozenset()
    restarts: bool = False
    intrinsic: str | None = None
    outside: int = 0


def read_nests(kernel: st.Kernel, sizes: Mapping[str, int] | None = None) -> Program:
    """``kernel`` as nests; ``sizes`` are values of its symbolic sizes."""
    reader = NestReader(dict(sizes or {}))
    unknown = tuple(p.name for p in kernel.scalars if p.name not in reader.middle and p.type.is_integer)
    reader.middle.update(dict.fromkeys(unknown, TYPICAL_SIZE))
    root = Nest("", "serial", 1, 0)
    reader.read(kernel.body, Place(root, (), {}))
    return Program(root, reader.nests, reader.streamed, unknown)


class NestReader:
    """Reads statements into nests; loops and blocks may also be drawn that no program has yet."""

    def __init__(self, sizes: dict[str, int]) -> None:
        #: The value of a variable in the middle of its range.
        self.middle: dict[str, float] = dict(sizes)
        self.trips: dict[str, float] = {}
        self.nests: dict[str, Nest] = {}
        self.streamed: set[str] = set()
        #: Loops that a buffer lives shorter than: each of their iterations has its own, in the same place.
        self.outside: dict[str, frozenset[str]] = {}
        self._strides: dict[int, tuple[int, ...]] = {}

    def read(self, s: st.Stmt, at: Place) -> None:
        kind = type(s)
        if kind is st.Seq:
            for part in s.body:  # type: ignore[attr-defined]
                self.read(part, at)
        elif isinstance(s, st.For):
            self._loop(s, at)
        elif isinstance(s, st.Block):
            self._block(s, at)
        elif isinstance(s, (st.Store, st.Atomic)):
            self._store(s, at)
        elif isinstance(s, st.If):
            self._if(s, at)
        elif isinstance(s, st.Alloc):
            self.outside[s.buffer.name] = frozenset(n.name for n in at.around)
            self.read(s.body, at)
        elif isinstance(s, st.Tensorized):
            self.read(s.body, at._replace(intrinsic=s.intrinsic, outside=len(at.around)))
        elif isinstance(s, st.Let):
            self._let(s, at)
        elif isinstance(s, st.Assign):
            self._leaf(s.value, (), at)
        elif isinstance(s, st.While):
            self.read(s.body, self._inside(Nest("while", "serial", TYPICAL_LOOP, at.nest.depth + 1), at))
        elif isinstance(s, st.Evaluate) and s.call.name == "stream":
            self.streamed.update(a.buffer.name for a in walk(s.call) if hasattr(a, "buffer"))

    def _loop(self, s: st.For, at: Place) -> None:
        lo, hi = self.value(s.lo), self.value(s.hi)
        trips = max(0, hi - lo)
        name = s.var.name
        self.middle[name] = lo + max(0, trips - 1) // 2
        at.forms[name] = add_forms(index_form(s.lo, at.forms, self.trips), Form({Term(name): 1}, 0))
        self.read(s.body, self.enter(at, name, s.kind, trips, s))

    def enter(self, at: Place, name: str, kind: st.LoopKind, trips: float, loop: st.For | None = None) -> Place:
        """Inside a loop that runs ``trips`` times, which need not be in a program yet."""
        self.trips[name] = trips
        nest = Nest(name, kind, int(trips) if trips == int(trips) else trips, at.nest.depth + 1, loop)
        self.nests[name] = nest
        return self._inside(nest, at)

    def _inside(self, nest: Nest, at: Place) -> Place:
        at.nest.parts.append(nest)
        return at._replace(nest=nest, around=(*at.around, nest))

    def _block(self, s: st.Block, at: Place) -> None:
        forms = {i.var.name: index_form(i.binding, at.forms, self.trips) for i in s.iters}
        self.middle.update((i.var.name, self.value(i.binding)) for i in s.iters)
        self.read_block(s, at, forms)

    def read_block(self, s: st.Block, at: Place, iterators: Forms) -> None:
        """A block whose iterators are what ``iterators`` says in terms of the loops around."""
        forms = {**at.forms, **iterators}  # blocks may call their iterators alike
        reduced = {t.variable for i in s.iters if i.kind == "reduce" for t in forms[i.var.name].coefficients}
        inside = at._replace(forms=forms, block=s.name, reduced=frozenset(reduced), restarts=s.init is not None)
        if s.init is not None:
            for part in walk(s.init):
                if isinstance(part, st.Store):
                    self._store(part, inside, starts=True)
        self.read(s.body, inside)

    def _store(self, s: st.Store | st.Atomic, at: Place, starts: bool = False) -> None:
        found: dict[tuple[str, tuple[Expr, ...]], Access] = {}
        for part in (s.value, *s.indices):
            for e in loads(part):
                key = (e.buffer.name, e.indices)
                if key not in found:
                    found[key] = self.access(e.buffer, e.indices, at.forms, False)
        written = self.access(s.buffer, s.indices, at.forms, True)
        self._leaf(s.value, (*found.values(), written), at, starts, isinstance(s, st.Atomic))

    def _leaf(
        self, value: Expr, accesses: tuple[Access, ...], at: Place, starts: bool = False, atomic: bool = False
    ) -> None:
        share = at.share
        if starts:
            for name in at.reduced:
                share /= max(1, self.trips.get(name, 1))
        leaf = Leaf(
            value=value,
            accesses=accesses,
            nests=at.around,
            share=share,
            tests=at.tests,
            forms=at.forms,
            block=at.block,
            starts=starts,
            restarts=at.restarts and not starts,
            reduced=at.reduced,
            intrinsic=at.intrinsic,
            outside=at.outside,
            is_atomic=atomic,
        )
        at.nest.parts.append(leaf)

    def access(self, buffer: Buffer, indices: tuple[Expr, ...], forms: Forms, is_store: bool) -> Access:
        outside = self.outside.get(buffer.name, frozenset())
        found = tuple(index_form(i, forms, self.trips) for i in indices)
        if outside:
            found = tuple(_without(f, outside) for f in found)
        return Access(buffer, found, is_store, self.strides(buffer), indices, outside, buffer.name in self.outside)

    def strides(self, buffer: Buffer) -> tuple[int, ...]:
        known = self._strides.get(id(buffer))
        if known is None:
            known = self._strides[id(buffer)] = self._find_strides(buffer)
        return known

    def _find_strides(self, buffer: Buffer) -> tuple[int, ...]:
        if buffer.strides is not None:
            return tuple(int(self.value(e)) for e in buffer.strides)
        found, step = [], 1
        for size in reversed(buffer.shape):
            found.append(step)
            step *= int(self.value(size))
        return tuple(reversed(found))

    def _let(self, s: st.Let, at: Place) -> None:
        if s.value.dtype.is_integer:
            at.forms[s.var.name] = index_form(s.value, at.forms, self.trips)
            self.middle[s.var.name] = self.value(s.value)
        self._leaf(s.value, tuple(self.access(e.buffer, e.indices, at.forms, False) for e in loads(s.value)), at)
        self.read(s.body, at)

    def _if(self, s: st.If, at: Place) -> None:
        tests: list[TestShare] = []
        for part in conjuncts(s.condition):
            tests.append(passing(self._test(part, at.forms), (*at.tests, *tests)))
        passed = prod(test.share for test in tests)
        self.read(s.then, at._replace(share=at.share * passed, tests=(*at.tests, *tests)))
        if s.otherwise is not None:
            failed = TestShare(frozenset().union(*(t.loops for t in tests)), 1 - passed)
            self.read(s.otherwise, at._replace(share=at.share * (1 - passed), tests=(*at.tests, failed)))

    def _test(self, e: Expr, forms: Forms) -> TestShare:
        loops = frozenset(name for v in walk(e) if isinstance(v, Var) for name in variables(forms.get(v.name, NOTHING)))
        if not isinstance(e, Compare) or not e.left.dtype.is_integer:
            return TestShare(loops, self.share(e, forms))
        return TestShare(loops, self.share(e, forms), are_first(e.op, self._terms(e, forms)[0], self.trips))

    def share(self, e: Expr, forms: Forms) -> float:
        """The share of iterations in which a condition holds, its sides taken to be evenly spread."""
        if isinstance(e, Binary) and e.op in ("&&", "||"):
            a, b = self.share(e.left, forms), self.share(e.right, forms)
            return a * b if e.op == "&&" else 1 - (1 - a) * (1 - b)
        if isinstance(e, Unary) and e.op == "!":
            return 1 - self.share(e.operand, forms)
        if not isinstance(e, Compare) or not e.left.dtype.is_integer:
            return 0.5
        terms, constant = self._terms(e, forms)
        return share_of(e.op, constant, terms, self.trips)

    def _terms(self, e: Compare, forms: Forms) -> tuple[dict[Term, int], int]:
        """The left side of a comparison less the right one."""
        left, right = index_form(e.left, forms, self.trips), index_form(e.right, forms, self.trips)
        terms: dict[Term, int] = dict(left.coefficients)
        for term, times in right.coefficients.items():
            terms[term] = terms.get(term, 0) - times
        return terms, left.constant - right.constant

    def value(self, e: Expr) -> float:
        """An expression with every loop in the middle of its range."""
        if isinstance(e, Const):
            return int(e.value)
        if isinstance(e, Var):
            return self.middle.get(e.name, TYPICAL_SIZE)
        if isinstance(e, Binary) and e.op in _ARITHMETIC:
            return _ARITHMETIC[e.op](self.value(e.left), self.value(e.right))
        known = bounds(e, {})
        if known.lo is not None and known.hi is not None:
            return (known.lo + known.hi) // 2
        return self._other_value(e)

    def _other_value(self, e: Expr) -> float:
        if isinstance(e, Select):
            return self.value(e.then) if self.holds(e.condition) else self.value(e.otherwise)
        if isinstance(e, Cast):
            return self.value(e.operand)
        if isinstance(e, Unary) and e.op == "-":
            return -self.value(e.operand)
        return TYPICAL_SIZE if isinstance(e, Load) else 0

    def holds(self, e: Expr) -> bool:
        """Whether a condition holds in the middle."""
        if isinstance(e, Binary) and e.op in ("&&", "||"):
            sides = (self.holds(e.left), self.holds(e.right))
            return all(sides) if e.op == "&&" else any(sides)
        if isinstance(e, Compare):
            a, b = self.value(e.left), self.value(e.right)
            return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}[e.op]
        return True


def _divide(a: float, b: float) -> float:
    return a // b if b else 0


_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": _divide,
    "tdiv": _divide,
    "%": lambda a, b: a % b if b else 0,
    "tmod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
}


def _without(form: Form, loops: frozenset[str]) -> Form:
    """``form`` in storage that starts anew in each iteration of ``loops``."""
    if not any(t.variable in loops for t in form.coefficients):
        return form
    kept = {t: c for t, c in form.coefficients.items() if t.variable not in loops}
    return Form(kept, form.constant, form.scattered)

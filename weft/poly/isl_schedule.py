"""A polyhedral schedule asked of isl: which statements to fuse, which loops to skew, which iterations may run at once.

`ask_schedule` describes the statements of a loop program to isl (where each runs, what it touches, in which order)
and gets back a tree of bands: for every statement and every loop of the new nest the linear row that is its time.
Nothing is rewritten here, and nothing here has to be right: whoever follows the tree does so by steps that
are checked each on their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, TypeAlias

from weft.ir.nesting import inner_statements
from weft.ir.numerics import is_fast
from weft.ir.solve import Form
from weft.ir.stmt import Block, For, Kernel, Stmt
from weft.poly.conflicts import written_by
from weft.poly.domain import Domain, leaf_domain, touch_of
from weft.poly.isl_oracle import ask_worker, is_absent
from weft.poly.leaves import Access, Leaf, leaves

#: isl's own choice; everything that legally can in one nest; nothing.
Fusion = Literal["clusters", "most", "none"]
Parallel = Literal["", "any", "outer"]

#: Numbers from here on are told to isl as sizes it does not know: a schedule then does not depend on them.
_LARGE = 12
#: Numbers that differ by less than this are told as one size and an offset.
_NEAR = 6


@dataclass(frozen=True, slots=True)
class Band:
    """Loops around all of ``rows``' statements, outermost first.

    ``rows[statement][n]`` is when the statement runs in loop ``n``, as a sum of multiples of its own loops; None where
    that is no single linear form.
    Loops that are ``coincident`` carry no dependence; those of a ``permutable`` band may change places, so be tiled.
    """

    rows: Mapping[str, tuple[Form | None, ...]]
    coincident: tuple[bool, ...]
    permutable: bool
    inside: Tree


@dataclass(frozen=True, slots=True)
class Parts:
    """Groups of statements that run one after another, or in any order where not ``ordered``."""

    parts: tuple[tuple[frozenset[str], Tree], ...]
    ordered: bool


Tree: TypeAlias = "Band | Parts | None"


@dataclass(frozen=True, slots=True)
class Timed:
    """A statement as isl is told of it: ``order`` alternates places among neighbours and loops, outermost first."""

    name: str
    loops: tuple[str, ...]
    order: tuple[int | str, ...]
    leaves: tuple[Leaf, ...]


def ask_schedule(
    kernel: Kernel,
    numerics: str = "strict",
    *,
    fusion: Fusion = "clusters",
    parallel: Parallel = "any",
    seconds: float = 2.0,
) -> Tree | str:
    """isl's schedule for the blocks of ``kernel``, or why there is none.

    ``parallel`` loops are worth less fusion (``"any"``), or must be outermost but one (``"outer"``), or do not
    matter (``""``).
    """
    statements = timed_statements(kernel)
    if isinstance(statements, str):
        return statements
    question = describe_program(statements, numerics)
    reply = ask_worker({**question, "fusion": fusion, "parallel": parallel}, seconds)
    if is_absent():
        return "islpy is not installed: pip install islpy, or install weft with its extra `poly`"
    if not isinstance(reply, dict):
        return f"isl gave no schedule within {seconds:g} s"
    return _read_tree(reply["tree"], {f"S{n}": s for n, s in enumerate(statements)})


def _read_tree(tree: Any, statements: Mapping[str, Timed]) -> Tree:
    if tree is None:
        return None
    if "parts" in tree:
        parts = ((frozenset(statements[n].name for n in names), t) for names, t in tree["parts"])
        return Parts(tuple((names, _read_tree(t, statements)) for names, t in parts), tree["ordered"])
    rows = {statements[n].name: tuple(_read_row(r, statements[n]) for r in rows) for n, rows in tree["rows"].items()}
    return Band(rows, tuple(tree["coincident"]), tree["permutable"], _read_tree(tree["inside"], statements))


def _read_row(values: list[int] | None, statement: Timed) -> Form | None:
    if values is None:
        return None
    return {name: c for name, c in zip((*statement.loops, ""), values) if c}


# What isl is told


def timed_statements(kernel: Kernel) -> list[Timed] | str:
    """The blocks of ``kernel``, each one statement; or why the program cannot be described so."""
    by_block: dict[str, list[Leaf]] = {}
    for leaf in leaves(kernel):
        if any(loop.hi is None for loop in leaf.loops):
            return "there is a while loop in it"
        if leaf.block is not None:
            by_block.setdefault(leaf.block, []).append(leaf)
        elif any(a.writes for a in leaf.accesses):
            return "a statement outside of blocks has no name to move it by"
    placed = dict(_placed_blocks(kernel.body, (), count()))
    return [Timed(name, own[0].loop_names, placed[name], tuple(own)) for name, own in by_block.items()]


def _placed_blocks(s: Stmt, around: tuple[int | str, ...], places: Iterator[int]) -> Iterator[tuple[str, Any]]:
    """Every block with its place among its neighbours, the loop around it, that loop's place, and so on."""
    if isinstance(s, Block):
        yield s.name, (*around, next(places))
        return
    if isinstance(s, For):
        around = (*around, next(places), s.var.name)
    for inner in inner_statements(s):
        yield from _placed_blocks(inner, around, places)


def describe_program(statements: Sequence[Timed], numerics: str) -> dict[str, Any]:
    """Domains, accesses and order in isl's notation."""
    write = _Notation(statements)
    reads: list[str] = []
    writes: list[str] = []
    streams: list[str] = []
    written = written_by(leaf for statement in statements for leaf in statement.leaves)
    updates: dict[str, list[str]] = {}
    for n, statement in enumerate(statements):
        for leaf in statement.leaves:
            for access in leaf.accesses:
                relation = write.access(n, leaf, access)
                if access.buffer.name not in written and len(access.indices) > 1:
                    streams.append(relation)
                if access.update is not None and (is_fast(numerics) or access.is_exact):
                    updates.setdefault(access.update, []).append(relation)
                    continue
                reads += [relation] if access.reads else []
                writes += [relation] if access.writes else []
    return {
        "domain": write.joined(write.domain(n) for n in range(len(statements))),
        "order": write.joined(write.order(n) for n in range(len(statements))),
        "reads": write.joined(reads),
        "writes": write.joined(writes),
        "streams": write.joined(streams),
        "texts": write.joined(f"{write.instance(n)} -> [{n}]" for n in range(len(statements))),
        "updates": [write.joined(relations) for relations in updates.values()],
        "context": write.context(),
    }


class _Notation:
    """Writes statements as isl reads them: ``S0[x0, x1]``, sizes ``p0``, large numbers ``c0 + 2``, the rest ``e0``."""

    def __init__(self, statements: Sequence[Timed]) -> None:
        self.statements = statements
        self.sizes: dict[str, str] = {}
        self.depth = max((len(s.order) for s in statements), default=0)
        self.large = _bases(_numbers(statements))

    def joined(self, relations: Iterable[str]) -> str:
        return f"{self._parameters()} -> {{ {'; '.join(relations)} }}"

    def context(self) -> str:
        constraints = [f"{p} >= 0" for p in self.sizes.values()]
        constraints += [f"c{n} >= {min(value, _LARGE)}" for n, value in enumerate(self.large)]
        return f"{self._parameters()} -> {{ : {' and '.join(constraints) or '0 = 0'} }}"

    def _parameters(self) -> str:
        return f"[{', '.join([*self.sizes.values(), *(f'c{n}' for n in range(len(self.large)))])}]"

    def instance(self, n: int) -> str:
        return f"S{n}[{', '.join(f'x{i}' for i in range(len(self.statements[n].loops)))}]"

    def domain(self, n: int) -> str:
        statement = self.statements[n]
        # All leaves of a block run where its body does; the first steps of a reduction are some of those.
        leaf = min(statement.leaves, key=lambda leaf: len(leaf.tests))
        return f"{self.instance(n)} : {self._condition(statement, [leaf_domain(leaf)])}"

    def order(self, n: int) -> str:
        loops = {name: f"x{i}" for i, name in enumerate(self.statements[n].loops)}
        times = [str(loops.get(t, t)) if isinstance(t, str) else str(t) for t in self.statements[n].order]
        return f"{self.instance(n)} -> [{', '.join(times + ['0'] * (self.depth - len(times)))}]"

    def access(self, n: int, leaf: Leaf, access: Access) -> str:
        statement = self.statements[n]
        touch = touch_of(leaf, access)
        place = [f"a{d}" for d in range(len(touch.indices))]
        subscripts = [({**form}, f"a{d}") for d, form in enumerate(touch.indices)]
        where = self._condition(statement, [leaf_domain(leaf), touch.domain], subscripts)
        return f"{self.instance(n)} -> B_{_plain(access.buffer.name)}[{', '.join(place)}] : {where}"

    def _condition(self, statement: Timed, domains: Sequence[Domain], equal: Sequence[tuple[Form, str]] = ()) -> str:
        names = {name: f"x{i}" for i, name in enumerate(statement.loops)}
        local: dict[str, str] = {}
        for domain in domains:
            for name in (*domain.made, *domain.opaque):
                local.setdefault(name, f"e{len(local)}")

        def side(form: Form) -> str:
            return self._sum(form, {**names, **local})

        parts = [f"{side(form)} = {place}" for form, place in equal]
        for domain in domains:
            parts += [f"{side(f)} = 0" for f in domain.equations]
            parts += [f"{side(f)} >= 0" for f in domain.inequalities]
            for clause in domain.clauses:
                choices = [" and ".join(f"{side(f)} {'=' if e else '>='} 0" for f, e in a) or "0 = 0" for a in clause]
                parts.append("(" + (" or ".join(f"({c})" for c in choices) or "1 = 0") + ")")
        joined = " and ".join(parts) or "0 = 0"
        return f"exists ({', '.join(local.values())} : {joined})" if local else joined

    def _sum(self, form: Form, names: Mapping[str, str]) -> str:
        terms = []
        for name, c in form.items():
            if name:
                terms.append(f"{c}{names.get(name) or self.sizes.setdefault(name, f'p{len(self.sizes)}')}")
            else:
                terms.append(self._number(c))
        return " + ".join(terms) or "0"

    def _number(self, value: int) -> str:
        if abs(value) < _LARGE:
            return str(value)
        n = max(n for n, base in enumerate(self.large) if base <= abs(value))
        sign = "-" if value < 0 else ""
        return f"{sign}c{n} + {sign}{abs(value) - self.large[n]}"


def _numbers(statements: Sequence[Timed]) -> set[int]:
    """The large constants of a program."""
    numbers: set[int] = set()
    for statement in statements:
        for leaf in statement.leaves:
            touches = [touch_of(leaf, access) for access in leaf.accesses]
            for domain in (leaf_domain(leaf), *(t.domain for t in touches)):
                numbers.update(abs(f.get("", 0)) for f in domain.forms())
            numbers.update(abs(f.get("", 0)) for t in touches for f in t.indices)
    return {c for c in numbers if c >= _LARGE}


def _bases(numbers: Iterable[int]) -> list[int]:
    """The smallest of each group of numbers that are near one another."""
    bases: list[int] = []
    for value in sorted(numbers):
        if not bases or value >= bases[-1] + _NEAR:
            bases.append(value)
    return bases


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() else f"_{ord(c)}" for c in name)

"""Totals that threads bring together in every iteration, brought together once, after the last.

::

    L = 0                                          p = 0
    for t { L = L * c                              for t { p = p * c
      p = 0; unroll i { p = p + w[i] }      ->       unroll i { p = p + w[i] }
      thread_reduce { L = L + p of all } }         }
                                                   L = 0; thread_reduce { L = L + p of all }

Each thread keeps its own part, which is rescaled as the total is: ``c`` is the same for all that share it. Only in
launches in which matrices are multiplied. For fast numerics: terms are added in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from weft.ir.expr import Binary, Const, Expr, Load, Var
from weft.ir.nesting import find_path, flat, inner_statements, perfect_nest, replace_in, sequence, statements, strip
from weft.ir.stmt import Alloc, For, If, Kernel, Let, Stmt, Store, Tensorized
from weft.ir.visit import Node, loads, map_statements, mentions, rewrite, stores, substitute
from weft.passes.analysis.loop_ranges import constant_extent
from weft.passes.analysis.matrix_work import has_products
from weft.passes.analysis.thread_reductions import Reduction, is_reduction, read_reduction
from weft.passes.analysis.uniform_values import differs


def defer_totals(kernel: Kernel) -> Kernel:
    """``kernel``, in grid form, with reductions across threads moved out of loops."""

    def visit(s: Stmt) -> Stmt:
        if isinstance(s, For) and s.kind == "block":
            return _deferred(s) if has_products(s) else s
        return map_statements(s, visit)

    return replace(kernel, body=visit(kernel.body))


def _deferred(launch: For) -> Stmt:
    _, inner = perfect_nest(launch, "block")
    while isinstance(inner, (Alloc, Let)):
        inner = strip(inner.body)
    threads, body = perfect_nest(inner, "thread")
    made = body
    for loop in [n for n in statements(body) if isinstance(n, For) and n.kind == "serial" and n.ahead is None]:
        for total in list(_totals(loop)):
            found = _Total.find(total, loop, body, threads)
            if found is not None and find_path(made, loop) is not None:
                made = replace_in(made, loop, found.deferred())
    return launch if made is body else replace_in(launch, body, made)


def _totals(loop: For) -> Iterator[Alloc]:
    """Storage in ``loop`` that sums across threads are taken of."""
    for n in statements(loop.body):
        if isinstance(n, Alloc) and any(is_reduction(inner) for part in flat(n.body) for inner in statements(part)):
            yield n


@dataclass(frozen=True, slots=True)
class _Total:
    """Storage of each thread's ``part`` in ``loop``: how it starts, what is added, and where all are summed up."""

    loop: For
    part: Alloc
    starts: Sequence[Stmt]
    updates: Sequence[Stmt]
    ends: Sequence[Stmt]
    sums: Reduction

    @staticmethod
    def find(part: Alloc, loop: For, body: Stmt, threads: Sequence[For]) -> _Total | None:
        parts = flat(part.body)
        ends = [s for s in parts if any(map(is_reduction, statements(s)))]
        starts = [s for s in parts if s not in ends and _sets_zero(s, part.buffer.name)]
        updates = [s for s in parts if s not in ends and s not in starts]
        sums = [read_reduction(n) for s in ends for n in statements(s) if isinstance(n, Tensorized) and is_reduction(n)]
        if len(sums) != 1 or sums[0].op != "+" or not starts or parts != (*starts, *updates, *ends):
            return None
        found = _Total(loop, part, starts, updates, ends, sums[0])
        return found if found.is_legal(body, threads) else None

    def is_legal(self, body: Stmt, threads: Sequence[For]) -> bool:
        part, value = self.part.buffer, self.sums.value
        own = isinstance(value, Load) and value.buffer == part and all(_adds(s, part.name) for s in self.updates)
        return own and self._starts_at_zero(body) and self._is_only_rescaled(_varying(self.sums, body, threads))

    def _starts_at_zero(self, body: Stmt) -> bool:
        """Whether nothing but zeros is in the total before the loop, which runs once for them."""
        name = self.sums.target.name
        path = find_path(body, self.loop) or []
        made = next((n for n, s in enumerate(path) if isinstance(s, Alloc) and s.buffer.name == name), None)
        if made is None or any(isinstance(s, (For, If)) for s in path[made:-1]):
            return False
        before: list[Stmt] = []
        for s in statements(path[made]):
            if s is self.loop:
                break
            before.append(s)
        written = [s for s in before if isinstance(s, Store) and s.buffer.name == name]
        return bool(written) and all(_is_zero(s.value) for s in written)

    def _is_only_rescaled(self, varying: frozenset[str]) -> bool:
        """Whether all else that the loop does with the total is to multiply it by what is the same for all threads."""
        name = self.sums.target.name
        for s in statements(self.loop.body):
            if name in mentions(s).loaded | mentions(s).stored | mentions(s).reached and not inner_statements(s):
                if any(s in statements(end) for end in self.ends):
                    continue
                factor = _factor(s) if isinstance(s, Store) and s.buffer.name == name else None
                if factor is None or differs(factor, varying) or s in statements(self.part):
                    return False
        return True

    def deferred(self) -> Stmt:
        """The loop with each thread's own part, and the sum of all after it."""
        part = replace_in(self.loop, self.part, sequence(self.updates))
        loop = rewrite(part, self._of_part)
        return replace(self.part, body=sequence([*self.starts, loop, *self.ends]))

    def _of_part(self, n: Node) -> Node | None:
        """What is done with the total, done with the part."""
        if not isinstance(n, (Load, Store)) or n.buffer != self.sums.target:
            return None
        value = self.sums.value
        assert isinstance(value, Load)
        values = {v: e for v, e in zip(self.sums.indices, n.indices) if isinstance(v, Var)}
        return replace(n, buffer=value.buffer, indices=tuple(substitute(i, values) for i in value.indices))


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 0


def _sets_zero(s: Stmt, name: str) -> bool:
    written = stores(s)
    return bool(written) and all(isinstance(n, Store) and n.buffer.name == name and _is_zero(n.value) for n in written)


def _adds(s: Stmt, name: str) -> bool:
    """Whether all that ``s`` stores is added to ``name``."""
    for n in stores(s):
        value = n.value if isinstance(n, Store) else None
        own = Load(n.buffer, n.indices)
        if (
            n.buffer.name != name
            or not isinstance(value, Binary)
            or value.op != "+"
            or own not in (value.left, value.right)
        ):
            return False
    return bool(stores(s))


def _factor(s: Store) -> Expr | None:
    """What ``s`` multiplies an element by."""
    own, value = Load(s.buffer, s.indices), s.value
    if not isinstance(value, Binary) or value.op != "*" or own not in (value.left, value.right):
        return None
    factor = value.right if value.left == own else value.left
    return None if any(n.buffer == s.buffer for n in loads(factor)) else factor


def _varying(sums: Reduction, body: Stmt, threads: Sequence[For]) -> frozenset[str]:
    """Variables, and storage of a thread, that may differ between threads that share a total."""
    varying, stride = set[str](), 1
    for thread in reversed(threads):
        extent = constant_extent(thread) or 1
        if any(digit.stride < stride * extent and stride < digit.stride * digit.extent for digit in sums.group):
            varying.add(thread.var.name)
        stride *= extent
    written = list(_written(body, ()))
    own = {s.buffer.name for s in statements(body) if isinstance(s, Alloc)}
    while True:
        more = {s.buffer.name for s, tests in written if s.buffer.name in own - varying
                and any(differs(e, varying) for e in (*s.indices, s.value, *tests))}  # fmt: skip
        if not more:
            return frozenset(varying)
        varying |= more


def _written(s: Stmt, tests: tuple[Expr, ...]) -> Iterator[tuple[Store, tuple[Expr, ...]]]:
    """All stores, and the tests and values of variables that they are under."""
    if isinstance(s, Store):
        yield s, tests
    elif isinstance(s, If):
        tests = (*tests, s.condition)
    for inner in inner_statements(s):
        yield from _written(inner, tests)

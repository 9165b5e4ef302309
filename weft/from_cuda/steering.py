"""Numbers of a launch that say how often the threads of a block meet: code is made for each of their small values.

``for (int i = 0; i < rounds; i++) { ...; __syncthreads(); ... }``: with ``rounds`` known the loop is written out, what
threads do between barriers is known, and tiles that overlap by as much as that are merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.from_cuda.unit import Node

#: Values that code is made for (larger ones are as good as any), and versions of a kernel for such: numbers may be
#: others at every launch. As in native/codes.cpp.
MOST, MOST_VERSIONS = 32, 8

Numbers = tuple[tuple[int, int, int], ...]

_LOOPS = {"ForStmt": slice(0, -1), "WhileStmt": slice(0, -1), "DoStmt": slice(1, None)}


def steering_places(function: Node) -> list[tuple[int, int]]:
    """Which arguments of a kernel they are, as argument and byte in it."""
    numbers = {p.id: n for n, p in enumerate(function.parameters) if p.type in ("int", "const int", "unsigned int")}
    found: dict[int, None] = {}
    for loop in function.walk():
        if loop.kind in _LOOPS and any(_is_barrier(n) for n in loop.walk()):
            for test in _tests(loop):
                uses = (n.referenced.get("id") for n in test.walk() if n.kind == "DeclRefExpr")
                found |= {numbers[use]: None for use in uses if use in numbers}
    return [(n, 0) for n in sorted(found)]


def _is_barrier(n: Node) -> bool:
    return n.kind == "DeclRefExpr" and n.referenced.get("name") in ("__syncthreads", "__syncwarp")


def _tests(loop: Node) -> Iterator[Node]:
    """The head of a loop, and what is asked before it is left."""
    yield from loop.inner[_LOOPS[loop.kind]]
    for n in loop.walk():
        if n.kind == "IfStmt" and any(inner.kind == "BreakStmt" for inner in n.walk()):
            yield n.inner[0]


def small_numbers(places: Sequence[tuple[int, int]], arguments: Sequence[bytes]) -> Numbers:
    """Those of the numbers at ``places`` of a launch that code is made for."""
    values = [(a, at, int.from_bytes(arguments[a][at : at + 4], "little", signed=True)) for a, at in places]
    return tuple(n for n in values if 0 <= n[2] <= MOST)

"""Loops in which a thread waits for what another one writes: whole grids run threads one after another, or in step.

Thread by thread such a thread lets others run each time it has asked (`with_pauses`), and blocks run at the same time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from weft.from_cuda.context import Context
from weft.from_cuda.unit import Node

#: Functions that read memory where they are told to add or to set nothing.
_READS = frozenset({"atomicAdd", "atomicOr", "atomicSub", "atomicXor"})


def refuse_waiting(c: Context, loop: Node) -> None:
    """Refuses a loop, whose number of steps is not known before, that asks for what other threads write meanwhile."""
    for n in _inside(c, loop, set()):
        if _is_read_of_others(c, n):
            c.refuse(n, "a loop that asks `volatile` or atomically for what other threads write while it runs")


def _inside(c: Context, n: Node, seen: set[str]) -> Iterator[Node]:
    """All nodes of a loop, and of the functions that it calls."""
    for one in n.walk():
        yield one
        if one.kind == "DeclRefExpr" and one.referenced.get("kind") in ("FunctionDecl", "CXXMethodDecl"):
            key = str(one.referenced.get("id", ""))
            function = c.unit.declaration(key) if key not in seen else None
            seen.add(key)
            if function is not None and (body := c.unit.definition(function).body) is not None:
                yield from _inside(c, body, seen)


def _is_read_of_others(c: Context, n: Node) -> bool:
    if n.raw.get("castKind") == "LValueToRValue":
        return "volatile" in _type_of(n.inner[-1]) and not _is_own(c, n.inner[-1])
    if n.kind == "CallExpr" and len(n.inner) == 3:
        name = next((x.referenced.get("name") for x in n.inner[0].walk() if x.kind == "DeclRefExpr"), "")
        added = [x for x in n.inner[2].walk() if not x.kind.endswith("CastExpr")]
        return name in _READS and [x.raw.get("value") for x in added] == ["0"]
    return False


def _type_of(n: Node) -> str:
    return str(n.raw.get("type", {}).get("qualType", ""))


def _is_own(c: Context, place: Node) -> bool:
    """Whether a place is of shared memory, whose threads are taken to be in step, or a thread's own variable."""
    for n in place.walk():
        if n.kind == "DeclRefExpr":
            declared = c.unit.declaration(str(n.referenced.get("id", "")))
            is_named = declared is not None and declared.kind in ("VarDecl", "ParmVarDecl")
            if is_named and declared is not None and (declared.has("CUDASharedAttr") or _is_local(declared, place)):
                return True
    return False


def _is_local(declared: Node, place: Node) -> bool:
    is_followed = any(n.raw.get("castKind") == "LValueToRValue" for n in place.walk())
    return not is_followed and not (declared.has("CUDADeviceAttr") or declared.has("CUDAConstantAttr"))


_FUNCTION = re.compile(r"^define .*?^\}$", re.MULTILINE | re.DOTALL)
_LOAD = re.compile(r"^  %[\w.]+ = load (?:atomic )?volatile ")
#: Calls of CUDA's functions: an update by nothing, an exchange; what was compared, and whether that is there now.
_ASKS = re.compile(
    r"^  %[\w.]+ = (?:tail )?call .*@\w*atomic(?:(?:Add|Or|Sub|Xor)\w*\(.*, \w+ (?:noundef )?0\)|Exch\w*\()"
)
_TRIES = re.compile(
    r"^  %(?P<was>[\w.]+) = (?:tail )?call .*@\w*atomicCAS\w*\(.*?, (?P<type>i\d+) (?:noundef )?(?P<asked>[-%\w.]+), "
)
_DECLARED = "declare void @weft_pause()\ndeclare void @weft_pause_unless(i1 zeroext)\n"


def with_pauses(text: str) -> str:
    """``text``, clang's for the device before any optimization, in which threads let others run where they ask in loops
    for what these write."""
    made = _FUNCTION.sub(lambda m: _pauses_in(m.group()), text)
    return text if made == text else f"{made}\n{_DECLARED}"


def _pauses_in(function: str) -> str:
    if "!llvm.loop" not in function or (" volatile " not in function and "atomic" not in function):
        return function
    lines = function.split("\n")
    within = _loop_lines(lines)
    return "\n".join(
        part for number, line in enumerate(lines) for part in (line, *(_pause(line) if number in within else ()))
    )


def _pause(line: str) -> list[str]:
    """What follows a line of a loop."""
    if _LOAD.match(line) or _ASKS.match(line):
        return ["  call void @weft_pause()"]
    if tried := _TRIES.match(line):
        done = f"%weft_done.{tried['was']}"
        return [
            f"  {done} = icmp eq {tried['type']} %{tried['was']}, {tried['asked']}",
            f"  call void @weft_pause_unless(i1 zeroext {done})",
        ]
    return []


def _loop_lines(lines: list[str]) -> set[int]:
    """The lines between a loop's head and the branch back to it."""
    heads = {m.group(1): number for number, line in enumerate(lines) if (m := re.match(r"^([\w.]+):", line))}
    within: set[int] = set()
    for number, line in enumerate(lines):
        for name in re.findall(r"label %([\w.]+)", line) if "!llvm.loop" in line else ():
            if heads.get(name, number) < number:
                within.update(range(heads[name], number))
    return within

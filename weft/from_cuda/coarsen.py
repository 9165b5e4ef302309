"""Other versions of a kernel's text that compute the same: a block does the work of several, a thread that of several,
pointers are said not to overlap.

The body becomes a function (a lambda, so that `return` ends one thread's part of it) in a loop over the blocks or
threads it stands for. Inside, local variables hide CUDA's `blockIdx`, `gridDim`, `threadIdx` and `blockDim`: macros and
templates mean what they meant. The number of blocks of the original launch is one more argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from weft.from_cuda.unit import Node, Unit

_BUILT_IN = frozenset({"blockIdx", "gridDim", "threadIdx", "blockDim"})
#: What threads of a block or a warp do together.
_TOGETHER = re.compile(r"^__(sync|shfl|ballot|any|all|match|reduce|activemask|uni)|^(sync|shfl|ballot)$")
#: Ways in which blocks tell each other something while they run.
_BETWEEN_BLOCKS = re.compile(r"^__threadfence")


@dataclass(frozen=True, slots=True)
class Version:
    """How many blocks and threads of the source one of the launch does, and whether pointers are `__restrict__`."""

    blocks: int = 1
    threads: int = 1
    restrict: bool = False

    @property
    def is_coarser(self) -> bool:
        return self.blocks > 1 or self.threads > 1

    def __str__(self) -> str:
        counted = [f"{n} {what} as one" for n, what in ((self.blocks, "blocks"), (self.threads, "threads")) if n > 1]
        return ", ".join([*counted, *(["pointers __restrict__"] * self.restrict)]) or "as written"


def check_version(unit: Unit, function: Node, version: Version) -> list[str]:
    """Why ``version`` would not be the same kernel, or cannot be written; nothing where it can."""
    if not version.is_coarser and not version.restrict:
        return []
    reasons = []
    if _offsets(function.body) is None or not function.parameters:
        reasons.append("its body is made by a macro or lies in another file, or it has no parameters")
    if version.is_coarser:
        reasons += _why_not_coarser(unit, function)
    if version.threads > 1:
        reasons += _why_not_fewer_threads(unit, function)
    return reasons


def _why_not_coarser(unit: Unit, function: Node) -> Iterator[str]:
    for called in _called(unit, function):
        names = {n.referenced.get("name") for n in called.walk() if n.kind == "DeclRefExpr"} & _BUILT_IN
        if names and called is not function:
            yield f"`{called.name}`, which it calls, reads `{min(map(str, names))}`"
        for n in called.walk():
            name = str(n.referenced.get("name", ""))
            if n.kind == "GCCAsmStmt":
                yield f"line {n.line} is PTX"
            elif n.kind == "DeclRefExpr" and _BETWEEN_BLOCKS.match(name):
                yield f"line {n.line}: blocks may wait for each other (`{name}`)"
            elif n.kind in ("VarDecl", "ParmVarDecl") and re.search("volatile|cooperative_groups", n.type):
                yield f"line {n.line}: `{n.type}` may be how blocks or threads tell each other something"


def _why_not_fewer_threads(unit: Unit, function: Node) -> Iterator[str]:
    for called in _called(unit, function):
        for n in called.walk():
            name = str(n.referenced.get("name", ""))
            if n.kind == "VarDecl" and n.has("CUDASharedAttr"):
                yield f"line {n.line}: `{n.name}` is shared by threads"
            elif n.kind == "DeclRefExpr" and _TOGETHER.match(name):
                yield f"line {n.line}: threads meet in `{name}`"


def _called(unit: Unit, function: Node) -> list[Node]:
    """``function`` and all it may call."""
    found, open_ = {function.id: function}, [function]
    while open_:
        for n in open_.pop().walk():
            id = str(n.referenced.get("id") or n.raw.get("referencedMemberDecl") or "")
            declared = unit.declaration(id) if n.kind in ("DeclRefExpr", "MemberExpr") and id else None
            if declared is not None and "Decl" in declared.kind and declared.id not in found:
                definition = unit.definition(declared) if declared.parameters or declared.body else declared
                found[declared.id] = definition
                open_.append(definition)
    return [f for f in found.values() if f.body is not None]


def _offsets(node: Node | None) -> tuple[int, int] | None:
    """The bytes of the source that a node is, where it is written there itself."""
    if node is None:
        return None
    begin, end = (node.raw.get("range", {}).get(side, {}) for side in ("begin", "end"))
    if "offset" not in begin or "offset" not in end or "includedFrom" in begin or "includedFrom" in end:
        return None
    return begin["offset"], end["offset"] + end["tokLen"]


def rewrite(unit: Unit, function: Node, version: Version) -> str:
    """The source with ``function`` as ``version`` has it, which `check_version` must have found right."""
    text = unit.source.text.encode()
    changes: list[tuple[int, int, str]] = []
    body, last = _offsets(function.body), _offsets(function.parameters[-1])
    assert body is not None
    assert last is not None
    if version.restrict:
        changes += [(at, at, "__restrict__ ") for at in _plain_pointers(function, text)]
    if version.is_coarser:
        has_shared = any(n.kind == "VarDecl" and n.has("CUDASharedAttr") for n in function.walk())
        changes.append((last[1], last[1], ", unsigned weft_blocks"))
        changes.append((*body, _loops(version, text[slice(*body)].decode(), has_shared)))
    for begin, end, new in sorted(changes, reverse=True):
        text = text[:begin] + new.encode() + text[end:]
    return text.decode()


def _plain_pointers(function: Node, text: bytes) -> Iterator[int]:
    """Where the names of pointer parameters begin, of those that are written as `T *name`."""
    for p in function.parameters:
        at = p.raw.get("loc", {}).get("offset")
        if at is not None and p.type.rstrip().endswith("*") and text[:at].rstrip().endswith(b"*"):
            yield at


def _loops(version: Version, body: str, has_shared: bool) -> str:
    """The body, run for each block and thread that this one stands for."""
    b, t = version.blocks, version.threads
    wait = "\n__syncthreads();  // the next block's shared memory is this one's" if has_shared else ""
    return f"""{{
const uint3 weft_block = blockIdx, weft_thread = threadIdx;
const dim3 weft_grid = gridDim, weft_sizes = blockDim;
#pragma unroll
for (unsigned weft_b = 0; weft_b < {b}; ++weft_b) {{
const uint3 blockIdx = {{weft_block.x * {b} + weft_b, weft_block.y, weft_block.z}};
const dim3 gridDim = dim3(weft_blocks, weft_grid.y, weft_grid.z);
const dim3 blockDim = dim3(weft_sizes.x * {t}, weft_sizes.y, weft_sizes.z);
if (blockIdx.x < weft_blocks) {{
#pragma unroll
for (unsigned weft_t = 0; weft_t < {t}; ++weft_t) {{
const uint3 threadIdx = {{weft_thread.x + weft_t * weft_sizes.x, weft_thread.y, weft_thread.z}};
[&]() {body}();
}}
}}{wait}
}}
}}"""

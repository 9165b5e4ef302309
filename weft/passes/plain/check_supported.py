"""What of a program a target has nothing for: all of it in one error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.ir.buffer import Buffer
from weft.ir.errors import UnsupportedError
from weft.ir.expr import Call, Expr, Load
from weft.ir.hardware import HARDWARE
from weft.ir.intrinsics import HINTS, INTRINSICS, REINTERPRET
from weft.ir.memory import APART, PLAIN_SCOPES, MemoryScope
from weft.ir.stmt import Alloc, For, Kernel, Stmt, Tensorized
from weft.ir.visit import children, mentions, walk


def check_supported(kernel: Kernel, *, target: str, memory: Mapping[str, MemoryScope]) -> Kernel:
    """``kernel`` itself; raises where it calls what is no intrinsic, or uses memory that the target has not."""
    found: list[tuple[Call | Buffer, str]] = []
    for n in walk(kernel):
        if isinstance(n, Call) and not any(n.name in known for known in (INTRINSICS, HARDWARE, HINTS, (REINTERPRET,))):
            found.append((n, f"a call of `{n.name}`, which is not an intrinsic"))
        elif isinstance(n, Alloc) and n.buffer.scope not in PLAIN_SCOPES:
            found += [(n.buffer, what) for what in _memory_faults(n, memory)]
    if found:
        missing = dict.fromkeys(f"{n.span}: {what}" if n.span else what for n, what in found)
        raise UnsupportedError(
            f"kernel `{kernel.name}` uses what the {target} target does not have",
            span=next((n.span for n, _ in found if n.span), None),
            notes=[("missing", text) for text in missing],
        )
    return kernel


def _memory_faults(alloc: Alloc, memory: Mapping[str, MemoryScope]) -> Iterator[str]:
    """Why ``alloc`` cannot be where it asks to be, for memories that no pass moves buffers out of."""
    buffer = alloc.buffer
    scope = memory.get(buffer.scope)
    if scope is None:
        yield f"memory `{buffer.scope}`, where `{buffer.name}` is; its scopes are {', '.join(memory)}"
        return
    size = buffer.byte_count() if buffer.strides is None else None
    if scope.size is not None and (size is None or size > scope.size):
        needs = "an unknown number of" if size is None else str(size)
        yield f"room for `{buffer.name}`, which needs {needs} bytes of `{scope.name}`; there are {scope.size}"
    apart = (n for n in walk(alloc.body) if isinstance(n, For) and n.kind in APART[scope.addressed_by])
    shared = next((n for n in apart if buffer.name in _touched(n.body)), None)
    if shared is not None:
        yield f"`{scope.name}` that the iterations of `{shared.var.name}` share: each can address its own alone"
    if scope.read_by and _reads_plainly(alloc.body, buffer.name, scope.read_by):
        yield f"a load of `{buffer.name}` from `{scope.name}`, which only {', '.join(scope.read_by)} reads"


def _touched(s: Stmt) -> frozenset[str]:
    held = mentions(s)
    return held.loaded | held.stored | held.reached


def _reads_plainly(s: Stmt, name: str, allowed: tuple[str, ...]) -> bool:
    """Whether something but the intrinsics ``allowed`` loads from the buffer ``name``."""
    if isinstance(s, Tensorized) and s.intrinsic in allowed:
        return False
    own = (n for child in children(s) if isinstance(child, Expr) for n in walk(child))
    if any(isinstance(n, Load) and n.buffer.name == name for n in own):
        return True
    return any(_reads_plainly(child, name, allowed) for child in children(s) if isinstance(child, Stmt))

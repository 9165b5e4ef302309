"""What of a program a target has nothing for: all of it in one error."""

from __future__ import annotations

from weft.ir.errors import UnsupportedError
from weft.ir.expr import Call
from weft.ir.hardware import HARDWARE
from weft.ir.intrinsics import HINTS, INTRINSICS
from weft.ir.stmt import Barrier, Kernel
from weft.ir.visit import walk


def check_supported(kernel: Kernel, *, target: str, has_grid_barriers: bool) -> Kernel:
    """``kernel`` itself; raises where it calls what is no intrinsic, or waits as the target cannot."""
    nodes = (n for n in walk(kernel) if isinstance(n, (Barrier, Call)))
    found = [(n, what) for n in nodes if (what := _missing(n, has_grid_barriers))]
    if found:
        missing = dict.fromkeys(f"{n.span}: {what}" if n.span else what for n, what in found)
        raise UnsupportedError(
            f"kernel `{kernel.name}` uses what the {target} target does not have",
            span=next((n.span for n, _ in found if n.span), None),
            notes=[("missing", text) for text in missing],
        )
    return kernel


def _missing(n: Barrier | Call, has_grid_barriers: bool) -> str | None:
    if isinstance(n, Barrier):
        lacks = n.scope == "grid" and not has_grid_barriers
        return "a barrier of all blocks: use two nests, which are two launches" if lacks else None
    known = n.name in INTRINSICS or n.name in HARDWARE or n.name in HINTS
    return None if known else f"a call of `{n.name}`, which is not an intrinsic"

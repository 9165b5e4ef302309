"""What of a kernel the CPU generator has no code for: all of it in one error."""

from __future__ import annotations

from weft.ir.errors import UnsupportedError
from weft.ir.expr import Call
from weft.ir.hardware import HARDWARE
from weft.ir.intrinsics import HINTS, INTRINSICS
from weft.ir.stmt import Kernel
from weft.ir.visit import walk


def check_supported(kernel: Kernel) -> Kernel:
    """``kernel`` itself; raises where it holds something that cannot run on a CPU yet."""
    found = [(n, what) for n in walk(kernel) if isinstance(n, Call) and (what := _missing(n))]
    missing = dict.fromkeys(f"{n.span}: {what}" if n.span else what for n, what in found)
    first = next((n.span for n, _ in found if n.span), None)
    if missing:
        raise UnsupportedError(
            f"kernel `{kernel.name}` uses what the CPU target does not have yet",
            span=first,
            notes=[("missing", text) for text in missing],
        )
    return kernel


def _missing(n: Call) -> str | None:
    known = n.name in INTRINSICS or n.name in HARDWARE or n.name in HINTS
    return None if known else f"a call of `{n.name}`, which is not an intrinsic"

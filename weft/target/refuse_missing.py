"""What of a kernel a code generator has nothing for: all of it in one error."""

from __future__ import annotations

from collections.abc import Callable

from weft.ir.errors import UnsupportedError
from weft.ir.expr import Call
from weft.ir.hardware import HARDWARE
from weft.ir.intrinsics import HINTS, INTRINSICS
from weft.ir.stmt import Barrier, Kernel
from weft.ir.visit import walk


def refuse_missing(kernel: Kernel, lacks: str, of_barrier: Callable[[Barrier], str | None] = lambda b: None) -> Kernel:
    """``kernel`` itself; raises where it calls what is no intrinsic, or ``of_barrier`` says what a barrier lacks.

    ``lacks`` ends the sentence "the kernel uses what ...".
    """
    found = [(n, what) for n in walk(kernel) if isinstance(n, (Barrier, Call)) and (what := _missing(n, of_barrier))]
    if found:
        missing = dict.fromkeys(f"{n.span}: {what}" if n.span else what for n, what in found)
        raise UnsupportedError(
            f"kernel `{kernel.name}` uses what {lacks}",
            span=next((n.span for n, _ in found if n.span), None),
            notes=[("missing", text) for text in missing],
        )
    return kernel


def _missing(n: Barrier | Call, of_barrier: Callable[[Barrier], str | None]) -> str | None:
    if isinstance(n, Barrier):
        return of_barrier(n)
    known = n.name in INTRINSICS or n.name in HARDWARE or n.name in HINTS
    return None if known else f"a call of `{n.name}`, which is not an intrinsic"

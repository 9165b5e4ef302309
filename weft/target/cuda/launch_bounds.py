"""How many blocks a multiprocessor is to hold at once, where a thread keeps much in registers, and whether it can.

This is occupancy, in blocks for each multiprocessor.

Left to itself the assembler saves registers for blocks that would not fit anyway, and loads each value right before
it is used. Told how many blocks there can be, it uses what they leave.
"""

from __future__ import annotations

from weft.ir.buffer import Buffer
from weft.ir.errors import TargetError
from weft.ir.expr import Call
from weft.ir.hardware import HARDWARE
from weft.ir.stmt import Alloc, Stmt, Tensorized
from weft.ir.visit import walk
from weft.target.c_text.storage import element_count
from weft.target.cuda.emit_mma import find_fragments
from weft.target.cuda.machine import GpuMachine

#: Words a thread keeps below which the assembler does well on its own.
MANY = 96
#: Registers for addresses and counters, and for the fragments of matrix instructions.
ADDRESSES, FRAGMENTS = 24, 64
#: So much of another block's registers may be missing: the assembler makes do.
SLACK = 0.08


def blocks_at_once(body: Stmt, threads: int, machine: GpuMachine) -> int | None:
    """The blocks of a launch whose threads run ``body`` that a multiprocessor has registers for; None: no matter."""
    words = sum(_words(b) for b in _kept(body))
    names = (n.name if isinstance(n, Call) else n.intrinsic for n in walk(body) if isinstance(n, (Call, Tensorized)))
    if any(name in HARDWARE for name in names):
        words += FRAGMENTS
    if words < MANY:
        return None
    return max(1, int(machine.registers_per_sm / (threads * (words + ADDRESSES)) + SLACK))


def check_registers(body: Stmt, machine: GpuMachine, kernel: str) -> None:
    """What is asked to be in registers must fit those of a thread."""
    kept = [b for b in _kept(body) if b.scope == "register"]
    largest = max(kept, key=_words, default=None)
    if largest is None or _words(largest) <= machine.max_registers_per_thread:
        return
    raise TargetError(
        f"a thread of `{kernel}` keeps {_words(largest)} words of `{largest.name}` in registers; "
        f"{machine.name} has {machine.max_registers_per_thread}",
        span=largest.span,
        help="give each thread a smaller tile, or keep it in local memory",
    )


def _kept(body: Stmt) -> list[Buffer]:
    """What threads keep of their own, fragments aside, of which the buffers tell more than a lane has."""
    fragments = find_fragments(body)
    return [n.buffer for n in walk(body) if isinstance(n, Alloc) and n.buffer.name not in fragments]


def _words(buffer: Buffer) -> int:
    return (element_count(buffer) or 0) * max(1, buffer.dtype.itemsize // 4)

"""How many blocks a multiprocessor is to hold at once, where a thread keeps much in registers, and whether it can.

This is occupancy, in blocks for each multiprocessor.

Left to itself the assembler saves registers for blocks that would not fit anyway, and loads each value right before
it is used. Told how many blocks there can be, it uses what they leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from weft.ir.buffer import Buffer
from weft.ir.errors import TargetError
from weft.ir.expr import Call
from weft.ir.hardware import HARDWARE
from weft.ir.nesting import statements_in
from weft.ir.stmt import Alloc, For, Stmt, Tensorized
from weft.ir.visit import walk
from weft.target.cuda.emit_mma import find_fragments
from weft.target.cuda.machine import WARP, GpuMachine
from weft.target.cuda.rates import RESERVED_SHARED

#: Words a thread keeps below which the assembler does well on its own.
MANY = 96
#: Registers for addresses and counters, and for the fragments of matrix instructions.
ADDRESSES, FRAGMENTS = 24, 64
#: So much of another block's registers may be missing: the assembler makes do.
SLACK = 0.08
#: Registers are given to warps in steps of so many a thread.
REGISTER_STEP = 8
#: Threads of a warp group. Registers of a thread that only gives orders to the copy engine, next to two groups of
#: others and to more, or to such as keep more than they have, and the most of those.
GROUP = 4 * WARP
PRODUCER, LEAST, MOST = 40, 24, 240
#: Registers of a thread besides its sums that an instruction of warp groups takes.
OPERANDS = 28
#: Turns of a tile up to which a multiprocessor holds several blocks, how many, and registers of theirs besides sums.
FEW_TURNS, MOST_BLOCKS, BESIDES = 8, 3, 56


def blocks_at_once(body: Stmt, threads: int, machine: GpuMachine) -> int | None:
    """The blocks of a launch whose threads run ``body`` that a multiprocessor has registers for; None: no matter."""
    words = kept_words(body)
    calls = [n.name if isinstance(n, Call) else n.intrinsic for n in walk(body) if isinstance(n, (Call, Tensorized))]
    fetches = any(name in HARDWARE and "_fetch_" in name for name in calls)
    if fetches:  # what is under way is known
        words += sum(find_fragments(body).values())
    elif any(name in HARDWARE for name in calls):
        words += FRAGMENTS
    if words < MANY and not fetches:
        return None
    return max(1, int(machine.registers_per_sm / (threads * (words + ADDRESSES)) + SLACK))


def resident_blocks(machine: GpuMachine, threads: int, registers: int, shared: int) -> int:
    """Blocks that a multiprocessor has at a time; 0 where not even one fits."""
    warps = ceil(threads / WARP)
    each = ceil(max(1, registers) / REGISTER_STEP) * REGISTER_STEP * WARP * warps
    by_shared = machine.shared_per_sm // (shared + RESERVED_SHARED)
    limits = (machine.max_threads_per_sm // (warps * WARP), machine.registers_per_sm // each, by_shared)
    return min(machine.max_blocks_per_sm, *limits)


@dataclass(frozen=True, slots=True)
class Roles:
    """How many threads give orders to the copy engine, how many multiply what it fetches, and registers of a thread of
    each, where some are moved from one to the other."""

    producers: int
    consumers: int
    moved: tuple[int, int] | None = None


def choose_roles(words: int, consumers: int, machine: GpuMachine, largest: int | None = None) -> Roles | None:
    """For ``consumers`` that keep so many ``words`` each, in a block that is alone on its multiprocessor; the
    ``largest`` array of a thread, if it is not all of them, is the sums of an instruction.

    The producer is a whole warp group where others need its registers. None where there are too few of these.
    """
    threads = consumers + GROUP  # a warp more takes as many as one for each scheduler
    each = machine.registers_per_sm // threads // REGISTER_STEP * REGISTER_STEP
    if each >= words + FRAGMENTS + ADDRESSES:
        return Roles(WARP, consumers)
    if each < (words if largest is None else largest) + OPERANDS:
        return None  # an instruction has no more than the kernel starts with
    own = PRODUCER if consumers <= 2 * GROUP and words <= MOST else LEAST
    # No more than a block starts with: who asks for others waits for ever.
    rest = (each * threads - GROUP * own) // consumers // REGISTER_STEP * REGISTER_STEP
    return Roles(GROUP, consumers, (own, min(MOST, rest)))


def engine_blocks(words: int, consumers: int, shared: int, turns: int | None, machine: GpuMachine) -> int:
    """Blocks that the copy engine works for that a multiprocessor is to hold, whose threads keep ``words`` each: more
    than one only where a tile is but some ``turns``, so that one stores what it has while another multiplies."""
    if turns is None or turns > FEW_TURNS:
        return 1
    return max(1, min(MOST_BLOCKS, resident_blocks(machine, consumers + WARP, words + BESIDES, shared)))


def kept_words(body: Stmt) -> int:
    """What a thread that runs ``body`` keeps of its own."""
    return sum(_words(b) for b in _kept(body))


def largest_words(body: Stmt) -> int:
    """The words of the largest array of those."""
    return max(map(_words, _kept(body)), default=0)


def blocks_together(count: int, threads: int, shared: int, machine: GpuMachine, at: For, kernel: str) -> int:
    """How many of ``count`` blocks that wait for one another a multiprocessor is to hold, so that all of them run."""
    most = resident_blocks(machine, threads, 1, shared)
    if count > machine.sms * most:
        raise TargetError(
            f"the blocks of `{kernel}` wait for one another, and not all of them run at once",
            span=at.span,
            why=f"there are {count} of {threads} threads and {shared} bytes of shared memory; "
            f"{machine.name} holds {machine.sms * most}",
            help="start fewer blocks, and let each of them do more",
        )
    return max(1, ceil(count / machine.sms))


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
    return [n.buffer for n in statements_in(body, Alloc) if n.buffer.name not in fragments]


def _words(buffer: Buffer) -> int:
    return (buffer.element_count() or 0) * max(1, buffer.dtype.itemsize // 4)

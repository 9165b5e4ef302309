"""Memory for temporaries and results of kernels: blocks that are given back are kept for the next who asks.

A kernel asks for the same blocks in every call, often in every iteration of a loop. The C library would get larger ones
from the system anew each time, and the system clears them page by page: that takes longer than using them. So blocks
are rounded up to a power of two and kept, a few of each size and `MOST_KEPT` bytes in all. Small blocks are the C
library's business, as are very large ones.

Blocks begin at cache lines, so that no store of a vector lies in two of them. A load waits for a store before it that
has the same place in its page, though it only seems to depend on it; so larger blocks begin at places in a page that
take turns (colours): far from one another, and none a little behind the start of a page, where inputs mostly begin.

A slot holds a block or null, and only ever changes hands by an atomic exchange: whoever gets a block owns it.
"""

from __future__ import annotations

from weft.runtime.native_module import NativeModule, words

#: Bytes of the smallest and of the largest blocks that are kept, as powers of two. A transposed image of 75 MB took 1.5
#: times as long where its memory came from the system in every call.
SMALLEST, LARGEST = 10, 27
#: Blocks kept of each size.
SLOTS = 8
#: Bytes kept in all.
MOST_KEPT = 256 << 20

#: Bytes from which on blocks have colours, and from which on the system is asked for large pages.
COLOURED_FROM, HUGE_FROM = 1 << 16, 1 << 22
#: Bytes of a page, and from one colour to the next, around the page: eight places, 512 bytes apart.
PAGE, COLOUR_STEP = 4096, 1536

_SOURCE = '''
def weft_alloc(bytes):
    if below(bytes, least) or below(most, bytes):
        return block(64 if below(bytes, 64) else (bytes + 63) & -64, 0)
    power = 64 - llvm.ctlz.i64(bytes - 1, 0)
    first = slots + 8 * per_size * (power - smallest)
    for n in range(per_size):
        if atomic_load(first + 8 * n) != 0:
            found = atomic_swap(first + 8 * n, 0)
            if found != 0:
                atomic_add(kept, -(1 << power))
                return found
    return block(1 << power, 1 << power)


def weft_free(memory):
    if memory == 0:
        return
    header: Header = memory - 64
    size = header.size
    if size != 0:
        if not below(most_kept, atomic_add(kept, size) + size):
            first = slots + 8 * per_size * (63 - llvm.ctlz.i64(size, 0) - smallest)
            for n in range(per_size):
                if atomic_replace(first + 8 * n, 0, memory):
                    return
        atomic_add(kept, -size)
    free(header.given)


def block(room_for, size):
    align = 64
    start = 64
    if not below(room_for, coloured_from):
        align = page
        start = page + (atomic_add(colour, colour_step) & page - 1)
    if below(room_for + start, room_for):
        return 0
    memory = aligned_alloc(align, room_for + start)
    if memory == 0:
        return 0
    header: Header = memory + start - 64
    header.size = size
    header.room = room_for
    header.given = memory
    if below(room_for, huge_from):
        memset(memory + start, 0, room_for)
    else:
        madvise(memory, room_for, 14)
    return memory + start


def weft_numpy_malloc(context, bytes):
    """The same for numpy, as the functions of an allocator; the first argument is its context."""
    return weft_alloc(bytes)


def weft_numpy_calloc(context, count, each):
    if count != 0 and below(-1 >> 1, each) or each != 0 and below((-1 >> 1) // each, count):
        return 0
    block = weft_alloc(count * each)
    if block != 0:
        memset(block, 0, count * each)
    return block


def weft_numpy_realloc(context, old, bytes):
    new = weft_alloc(bytes)
    if new != 0 and old != 0:
        header: Header = old - 64
        memcpy(new, old, bytes if below(bytes, header.room) else header.room)
        weft_free(old)
    return new


def weft_numpy_free(context, block, bytes):
    weft_free(block)
'''

#: What the module needs of the C library.
_FUNCTIONS = {
    "aligned_alloc": "ptr (i64, i64)", "free": "void (ptr)", "madvise": "i32 (ptr, i64, i32)",
    "memcpy": "ptr (ptr, ptr, i64)", "memset": "ptr (ptr, i32, i64)",
}  # fmt: skip
MEMORY_IMPORTS = tuple(_FUNCTIONS)
_CONSTANTS = {
    "per_size": SLOTS, "smallest": SMALLEST, "least": (1 << (SMALLEST - 1)) + 1, "most": 1 << LARGEST,
    "most_kept": MOST_KEPT, "coloured_from": COLOURED_FROM, "huge_from": HUGE_FROM, "page": PAGE,
    "colour_step": COLOUR_STEP,
}  # fmt: skip
#: In front of every block, in a cache line of its own: its size, or 0 for one that is not kept; the bytes it has room
#: for; and what the C library gave.
_HEADER = words("size", "room", "given")

#: Defines ``weft_alloc`` and ``weft_free``.
MEMORY = NativeModule(
    _SOURCE, _CONSTANTS, {"Header": _HEADER}, {**_FUNCTIONS, "llvm.ctlz.i64": "i64 (i64, i1)"},
    memory={"slots": (LARGEST - SMALLEST + 1) * SLOTS, "kept": 1, "colour": 1},
)  # fmt: skip

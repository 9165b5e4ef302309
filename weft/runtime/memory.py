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

from weft.runtime.short_llvm import expand

#: Bytes of the smallest and of the largest blocks that are kept, as powers of two.
SMALLEST, LARGEST = 10, 25
#: Blocks kept of each size.
SLOTS = 8
#: Bytes kept in all.
MOST_KEPT = 64 << 20

#: Bytes from which on blocks have colours, and from which on the system is asked for large pages.
COLOURED_FROM, HUGE_FROM = 1 << 16, 1 << 22
#: Bytes of a page, and from one colour to the next, around the page: eight places, 512 bytes apart.
PAGE, COLOUR_STEP = 4096, 1536

#: In front of every block, in a cache line of its own: its size, or 0 for one that is not kept; the bytes it has room
#: for; and what the C library gave.
_TEXT = """
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i32 @madvise(ptr, i64, i32)
declare ptr @memcpy(ptr, ptr, i64)
declare ptr @memset(ptr, i32, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
declare i64 @llvm.ctlz.i64(i64, i1)

@slots = global [$COUNT x ptr] zeroinitializer, align 64
@kept = global i64 0, align 64
@colour = global i64 0, align 64

define ptr @weft_alloc(i64 %bytes) {
  %small = icmp ule i64 %bytes, $LEAST
  %large = icmp ugt i64 %bytes, $MOST
  %plain = or i1 %small, %large
  br i1 %plain, label %direct, label %look
direct:
  %tiny = icmp ult i64 %bytes, 64
  %wanted = select i1 %tiny, i64 64, i64 %bytes
  %raised = add i64 %wanted, 63
  %rounded = and i64 %raised, -64
  %own = call ptr @block(i64 %rounded, i64 0)
  ret ptr %own
look:
  %last = add i64 %bytes, -1
  %zeros = call i64 @llvm.ctlz.i64(i64 %last, i1 false)
  %power = sub i64 64, %zeros
  %size = shl i64 1, %power
  %first = call ptr @first_slot(i64 %power)
  br label %next
next:
  %n = phi i64 [ 0, %look ], [ %more, %empty ]
  %slot = getelementptr ptr, ptr %first, i64 %n
  %seen = load atomic ptr, ptr %slot monotonic, align 8
  br ptr %seen eq null, label %empty, label %take
take:
  %got = atomicrmw xchg ptr %slot, ptr null acq_rel
  br ptr %got eq null, label %empty, label %found
found:
  %less = sub i64 0, %size
  %left = atomicrmw add ptr @kept, i64 %less monotonic
  ret ptr %got
empty:
  %more = add i64 %n, 1
  br i64 %more eq $SLOTS, label %make, label %next
make:
  %new = call ptr @block(i64 %size, i64 %size)
  ret ptr %new
}

define void @weft_free(ptr %memory) {
  br ptr %memory eq null, label %done, label %some
some:
  %header = getelementptr i8, ptr %memory, i64 -64
  %size = load i64, ptr %header
  br i64 %size eq 0, label %drop, label %keep
keep:
  %before = atomicrmw add ptr @kept, i64 %size monotonic
  %after = add i64 %before, %size
  br i64 %after ugt $MOST_KEPT, label %too.much, label %look
look:
  %zeros = call i64 @llvm.ctlz.i64(i64 %size, i1 false)
  %power = sub i64 63, %zeros
  %first = call ptr @first_slot(i64 %power)
  br label %next
next:
  %n = phi i64 [ 0, %look ], [ %more, %taken ]
  %slot = getelementptr ptr, ptr %first, i64 %n
  %old = cmpxchg ptr %slot, ptr null, ptr %memory acq_rel monotonic
  %mine = extractvalue { ptr, i1 } %old, 1
  br i1 %mine, label %done, label %taken
taken:
  %more = add i64 %n, 1
  br i64 %more eq $SLOTS, label %too.much, label %next
too.much:
  %less = sub i64 0, %size
  %left = atomicrmw add ptr @kept, i64 %less monotonic
  br label %drop
drop:
  %given = load ptr, %header + 16
  call void @free(ptr %given)
  br label %done
done:
  ret void
}

define internal ptr @first_slot(i64 %power) {
  %class = sub i64 %power, $SMALLEST
  %place = mul i64 %class, $SLOTS
  %slot = getelementptr ptr, ptr @slots, i64 %place
  ret ptr %slot
}

define internal ptr @block(i64 %room, i64 %size) {
  %large = icmp uge i64 %room, $COLOURED_FROM
  %align = select i1 %large, i64 $PAGE, i64 64
  %step = select i1 %large, i64 $COLOUR_STEP, i64 0
  %turn = atomicrmw add ptr @colour, i64 %step monotonic
  %place = and i64 %turn, $LAST_OF_PAGE
  %colour = select i1 %large, i64 %place, i64 0
  %start = add i64 %align, %colour
  %bytes = add i64 %room, %start
  br i64 %bytes ult %room, label %none, label %ask
ask:
  %memory = call ptr @aligned_alloc(i64 %align, i64 %bytes)
  br ptr %memory eq null, label %none, label %fine
fine:
  %usable = getelementptr i8, ptr %memory, i64 %start
  %header = getelementptr i8, ptr %usable, i64 -64
  store i64 %size, ptr %header
  store i64 %room, %header + 8
  store ptr %memory, %header + 16
  br i64 %room uge $HUGE_FROM, label %advise, label %done
advise:
  %advised = call i32 @madvise(ptr %memory, i64 %room, i32 14)
  br label %done
done:
  ret ptr %usable
none:
  ret ptr null
}

; The same for numpy, as the functions of an allocator; the first argument is its context.
define ptr @weft_numpy_malloc(ptr %context, i64 %bytes) {
  %block = call ptr @weft_alloc(i64 %bytes)
  ret ptr %block
}

define ptr @weft_numpy_calloc(ptr %context, i64 %count, i64 %each) {
  %product = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %count, i64 %each)
  %bytes = extractvalue { i64, i1 } %product, 0
  %overflow = extractvalue { i64, i1 } %product, 1
  br i1 %overflow, label %none, label %ask
ask:
  %block = call ptr @weft_alloc(i64 %bytes)
  br ptr %block eq null, label %none, label %clear
clear:
  %same = call ptr @memset(ptr %block, i32 0, i64 %bytes)
  ret ptr %block
none:
  ret ptr null
}

define ptr @weft_numpy_realloc(ptr %context, ptr %old, i64 %bytes) {
  %new = call ptr @weft_alloc(i64 %bytes)
  %failed = icmp eq ptr %new, null
  %nothing = icmp eq ptr %old, null
  %done = or i1 %failed, %nothing
  br i1 %done, label %end, label %move
move:
  %room = load i64, %old + -56
  %both = call i64 @llvm.umin.i64(i64 %room, i64 %bytes)
  %same = call ptr @memcpy(ptr %new, ptr %old, i64 %both)
  call void @weft_free(ptr %old)
  br label %end
end:
  ret ptr %new
}

define void @weft_numpy_free(ptr %context, ptr %block, i64 %bytes) {
  call void @weft_free(ptr %block)
  ret void
}
"""


def memory_text() -> str:
    """The module that defines ``weft_alloc`` and ``weft_free``."""
    values = {
        "COUNT": (LARGEST - SMALLEST + 1) * SLOTS,
        "SLOTS": SLOTS,
        "SMALLEST": SMALLEST,
        "LEAST": 1 << (SMALLEST - 1),
        "MOST": 1 << LARGEST,
        "MOST_KEPT": MOST_KEPT,
        "COLOURED_FROM": COLOURED_FROM,
        "HUGE_FROM": HUGE_FROM,
        "PAGE": PAGE,
        "LAST_OF_PAGE": PAGE - 1,
        "COLOUR_STEP": COLOUR_STEP,
    }
    return expand(_TEXT, values)


#: What the module needs of the C library.
MEMORY_IMPORTS = ("aligned_alloc", "free", "madvise", "memcpy", "memset")

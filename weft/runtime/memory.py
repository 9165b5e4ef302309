"""Memory for the temporaries of kernels: blocks that are given back are kept for the next who asks.

A kernel asks for the same blocks in every call, often in every iteration of a loop. The C library would get larger ones
from the system anew each time, and the system clears them page by page: that takes longer than using them. So blocks
are rounded up to a power of two and kept, a few of each size and `MOST_KEPT` bytes in all. Small blocks are the C
library's business, as are very large ones.

A slot holds a block or null, and only ever changes hands by an atomic exchange: whoever gets a block owns it.
"""

from __future__ import annotations

from string import Template

#: Bytes of the smallest and of the largest blocks that are kept, as powers of two.
SMALLEST, LARGEST = 12, 24
#: Blocks kept of each size.
SLOTS = 8
#: Bytes kept in all.
MOST_KEPT = 64 << 20

#: In front of every block, in a cache line of its own: its size, or 0 for one that is not kept.
_TEXT = """
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i64 @llvm.ctlz.i64(i64, i1)

@slots = global [$COUNT x ptr] zeroinitializer, align 64
@kept = global i64 0, align 64

define ptr @weft_alloc(i64 %bytes) {
  %small = icmp ule i64 %bytes, $LEAST
  %large = icmp ugt i64 %bytes, $MOST
  %plain = or i1 %small, %large
  br i1 %plain, label %direct, label %look
direct:
  %tiny = icmp ult i64 %bytes, 64
  %wanted = select i1 %tiny, i64 64, i64 %bytes
  %raised = add i64 %wanted, 127
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
  %nothing = icmp eq ptr %seen, null
  br i1 %nothing, label %empty, label %take
take:
  %got = atomicrmw xchg ptr %slot, ptr null acq_rel
  %late = icmp eq ptr %got, null
  br i1 %late, label %empty, label %found
found:
  %less = sub i64 0, %size
  %left = atomicrmw add ptr @kept, i64 %less monotonic
  ret ptr %got
empty:
  %more = add i64 %n, 1
  %all = icmp eq i64 %more, $SLOTS
  br i1 %all, label %make, label %next
make:
  %with.header = add i64 %size, 64
  %new = call ptr @block(i64 %with.header, i64 %size)
  ret ptr %new
}

define void @weft_free(ptr %memory) {
  %none = icmp eq ptr %memory, null
  br i1 %none, label %done, label %some
some:
  %header = getelementptr i8, ptr %memory, i64 -64
  %size = load i64, ptr %header
  %plain = icmp eq i64 %size, 0
  br i1 %plain, label %drop, label %keep
keep:
  %before = atomicrmw add ptr @kept, i64 %size monotonic
  %after = add i64 %before, %size
  %full = icmp ugt i64 %after, $MOST_KEPT
  br i1 %full, label %too.much, label %look
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
  %all = icmp eq i64 %more, $SLOTS
  br i1 %all, label %too.much, label %next
too.much:
  %less = sub i64 0, %size
  %left = atomicrmw add ptr @kept, i64 %less monotonic
  br label %drop
drop:
  call void @free(ptr %header)
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

define internal ptr @block(i64 %bytes, i64 %size) {
  %memory = call ptr @aligned_alloc(i64 64, i64 %bytes)
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %none, label %fine
fine:
  store i64 %size, ptr %memory
  %usable = getelementptr i8, ptr %memory, i64 64
  ret ptr %usable
none:
  ret ptr null
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
    }
    return Template(_TEXT).substitute({name: str(value) for name, value in values.items()})


#: What the module needs of the C library.
MEMORY_IMPORTS = ("aligned_alloc", "free")

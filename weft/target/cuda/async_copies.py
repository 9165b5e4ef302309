"""Copies into shared memory that run on their own while the threads go on: ``cp.async``.

Hints say which buffers are filled so, where the copies of a group end, and where a thread waits for them (see
`weft.passes.to_grid.run_ahead` and `weft.target.cuda.place_waits`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Binary, Cast, Const, Expr, Load, Select, Var
from weft.ir.nesting import statements_in
from weft.ir.stmt import Evaluate, Stmt, Store
from weft.ir.visit import walk
from weft.target.c_text.emit_expr import emit_expr, emit_pointer
from weft.target.cuda.emit_context import Function

#: Bytes of one copy.
SIZES = (4, 8, 16)

_COPY = """template <int BYTES> __device__ __forceinline__ void async_copy(void* to, const void* from) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  if constexpr (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(BYTES) : "memory");
  }
}"""
#: Without a branch, so that other instructions can be moved across it.
_COPY_IF = """template <int BYTES>
__device__ __forceinline__ void async_copy_if(bool wanted, void* to, const void* from) {
  static_assert(BYTES == 16);
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global.L2::128B [%0], [%1], 16; }"
               ::"r"(at), "l"(from), "r"((int)wanted) : "memory");
}"""
#: Where there is nothing to copy from, zeros are stored.
_COPY_OR_ZERO = """template <int BYTES>
__device__ __forceinline__ void async_copy_or_zero(void* to, const void* from, bool there) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  const int bytes = there ? BYTES : 0;
  if constexpr (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 ::"r"(at), "l"(from), "n"(BYTES), "r"(bytes) : "memory");
  }
}"""
_COMMIT = """__device__ __forceinline__ void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }"""
_WAIT = """template <int PENDING> __device__ __forceinline__ void async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}"""

#: What threads wrote to shared memory is there for the matrix unit, too, after the barrier that follows.
_PUBLISH = """__device__ __forceinline__ void publish() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}"""


def find_rings(body: Stmt) -> frozenset[str]:
    """The buffers of a launch that may be filled asynchronously."""
    hints = (n.call for n in statements_in(body, Evaluate) if n.call.name == "async_fill")
    return frozenset(e.buffer.name for call in hints for e in call.args if isinstance(e, AddressOf))


def emit_commit(f: Function, groups: Expr) -> None:
    """The end of the copies of one group."""
    f.line(f"{f.define('async_commit', _COMMIT)}();")


def emit_wait(f: Function, pending: Expr) -> None:
    """All groups of copies but the youngest ``pending`` have arrived."""
    f.line(f"{f.define('async_wait', _WAIT)}<{emit_expr(f, pending).text}>();")


def emit_publish(f: Function) -> None:
    f.line(f"{f.define('publish', _PUBLISH)}();")


@dataclass(frozen=True, slots=True)
class Copy:
    """A store of what ``load`` reads; zero where ``condition`` does not hold."""

    load: Load
    condition: Expr | None = None


def element_or_zero(e: Expr) -> Copy | None:
    """The element that ``e`` is, as it lies in memory or widened, and where it is zero instead."""
    condition = None
    while isinstance(e, Select) and isinstance(e.otherwise, Const) and e.otherwise.value == 0:
        condition = e.condition if condition is None else Binary("&&", condition, e.condition)
        e = e.then
    if isinstance(e, Cast) and e.dtype == dt.float32 and e.operand.dtype.is_narrow_float:
        e = e.operand
    return Copy(e, condition) if isinstance(e, Load) else None


def copy_of(
    s: Store, rings: frozenset[str], is_private: Callable[[Buffer], bool], lane: Var | None = None
) -> Copy | None:
    """The asynchronous copy that ``s`` may be, from memory that is not shared; ``lane`` is a vector loop's variable."""
    if s.buffer.name not in rings:
        return None
    copy = element_or_zero(s.value)
    if copy is None or copy.load.dtype != s.value.dtype or copy.load.buffer.scope not in ("global", "constant"):
        return None
    if lane is not None and copy.condition is not None and any(n == lane for n in walk(copy.condition)):
        return None
    return None if is_private(copy.load.buffer) else copy


def find_copy(f: Function, s: Store, lane: Var | None = None) -> Copy | None:
    """`copy_of` where the code of ``f`` is written."""
    return copy_of(s, f.rings, lambda buffer: f.memory(buffer).is_private, lane)


def emit_copies(f: Function, s: Store, copy: Copy, size: int, count: int = 1) -> None:
    """``count`` copies of ``size`` bytes each, side by side."""
    wanted = ""
    if copy.condition is not None:
        name = f.define("async_copy_or_zero", _COPY_OR_ZERO)
    elif f.copies_if and size == max(SIZES):
        name, wanted = f.define("async_copy_if", _COPY_IF), f"{f.copies_if}, "
    else:
        name = f.define("async_copy", _COPY)
    to = emit_pointer(f, s.buffer, s.indices)
    source = emit_pointer(f, copy.load.buffer, copy.load.indices)
    test = "" if copy.condition is None else f", {emit_expr(f, copy.condition).text}"
    for i in range(count):
        at = f" + {i * size // s.buffer.dtype.itemsize}" if i else ""
        f.line(f"{name}<{size}>({wanted}{to}{at}, {source}{at}{test});")

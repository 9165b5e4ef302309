"""The code of matrix instructions of warp groups: ``wgmma``, which reads both matrices from shared memory itself.

The instructions run on their own: sums are there after the group has waited for them, and until then they are not to be
moved (``hold``).
"""

from __future__ import annotations

from weft.ir.expr import AddressOf, Call, Const, Expr
from weft.target.c_text.emit_expr import emit_expr, offset_expr
from weft.target.cuda.emit_context import LEVEL, Function
from weft.target.cuda.emit_mma import ptx_types
from weft.target.cuda.intrinsics import STEP_BYTES
from weft.target.cuda.read_products import BLOCK, TILE, row_length

#: Of a matrix that is so many bytes further on: of all that begin at one place, what is common is computed once.
_PLACE = """__device__ __forceinline__ unsigned long long matrix_place(const void* p, int on, int lead) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(p);
  const unsigned low = ((at & 0x3ffff) >> 4 | (unsigned)(lead >> 4) << 16) + (unsigned)(on >> 4);
  return (unsigned long long)low | 64ull << 32 | 1ull << 62;
}"""
#: For sums that are BLOCK, TILE, HALF and ODD elements apart for each block of columns, 8 columns, 8 rows and 1 column.
_WGMMA = """template <int BLOCK, int TILE, int HALF, int ODD, bool A_TRANSPOSED, bool B_TRANSPOSED, int B_LEAD>
__device__ __forceinline__ void {name}({sums}* c, const void* a, int a_on, const void* b, int b_on) {{
  asm volatile("wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{ptx}.{types} "
               "{{{outs}}}, "
               "{left}, {right}, {flags};"
               : {regs}
               : "l"(matrix_place(a, a_on, 16)), "l"(matrix_place(b, b_on, B_LEAD)){turned});
}}"""
#: The same with the left matrix in registers.
_WGMMA_REGISTERS = """template <int BLOCK, int TILE, int HALF, int ODD, bool B_TRANSPOSED, int B_LEAD>
__device__ __forceinline__ void {name}({sums}* c, const unsigned* a, const void* b, int b_on) {{
  asm volatile("wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{ptx}.{types} "
               "{{{outs}}}, "
               "{{{left}}}, {right}, {flags};"
               : {regs}
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(matrix_place(b, b_on, B_LEAD)){turned});
}}"""
_TURNED = ',\n                 "n"((int)B_TRANSPOSED)'
_BOTH_TURNED = ',\n                 "n"((int)A_TRANSPOSED), "n"((int)B_TRANSPOSED)'
_START = """__device__ __forceinline__ void wgmma_start() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }"""
_COMMIT = """__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}"""
_WAIT = """template <int PENDING> __device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}"""
#: Sums that instructions work on are not to be moved across this.
_HOLD = """template <int COUNT> __device__ __forceinline__ void hold_sums(float* c) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(c[i])::"memory");
}
template <int COUNT> __device__ __forceinline__ void hold_sums(int* c) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "+r"(c[i])::"memory");
}"""


def emit_begin(f: Function, type: str, call: Call) -> None:
    """As `emit_start`, the first of them without what was in the sums."""
    emit_start(f, type, call, begins=True)


def emit_start(f: Function, type: str, call: Call, *, begins: bool = False) -> None:
    """The instructions of a piece, started one after another; the group goes on."""
    sums, a, b, _, *numbers = call.args
    assert isinstance(sums, AddressOf)
    assert isinstance(a, AddressOf)
    assert isinstance(b, AddressOf)
    element = a.buffer.dtype
    steps, blocks, _, a_k, lead, _, b_k, half, block, tile, odd, tiles = (
        int(e.value) for e in numbers if isinstance(e, Const)
    )
    f.define("matrix_place", _PLACE)
    in_registers = a.buffer.name in f.operands
    kind = (f, type, (blocks, tiles), sums.buffer.dtype.is_integer, element.itemsize, in_registers)
    name = _define(*kind)
    flags = [str(k != 1).lower() for k in ((b_k,) if in_registers else (a_k, b_k))]
    arguments = ", ".join(map(str, (block if blocks > 1 else 0, tile, half, odd, *flags, element.itemsize * lead)))
    f.line(f"{f.define('wgmma_start', _START)}();")
    with f.braces():
        own = f"reinterpret_cast<const unsigned*>({emit_place(f, a)})" if in_registers else emit_place(f, a)
        a_at, b_at = f.fresh("a_at"), f.fresh("b_at")
        a_on, b_on = (
            STEP_BYTES * (1 if k == 1 else row_length(x.buffer)) for k, x in ((a_k, a), (b_k, b))
        )  # bytes from step to step
        for at, place in ((a_at, own), (b_at, emit_place(f, b))):
            f.line(f"const auto* const {at} = {place};")
        for step in range(steps):
            # In registers the steps of an instruction are four words.
            left = f"{a_at} + {4 * step}" if in_registers else f"{a_at}, {a_on * step}"
            places = f"{left}, {b_at}, {b_on * step}"
            function = _define(*kind, begins=True) if begins and step == 0 else name
            f.line(f"{function}<{arguments}>({emit_place(f, sums)}, {places});")
    f.line(f"{f.define('wgmma_commit', _COMMIT)}();")


def _define(
    f: Function,
    type: str,
    arranged: tuple[int, int],
    of_integers: bool,
    itemsize: int,
    in_registers: bool,
    *,
    begins: bool = False,
) -> str:
    """The instruction of so many blocks of tiles of columns, as a function; elements of one byte have no flags for
    transposed operands, integers none for signs."""
    blocks, each = arranged
    columns = TILE * blocks * each
    apart = f"_by_{TILE * each}" if TILE * each != BLOCK else ""
    name = f"wgmma_{type}_n{columns}{apart}{'_registers' if in_registers else ''}{'_first' if begins else ''}"
    count = columns // 2
    letter, ptx, sums = ("r", "s32", "int") if of_integers else ("f", "f32", "float")
    turns, how = itemsize > 1, "=" if begins else "+"
    outs = ", ".join(f"%{i}" for i in range(count))
    tiles = [f"{block} * BLOCK + {tile} * TILE" for block in range(blocks) for tile in range(each)]
    regs = ",\n                 ".join(
        ", ".join(f'"{how}{letter}"(c[{at}{own}])' for own in ("", " + ODD", " + HALF", " + HALF + ODD"))
        for at in tiles
    )
    left = [f"%{count + n}" for n in range(4 if in_registers else 1)]
    after = count + len(left)
    turned = [f"%{after + n}" for n in range(1, 2 if in_registers else 3)] if turns else []
    flags = ["0" if begins else "1", *(() if of_integers else ("1", "1")), *turned]
    text = (_WGMMA_REGISTERS if in_registers else _WGMMA).format(
        name=name, n=columns, types=ptx_types(type), outs=outs, regs=regs, left=", ".join(left), right=f"%{after}",
        sums=sums, ptx=ptx, depth=STEP_BYTES // itemsize, flags=", ".join(flags),
        turned=(_TURNED if in_registers else _BOTH_TURNED) * turns,
    )  # fmt: skip
    return f.define(name, text)


def emit_products_wait(f: Function, pending: Expr) -> None:
    """All groups of instructions but the youngest ``pending`` are done."""
    f.line(f"{f.define('wgmma_wait', _WAIT)}<{emit_expr(f, pending).text}>();")


def emit_hold(f: Function, place: AddressOf) -> None:
    """Sums stay in their registers from here on, or until here: instructions that are under way work on them."""
    memory = f.memory(place.buffer)
    f.line(f"{f.define('hold_sums', _HOLD)}<{memory.elements}>({memory.pointer});")


def emit_place(f: Function, place: Expr) -> str:
    """Where a matrix begins; swizzled rows begin a pattern there, which is no other place than without it."""
    assert isinstance(place, AddressOf)
    pointer, offset = f.memory(place.buffer).pointer, emit_expr(f, offset_expr(place.buffer, place.indices))
    return pointer if offset.text == "0" else f"{pointer} + {offset.inside(LEVEL['+'])}"

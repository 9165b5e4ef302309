"""Results that four lanes have side by side, two 16-bit elements each, stored 16 bytes at a time.

Matrix instructions leave a lane with two neighbouring elements of every 8 columns; the other six are with the three
lanes beside it. Stored so, a warp writes 16 bytes of each of 8 rows at a time, half a sector. Of 32 columns the four
lanes exchange what they have (``turn_quad``): each then has 8 neighbouring elements, and a warp stores 64 bytes a row.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod

from weft.ir.buffer import Buffer
from weft.ir.expr import Expr, Load, Var, idx
from weft.ir.offsets import linear_offset
from weft.ir.stmt import Assign, For, If, Let, Stmt, Store, While
from weft.ir.visit import free_vars, loads, substitute, walk
from weft.passes.analysis.loop_ranges import constant_extent
from weft.target.c_text.c_types import storage_type
from weft.target.c_text.emit_expr import emit_expr, emit_pointer
from weft.target.c_text.emit_stmt import emit_stmt
from weft.target.cuda.emit_context import LEVEL, Function, Memory
from weft.target.cuda.machine import WARP
from weft.target.cuda.read_launches import Grid, thread_counts

#: Lanes that exchange, elements that each has of a tile, and elements of a tile.
LANES, OWN, TILE = 4, 2, 8
_TURN = """__device__ __forceinline__ void turn_quad(unsigned* w) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned quad = 0xfu << (thread & 28);
  unsigned a = odd ? w[0] : w[1], b = odd ? w[2] : w[3];
  a = __shfl_xor_sync(quad, a, 1);
  b = __shfl_xor_sync(quad, b, 1);
  w[0] = odd ? a : w[0];
  w[1] = odd ? w[1] : a;
  w[2] = odd ? b : w[2];
  w[3] = odd ? w[3] : b;
  a = high ? w[0] : w[2];
  b = high ? w[1] : w[3];
  a = __shfl_xor_sync(quad, a, 2);
  b = __shfl_xor_sync(quad, b, 2);
  w[0] = high ? a : w[0];
  w[1] = high ? b : w[1];
  w[2] = high ? w[2] : a;
  w[3] = high ? w[3] : b;
}"""
_STORE = """__device__ __forceinline__ void store_quad(void* to, const unsigned* w) {
  *reinterpret_cast<uint4*>(to) = uint4{w[0], w[1], w[2], w[3]};
}"""


def emit_quads(f: Function, s: For, only_if: Expr | None = None) -> bool:
    """``s``, a loop through tiles of 8 columns in which a lane stores two elements, for four lanes together; False
    where it is no such loop, or perhaps not all four come here.

    What is stored ``only_if`` something is true is computed all the same: all lanes stay together.
    """
    inner = s.body
    tiles = constant_extent(s) or 0
    if s.kind != "unroll" or s.lo != idx(0) or tiles % LANES or not tiles or not isinstance(inner, For):
        return False
    store = inner.body
    if inner.kind != "vector" or constant_extent(inner) != OWN or type(store) is not Store or f.lane is None:
        return False
    if f.divergent or store.buffer.scope != "global" or store.buffer.dtype.itemsize != 2 or not _is_quad(f, s, store):
        return False
    if only_if is not None and not all(f.memory(n.buffer).is_private for n in loads(store.value)):
        return False
    own = Buffer(f.fresh("quad"), store.buffer.dtype, (idx(OWN * tiles),), scope="register")
    place = s.var * OWN + inner.var
    f.line(f"__align__(16) {storage_type(own.dtype)} {own.name}[{OWN * tiles}];")
    f.buffers[own.name] = Memory(own.name, 16, elements=OWN * tiles)
    emit_stmt(f, replace(s, body=replace(inner, body=replace(store, buffer=own, indices=(place,)))))
    del f.buffers[own.name]
    first: dict[Var, Expr] = {s.var: idx(0), inner.var: idx(0)}
    test = "" if only_if is None else f"if ({emit_expr(f, only_if).text}) "
    for group in range(tiles // LANES):
        words = f"reinterpret_cast<unsigned*>({own.name}) + {LANES * group}"
        to = emit_pointer(f, store.buffer, tuple(substitute(i, first) for i in store.indices))
        lane = emit_expr(f, f.lane).inside(LEVEL["*"])
        f.line(f"{f.define('turn_quad', _TURN)}({words});")
        where = f"{to} + {lane} * {TILE - OWN}" + (f" + {group * LANES * TILE}" if group else "")
        f.line(f"{test}{f.define('store_quad', _STORE)}({where}, {words});")
    return True


def _is_quad(f: Function, s: For, store: Store) -> bool:
    """Whether lanes side by side have elements side by side of a row that begins at a multiple of 16 bytes."""
    offset = linear_offset(store.buffer, store.indices)
    inner = s.body
    assert isinstance(inner, For)
    if offset is None or f.lane is None or f.memory(store.buffer).align % 16:
        return False
    terms = dict(offset.terms)
    fits = (terms.pop(s.var, 0), terms.pop(inner.var, 0), terms.pop(f.lane, 0)) == (TILE, 1, OWN)
    hidden = any({s.var.name, inner.var.name, f.lane.name} & free_vars(atom).keys() for atom in terms)
    return fits and not hidden and not any(n % TILE for n in (*terms.values(), offset.constant))


def find_lane(grid: Grid) -> Var | None:
    """The variable that tells the four lanes apart, of which there are whole warps; None where there is none."""
    counts = thread_counts(grid)
    is_quad = bool(counts) and counts[-1] == LANES and prod(counts) % WARP == 0
    return grid.threads[-1].var if is_quad else None


def find_varying(grid: Grid, lane: Var | None) -> frozenset[str]:
    """Variables that may differ between the four lanes."""
    found = set[str]() if lane is None else {lane.name}
    named = [(n.var.name, n.value) for n in walk(grid.body) if isinstance(n, (Let, Assign))]
    while more := [name for name, e in named if name not in found and _varies(e, found)]:
        found.update(more)
    return frozenset(found)


def _varies(e: Expr, names: Collection[str]) -> bool:
    return any(isinstance(n, Load) or (isinstance(n, Var) and n.name in names) for n in walk(e))


def diverges(f: Function, s: Stmt) -> bool:
    """Whether some of four lanes may run what is inside ``s`` and others not."""
    asked = (s.condition,) if isinstance(s, (If, While)) else (s.lo, s.hi) if isinstance(s, For) else ()
    return any(_varies(e, f.varying) for e in asked)

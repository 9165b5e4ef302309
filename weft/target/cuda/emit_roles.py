"""A launch that the copy engine works for, as CUDA C++: with one more thread that gives the engine its orders.

The body of the launch is written twice (warp specialization). The producer runs the loops around bulk copies alone; the
consumers run all else, without the barriers between filling a ring and using it. Both count the turns of the ring: a
pair of transaction barriers in shared memory for each place in it says when a turn has arrived, and when all warps have
released it. Registers that the producer does not need go to the consumers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from math import ceil, prod

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.errors import InternalError
from weft.ir.expr import AddressOf, Const, Expr, Var, idx
from weft.ir.nesting import flat, inner_statements, replace_in, sequence
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Assign, Barrier, Evaluate, For, If, Seq, Stmt, Store, Tensorized, hint
from weft.ir.visit import loads, map_statements, mentions, stores, substitute
from weft.passes.analysis.loop_ranges import constant_extent
from weft.passes.analysis.thread_reductions import is_reduction
from weft.passes.analysis.thread_teams import holds
from weft.target.c_text.emit_expr import emit_expr
from weft.target.c_text.emit_stmt import emit_stmt
from weft.target.cuda.emit_context import LEVEL, Code, Function
from weft.target.cuda.emit_wgmma import emit_place
from weft.target.cuda.launch_bounds import Roles, choose_roles, kept_words, largest_words
from weft.target.cuda.machine import WARP, GpuMachine
from weft.target.cuda.persist_blocks import PIECES, TILES, bulk_copies, find_bulk_loop
from weft.target.cuda.program import TensorMap
from weft.target.cuda.read_boxes import Box, read_box, turn_bytes
from weft.target.cuda.read_launches import Grid, extents

MAP = "struct alignas(64) TensorMap { unsigned char bytes[128]; };"
_START = """template <int TURNS, int WARPS> __device__ __forceinline__ void start_turns(unsigned long long* turns) {
  if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
    for (int i = 0; i < 2 * TURNS; ++i) {
      const unsigned at = (unsigned)__cvta_generic_to_shared(turns + i);
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(i < TURNS ? 1 : WARPS) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
}"""
_WAIT = """__device__ __forceinline__ void turn_wait(unsigned long long* turn, int parity) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(turn);
  asm volatile("{\\n.reg .pred p;\\nagain:\\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\\n@!p bra again;\\n}"
               ::"r"(at), "r"(parity) : "memory");
}"""
_EXPECT = """__device__ __forceinline__ void turn_expect(unsigned long long* turn, int bytes) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(turn);
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}"""
#: By each warp, once all of its lanes are done.
_RELEASE = """__device__ __forceinline__ void turn_release(unsigned long long* turn) {
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  const unsigned at = (unsigned)__cvta_generic_to_shared(turn);
  __syncwarp();
  if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}"""
_COPY = """__device__ __forceinline__
void bulk_copy_{n}(void* to, const TensorMap* map, unsigned long long* turn, {params}) {{
  asm volatile("cp.async.bulk.tensor.{n}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {{{places}}}], [%2];"
               ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(map),
                 "r"((unsigned)__cvta_generic_to_shared(turn)), {args} : "memory");
}}"""
_PREFETCH = """__device__ __forceinline__ void prefetch_map(const TensorMap* map) {
  if (threadIdx.x + threadIdx.y + threadIdx.z == 0) asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}"""
_REGISTERS = """template <int COUNT> __device__ __forceinline__ void {name}_registers() {{
  asm volatile("setmaxnreg.{way}.sync.aligned.u32 %0;" ::"n"(COUNT));
}}"""
_SYNC = """template <int THREADS> __device__ __forceinline__ void sync_consumers() {
  asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
}"""
#: A number that all threads of a warp have, known as such: what matrices begin at is then computed once for all.
_SAME = """__device__ __forceinline__ int same_in_warp(int x) { return __shfl_sync(0xffffffffu, x, 0); }"""


@dataclass(slots=True)
class Engine:
    """What the copy engine does for a launch: the transaction barriers of rings by their number, so many ``turns`` of
    ``bytes`` each, who waits for them (``roles``), how many blocks a multiprocessor has at once (``held``), and the
    maps used so far."""

    barriers: Buffer
    turns: tuple[int, ...]
    bytes: tuple[int, ...]
    roles: Roles
    #: The first of these rings; others are filled once for a tile.
    pieces: frozenset[Buffer]
    held: int = 1
    maps: dict[TensorMap, str] = field(default_factory=dict)

    @property
    def tensor_maps(self) -> tuple[TensorMap, ...]:
        return tuple(replace(made, name=name) for made, name in self.maps.items())


def find_engine(grid: Grid, consumers: int, name: str, machine: GpuMachine) -> Engine | None:
    """None where the copy engine has nothing to do in a launch; ``name`` is free for its barriers."""
    rings = _rings(grid.body)
    if not rings:
        return None
    pieces = _rings(find_bulk_loop(grid.body))
    groups = [pieces, tiles] if (tiles := rings - pieces) else [pieces]
    turns = tuple(int(next(iter(g)).shape[0].value) for g in groups)  # type: ignore[attr-defined]
    barriers = Buffer(name, dt.uint64, (idx(2 * sum(turns)),), scope="shared")
    counts = [int(e.value) for e in extents(grid.blocks) if isinstance(e, Const)]
    held = max(1, ceil(prod(counts) / machine.sms))
    alone = choose_roles(kept_words(grid.body), consumers, machine, largest_words(grid.body))
    roles = alone if held == 1 else Roles(WARP, consumers)
    if roles is None:
        raise InternalError("too few registers for what the copy engine fetches")
    return Engine(barriers, turns, tuple(sum(map(turn_bytes, g)) for g in groups), roles, pieces, held)


def _rings(s: Stmt) -> frozenset[Buffer]:
    """What the engine fills in ``s``."""
    return frozenset(n.buffer for copy in bulk_copies(s) for n in stores(copy))


def wider_shape(shape: tuple[int, int, int], more: int) -> tuple[int, int, int]:
    """Threads along x, y and z with so many ``more`` behind the others."""
    x, y, z = shape
    if z > 1:
        return x, y, z + more // (x * y)
    return (x, y + more // x, 1) if y > 1 else (x + more, 1, 1)


def emit_roles(
    f: Function, engine: Engine, body: Stmt, shape: tuple[int, int, int], threads: tuple[For, ...], *, follows: bool
) -> None:
    """``follows``: barriers and maps are got ready before it is waited for the grid before."""
    axis, first = next((a, n) for a, n in zip("zyx", reversed(shape)) if n > 1)
    turns, roles, begin = f.memory(engine.barriers).pointer, engine.roles, len(f.lines)
    f.line(f"{f.define('start_turns', _START)}<{sum(engine.turns)}, {roles.consumers // WARP}>({turns});")
    if follows:
        f.line(f"{f.use('follow_grid')}();")
    with f.braces(f"if (threadIdx.{axis} >= {first})"):
        if roles.moved:
            f.line(f"{f.define('give_registers', _REGISTERS.format(name='give', way='dec'))}<{roles.moved[0]}>();")
        rest = [f"threadIdx.{a} == 0" for a in "xyz" if a < axis]
        with f.braces(f"if ({' && '.join([f'threadIdx.{axis} == {first}', *rest])})"):
            orders = _pieces_first(_producer(body))
            emit_stmt(f, simplify(substitute(orders, {x.var: idx(0) for x in threads}), f.ranges))
    with f.braces("else"):
        if roles.moved:
            f.line(f"{f.define('take_registers', _REGISTERS.format(name='take', way='inc'))}<{roles.moved[1]}>();")
        loop = find_bulk_loop(body)
        consumer = _consumer(_met(body, loop), loop)
        emit_stmt(f, consumer if _handed_on(body) else _unmet(consumer))
    prefetch = f.define("prefetch_map", _PREFETCH)
    f.lines[begin:begin] = [f"{'  ' * f.depth}{prefetch}(&{name});" for name in engine.maps.values()]


def number_of_warps(f: Function, number: Code) -> Code:
    """``number``, which is the same for all threads of a warp."""
    return Code(f"{f.define('same_in_warp', _SAME)}({number.text})")


_NOTHING = Seq(())


def _is_hint(s: Stmt, *names: str) -> bool:
    return isinstance(s, Evaluate) and s.call.name in names


def _producer(s: Stmt) -> Stmt:
    """What gives the engine its orders."""
    counts = isinstance(s, Assign) and all(n.buffer.scope == "global" for n in loads(s.value))
    if counts or _is_hint(s, "turn_claim") or (isinstance(s, Tensorized) and bulk_copies(s)):
        return s
    if not bulk_copies(s):
        return _NOTHING
    return _producer(s.body) if isinstance(s, Alloc) else map_statements(s, _producer)


def _pieces_first(s: Stmt) -> Stmt:
    """``s`` with the first turn of pieces, where it stands alone, ordered before what is fetched once for the tile.

    That waits until the tile before has used its own, whereas for the pieces there are turns free before.
    """
    if not isinstance(s, Seq):
        return map_statements(s, _pieces_first)
    parts = [_pieces_first(part) for part in flat(s)]
    claims = [n for n, part in enumerate(parts) if _is_hint(part, "turn_claim")]
    rings = [part.call.args[1] for n in claims if isinstance(part := parts[n], Evaluate)]
    if rings[:2] != [TILES, PIECES]:
        return sequence(parts)
    tile, piece = claims[:2]
    end = next((n for n in range(piece + 1, len(parts)) if not bulk_copies(parts[n]) or _is_loop(parts[n])), len(parts))
    return sequence([*parts[:tile], *parts[piece:end], *parts[tile:piece], *parts[end:]])


def _is_loop(s: Stmt) -> bool:
    return isinstance(s, For)


def _consumer(s: Stmt, loop: For) -> Stmt:
    """All else; in ``loop`` turns are waited for instead of other threads."""
    if s is loop and not _handed_on(loop):
        return replace(loop, body=_unmet(loop.body))
    if _is_order(s):
        return _NOTHING
    return map_statements(s, lambda n: _consumer(n, loop))


def _met(body: Stmt, loop: For) -> Stmt:
    """``body``, whose threads meet once before what uses what they filled, where ``loop`` does."""
    filled = _handed_on(replace_in(body, loop, _NOTHING))
    if not filled & _used(loop.body):
        return body

    def visit(s: Stmt) -> Stmt:
        if not filled & _used(s):
            return s
        if isinstance(s, Seq):
            first = next(n for n, part in enumerate(s.body) if filled & _used(part))
            return sequence([*s.body[:first], visit(s.body[first]), *s.body[first + 1 :]])
        return map_statements(s, visit) if filled & mentions(s).stored else sequence([hint("publish"), Barrier(), s])

    return visit(body)


def _used(s: Stmt) -> frozenset[str]:
    return mentions(s).addressed | mentions(s).loaded


def _handed_on(s: Stmt) -> frozenset[str]:
    """Shared memory in which threads of one warp find what those of another stored."""
    if isinstance(s, Tensorized) and (bulk_copies(s) or (is_reduction(s) and not holds(s, "block"))):
        return frozenset()
    if isinstance(s, Store):
        return frozenset({s.buffer.name} if s.buffer.scope == "shared" else ())
    return frozenset[str]().union(*map(_handed_on, inner_statements(s)))


def _unmet(s: Stmt) -> Stmt:
    """What consumers do where all that they share are rings that the engine fills: no threads but those of a warp
    meet."""
    if isinstance(s, Seq):
        return sequence([_unmet(n) for n in s.body])
    meets = (isinstance(s, Barrier) and s.scope == "block") or _is_hint(s, "publish")
    return _NOTHING if meets or _is_order(s) else map_statements(s, _unmet)


def _is_order(s: Stmt) -> bool:
    """Whether ``s`` is nothing but orders to the engine."""
    if isinstance(s, If) and s.otherwise is None:
        return bool(bulk_copies(s)) and all(map(_is_order, flat(s.then)))
    return _is_hint(s, "turn_claim") or (isinstance(s, Tensorized) and bool(bulk_copies(s)))


def _place(f: Function, number: Expr, rings: int, *, is_free: bool) -> str:
    """The barrier of a turn."""
    engine = f.engine
    assert engine is not None
    others = sum(engine.turns[:rings]) + (sum(engine.turns) if is_free else 0)
    slot = simplify(number % engine.turns[rings], f.ranges) + others
    return f"{f.memory(engine.barriers).pointer} + {emit_expr(f, simplify(slot, f.ranges)).inside(LEVEL['+'] + 1)}"


def _parity(f: Function, number: Expr, rings: int) -> str:
    assert f.engine is not None
    return emit_expr(f, simplify(number // f.engine.turns[rings] % 2, f.ranges)).inside(LEVEL["+"] + 1)


def emit_claim(f: Function, number: Expr, of: Const) -> None:
    """The engine is about to fill a turn, which all warps have released."""
    assert f.engine is not None
    rings = int(of.value)
    free, full = (_place(f, number, rings, is_free=is_free) for is_free in (True, False))
    f.line(f"{f.define('turn_wait', _WAIT)}({free}, 1 - {_parity(f, number, rings)});")
    f.line(f"{f.define('turn_expect', _EXPECT)}({full}, {f.engine.bytes[rings]});")


def emit_await(f: Function, number: Expr, of: Const) -> None:
    """A turn has arrived."""
    place = _place(f, number, int(of.value), is_free=False)
    f.line(f"{f.define('turn_wait', _WAIT)}({place}, {_parity(f, number, int(of.value))});")


def emit_release(f: Function, number: Expr, of: Const) -> None:
    f.line(f"{f.define('turn_release', _RELEASE)}({_place(f, number, int(of.value), is_free=True)});")


def emit_block_barrier(f: Function) -> None:
    """Of all threads but the producer's."""
    name = "__syncthreads" if f.engine is None else f"{f.define('sync_consumers', _SYNC)}<{f.engine.roles.consumers}>"
    f.line(f"{name}();")


def emit_bulk_copy(f: Function, s: Tensorized) -> None:
    """The orders for one box after another."""
    box = read_box(s.body)
    if box is None or f.engine is None:
        raise InternalError("a bulk copy of what is no box", span=s.span)
    f.define("TensorMap", MAP)
    name, count = _map(f, box), len(box.sizes)
    rings = int(box.store.buffer not in f.engine.pieces)
    text = _COPY.format(
        n=count, params=", ".join(f"int c{i}" for i in range(count)),
        places=", ".join(f"%{3 + i}" for i in range(count)), args=", ".join(f'"r"(c{i})' for i in range(count)),
    )  # fmt: skip
    copy = f.define(f"bulk_copy_{count}", text)
    for numbers in product(*(range(constant_extent(x) or 0) for x in box.apart)):
        values: dict[Var, Expr] = {x.var: idx(n) for x, n in zip(box.apart, numbers)}
        store, load = (substitute(n, values) for n in (box.store, box.load))
        to = emit_place(f, AddressOf(store.buffer, store.indices))
        places = [emit_expr(f, simplify(load.indices[d], f.ranges)).text for d in box.dimensions]
        turn = _place(f, store.indices[0], rings, is_free=False)
        f.line(f"{copy}({to}, &{name}, {turn}, {', '.join(places)});")


def _map(f: Function, box: Box) -> str:
    assert f.engine is not None
    source = box.load.buffer
    numbers = [
        [int(e.value) for e in found if isinstance(e, Const)] for found in (source.shape, source.element_strides())
    ]
    sizes, strides = (tuple(found[d] for d in box.dimensions) for found in numbers)
    apart = tuple(source.dtype.itemsize * n for n in strides[1:])
    made = TensorMap("", source.name, sizes, apart, box.sizes, box.steps, source.dtype.itemsize)
    if made not in f.engine.maps:
        f.engine.maps[made] = f.fresh(f"{source.name}_map")
    return f.engine.maps[made]

"""The methods of `Schedule` for data movement and reductions, for moving computation, and for hardware intrinsics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from weft.ir.at_the_call import methods_told_at_the_call
from weft.ir.buffer import Scope
from weft.ir.errors import ScheduleError
from weft.ir.stmt import Kernel
from weft.ir.visit import loads, stores
from weft.poly.verdict import Verdict
from weft.schedules.atomic import atomic
from weft.schedules.cache_write import cache_write
from weft.schedules.clear_masks import clear_masks
from weft.schedules.compensate import compensate
from weft.schedules.compute_at import check_compute_at, compute_at, compute_root
from weft.schedules.compute_inline import check_compute_inline, compute_inline
from weft.schedules.decompose_reduction import decompose_reduction
from weft.schedules.expand_storage import expand_storage
from weft.schedules.explain import explain
from weft.schedules.find import blocks_inside, find_block, loops_around
from weft.schedules.fold_storage import fold_storage
from weft.schedules.handles import AnyBlock, AnyBuffer, AnyLoop, BlockRef, BufferRef
from weft.schedules.infer_stage import Stage, infer_stage
from weft.schedules.narrow import narrow
from weft.schedules.pack import cache_read, pack
from weft.schedules.pad import pad
from weft.schedules.pad_rows import pad_rows
from weft.schedules.part_sum import part_sum
from weft.schedules.pipeline import double_buffer, pipeline
from weft.schedules.precompute import precompute
from weft.schedules.prefetch import prefetch
from weft.schedules.privatize import privatize
from weft.schedules.recompute import recompute
from weft.schedules.regroup import regroup
from weft.schedules.reverse_compute_at import check_reverse_compute_at, reverse_compute_at
from weft.schedules.rewrite import PRIMITIVES, Rewrite
from weft.schedules.rfactor import Start, rfactor
from weft.schedules.set_aside import set_aside
from weft.schedules.set_scope import set_scope
from weft.schedules.split import split
from weft.schedules.state import ScheduleState, located
from weft.schedules.store_at import store_at
from weft.schedules.stream import stream
from weft.schedules.surround import surround
from weft.schedules.surround_storage import surround_storage
from weft.schedules.tensorize import tensorize
from weft.schedules.trace import Numerics, Step
from weft.schedules.unscale import unscale


@methods_told_at_the_call
class DataMethods(ScheduleState):
    """Primitives for data movement, reductions, moving computation, and hardware intrinsics."""

    def cache_read(
        self,
        buffer: AnyBuffer,
        at: AnyLoop | None = None,
        scope: Scope = "global",
        readers: Sequence[AnyBlock] | None = None,
    ) -> tuple[BlockRef, BufferRef]:
        """What is read of ``buffer`` below loop ``at``, copied at the start of the loop's body.

        Without ``at``, before the outermost loops of the readers. ``readers`` are the blocks that read the copy, by
        default all. Returns the copying block and the storage.
        """
        options = self._options(at=at, scope=scope, readers=readers)
        made = self.run(cache_read, self.name(buffer), **options)
        return self._block_and_buffer(made)

    def surround(
        self,
        buffer: AnyBuffer,
        at: AnyLoop | None = None,
        readers: Sequence[AnyBlock] | None = None,
        layout: str | None = None,
    ) -> tuple[BlockRef, BufferRef]:
        """A copy of ``buffer`` with what is outside of it around it, for reads below ``at`` that reach there.

        They need no test any more, and no `edge`, `wrap` or `reflect`. Returns the copying block and the storage, which
        has the order in memory that ``layout`` spells (see `pack`).
        """
        options = self._options(at=at, readers=readers) | ({} if layout is None else {"layout": layout})
        made = self.run(surround, self.name(buffer), **options)
        return self._block_and_buffer(made)

    def surround_storage(self, buffer: AnyBuffer) -> list[BlockRef]:
        """Keeps a temporary with zeros around it, so that reads which give zero outside of it need no test any more.

        As `surround`, without a copy. Returns the blocks that set what is around.
        """
        return [BlockRef(name) for name in self.run(surround_storage, self.name(buffer))]

    def cache_write(
        self, buffer: AnyBuffer | AnyBlock, scope: Scope = "register", at: AnyLoop | None = None
    ) -> tuple[BlockRef, BufferRef]:
        """The elements of ``buffer`` that are written below loop ``at``, kept in storage until the loop's body ends.

        Reductions start and accumulate there; what is written goes to the buffer at the end. Returns the storing block
        and the storage.
        """
        made = self.run(cache_write, self.name(buffer), scope=scope, **self._options(at=at))
        return self._block_and_buffer(made)

    def pack(
        self,
        buffer: AnyBuffer,
        layout: str,
        at: AnyLoop | None = None,
        scope: Scope = "global",
        pad: bool = False,
        readers: Sequence[AnyBlock] | None = None,
        part: tuple[int, int] | None = None,
    ) -> tuple[BlockRef | None, BufferRef]:
        """``buffer`` in another order in memory: ``"j/32 i j%32"`` is panels of 32 columns, each row by row.

        ``i``, ``j`` ... are its dimensions; the words are those of the storage, slowest first. What is read below
        ``at`` (without it, in the whole program) is copied so; a temporary without ``at`` and ``pad`` is stored so in
        the first place, and there is no copying block. With ``pad`` what fills up the last tile is zero, not undefined.
        ``part`` is a dimension and a place in it: only what is read there by that number is copied.
        """
        name, options = self.name(buffer), self._options(at=at, scope=scope, pad=pad, readers=readers)
        options |= {} if part is None else {"part": part}
        made = self.run(pack, name, layout, **options)
        return self._block_and_buffer(made) if made else (None, self.handle(BufferRef, name))

    def stream(self, buffer: AnyBuffer) -> None:
        """Whole vectors that are stored to ``buffer`` go past the caches: for large results that nobody reads soon."""
        self.run(stream, self.name(buffer))

    def atomic(self, block: AnyBlock) -> None:
        """Updates of ``block`` in one step each: its loops may then run at once though they update the same elements.

        Its results must start elsewhere (see `decompose_reduction`).
        """
        self.run(atomic, self.name(block))

    def privatize(self, block: AnyBlock, at: AnyLoop, scope: Scope = "global") -> tuple[BlockRef, BlockRef, BufferRef]:
        """Updates of ``block`` in a copy of the whole buffer for each iteration of ``at``, added to it in the end.

        For updates at places that data choose. Returns the blocks that start a copy and add it up, and the copy.
        """
        start, total, own = self.run(privatize, self.name(block), self.name(at), scope=scope)
        return self.handle(BlockRef, start), self.handle(BlockRef, total), self.handle(BufferRef, own)

    def decompose_reduction(self, block: AnyBlock, at: AnyLoop) -> BlockRef:
        """The initialization of ``block`` as a block of its own in a nest right before loop ``at``."""
        (made,) = self.run(decompose_reduction, self.name(block), at=self.name(at))
        return self.handle(BlockRef, made)

    def rfactor(
        self,
        loop: AnyLoop,
        factor: int | None = None,
        axis: int = 0,
        start: Start = "before",
        at: AnyLoop | None = None,
    ) -> tuple[BlockRef, BufferRef]:
        """Partial results for each iteration of reduction loop ``loop``, which are then reduced.

        With ``factor`` the loop is split first and its inner part taken: ``factor`` partial results. They are
        dimension ``axis`` of the new storage. They start in a nest of their own, or ``"inside"`` that which computes
        them, at its first step. With ``at``, a loop of the reduction around it, they are added up in each of its
        iterations. Returns the block that computes them and that storage.
        """
        before = dict(self.__dict__, _fates=dict(self._fates), _born=dict(self._born))
        name = self.name(loop)
        try:
            if factor is not None:
                name = self.run(split, name, factor)[1]
            options: dict[str, Any] = {} if start == "before" else {"start": start}
            options |= {} if at is None else {"at": self.name(at)}
            made = self.run(rfactor, name, axis=axis, **options)
        except ScheduleError:
            self.__dict__.update(before)
            raise
        return self._block_and_buffer(made)

    def prefetch(self, buffer: AnyBuffer, at: AnyLoop, ahead: int = 1, of: AnyLoop | None = None) -> None:
        """Asks, in each iteration of ``at``, for what the one ``ahead`` iterations later reads of ``buffer``.

        With ``of``, a loop around ``at``, each asks for a share of what a later iteration of that one reads.
        A hint to the caches; best among the last steps, since it stands in the way of reordering.
        """
        options = {} if of is None else {"of": self.name(of)}
        self.run(prefetch, self.name(buffer), at=self.name(at), ahead=ahead, **options)

    def double_buffer(self, buffer: AnyBuffer) -> None:
        """Storage that each iteration of a loop fills and then uses (see `cache_read`), filled an iteration ahead."""
        self.run(double_buffer, self.name(buffer))

    def pipeline(self, *buffers: AnyBuffer, stages: int = 2) -> None:
        """Storage that each iteration of a loop fills and then uses, filled ``stages - 1`` iterations ahead.

        Those in shared memory may be filled by copies that run on their own. The last step on these copies.
        """
        self.run(pipeline, *self.names(buffers), stages=stages)

    def pad(self, block: AnyBlock, along: AnyLoop | None = None) -> None:
        """Runs ``block`` without the guards of uneven tiles, where that only fills up storage of its own.

        For tiles kept by `cache_write` whose inputs are packed with ``pad=True``. ``along``: only guards that ask about
        this loop.
        """
        self.run(pad, self.name(block), **({} if along is None else {"along": self.name(along)}))

    def pad_rows(self, buffer: AnyBuffer, elements: int, strided: bool = False) -> None:
        """Rows of a temporary ``elements`` further apart, so that a column is not all in one bank of shared memory.

        The last step on the buffer. ``strided``: its sizes stay what they are, only its strides change.
        """
        self.run(pad_rows, self.name(buffer), elements, **({"strided": True} if strided else {}))

    def _options(
        self,
        at: AnyLoop | None,
        scope: Scope = "global",
        pad: bool = False,
        readers: Sequence[AnyBlock] | None = None,
    ) -> dict[str, Any]:
        """Those that are not as usual, so that traces stay short."""
        options: dict[str, Any] = {} if at is None else {"at": self.name(at)}
        if scope != "global":
            options["scope"] = scope
        if pad:
            options["pad"] = pad
        if readers is not None:
            if not isinstance(readers, (list, tuple)):
                raise located(ScheduleError(f"readers={readers!r} is not a list of blocks"))
            options["readers"] = self.names(tuple(readers))
        return options

    def _block_and_buffer(self, made: tuple[str, ...]) -> tuple[BlockRef, BufferRef]:
        block, buffer = made
        return self.handle(BlockRef, block), self.handle(BufferRef, buffer)

    def compute_at(self, block: AnyBlock, loop: AnyLoop) -> None:
        """What ``block`` computes, computed in each iteration of ``loop``: as much as the iteration reads.

        ``block`` writes a temporary whose readers are all inside ``loop``; its new loops are ``s.loops(block)``. An
        output that is also read moves so where every element is still computed once.
        """
        self._move(compute_at, self.name(block), self.name(loop))

    def compute_root(self, block: AnyBlock) -> None:
        """What ``block`` computes, computed once in full before its first reader."""
        self._move(compute_root, self.name(block))

    def compute_inline(self, block: AnyBlock) -> None:
        """Every read of what ``block`` computes becomes its formula; the temporary is gone."""
        self._move(compute_inline, self.name(block))

    def precompute(self, block: AnyBlock, *iters: str) -> tuple[BlockRef, BufferRef]:
        """The part of what ``block`` computes that depends on its iterators ``iters`` alone, in a stage before it.

        Neighbouring nests that compute the same read it too. Returns the block that computes it and the storage.
        """
        made = self.run(precompute, self.name(block), *iters)
        return self.handle(BlockRef, made[0]), self.handle(BufferRef, made[1])

    def recompute(self, block: AnyBlock, *readers: AnyBlock) -> tuple[BlockRef, BufferRef]:
        """What ``block`` computes, a second time for ``readers``. Returns the second block and its storage."""
        return self._block_and_buffer(self.run(recompute, *self.names((block, *readers))))

    def part_sum(self, block: AnyBlock, iterator: str, axis: int = 0) -> tuple[BlockRef, BufferRef]:
        """The reduction of ``block`` for each step of one of the iterators that it reduces over, then a reduction of
        those. Returns the block of the partial results and their storage, in which that step is dimension ``axis``."""
        return self._block_and_buffer(self.run(part_sum, self.name(block), iterator, axis))

    def compensate(self, block: AnyBlock, buffer: AnyBuffer) -> tuple[BlockRef, BufferRef]:
        """Signed bytes of ``buffer``, which ``block`` adds up products with, as unsigned ones. Returns the block that
        takes off what that adds, and the storage they are moved to."""
        return self._block_and_buffer(self.run(compensate, self.name(block), self.name(buffer)))

    def set_aside(self, block: AnyBlock) -> tuple[BlockRef, BufferRef]:
        """What ``block`` computes, in storage of its own first. Returns the block that copies it, and the storage."""
        return self._block_and_buffer(self.run(set_aside, self.name(block)))

    def reverse_compute_at(self, block: AnyBlock, loop: AnyLoop) -> None:
        """``block`` joins ``loop``, in which what it reads is computed: an iteration uses what it has finished."""
        self._move(reverse_compute_at, self.name(block), self.name(loop))

    def store_at(self, buffer: AnyBuffer, loop: AnyLoop | None = None) -> None:
        """The storage of a temporary in the body of an outer ``loop`` (or outside all), computed where it is.

        In loops in between, a window that moves onward slides: only what is new is computed.
        """
        if loop is None:
            self.run(store_at, self.name(buffer))
        else:
            self.run(store_at, self.name(buffer), self.name(loop))

    def fold_storage(self, buffer: AnyBuffer, dim: int, factor: int, *others: int) -> None:
        """Dimension ``dim`` of a temporary in a ring of ``factor`` elements: subscripts modulo ``factor``.

        ``others`` are further dimensions, each followed by its factor.
        """
        self.run(fold_storage, self.name(buffer), dim, factor, *others)

    def expand_storage(self, buffer: AnyBuffer) -> None:
        """A temporary that each iteration of a loop makes anew, made once before the loop, a slice for each iteration.

        Then the loop may be distributed over its statements (see `fission`).
        """
        self.run(expand_storage, self.name(buffer))

    def _move(self, rewrite: Callable[..., Rewrite], *args: str) -> None:
        """A step that moves a block; its refusal says which moves of that block are legal."""
        declared = PRIMITIVES[rewrite.__name__]
        self.take(Step(rewrite.__name__, args), declared._replace(check=suggesting(declared.check)))

    def set_scope(self, buffer: AnyBuffer, scope: Scope) -> None:
        """The memory a temporary lives in: ``"global"``, ``"shared"``, ``"local"`` or ``"register"``."""
        self.run(set_scope, self.name(buffer), scope)

    def narrow(self, buffer: AnyBuffer, dtype: str) -> None:
        """A temporary of floats as ``"bfloat16"`` or ``"float16"``: factors of products with others of that type."""
        self.run(narrow, self.name(buffer), dtype)

    def unscale(self, block: AnyBlock) -> None:
        """The extremum of multiples by a positive constant, as that multiple of the extremum; to the bit the same.

        Of a sum, whatever is multiplied or divided by and does not depend on its steps (fast numerics).
        """
        self.run(unscale, self.name(block))

    def regroup(self, block: AnyBlock, *iters: str) -> None:
        """Factors of the products that ``block`` adds up which depend on ``iters`` alone, multiplied first (fast
        numerics): then `precompute` can make a stage of them."""
        self.run(regroup, self.name(block), *iters)

    def clear_masks(self, block: AnyBlock) -> None:
        """What masks put in place of elements that ``block`` finds the extremum of, as infinite (fast numerics)."""
        self.run(clear_masks, self.name(block))

    def tensorize(self, loop: AnyLoop, intrinsic: str) -> None:
        """The nest of ``loop`` becomes the hardware intrinsic of that name (see `weft.intrinsic`).

        It must do what the intrinsic means, down to the order of operations; machines without the
        instruction run the loops. To be done last: the loops are not to change any more.
        """
        self.run(tensorize, self.name(loop), intrinsic)

    def explain(self, **sizes: int) -> str:
        """A table of the loops: how often and how they run, what they touch, what moves between the caches.

        ``sizes`` stand in for symbolic ones. Estimates for one core; see `weft.schedules.explain`.
        """
        caches = None if self.machine is None else self.machine.caches
        return explain(self.kernel, sizes, caches, 16 if self.machine is None else self.machine.lanes(32))


#: More suggestions than this do not help.
_MOST = 4


def suggesting(check: Callable[..., Verdict]) -> Callable[..., Verdict]:
    """``check`` of a move of a block, whose refusals say which moves of that block are legal."""

    def checked(kernel: Kernel, block: str, *args: Any, numerics: Numerics) -> Verdict:
        verdict = check(kernel, block, *args, numerics=numerics)
        if verdict.ok or verdict.offers:
            return verdict
        return replace(verdict, offers=lambda: legal_moves(kernel, block, numerics))

    return checked


def legal_moves(kernel: Kernel, block: str, numerics: Numerics) -> tuple[str, ...]:
    """The calls that would move ``block``."""
    try:
        stage = infer_stage(kernel, block, outputs=True)
    except ScheduleError:
        return ()
    names = [] if isinstance(stage, Verdict) else _to_readers(kernel, block, stage, numerics)
    names += [
        f's.reverse_compute_at("{block}", "{name}")'
        for name in _producer_loops(kernel, block)
        if check_reverse_compute_at(kernel, block, name, numerics=numerics).ok
    ]
    return tuple(names[:_MOST])


def _to_readers(kernel: Kernel, block: str, stage: Stage, numerics: Numerics) -> list[str]:
    readers = stage.readers(kernel)
    common = [name for name in readers[0].loop_names if all(name in r.loop_names for r in readers)] if readers else []
    legal = [name for name in common if check_compute_at(kernel, block, name, numerics=numerics).ok]
    offers = [f's.compute_at("{block}", "{name}")' for name in legal]
    if check_compute_inline(kernel, block, numerics=numerics).ok:
        offers.append(f's.compute_inline("{block}")')
    return offers


def _producer_loops(kernel: Kernel, block: str) -> list[str]:
    """The loops in which something that ``block`` reads is computed."""
    own = find_block(kernel, block)
    read = {load.buffer.name for load in loads(own.body)}
    producers = [b for b in blocks_inside(kernel) if b is not own and any(s.buffer.name in read for s in stores(b))]
    return list(dict.fromkeys(loop.var.name for b in producers for loop in loops_around(kernel, b)))

"""The methods of `Schedule` for data movement and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.ir.buffer import Scope
from weft.ir.errors import ScheduleError
from weft.schedules.atomic import atomic, check_atomic
from weft.schedules.cache_read import cache_read, check_cache_read
from weft.schedules.cache_write import cache_write, check_cache_write
from weft.schedules.decompose_reduction import check_decompose_reduction, decompose_reduction
from weft.schedules.double_buffer import check_double_buffer, double_buffer
from weft.schedules.handles import AnyBlock, AnyBuffer, AnyLoop, BlockRef, BufferRef
from weft.schedules.pack import check_pack, pack
from weft.schedules.pad import check_pad, pad
from weft.schedules.pad_rows import check_pad_rows, pad_rows
from weft.schedules.pipeline import check_pipeline, pipeline
from weft.schedules.prefetch import check_prefetch, prefetch
from weft.schedules.rfactor import Start, check_rfactor, rfactor
from weft.schedules.split import check_split, split
from weft.schedules.state import ScheduleState, located
from weft.schedules.stream import check_stream, stream
from weft.schedules.surround import check_surround, surround


class DataMethods(ScheduleState):
    """Primitives for data movement and reductions."""

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
        made = self.run(check_cache_read, cache_read, self.name(buffer), **options)
        return self._block_and_buffer(made)

    def surround(
        self, buffer: AnyBuffer, at: AnyLoop | None = None, readers: Sequence[AnyBlock] | None = None
    ) -> tuple[BlockRef, BufferRef]:
        """A copy of ``buffer`` with what is outside of it around it, for reads below ``at`` that reach there.

        They need no test any more, and no `edge`, `wrap` or `reflect`. Returns the copying block and the storage.
        """
        options = self._options(at=at, readers=readers)
        made = self.run(check_surround, surround, self.name(buffer), **options)
        return self._block_and_buffer(made)

    def cache_write(
        self, buffer: AnyBuffer | AnyBlock, scope: Scope = "register", at: AnyLoop | None = None
    ) -> tuple[BlockRef, BufferRef]:
        """The elements of ``buffer`` that are written below loop ``at``, kept in storage until the loop's body ends.

        Reductions start and accumulate there; what is written goes to the buffer at the end. Returns the storing block
        and the storage.
        """
        made = self.run(check_cache_write, cache_write, self.name(buffer), scope=scope, **self._options(at=at))
        return self._block_and_buffer(made)

    def pack(
        self,
        buffer: AnyBuffer,
        layout: str,
        at: AnyLoop | None = None,
        scope: Scope = "global",
        pad: bool = False,
        readers: Sequence[AnyBlock] | None = None,
    ) -> tuple[BlockRef | None, BufferRef]:
        """``buffer`` in another order in memory: ``"j/32 i j%32"`` is panels of 32 columns, each row by row.

        ``i``, ``j`` ... are its dimensions; the words are those of the storage, slowest first. What is read below
        ``at`` (without it, in the whole program) is copied so; a temporary without ``at`` is stored so in the first
        place, and there is no copying block. With ``pad`` what fills up the last tile is zero, not undefined.
        """
        name, options = self.name(buffer), self._options(at=at, scope=scope, pad=pad, readers=readers)
        made = self.run(check_pack, pack, name, layout, **options)
        return self._block_and_buffer(made) if made else (None, self.handle(BufferRef, name))

    def stream(self, buffer: AnyBuffer) -> None:
        """Whole vectors that are stored to ``buffer`` go past the caches: for large results that nobody reads soon."""
        self.run(check_stream, stream, self.name(buffer))

    def atomic(self, block: AnyBlock) -> None:
        """Updates of ``block`` in one step each: its loops may then run at once though they update the same elements.

        Its results must start elsewhere (see `decompose_reduction`).
        """
        self.run(check_atomic, atomic, self.name(block))

    def decompose_reduction(self, block: AnyBlock, at: AnyLoop) -> BlockRef:
        """The initialization of ``block`` as a block of its own in a nest right before loop ``at``."""
        (made,) = self.run(check_decompose_reduction, decompose_reduction, self.name(block), at=self.name(at))
        return self.handle(BlockRef, made)

    def rfactor(
        self, loop: AnyLoop, factor: int | None = None, axis: int = 0, start: Start = "before"
    ) -> tuple[BlockRef, BufferRef]:
        """Partial results for each iteration of reduction loop ``loop``, which are then reduced.

        With ``factor`` the loop is split first and its inner part taken: ``factor`` partial results. They are
        dimension ``axis`` of the new storage. They start in a nest of their own, or ``"inside"`` that which computes
        them, at its first step. Returns the block that computes them and that storage.
        """
        before = dict(self.__dict__, _fates=dict(self._fates), _born=dict(self._born))
        name = self.name(loop)
        try:
            if factor is not None:
                name = self.run(check_split, split, name, factor)[1]
            options: dict[str, Any] = {} if start == "before" else {"start": start}
            made = self.run(check_rfactor, rfactor, name, axis=axis, **options)
        except ScheduleError:
            self.__dict__.update(before)
            raise
        return self._block_and_buffer(made)

    def prefetch(self, buffer: AnyBuffer, at: AnyLoop, ahead: int = 1) -> None:
        """Asks, in each iteration of ``at``, for what the one ``ahead`` iterations later reads of ``buffer``.

        A hint to the caches; best among the last steps, since it stands in the way of reordering.
        """
        self.run(check_prefetch, prefetch, self.name(buffer), at=self.name(at), ahead=ahead)

    def double_buffer(self, buffer: AnyBuffer) -> None:
        """Storage that each iteration of a loop fills and then uses (see `cache_read`), filled an iteration ahead."""
        self.run(check_double_buffer, double_buffer, self.name(buffer))

    def pipeline(self, *buffers: AnyBuffer, stages: int = 2) -> None:
        """Storage that each iteration of a loop fills and then uses, filled ``stages - 1`` iterations ahead.

        Those in shared memory may be filled by copies that run on their own. The last step on these copies.
        """
        self.run(check_pipeline, pipeline, *self.names(buffers), stages=stages)

    def pad(self, block: AnyBlock) -> None:
        """Runs ``block`` without the guards of uneven tiles, where that only fills up storage of its own.

        For tiles kept by `cache_write` whose inputs are packed with ``pad=True``.
        """
        self.run(check_pad, pad, self.name(block))

    def pad_rows(self, buffer: AnyBuffer, elements: int) -> None:
        """Rows of a temporary ``elements`` further apart, so that a column is not all in one bank of shared memory.

        The last step on the buffer.
        """
        self.run(check_pad_rows, pad_rows, self.name(buffer), elements)

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

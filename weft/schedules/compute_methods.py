"""The methods of `Schedule` for moving computation."""

from __future__ import annotations

from weft.ir.buffer import Scope
from weft.schedules.compute_at import check_compute_at, compute_at
from weft.schedules.compute_inline import check_compute_inline, compute_inline
from weft.schedules.compute_root import check_compute_root, compute_root
from weft.schedules.fold_storage import check_fold_storage, fold_storage
from weft.schedules.handles import AnyBlock, AnyBuffer, AnyLoop, BlockRef, BufferRef
from weft.schedules.legal_moves import suggesting
from weft.schedules.precompute import check_precompute, precompute
from weft.schedules.reverse_compute_at import check_reverse_compute_at, reverse_compute_at
from weft.schedules.set_scope import check_set_scope, set_scope
from weft.schedules.state import ScheduleState
from weft.schedules.store_at import check_store_at, store_at


class ComputeMethods(ScheduleState):
    """Primitives for moving computation."""

    def compute_at(self, block: AnyBlock, loop: AnyLoop) -> None:
        """What ``block`` computes, computed in each iteration of ``loop``: as much as the iteration reads.

        ``block`` writes a temporary whose readers are all inside ``loop``; its new loops are ``s.loops(block)``. An
        output that is also read moves so where every element is still computed once.
        """
        self.run(suggesting(check_compute_at), compute_at, self.name(block), self.name(loop))

    def compute_root(self, block: AnyBlock) -> None:
        """What ``block`` computes, computed once in full before its first reader."""
        self.run(suggesting(check_compute_root), compute_root, self.name(block))

    def compute_inline(self, block: AnyBlock) -> None:
        """Every read of what ``block`` computes becomes its formula; the temporary is gone."""
        self.run(suggesting(check_compute_inline), compute_inline, self.name(block))

    def precompute(self, block: AnyBlock, *iters: str) -> tuple[BlockRef, BufferRef]:
        """The part of what ``block`` computes that depends on its iterators ``iters`` alone, in a stage before it.

        Neighbouring nests that compute the same read it too. Returns the block that computes it and the storage.
        """
        made = self.run(check_precompute, precompute, self.name(block), *iters)
        return self.handle(BlockRef, made[0]), self.handle(BufferRef, made[1])

    def reverse_compute_at(self, block: AnyBlock, loop: AnyLoop) -> None:
        """``block`` joins ``loop``, in which what it reads is computed: an iteration uses what it has finished."""
        self.run(suggesting(check_reverse_compute_at), reverse_compute_at, self.name(block), self.name(loop))

    def store_at(self, buffer: AnyBuffer, loop: AnyLoop | None = None) -> None:
        """The storage of a temporary in the body of an outer ``loop`` (or outside all), computed where it is.

        In loops in between, a window that moves onward slides: only what is new is computed.
        """
        if loop is None:
            self.run(check_store_at, store_at, self.name(buffer))
        else:
            self.run(check_store_at, store_at, self.name(buffer), self.name(loop))

    def fold_storage(self, buffer: AnyBuffer, dim: int, factor: int) -> None:
        """Dimension ``dim`` of a temporary in a ring of ``factor`` elements: subscripts modulo ``factor``."""
        self.run(check_fold_storage, fold_storage, self.name(buffer), dim, factor)

    def set_scope(self, buffer: AnyBuffer, scope: Scope) -> None:
        """The memory a temporary lives in: ``"global"``, ``"shared"``, ``"local"`` or ``"register"``."""
        self.run(check_set_scope, set_scope, self.name(buffer), scope)

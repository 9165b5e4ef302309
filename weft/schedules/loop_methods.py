"""The methods of `Schedule` that change loops."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from weft.ir.at_the_call import methods_told_at_the_call
from weft.ir.stmt import LoopKind
from weft.schedules.alternate import alternate
from weft.schedules.cut import End, cut, peel
from weft.schedules.fission import fission
from weft.schedules.fuse import fuse
from weft.schedules.fuse_loops import Pairing, fuse_loops
from weft.schedules.handles import AnyBlock, AnyBuffer, AnyLoop, BlockRef, BufferRef, Loop
from weft.schedules.in_parts import in_parts
from weft.schedules.merge_axes import merge_axes
from weft.schedules.online import online
from weft.schedules.persist import persist
from weft.schedules.reorder import reorder
from weft.schedules.rewrite import PRIMITIVES
from weft.schedules.scan import scan
from weft.schedules.set_kind import Level, bind, parallel, run_as, serial, unroll, vectorize
from weft.schedules.shift import shift, skew
from weft.schedules.skip_masked import skip_masked
from weft.schedules.specialize import check_specialize, specialize
from weft.schedules.split import Tail, split, tile
from weft.schedules.split_axis import split_axis
from weft.schedules.state import ScheduleState
from weft.schedules.stride_sum import stride_sum
from weft.schedules.subdivide import subdivide
from weft.schedules.swap import swap
from weft.schedules.trace import Step
from weft.schedules.unfold import unfold
from weft.schedules.widen import trim, widen
from weft.schedules.wrap import wrap
from weft.schedules.write_out import write_out


class Scan(NamedTuple):
    """The loops of a recurrence in chunks: through all of them, that add each up, hand on what came before from one to
    the next (itself such a recurrence) and compute the results; and through the steps of one, that is ``added`` up and
    that results ``run`` through. ``storage`` is what chunks hand on."""

    totals: Loop
    carries: Loop
    results: Loop
    added: Loop
    run: Loop
    storage: tuple[BufferRef, ...]


@methods_told_at_the_call
class LoopMethods(ScheduleState):
    """Primitives on loops; each returns the loops it made."""

    def split(self, loop: AnyLoop, factor: int, tail: Tail = "guard") -> tuple[Loop, Loop]:
        """``loop`` as an outer loop over tiles of ``factor`` iterations and an inner one through each.

        ``tail``: ``"guard"`` tests every iteration, ``"separate"`` makes a third loop ``m_t`` for the
        rest, ``"pad"`` is refused unless the tiles come out even, ``"clip"`` cuts at multiples of ``factor``.
        """
        outer, inner, *_ = self.run(split, self.name(loop), factor, tail=tail)
        return self.handle(Loop, outer), self.handle(Loop, inner)

    def subdivide(self, loop: AnyLoop, *factors: int) -> tuple[Loop, ...]:
        """``loop`` split by one of ``factors`` after another, in one step; gives one loop more than there are of these.

        >>> group, warp, half, lane = s.subdivide(m, 64, 16, 8)
        """
        return tuple(self.handle(Loop, made) for made in self.run(subdivide, self.name(loop), *factors))

    def tile(
        self, i: AnyLoop, j: AnyLoop, rows: int, columns: int, tail: Tail = "guard"
    ) -> tuple[Loop, Loop, Loop, Loop]:
        """Both loops split and the four reordered to ``i_o, j_o, i_i, j_i``."""
        made = self.run(tile, self.name(i), self.name(j), rows, columns, tail=tail)
        a, b, c, d = (self.handle(Loop, name) for name in made)
        return a, b, c, d

    def alternate(self, loop: AnyLoop, outer: AnyLoop) -> None:
        """``loop`` runs backward in every other iteration of ``outer``: what was read last is read first again."""
        self.run(alternate, self.name(loop), self.name(outer))

    def scan(self, loop: AnyLoop, length: int) -> Scan:
        """A recurrence of first order over ``loop`` in chunks of ``length`` steps, of which many may run at once."""
        made = self.run(scan, self.name(loop), length)
        totals, carries, results, added, run = (self.handle(Loop, n) for n in made[:5])
        return Scan(totals, carries, results, added, run, tuple(self.handle(BufferRef, n) for n in made[5:]))

    def online(self, *loops: AnyLoop) -> tuple[BlockRef, ...]:
        """Loops that follow one another as one: the first finds an extremum, those after it add up what depends on it
        by a factor, as ``exp(x - m)`` does, and are rescaled where it grows.

        Returns the blocks that keep the extremum before, what exponents are relative to, the factor, and that rescale
        and finish each sum.
        """
        return tuple(self.handle(BlockRef, name) for name in self.run(online, *self.names(loops)))

    def in_parts(self, extremum: AnyBlock, *sums: AnyBlock, size: int) -> tuple[BlockRef, ...]:
        """An extremum, and sums that depend on it by a factor, found for each ``size`` steps, then brought together.

        Returns the blocks of what the extremum is of, of extremum and sums of parts, and of what is kept of these.
        """
        names = [self.name(block) for block in (extremum, *sums)]
        return tuple(self.handle(BlockRef, name) for name in self.run(in_parts, *names, size=size))

    def merge_axes(self, buffer: AnyBuffer, dimension: int) -> tuple[Loop, ...]:
        """Dimension ``dimension`` of ``buffer`` and the next as one, in all blocks that run through both.

        Other buffers that these touch with the same iterators change too. Returns the loops along it.
        """
        return tuple(self.handle(Loop, name) for name in self.run(merge_axes, self.name(buffer), dimension))

    def split_axis(self, buffer: AnyBuffer, dimension: int, size: int) -> tuple[Loop, ...]:
        """Dimension ``dimension`` of ``buffer`` as groups of ``size``, wherever the program walks along it.

        The reverse of `merge_axes`: ``h // size`` becomes the number of the group. Returns the loops, two a block.
        """
        return tuple(self.handle(Loop, name) for name in self.run(split_axis, self.name(buffer), dimension, size))

    def unfold(
        self, block: AnyBlock, *iterators: str, multiple: int = 1
    ) -> tuple[Loop, tuple[tuple[BlockRef, BufferRef], ...]]:
        """``iterators`` that ``block`` sums products over as one, the last of them up to a ``multiple`` over zeros.

        Its factors are read from matrices in which they are one axis. Returns the loop along it, and for each factor
        the block that makes its matrix, and the storage.
        """
        made, *matrices = self.run(unfold, *self.names((block, *iterators)), multiple=multiple)
        pairs = zip(matrices[::2], matrices[1::2])
        return self.handle(Loop, made), tuple((self.handle(BlockRef, a), self.handle(BufferRef, b)) for a, b in pairs)

    def stride_sum(self, block: AnyBlock, iterator: str) -> Loop:
        """A sum over ``iterator``, of which a test lets every m-th step pass, over these alone. Returns their loop."""
        (made,) = self.run(stride_sum, *self.names((block, iterator)))
        return self.handle(Loop, made)

    def write_out(self, loop: AnyLoop) -> tuple[BlockRef, ...]:
        """Each iteration of a short loop as a statement of its own. Returns the blocks, those of the first first."""
        return tuple(self.handle(BlockRef, name) for name in self.run(write_out, self.name(loop)))

    def fuse(self, *loops: AnyLoop) -> Loop:
        """Loops directly inside one another, outermost first, as one loop."""
        (made,) = self.run(fuse, *self.names(loops))
        return self.handle(Loop, made)

    def reorder(self, *loops: AnyLoop) -> None:
        """The loops given take, in this order, the places they have among themselves; others stay."""
        self.run(reorder, *self.names(loops))

    def unroll(self, loop: AnyLoop, factor: int | None = None, tail: Tail = "guard") -> Loop:
        """``loop`` written out; with a ``factor``, split by it first. Returns the unrolled loop."""
        if factor is None:
            return self._innermost(loop, self.run(unroll, self.name(loop)))
        return self._innermost(loop, self.run(unroll, self.name(loop), factor, tail=tail))

    def vectorize(self, loop: AnyLoop, lanes: int | None = None, tail: Tail = "guard") -> Loop:
        """The iterations of ``loop`` as lanes of vectors; with ``lanes``, split by them first. Returns that loop."""
        if lanes is None:
            return self._innermost(loop, self.run(vectorize, self.name(loop)))
        return self._innermost(loop, self.run(vectorize, self.name(loop), lanes, tail=tail))

    def _innermost(self, loop: AnyLoop, made: tuple[str, ...]) -> Loop:
        return self.handle(Loop, made[1] if made else str(loop))

    def parallel(self, loop: AnyLoop) -> Loop:
        """The iterations of ``loop`` run on several threads."""
        self.run(parallel, self.name(loop))
        return self.handle(Loop, str(loop))

    def serial(self, loop: AnyLoop) -> Loop:
        """The iterations of ``loop`` run one after another again."""
        self.run(serial, self.name(loop))
        return self.handle(Loop, str(loop))

    def bind(self, loop: AnyLoop, level: Level) -> Loop:
        """``loop`` runs over the blocks of a grid, or over the threads of a block."""
        self.run(bind, self.name(loop), level)
        return self.handle(Loop, str(loop))

    def run_as(self, kind: LoopKind, *loops: AnyLoop) -> None:
        """``loops`` of one nest all become of ``kind`` (``"thread"``, ``"unroll"`` ...), in one step."""
        self.run(run_as, kind, *self.names(loops))

    def peel(self, loop: AnyLoop, count: int = 1, end: End = "first") -> Loop:
        """The ``count`` first or last iterations get a loop of their own, which is returned."""
        (made,) = self.run(peel, self.name(loop), count, end=end)
        return self.handle(Loop, made)

    def shift(self, loop: AnyLoop, by: int) -> None:
        """``loop`` counts from a start ``by`` higher."""
        self.run(shift, self.name(loop), by)

    def skew(self, loop: AnyLoop, outer: AnyLoop, factor: int = 1) -> None:
        """``loop`` starts ``factor`` later with every iteration of ``outer``, so that wavefronts become straight."""
        self.run(skew, self.name(loop), self.name(outer), factor)

    def widen(self, loop: AnyLoop, outer: AnyLoop) -> None:
        """``loop``, whose range depends on ``outer``, as far as it ever runs; a test leaves out the rest."""
        self.run(widen, self.name(loop), self.name(outer))

    def fission(self, loop: AnyLoop, after: AnyBlock | AnyLoop) -> Loop:
        """``loop`` keeps its statements up to ``after``; the rest get a loop of their own, which is returned."""
        (made,) = self.run(fission, self.name(loop), self.name(after))
        return self.handle(Loop, made)

    def fuse_loops(self, first: AnyLoop, second: AnyLoop, by: Pairing = "count") -> Loop:
        """Two neighbouring loops as one: ``first``, which is returned, does the work of both.

        ``by="count"``: their first iterations together, their second ones, and so on; both must run equally
        often. ``by="value"``: iterations of equal value together, whatever the ranges.
        """
        if by == "count":
            self.run(fuse_loops, self.name(first), self.name(second))
        else:
            self.run(fuse_loops, self.name(first), self.name(second), by=by)
        return self.handle(Loop, str(first))

    def cut(self, loop: AnyLoop, at: int | str) -> Loop:
        """``loop`` runs up to, not including, the value ``at``; the loop for the rest is returned.

        >>> rest = s.cut("j", "k")               # for j in 0:k, then for j_1 in k:N
        """
        (made,) = self.run(cut, self.name(loop), at)
        return self.handle(Loop, made)

    def skip_masked(self, loop: AnyLoop) -> None:
        """``loop`` runs only where masks leave anything of what is added to sums (fast numerics)."""
        self.run(skip_masked, self.name(loop))

    def trim(self, loop: AnyLoop) -> None:
        """``loop`` runs only where the tests directly inside it hold, and they are gone."""
        self.run(trim, self.name(loop))

    def wrap(self, node: AnyBlock | AnyLoop, at: int | str = 0) -> Loop:
        """A loop of one iteration, with the value ``at``, around a block or loop; see ``fuse_loops(by="value")``.

        >>> d_at = s.wrap("d", "k")              # inside loop k: for d_at in k:k + 1
        """
        (made,) = self.run(wrap, self.name(node), at)
        return self.handle(Loop, made)

    def persist(self, loop: AnyLoop, blocks: int | None = None) -> list[Loop]:
        """The launches in each iteration of ``loop`` as one launch of blocks that stay, with grid barriers in between.

        >>> s.persist("t")                       # for t { block b { A } }: block b { for t { A  barrier(grid) } }

        With ``blocks`` there are at most so many, and several blocks of a launch before may be one of them.
        """
        return [self.handle(Loop, made) for made in self.run(persist, self.name(loop), blocks)]

    def swap(self, first: AnyBlock | AnyLoop, second: AnyBlock | AnyLoop) -> None:
        """What holds ``second``, which follows what holds ``first``, runs before it."""
        self.run(swap, self.name(first), self.name(second))

    def specialize(self, loop: AnyLoop, condition: str) -> list[Loop]:
        """A version of ``loop`` for calls where ``condition`` holds: its loops, outermost first.

        >>> m_s, n_s = s.specialize("m", "N % 16 == 0 and M >= 64")
        """
        sized = PRIMITIVES["specialize"]._replace(
            rewrite=partial(specialize, sizes=self.sizes), check=partial(check_specialize, sizes=self.sizes)
        )
        made = self.take(Step("specialize", (self.name(loop), condition)), sized)
        return [self.handle(Loop, name) for name in made]

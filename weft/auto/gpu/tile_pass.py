"""What nests of products by warp groups have in common that keep sums of one in registers for the next.

A block has a tile of rows, and goes through tiles of what these are multiplied with (``key`` is that loop). A thread
has two rows in part, as instructions of warp groups spread them; the rest of a row is with three others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

from weft.auto.gpu.contraction_digits import BLOCK, COLUMNS, GROUP_ROWS, HALF, PAIR, digit_names, run_all, split_names
from weft.auto.gpu.contraction_tiles import ROWS as WARP_ROWS
from weft.auto.gpu.draft import GpuDraft
from weft.schedules.find import find_block
from weft.schedules.layouts import LETTERS

#: Steps of the depth of an instruction.
STEP = 16


def layout_words(dimension: int, count: int, tile: int) -> list[str]:
    """A dimension in a layout; what a tile has more than there is, is zeros."""
    letter = LETTERS[dimension]
    return [letter] if count >= tile else [f"{letter}/{tile}", f"{letter}%{tile}"]


class TilePass(ABC):
    """The nest under way: loops over blocks are ``outer``, ``cut`` those through columns that are cut into blocks."""

    def __init__(self, draft: GpuDraft) -> None:
        self.draft, self.s = draft, draft.s
        self.outer: tuple[str, ...] = ()
        self.key = ""
        self.cut: dict[str, tuple[str, str]] = {}

    def make(self) -> None:
        self.join()
        self.place()
        self.spread()
        self.multiply()
        self.draft.scheduled |= {str(b) for b in self.s.blocks() if self.draft.stage(str(b)).is_inside}

    @abstractmethod
    def join(self) -> None:
        """The loops of all blocks as one nest."""

    @abstractmethod
    def place(self) -> None:
        """What is between products in registers, and operands in shared memory."""

    @abstractmethod
    def spread(self) -> None:
        """Tiles over warps and their lanes."""

    @abstractmethod
    def multiply(self) -> None:
        """Products by instructions of warp groups."""

    def _buffer(self, name: str) -> str:
        return find_block(self.s.kernel, name).writes[0].buffer.name

    def _inner(self, name: str, *, in_keys: bool = True) -> list[str]:
        """The loops of a block in a tile of rows, or in one of keys."""
        return [str(x) for x in self.s.loops(name)][len(self.outer) + in_keys :]

    def gather(self, wanted: Sequence[str]) -> None:
        """The nests of ``wanted`` blocks one after another: others that stand in between go before, or after them."""
        for name in self._between(wanted):
            self.draft.attempt(self._move_up, name, wanted[0])
        for before, name in pairwise(wanted):
            order = self._order()
            for other in reversed(order[order.index(before) + 1 : order.index(name)]):
                self.s.swap(other, name)

    def _order(self) -> list[str]:
        return [x.name for x in self.draft.stages]

    def _between(self, wanted: Sequence[str]) -> list[str]:
        order = self._order()
        places = [order.index(name) for name in wanted]
        return [name for name in order[min(places) : max(places)] if name not in wanted]

    def _move_up(self, name: str, before: str) -> None:
        order = self._order()
        for other in reversed(order[order.index(before) : order.index(name)]):
            self.s.swap(other, name)

    # Threads

    def _rows(self, loop: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Threads through rows, and what a thread has of them."""
        group, warp, half, lane = digit_names(self.s, loop, GROUP_ROWS, WARP_ROWS, HALF)
        return (group, warp, lane), (half,)

    def _columns(self, loop: str, name: str = "") -> tuple[tuple[str, ...], tuple[str, ...]]:
        if name in self.cut:
            block, inside = self.cut[name]
            tile, pair, odd = digit_names(self.s, inside, COLUMNS, PAIR)
        else:
            block, tile, pair, odd = digit_names(self.s, loop, BLOCK, COLUMNS, PAIR)
        return (pair,), (block, tile, odd)

    def _bind(self, threads: tuple[str, ...], own: tuple[str, ...], *, vector: bool = False) -> None:
        run_all(self.s, "thread", threads)
        run_all(self.s, "unroll", own[:-1] if vector else own)
        if vector:
            self.s.vectorize(own[-1])

    def _spread_rows(self, name: str, *, in_keys: bool = True) -> None:
        with self.s.focus(name):
            threads, own = self._rows(self._inner(name, in_keys=in_keys)[-1])
            self.s.reorder(*threads, *own)
            self._bind(threads, own)

    def _spread_tile(self, name: str, *, in_keys: bool = True, vector: bool = False) -> None:
        with self.s.focus(name):
            *_, rows, columns = self._inner(name, in_keys=in_keys)
            rows = self._inner(name, in_keys=in_keys)[0] if name in self.cut else rows
            (down, half), (across, own) = self._rows(rows), self._columns(columns, name)
            self.s.reorder(*down, *across, *half, *own)
            self._bind((*down, *across), (*half, *own), vector=vector)

    def _product(self, name: str, pieces: tuple[str, ...] = ()) -> str:
        """The loops of a product as those of an instruction, for each of ``pieces``; the outermost of these."""
        s = self.s
        with s.focus(name):
            rows, columns, *_, deep = self._inner(name)
            (down, half), (across, own) = self._rows(rows), self._columns(columns, name)
            steps, step = split_names(s, deep, STEP)
            s.reorder(*pieces, *down, *across, steps, *half, *own, step)
            run_all(s, "thread", (*down, *across))
            run_all(s, "unroll", pieces)
        return steps

"""Reuse distances: how many other lines are touched between two touches of one, exactly, in one pass.

A fully associative cache that keeps the lines used last misses where the distance is its size or more, so that the
histogram gives the misses of every size. Times of last touches are in a Fenwick tree, which is packed where it is full.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from weft.analysis.enumerated import element_id, for_each_place, is_read
from weft.analysis.matrix_read import MatrixRead
from weft.analysis.watchers import Watcher
from weft.ir.errors import ArgumentError, UnsupportedError
from weft.ir.stmt import If

#: ``Last`` is the time of each line's last touch, ``At`` the line of each time, ``Live`` the tree over times.
_TEXT = """
kernel distances(sim_line: int64, out Last: int64[{lines}], out At: int64[{times}], out Live: int32[{times}],
                 out Distances: int64[{lines}], out First: int64[1]) {{
  let sim_now: int64 = 1
  let sim_live: int64 = 0
  let sim_time: int64 = Last[sim_line]
  if sim_time > 0 && sim_time == sim_now - 1 {{ Distances[0] = Distances[0] + 1 }} else {{
    if sim_time > 0 {{
      let sim_before: int64 = 0
      let sim_p: int64 = sim_time
      while sim_p > 0 {{
        sim_before = sim_before + int64(Live[sim_p])
        sim_p = sim_p & (sim_p - 1) }}
      Distances[sim_live - sim_before] = Distances[sim_live - sim_before] + 1
      let sim_q: int64 = sim_time
      while sim_q < {times} {{
        Live[sim_q] = Live[sim_q] - 1_i32
        sim_q = sim_q + (sim_q & (0 - sim_q)) }}
      At[sim_time] = 0 - 1
      sim_live = sim_live - 1
    }} else {{ First[0] = First[0] + 1 }}
    if sim_now == {times} {{
      let sim_w: int64 = 1
      for sim_r in 1:{times} {{
        if At[sim_r] >= 0 {{
          Last[At[sim_r]] = sim_w
          At[sim_w] = At[sim_r]
          sim_w = sim_w + 1 }} }}
      for sim_r in sim_w:{times} {{ At[sim_r] = 0 - 1 }}
      for sim_r in 1:{times} {{ Live[sim_r] = sim_r < sim_w ? 1_i32 : 0_i32 }}
      for sim_r in 1:{times} {{
        let sim_up: int64 = sim_r + (sim_r & (0 - sim_r))
        if sim_up < {times} {{ Live[sim_up] = Live[sim_up] + Live[sim_r] }} }}
      sim_now = sim_w
    }}
    At[sim_now] = sim_line
    Last[sim_line] = sim_now
    let sim_a: int64 = sim_now
    while sim_a < {times} {{
      Live[sim_a] = Live[sim_a] + 1_i32
      sim_a = sim_a + (sim_a & (0 - sim_a)) }}
    sim_now = sim_now + 1
    sim_live = sim_live + 1
  }}
}}
"""
#: Lines that are watched at most: their tables take 40 bytes a line.
MOST_LINES = 1 << 26


@dataclass(frozen=True, eq=False)
class Reuse:
    """``distances[d]`` touches came after ``d`` other lines since the last one of theirs; ``first`` had none before.

    Of a sampled pass, one line in ``rate`` was watched, and a distance stands for ``rate`` times as many lines.
    """

    distances: np.ndarray[Any, Any]
    first: int
    line: int
    rate: int = 1

    @property
    def accesses(self) -> int:
        """Touches that were watched."""
        return int(self.distances.sum()) + self.first

    @property
    def method(self) -> str:
        return "simulation" if self.rate == 1 else f"one line in {self.rate} simulated"

    @cached_property
    def _within(self) -> np.ndarray[Any, Any]:
        """Touches at a distance less than each."""
        return np.concatenate([[0], np.cumsum(self.distances)])

    def misses(self, lines: int) -> int:
        """Of a fully associative cache that keeps the ``lines`` lines used last."""
        if lines < 0:
            raise ArgumentError(f"a cache cannot have {lines} lines", help="use 0 or more")
        kept = min(-(-lines // self.rate), len(self.distances))
        return self.rate * (self.accesses - int(self._within[kept]))

    def miss_ratio(self, lines: int) -> float:
        return self.misses(lines) / (self.rate * self.accesses) if self.accesses else 0.0

    def histogram(self) -> list[tuple[int, int]]:
        """(distance less than, touches) for powers of two; the distances less than 1 first."""
        most = int(np.max(np.nonzero(self.distances)[0], initial=0))
        edges = [1 << k for k in range(most.bit_length() + 1)]
        counts = np.diff([0, *(int(self._within[min(e, len(self.distances))]) for e in edges)])
        return [(e * self.rate, int(n) * self.rate) for e, n in zip(edges, counts)]

    def json(self) -> dict[str, Any]:
        return {
            "accesses": self.rate * self.accesses,
            "first": self.rate * self.first,
            "line": self.line,
            "histogram": [list(pair) for pair in self.histogram()],
            "method": self.method,
        }


def watch_distances(program: Any, lines: int, line: int, rate: int = 1) -> Reuse:
    """Of ``program``, a statement made from what a touch of one of ``lines`` lines is."""
    if lines > MOST_LINES:
        raise UnsupportedError(
            f"reuse distances of {lines} lines are not found", why=f"more than {MOST_LINES} lines need too much memory",
            help="give smaller sizes, or a larger line=",
        )  # fmt: skip
    lines = max(lines, 1)
    times = max(2 * lines + 2, 1024)
    last, at, live = np.zeros(lines, np.int64), np.full(times, -1, np.int64), np.zeros(times, np.int32)
    distances, first = np.zeros(lines, np.int64), np.zeros(1, np.int64)
    watcher = Watcher(_TEXT.format(lines=lines, times=times), kept=2, rate=rate)
    watcher.run(program, last, at, live, distances, first)
    return Reuse(distances, int(first[0]), line, rate)


def reuse_of_read(read: MatrixRead) -> Reuse:
    """Of the elements of one read, its matrix read row after row."""
    elements = int(np.prod(read.shape, dtype=np.int64))
    return watch_distances(lambda touch: for_each_place(read, If(is_read(read), touch(element_id(read)))), elements, 1)

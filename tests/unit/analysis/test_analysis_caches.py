"""Simulated memory against traces made by hand and caches written as lists."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import weft
from weft.analysis.analyze import Analysis
from weft.analysis.caches import RANDOM, CacheLevel, simulate
from weft.analysis.reuse import watch_distances
from weft.analysis.touches import Touches
from weft.analysis.watchers import Watcher
from weft.ir.errors import ArgumentError, UnsupportedError

#: Programs with subscripts of several kinds, and the shapes they are tried with.
PROGRAMS = [
    ("def f(float(N,C,H) X, float(F,C,R) K) -> (O) { O(n,f,h) +=! X(n,c,h + r) * K(f,c,r) }", [(2, 3, 11), (4, 3, 3)]),
    ("def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }", [(17, 13), (13, 19)]),
    ("def f(float(M,N) A) -> (B, S) { B(j,i) = A(i,j)\n S(i) max=! A(i,j) }", [(23, 9)]),
    ("def f(float(N) A) -> (float(N) B) { B(i) = A(i - 1) + A(i) where i in 0:N, A outside zero }", [(40,)]),
]


def trace_of(touches: Touches, line: int) -> list[int]:
    most = touches.most + 1
    lines, at = np.zeros(most, np.int64), np.zeros(1, np.int64)
    text = f"""kernel trace(sim_line: int64, out Lines: int64[{most}], out At: int64[1]) {{
      Lines[At[0]] = sim_line
      At[0] = At[0] + 1 }}"""
    Watcher(text).run(lambda touch: touches.program(line, touch), lines, at)
    return [int(x) for x in lines[: int(at[0])]]


class Cache:
    """Sets as lists of tags, as slowly as can be."""

    def __init__(self, level: CacheLevel) -> None:
        self.level, self.seed = level, 0
        self.tags: list[list[int | None]] = [[None] * level.ways for _ in range(level.sets)]
        self.used = [[0] * level.ways for _ in range(level.sets)]
        self.trees = [dict[int, int]() for _ in range(level.sets)]
        self.now = 0

    def has(self, line: int) -> bool:
        at = line % self.level.sets
        tags, self.now = self.tags[at], self.now + 1
        hit = line in tags
        way = tags.index(line) if hit else tags.index(None) if None in tags else self.victim(at)
        tags[way] = line
        self.used[at][way] = self.now
        node, size = 1, self.level.ways
        while size > 1:  # the bits on the way down point to the other side
            size //= 2
            right = way // size % 2
            self.trees[at][node] = 1 - right
            node = 2 * node + right
        return hit

    def victim(self, at: int) -> int:
        if self.level.policy == "lru":
            return self.used[at].index(min(self.used[at]))
        if self.level.policy == "random":
            self.seed = (self.seed * RANDOM[0] + RANDOM[1]) % 2**64
            return (self.seed >> 33) % self.level.ways
        node = 1
        while node < self.level.ways:
            node = 2 * node + self.trees[at].get(node, 0)
        return node - self.level.ways


def count(trace: list[int], levels: list[CacheLevel]) -> list[tuple[int, int]]:
    caches, found = [Cache(level) for level in levels], [[0, 0] for _ in levels]
    for line in trace:
        for cache, counts in zip(caches, found):
            counts[0] += 1
            if cache.has(line):
                break
            counts[1] += 1
    return [tuple(c) for c in found]  # type: ignore[misc]


def distances_by_hand(trace: list[int]) -> tuple[dict[int, int], int]:
    kept, found, first = list[int](), dict[int, int](), 0
    for line in trace:
        if line in kept:
            distance = len(kept) - 1 - kept.index(line)
            found[distance] = found.get(distance, 0) + 1
            kept.remove(line)
        else:
            first += 1
        kept.append(line)
    return found, first


def touches_of(text: str, shapes: list[tuple[int, ...]], schedule: str = "naive") -> Touches:
    return Touches(weft.define(text).with_schedule(schedule).schedule(*shapes, target="cpu").kernel)


def test_touches_are_those_of_the_loops_in_their_order() -> None:
    m, k, n = 3, 4, 5
    touches = touches_of(PROGRAMS[1][0], [(m, k), (k, n)])
    a, b, c = (touches.starts[name] for name in "ABC")
    expected = []
    for i in range(m):
        for j in range(n):
            at = c + 4 * (i * n + j)
            expected += [at]
            for p in range(k):
                expected += [at, a + 4 * (i * k + p), b + 4 * (p * n + j), at]
    assert trace_of(touches, 1) == expected
    assert touches.most == len(expected)


def test_padding_is_not_touched() -> None:
    touches = touches_of(*PROGRAMS[3])
    reads = [x for x in trace_of(touches, 4) if x < touches.starts["B"] // 4]
    assert reads == [0, *(x for i in range(1, 40) for x in (i - 1, i))]


@pytest.mark.parametrize("policy", ["lru", "plru", "random"])
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_caches_count_as_lists_do(number: int, policy: str) -> None:
    rng = random.Random(number)
    text, shapes = PROGRAMS[number]
    touches = touches_of(text, shapes, rng.choice(("naive", "auto")))
    ways = [rng.choice((1, 2, 4)), rng.choice((2, 8))]
    sets = [rng.choice((1, 2, 3)), rng.choice((4, 5))]
    levels = [CacheLevel(f"L{n}", s * w * 16, w, 16, policy) for n, (s, w) in enumerate(zip(sets, ways))]  # type: ignore[arg-type]
    found = [(c.accesses, c.misses) for c in simulate(touches, levels)]
    assert found == count(trace_of(touches, 16), levels)
    assert found[0][1] > 0


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_reuse_distances_are_those_of_a_list(number: int) -> None:
    touches = touches_of(*PROGRAMS[number])
    reuse = watch_distances(lambda touch: touches.program(8, touch), touches.size // 8, 8)
    found = {d: int(n) for d, n in enumerate(reuse.distances) if n}
    trace = trace_of(touches, 8)
    assert (found, reuse.first) == distances_by_hand(trace)
    for lines in (1, 16):
        assert reuse.misses(lines) == simulate(touches, [CacheLevel("L1", lines * 8, lines, 8)])[0].misses
    assert (reuse.misses(0), reuse.misses(1 << 20)) == (len(trace), reuse.first)
    assert sum(n for _, n in reuse.histogram()) + reuse.first == reuse.accesses


def test_times_are_packed_where_they_run_out() -> None:
    text = "kernel f(out A: int64[70], out B: int64[9]) { for t in 0:60 { for i in 0:70 { A[i] = B[(t * i) % 9] } } }"
    touches = Touches(weft.kernel(text).kernel)
    reuse = watch_distances(lambda touch: touches.program(8, touch), touches.size // 8, 8)  # 8,400 touches
    found = {d: int(n) for d, n in enumerate(reuse.distances) if n}
    assert (found, reuse.first) == distances_by_hand(trace_of(touches, 8))


def test_a_sample_of_the_lines_is_near() -> None:
    touches = touches_of("def f(float(N) A) -> (S) { S(k) +=! A(i) where k in 0:4 }", [(1 << 15,)])
    lines = touches.size // 4
    exact, sampled = (watch_distances(lambda t: touches.program(4, t), lines, 4, rate) for rate in (1, 16))
    assert sampled.method == "one line in 16 simulated"
    assert 16 * sampled.first == pytest.approx(exact.first, rel=0.05)
    far = 1 << 14  # the reads of A come back after more lines than this, all of them
    assert sampled.misses(far) == pytest.approx(exact.misses(far), rel=0.05)


def test_what_data_decide_is_refused() -> None:
    op = weft.define("def f(float(N) A, int32(M) I) -> (B) { B(i) = A(I(i)) }")
    with pytest.raises(UnsupportedError, match="the accesses of f are not known before it runs"):
        _ = weft.analyze(op, (8,), (4,)).reuse


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (("L1", 100, 2, 64), "L1 is no cache: 100 bytes, 2 ways, lines of 64"),
        (("L1", 0, 1, 64), "L1 is no cache: 0 bytes"),
        (("L1", 192, 3, 64, "plru"), "L1 has 3 ways"),
        (("L1", 128, 2, 64, "fifo"), "unknown policy 'fifo'"),
    ],
)
def test_what_is_no_cache_is_refused(facts: tuple, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        CacheLevel(*facts)


def test_an_analysis_as_json_and_as_text() -> None:
    levels = [CacheLevel("L1", 1024, 4), CacheLevel("L2", 8192, 8)]
    found: Analysis = weft.analyze(weft.ops.conv2d, (1, 2, 8, 8), (2, 2, 3, 3), levels=levels)
    facts = json.loads(found.json())
    assert [c["name"] for c in facts["caches"]] == ["L1", "L2"]
    assert facts["duplication"][0]["copies"] == found.duplication["I"].copies == found.duplication.copies
    text = str(found)
    assert all(part in text for part in ("copies in the lowered matrix", "caches of one core", "distance"))
    assert [size for size, _ in found.sweep(1024, 5000)] == [1024, 2048, 4096]
    with pytest.raises(ArgumentError, match="no cache sizes lie between"):
        found.sweep(2048, 1024)
    with pytest.raises(ArgumentError, match="analyze takes an operator or a loop program, not int"):
        weft.analyze(3)

"""The next row asked for while one is computed with: where, and where not."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.auto.scheduler import auto_schedule
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.passes.caches.prefetch_rows import prefetch_rows
from weft.target.cpu.host import NAMED
from weft.target.cpu.lower import lower_kernel

FIRST = "for a in 0:20 { vector i in 0:16 { T[a * 16 + i] = X[m, a * 16 + i] } }"
AGAIN = "for b in 0:20 { vector j in 0:16 { T[b * 16 + j] = exp(T[b * 16 + j] - X[m, b * 16 + j]) } }"
LAST = "for c in 0:20 { vector k in 0:16 { O[m, c * 16 + k] = T[c * 16 + k] + X[m, c * 16 + k] } }"
HINT = "call prefetch(&X[m + 1, b * 16])"


def text(*passes: str, loop: str = "for") -> str:
    body = f"{loop} m in 0:30 {{ alloc T: float32[320] {' '.join(passes)} }}"
    return f"kernel k(X: float32[30, 320], out O: float32[30, 320]) {{ {body} }}"


def asked(*passes: str, cache: int = 16384, loop: str = "for") -> str:
    return print_kernel(prefetch_rows(parse_kernel(text(*passes, loop=loop)), cache_bytes=cache))


@pytest.mark.parametrize("loop", ["for", "parallel"])
def test_the_next_row_is_asked_for_where_most_is_computed_from_the_cache(loop: str) -> None:
    found = asked(FIRST, AGAIN, LAST, loop=loop)
    assert found.count("prefetch") == 1
    assert found.index("for b") < found.index(HINT) < found.index("vector j")


@pytest.mark.parametrize(
    ("passes", "cache"),
    [
        ((FIRST, AGAIN, LAST), 1 << 20),  # all of it stays in the cache
        ((FIRST, AGAIN, LAST), 4096),  # a row is too long to be kept until it is its turn
        ((AGAIN, LAST), 16384),  # the processor fetches ahead what a pass goes on with
        ((FIRST, LAST), 16384),  # the last pass is busy with what it stores
    ],
)
def test_not_where_that_gains_nothing(passes: tuple[str, ...], cache: int) -> None:
    assert "prefetch" not in asked(*passes, cache=cache)


def test_a_line_at_a_time() -> None:
    wide = AGAIN.replace("0:20", "0:10").replace("0:16", "0:32").replace("* 16", "* 32")
    found = asked(FIRST, wide)
    assert "prefetch(&X[m + 1, b * 32])" in found
    assert "prefetch(&X[m + 1, b * 32 + 16])" in found


def test_nothing_changes() -> None:
    x = np.random.default_rng(0).standard_normal((30, 320)).astype(np.float32)
    results = []
    for kernel in (parse_kernel(text(FIRST, AGAIN, LAST)), parse_kernel(asked(FIRST, AGAIN, LAST))):
        interpret(kernel, [x, out := np.zeros_like(x)])
        results.append(out)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(("name", "beside"), [("softmax", "exp("), ("log_softmax", "exp("), ("layer_norm", "*")])
def test_operators_of_rows(name: str, beside: str) -> None:
    rows = np.zeros((2000, 333), np.float32)
    args = (rows, rows[0], rows[0]) if name == "layer_norm" else (rows,)
    machine = NAMED["x86-64-avx2"]
    s = weft.schedule(weft.ops.get(name), *args, numerics="fast")
    auto_schedule(s, machine, 1)
    lines = print_kernel(lower_kernel(s.kernel, machine, fast=True)).splitlines()
    hinted = [n for n, line in enumerate(lines) if "prefetch(&X[" in line]
    assert hinted == list(range(hinted[0], hinted[0] + len(hinted)))  # for the lines of one vector
    assert beside in lines[hinted[-1] + 2]

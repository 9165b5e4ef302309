"""``persist``: launches of all iterations as one, with grid barriers; it means what it meant."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Barrier, For
from weft.ir.visit import walk
from weft.schedules.schedule import Schedule
from weft.target.cuda.lower import lower_kernel
from weft.target.cuda.machine import gpu_for_arch

sys.path.append(str(Path(__file__).parents[1] / "target"))
from run_compiled import make_arguments

H200 = gpu_for_arch("sm_90")
#: Blocks as they are, other blocks, and one that is alone; a temporary of each step between them.
UNEVEN = """kernel k(A: float32[12], out H: float32[5, 12]) {
  for t in 0:4 {
    alloc G: float32[12]
    block i in 0:3 { thread j in 0:4 { G[i * 4 + j] = H[t, 11 - i * 4 - j] + A[i * 4 + j] } }
    block i2 in 0:2 { block i3 in 0:3 { thread j2 in 0:2 { H[t + 1, (i2 * 3 + i3) * 2 + j2] = 2.0 * G[(i2 * 3 + i3) * 2 + j2] } } }
    thread j3 in 0:12 { H[t + 1, j3] = H[t + 1, j3] + 1.0 }
  }
}"""  # noqa: E501
#: A tile of `A` is the same in every step, one of `H` is not.
STAYING = """kernel k(A: float32[12], out H: float32[5, 12]) {
  for t in 0:4 {
    block i in 0:3 {
      alloc W: float32[4] in shared
      thread j in 0:4 { W[j] = A[i * 4 + j] }
      alloc S: float32[12] in shared
      thread j2 in 0:12 { S[j2] = H[t, j2] }
      thread j3 in 0:4 { H[t + 1, i * 4 + j3] = W[3 - j3] + S[11 - i * 4 - j3] }
    }
  }
}"""


@pytest.mark.parametrize("text", [UNEVEN, STAYING])
@pytest.mark.parametrize("blocks", [None, 1, 2, 4])
def test_it_means_the_same(text: str, blocks: int | None) -> None:
    kernel = parse_kernel(text)
    given, start = make_arguments(kernel)
    s = Schedule(kernel)
    s.persist("t", blocks)
    want = start.copy()
    interpret(kernel, [given, want])
    for other in (s.kernel, lower_kernel(s.kernel, H200)):
        assert next(n.kind for n in walk(other) if isinstance(n, For)) == "block"
        got = start.copy()
        interpret(other, [given, got])
        np.testing.assert_array_equal(got, want)
    got = start.copy()
    weft.kernel(s.kernel)(given, got)
    np.testing.assert_array_equal(got, want)


def test_blocks_are_numbered_where_phases_have_others() -> None:
    s = Schedule(parse_kernel(UNEVEN))
    assert [str(b) for b in s.persist("t")] == ["t_block"]
    text = print_kernel(s.kernel)
    assert "block t_block in 0:6" in text
    assert "if t_block < 3" in text
    assert "if t_block < 1" in text
    assert text.index("alloc G") < text.index("block t_block"), "what one block gives another is memory of the device"
    assert sum(isinstance(n, Barrier) for n in walk(s.kernel)) == 3


def test_fewer_blocks_take_turns() -> None:
    s = Schedule(parse_kernel(UNEVEN))
    s.persist("t", 4)
    text = print_kernel(s.kernel)
    assert "block t_block in 0:4" in text
    assert "for t_block_turn_1 in 0:2" in text
    assert "if t_block_turn_1 * 4 + t_block < 6" in text


def test_what_is_the_same_in_every_step_is_filled_once() -> None:
    s = Schedule(parse_kernel(STAYING))
    assert [str(b) for b in s.persist("t")] == ["i"]
    text = print_kernel(s.kernel)
    assert text.index("W[j] =") < text.index("for t in") < text.index("S[j2] =")


def test_what_the_steps_write_is_fetched_in_each() -> None:
    s = Schedule(parse_kernel(STAYING.replace("= A[i * 4 + j] }", "= H[0, i * 4 + j] }")))
    s.persist("t")
    text = print_kernel(s.kernel)
    assert text.index("for t in") < text.index("W[j] =")

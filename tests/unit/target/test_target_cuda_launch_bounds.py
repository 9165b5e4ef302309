"""What a thread keeps in registers: how many blocks that leaves room for, and what does not fit."""

from __future__ import annotations

import pytest

from weft.ir.errors import TargetError
from weft.ir.parser import parse_kernel
from weft.target.cuda.launch_bounds import blocks_at_once
from weft.target.cuda.lower import emit_kernel
from weft.target.cuda.machine import gpu_for_arch

H200 = gpu_for_arch("sm_90")


def text(words: int, scope: str = "register") -> str:
    """Each thread adds up what it has kept."""
    return f"""kernel f(A: float32[64, {words}], out B: float32[64, {words}]) {{
      block b in 0:1 {{ thread t in 0:64 {{
        alloc kept: float32[{words}] in {scope}
        for i in 0:{words} {{ kept[i] = A[t, i] }}
        for i in 0:{words} {{ B[t, i] = kept[i] + kept[{words} - 1 - i] }}
      }} }} }}"""


@pytest.mark.parametrize(("words", "threads", "blocks"), [(16, 256, None), (104, 256, 2), (176, 128, 2), (200, 256, 1)])
def test_blocks_that_registers_leave_room_for(words: int, threads: int, blocks: int | None) -> None:
    assert blocks_at_once(parse_kernel(text(words)).body, threads, H200) == blocks


def test_the_assembler_is_told() -> None:
    assert "__launch_bounds__(64, " in emit_kernel(parse_kernel(text(128)), H200)
    assert "__launch_bounds__(64)" in emit_kernel(parse_kernel(text(16)), H200)


def test_too_many_registers() -> None:
    with pytest.raises(TargetError) as refused:
        emit_kernel(parse_kernel(text(300)), H200)
    assert str(refused.value).splitlines()[0] == (
        "error: a thread of `f` keeps 300 words of `kept` in registers; H200 has 255"
    )
    assert "kept[300]" in emit_kernel(parse_kernel(text(300, "local")), H200)

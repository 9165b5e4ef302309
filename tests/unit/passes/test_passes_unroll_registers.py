"""Which loops are unrolled so that registers need no addresses."""

from __future__ import annotations

import pytest

from weft.ir.parser import parse_kernel
from weft.ir.stmt import For
from weft.ir.visit import walk
from weft.passes.registers.unroll_registers import unroll_registers


@pytest.mark.parametrize(
    ("scope", "bounds", "index", "kind"),
    [
        ("register", "0:8", "i", "unroll"),
        ("register", "0:8", "7 - i", "unroll"),
        ("register", "0:8", "0", "serial"),
        ("local", "0:8", "i", "serial"),
        ("register", "0:N", "i", "serial"),
        ("register", "0:300", "i % 8", "serial"),
    ],
)
def test_loops_that_subscript_registers(scope: str, bounds: str, index: str, kind: str) -> None:
    text = f"""kernel k(N: int64, out C: int32[8]) {{
        alloc T: int32[8] in {scope} {{ for i in {bounds} {{ T[{index}] = 1_i32 }} C[0] = T[0] }} }}"""
    after = unroll_registers(parse_kernel(text))
    assert [n.kind for n in walk(after) if isinstance(n, For)] == [kind]


def test_nested_copies_count_together() -> None:
    text = """kernel k(out C: int32[8]) {
        alloc T: int32[8] in register {
            for i in 0:200 { for j in 0:2 { T[(i + j) % 8] = 1_i32 } } C[0] = T[0] } }"""
    after = unroll_registers(parse_kernel(text))
    assert [n.kind for n in walk(after) if isinstance(n, For)] == ["unroll", "serial"]

"""pad_registers: rows of registers as whole vectors, everything else as it was."""

from __future__ import annotations

import numpy as np

import weft
from weft.ir.buffer import Buffer
from weft.ir.expr import Const
from weft.ir.parser import parse_kernel
from weft.ir.stmt import Alloc, Kernel
from weft.ir.visit import walk
from weft.passes.registers.pad_registers import pad_registers

TEXT = """kernel f(A: float32[2, 14], out B: float32[2, 14]) {
  alloc s: float32[2, 14] in register {
    unroll i in 0:2 { vector l in 0:16 { if l < 14 { s[i, l] = A[i, l] } } }
    unroll i in 0:2 { vector l in 0:16 { if l < 14 { B[i, l] = s[i, l] + 1.0 } } } } }"""


def shapes(kernel: Kernel) -> list[list[object]]:
    allocated: list[Buffer] = [n.buffer for n in walk(kernel) if isinstance(n, Alloc)]
    return [[n.value for n in b.shape if isinstance(n, Const)] for b in allocated]


def test_rows_of_registers_become_whole_vectors() -> None:
    padded = pad_registers(parse_kernel(TEXT))
    assert shapes(padded) == [[2, 16]]
    assert [b.shape for b in padded.buffers] == [b.shape for b in parse_kernel(TEXT).buffers]


def test_memory_and_whole_rows_stay() -> None:
    for text in (TEXT.replace(" in register", ""), TEXT.replace("[2, 14] in", "[2, 32] in")):
        kernel = parse_kernel(text)
        assert pad_registers(kernel) is kernel


def test_a_tile_with_odd_rows_computes_the_same() -> None:
    s = weft.schedule(weft.ops.matmul, A=(9, 7), B=(7, 28), numerics="fast")
    s.split("m", 3)
    s.split("n", 14)
    s.reorder("m_o", "n_o", "k", "m_i", "n_i")
    s.vectorize("n_i")
    s.unroll("m_i")
    s.cache_write("C", scope="register", at="n_o")
    a, b = (np.random.default_rng(0).integers(-4, 4, shape).astype(np.float32) for shape in ((9, 7), (7, 28)))
    np.testing.assert_array_equal(s.build()(a, b), a @ b)

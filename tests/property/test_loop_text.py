"""Every valid program survives printing and reading."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from loop_programs import random_kernel

from weft.ir.expr import Expr
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Stmt
from weft.ir.verify import verify
from weft.ir.visit import walk

seeds = st.integers(0, 2**40)


@given(seeds)
@settings(max_examples=150, deadline=None)
def test_the_text_reads_back_to_the_equal_program(seed: int) -> None:
    kernel = random_kernel(seed)
    verify(kernel)
    text = print_kernel(kernel)
    back = parse_kernel(text)
    assert back == kernel
    assert print_kernel(back) == text


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_every_node_read_knows_its_line(seed: int) -> None:
    text = print_kernel(random_kernel(seed))
    lines = text.count("\n")
    for node in walk(parse_kernel(text)):
        if isinstance(node, (Expr, Stmt)):
            assert node.span is not None
            assert 1 <= node.span.line <= lines
            assert 1 <= node.span.column < node.span.end <= len(node.span.source.line(node.span.line)) + 1

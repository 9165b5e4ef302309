"""Blocks that are given back are used again; small and very large ones are the C library's."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import threading
from itertools import pairwise

import numpy as np
import pytest

from weft.runtime.arrays import LARGE_PAGE, aligned_bytes, zeroed_bytes
from weft.runtime.memory import COLOURED_FROM, LARGEST, PAGE, SLOTS, SMALLEST
from weft.runtime.native import RUNTIME_SYMBOLS

allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(RUNTIME_SYMBOLS["weft_alloc"])
release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(RUNTIME_SYMBOLS["weft_free"])


@pytest.mark.parametrize("size", [0, 1, 64, 512, 513, 2048, 4097, 65_536, 100_000, 1 << 22, (1 << LARGEST) + 1])
def test_blocks_are_aligned_and_can_be_filled(size: int) -> None:
    block = allocate(size)
    assert block % 64 == 0
    ctypes.memset(block, 1, size)
    release(block)


def test_a_block_is_used_again_for_about_the_same_size() -> None:
    block = allocate(3 << SMALLEST)
    release(block)
    again = allocate((3 << SMALLEST) + 100)
    assert again == block
    assert allocate(3 << SMALLEST) != block
    release(again)


@pytest.mark.parametrize("size", [COLOURED_FROM, 100_000, 1 << 22])
def test_large_blocks_begin_far_from_one_another_in_their_pages(size: int) -> None:
    """Else loads of one seem to depend on stores to another; nor a little behind the start, where inputs begin."""
    kept = [allocate(size) for _ in range(SLOTS)]  # of whatever ran before
    blocks = [allocate(size) for _ in range(8)]
    places = sorted(block % PAGE for block in blocks)
    assert places == list(range(0, PAGE, 512))
    assert all(abs(a % PAGE - b % PAGE) >= 1536 for a, b in pairwise(blocks))
    for block in kept + blocks:
        ctypes.memset(block, 1, size)
        release(block)


def test_nobody_shares_a_block() -> None:
    wrong: list[int] = []

    def work(mark: int) -> None:
        for _ in range(2000):
            block = allocate(5000)
            ctypes.memset(block, mark, 5000)
            if ctypes.string_at(block, 5000) != bytes([mark]) * 5000:
                wrong.append(mark)
            release(block)

    threads = [threading.Thread(target=work, args=(n + 1,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_giving_back_nothing_is_fine() -> None:
    release(None)


@pytest.mark.parametrize("count", [100, LARGE_PAGE - 1, LARGE_PAGE, 3 * LARGE_PAGE + 5])
def test_large_blocks_begin_at_large_pages(count: int) -> None:
    block = aligned_bytes(count)
    assert block.nbytes == count
    assert block.ctypes.data % 64 == 0
    block[...] = 7
    assert (block == 7).all()
    if count >= LARGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        assert block.ctypes.data % LARGE_PAGE == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
@pytest.mark.parametrize("count", [100, 2 * LARGE_PAGE])
def test_a_forked_process_writes_to_memory_of_its_own(count: int) -> None:
    """Calls of a compiled model write to such memory: parent and child would have each other's values."""
    code = (
        "import os\nfrom weft.runtime.arrays import aligned_bytes\n"
        f"block = aligned_bytes({count})\nblock[...] = 1\nchild = os.fork()\n"
        "if not child:\n    block[...] = 2\n    os._exit(0)\n"
        "os.waitpid(child, 0)\nassert (block == 1).all()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("size", [1000, 100_000, LARGE_PAGE + 5])
def test_memory_that_is_filled_once_is_zeros_where_nobody_writes(size: int) -> None:
    """What rows are filled up with is computed with: a processor may wait for what happens to be numbers near zero."""
    dirty = [np.full(size + 64, 1, np.uint8) for _ in range(8)]
    del dirty
    found = [zeroed_bytes(size) for _ in range(8)]
    assert all(not memory.any() and memory.size == size and memory.ctypes.data % 64 == 0 for memory in found)

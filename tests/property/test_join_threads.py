"""Random fork-join programs joined: the same results, no race, and none of the barriers could be left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fork_join_programs import BLOCKS, fork_join_program

from weft.ir.errors import DataRace, ProgramError, UninitializedRead
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.stmt import Barrier, Kernel, Seq, Stmt, Tensorized
from weft.ir.verify import verify
from weft.ir.visit import rebuild
from weft.passes.to_grid.join_threads import join_threads
from weft.target.cuda.lower import compile_kernel
from weft.target.cuda.machine import gpu_for_arch

#: Programs that are joined, twenty a test, and those of which barriers are left out one by one.
PROGRAMS, TRIED = 60, range(1000, 1030)


def run(kernel: Kernel) -> Any:
    given = np.array([1, 3], np.int32)
    result = np.zeros((BLOCKS, int(kernel.buffers[1].shape[1].value)), np.int32)  # type: ignore[attr-defined]
    interpret(kernel, [given, result])
    return result


def read_program(seed: int) -> tuple[Kernel, Any] | None:
    """A program without a race, and its result."""
    kernel = parse_kernel(fork_join_program(seed))
    try:
        return kernel, run(kernel)
    except (DataRace, UninitializedRead):
        return None


def without_barriers(s: Stmt) -> Iterator[Stmt]:
    """``s`` once for each of its barriers outside reductions, without it."""
    if isinstance(s, Seq):
        for place, part in enumerate(s.body):
            if isinstance(part, Barrier):
                yield Seq(s.body[:place] + s.body[place + 1 :])
            for less in without_barriers(part):
                yield Seq((*s.body[:place], less, *s.body[place + 1 :]))
        return
    if isinstance(s, Tensorized):
        return
    inner: list[Stmt] = []
    rebuild(s, lambda n: inner.append(n) or n if isinstance(n, Stmt) else n)
    for old in inner:
        for new in without_barriers(old):
            yield rebuild(s, lambda n, old=old, new=new: new if n is old else n)  # type: ignore[misc]


@pytest.mark.parametrize("start", range(0, PROGRAMS, 20))
def test_joined_programs_compute_the_same(start: int, first_seed: int) -> None:
    for seed in range(first_seed + start, first_seed + start + 20):
        if (program := read_program(seed)) is not None:
            kernel, result = program
            joined = join_threads(kernel)
            verify(joined)
            np.testing.assert_array_equal(run(joined), result, err_msg=f"seed {seed}")


@pytest.mark.parametrize("seed", range(2000, 2008))
def test_joined_programs_build(seed: int, first_seed: int) -> None:
    compile_kernel(parse_kernel(fork_join_program(first_seed + seed)), gpu_for_arch("sm_90"))


def test_every_barrier_is_needed() -> None:
    tried = 0
    for seed in TRIED:
        found = read_program(seed)
        if found is None or "if A[b]" in fork_join_program(seed):  # a branch that is not taken needs no barrier
            continue
        joined = join_threads(found[0])
        for body in without_barriers(joined.body):
            tried += 1
            with pytest.raises(ProgramError):
                run(replace(joined, body=body))
    assert tried > 20

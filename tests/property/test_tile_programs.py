"""Random programs of overlapping tiles: merged and peeled on the CPU they compute what the interpreter does."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from check_gpu_program import NoMeaning, compare, copies, meaning
from run_compiled import Runner
from tile_programs import tile_program

from weft.ir.errors import OutOfBounds
from weft.ir.parser import parse_kernel

pytestmark = pytest.mark.usefixtures("quick_code")

#: Programs of each test, and how many tests; sizes for each program.
EACH, TESTS, SIZES = 6, 4, 3


def check_tile_program(seed: int) -> str:
    kernel = parse_kernel(tile_program(seed))
    rng = np.random.default_rng(seed)
    runner: Runner | None = None
    for _ in range(SIZES):
        sizes = [int(rng.integers(1, most)) for most in ((90,) if kernel.buffers[0].rank == 1 else (40, 9))]
        args = [*sizes, *(rng.integers(-9, 10, sizes[::-1]).astype(np.int32) for _ in range(3))]
        try:
            want = meaning(kernel, args)
        except (NoMeaning, OutOfBounds):
            continue
        runner = runner or Runner(kernel)
        got = copies(args)
        assert runner(*got) == 0
        compare(f"{sizes}", kernel, got, want)
    return "dropped" if runner is None else "checked"


@pytest.mark.parametrize("group", range(TESTS))
def test_tiles_on_the_cpu(group: int, first_seed: int) -> None:
    outcomes = Counter(check_tile_program(first_seed + group * EACH + n) for n in range(EACH))
    assert first_seed or outcomes["checked"] >= 0.4 * EACH, outcomes

"""One random GPU program checked: what the interpreter says against what each place makes of it.

The places: ``cpu``, split at its barriers and compiled for the CPU; ``nvrtc``, written as CUDA C++ and built;
``device``, run on a GPU by the call of a user.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "target"))
from fork_join_programs import fork_join_program
from gpu_programs import random_gpu_kernel
from run_compiled import Runner, assert_same_bits, make_arguments

import weft
from weft.ir.buffer import Buffer
from weft.ir.errors import DataRace, DivergentBarrier, UninitializedRead, UnsupportedError
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.stmt import Barrier, Kernel
from weft.ir.verify import verify
from weft.ir.visit import rebuild, walk
from weft.passes.gpu_to_cpu.split_grids import split_grids
from weft.passes.gpu_to_cpu.split_threads import split_threads
from weft.passes.to_grid.join_threads import join_threads
from weft.target.cuda.lower import compile_kernel, emit_kernel
from weft.target.cuda.machine import gpu_for_arch

Place = Literal["cpu", "cuda", "nvrtc", "device"]
H200 = gpu_for_arch("sm_90")


class NoMeaning(Exception):
    """The program races or its barriers diverge."""


def meaning(kernel: Kernel, args: Sequence[Any]) -> list[Any]:
    """What ``args`` are after the interpreter ran the program on them."""
    verify(kernel)
    want = copies(args)
    try:
        interpret(kernel, want)
    except (DataRace, DivergentBarrier, UninitializedRead) as found:
        raise NoMeaning(str(found)) from None
    return want


def copies(args: Sequence[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def compare(what: str, kernel: Kernel, got: Sequence[Any], want: Sequence[Any]) -> None:
    for param, g, w in zip(kernel.params, got, want):
        if isinstance(param, Buffer):
            assert_same_bits(f"{what} {param.name}", g, w)


def check_gpu_program(seed: int, places: Collection[Place] = ("cpu",), *, wide: bool = False) -> str:
    """A program in grid form: threads with barriers in what they run; ``wide``, of all blocks, too."""
    kernel = random_gpu_kernel(seed)
    if wide:
        kernel = with_grid_barriers(kernel, random.Random(seed))
    return check_program(kernel, make_arguments(kernel, seed), split_blocks_and_threads, places)


def with_grid_barriers(node: Any, rng: random.Random) -> Any:
    """Some barriers of blocks made barriers of the grid."""
    if isinstance(node, Barrier) and node.scope == "block" and rng.random() < 0.4:
        return replace(node, scope="grid")
    return rebuild(node, lambda n: with_grid_barriers(n, rng))


def split_blocks_and_threads(kernel: Kernel) -> Kernel:
    return split_threads(split_grids(kernel))


def check_fork_join_program(seed: int, places: Collection[Place] = ("cpu",)) -> str:
    """A program in fork-join form: thread loops one after another."""
    kernel = parse_kernel(fork_join_program(seed))
    given, made = (np.zeros([int(n.value) for n in b.shape], np.int32) for b in kernel.buffers)  # type: ignore[attr-defined]
    given[:] = 1, 3
    return check_program(kernel, [given, made], join_threads, places)


def check_program(
    kernel: Kernel, args: Sequence[Any], turn: Callable[[Kernel], Kernel], places: Collection[Place]
) -> str:
    """``checked``, ``dropped`` where the program has no meaning, ``refused`` where it is not lowered.

    ``turn`` gives the program's other form.
    """
    try:
        want = meaning(kernel, args)
        turned = turn(kernel)
    except NoMeaning:
        return "dropped"
    except UnsupportedError:
        return "refused"
    verify(turned)
    assert turn is not split_blocks_and_threads or not any(isinstance(n, Barrier) for n in walk(turned))
    compare("turned", kernel, meaning(turned, args), want)
    try:
        for place in places:
            got = RUNS[place](kernel, copies(args))
            compare(place, kernel, got, want)
    except UnsupportedError:
        return "refused"
    return "checked"


def run_on_cpu(kernel: Kernel, args: list[Any]) -> list[Any]:
    assert Runner(kernel)(*args) == 0
    return args


def run_on_device(kernel: Kernel, args: list[Any], numerics: Any = "strict") -> list[Any]:
    given = [on_device(a) for a in args]
    weft.kernel(kernel, numerics=numerics)(*given)
    weft.cuda.synchronize()
    return [a.numpy() if isinstance(a, weft.cuda.DeviceArray) else a for a in given]


def on_device(value: Any) -> Any:
    return weft.cuda.DeviceArray.from_numpy(value) if isinstance(value, np.ndarray) else value


def write_as_cuda(kernel: Kernel, args: list[Any]) -> list[Any]:
    """Nothing runs, so that there is nothing to compare."""
    emit_kernel(kernel, H200)
    return []


def build_by_nvrtc(kernel: Kernel, args: list[Any]) -> list[Any]:
    compile_kernel(kernel, H200)
    return []


RUNS: dict[Place, Callable[[Kernel, list[Any]], list[Any]]] = {
    "cpu": run_on_cpu,
    "cuda": write_as_cuda,
    "nvrtc": build_by_nvrtc,
    "device": run_on_device,
}

"""One random GPU program checked: interpreter, split at its barriers, compiled for the CPU, written as CUDA."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "target"))
from gpu_programs import random_gpu_kernel
from run_compiled import Runner, assert_same_bits, make_arguments

from weft.ir.buffer import Buffer
from weft.ir.errors import DataRace, DivergentBarrier, UninitializedRead, UnsupportedError
from weft.ir.interpret import interpret
from weft.ir.stmt import Barrier, Kernel
from weft.ir.verify import verify
from weft.ir.visit import walk
from weft.passes.split_threads import split_threads


class NoMeaning(Exception):
    """The program races or its barriers diverge."""


def meaning(kernel: Kernel, seed: int) -> tuple[list[Any], list[Any]]:
    """Arguments, and what they are after the interpreter ran the program on them."""
    verify(kernel)
    args = make_arguments(kernel, seed)
    want = copies(args)
    try:
        interpret(kernel, want)
    except (DataRace, DivergentBarrier, UninitializedRead) as found:
        raise NoMeaning(str(found)) from None
    return args, want


def copies(args: list[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def compare(what: str, kernel: Kernel, got: list[Any], want: list[Any]) -> None:
    for param, g, w in zip(kernel.params, got, want):
        if isinstance(param, Buffer):
            assert_same_bits(f"{what} {param.name}", g, w)


def check_gpu_program(seed: int) -> str:
    """``checked``, ``dropped`` where the program has no meaning, ``refused`` where it is not lowered."""
    kernel = random_gpu_kernel(seed)
    try:
        args, want = meaning(kernel, seed)
        split = split_threads(kernel)
    except NoMeaning:
        return "dropped"
    except UnsupportedError:
        return "refused"
    verify(split)
    assert not any(isinstance(n, Barrier) for n in walk(split))
    got = copies(args)
    interpret(split, got)
    compare("split", kernel, got, want)
    got = copies(args)
    assert Runner(kernel)(*got) == 0
    compare("compiled", kernel, got, want)
    return "checked"


def check_cuda_text(seed: int, *, compile_it: bool) -> str:
    """The program as CUDA C++ for sm_90, built by NVRTC where asked."""
    from weft.target.cuda.lower import compile_kernel, emit_kernel
    from weft.target.cuda.machine import gpu_for_arch

    kernel = random_gpu_kernel(seed)
    try:
        meaning(kernel, seed)
        make = compile_kernel if compile_it else emit_kernel
        make(kernel, gpu_for_arch("sm_90"))
    except NoMeaning:
        return "dropped"
    except UnsupportedError:
        return "refused"
    return "checked"

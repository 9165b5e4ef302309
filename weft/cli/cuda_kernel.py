"""`weft cuda show` and `weft cuda check`: one kernel of a CUDA source, at a stage of its compilation or watched.

weft cuda show program.cu --kernel scale --stage loops --block 256
weft cuda check program.cu --kernel scale --grid 4 --block 256 --arg float32[1000] --arg float32[1000] --arg 1000
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.ir.errors import ArgumentError

if TYPE_CHECKING:
    from weft.operators.cuda_kernel import CudaKernel

_ARRAY = re.compile(r"^(?P<type>\w+)\[(?P<shape>\d+(,\d+)*)\]$")


def _parser(action: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"weft cuda {action}")
    parser.add_argument("file", type=Path)
    parser.add_argument("--kernel", required=True, help="its name; scale<float> for one made from a template")
    parser.add_argument("--grid", type=_sizes, default=(2,), help="blocks: 4 or 4,4")
    parser.add_argument("--block", type=_sizes, default=(256,), help="threads of a block: 256 or 16,16")
    parser.add_argument("--shared", type=int, default=0, help="bytes of dynamic shared memory")
    parser.add_argument("-I", dest="include", action="append", default=[], help="a folder with headers")
    parser.add_argument("-D", dest="defines", action="append", default=[], help="a macro: N=4")
    return parser


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _kernel(options: argparse.Namespace) -> CudaKernel:
    from weft.operators.cuda_kernel import kernel

    return kernel(options.file, options.kernel, include=options.include, defines=options.defines)


def show(rest: Sequence[str]) -> int:
    parser = _parser("show")
    parser.add_argument("--stage", choices=("loops", "lowered", "llvm", "asm"), default="loops")
    options = parser.parse_args(list(rest))
    found = _kernel(options)
    print(found.show(options.stage, grid=options.grid, block=options.block, shared_mem=options.shared))
    return 0


def check(rest: Sequence[str]) -> int:
    parser = _parser("check")
    parser.add_argument("--arg", action="append", default=[], help="float32[1000] is an array of random numbers")
    options = parser.parse_args(list(rest))
    arguments = [_argument(text, number) for number, text in enumerate(options.arg)]
    report = _kernel(options).check(options.grid, options.block, arguments, shared_mem=options.shared)
    print(report)
    return 1 if report.findings else 0


def _argument(text: str, number: int) -> Any:
    import numpy as np

    from weft.ir.dtype import parse_dtype
    from weft.ir.numpy_dtypes import to_numpy

    found = _ARRAY.match(text)
    if found is None:
        try:
            return float(text) if any(mark in text for mark in ".eE") else int(text)
        except ValueError:
            raise ArgumentError(f"--arg {text} is neither a number nor an array", help="--arg float32[1000]") from None
    dtype = parse_dtype(found["type"])
    if dtype is None:
        raise ArgumentError(f"--arg {text}: there is no type {found['type']}", help="--arg float32[1000]")
    shape, numbers = tuple(map(int, found["shape"].split(","))), np.random.default_rng(number)
    if dtype.is_float:
        return numbers.standard_normal(shape).astype(to_numpy(dtype))
    return numbers.integers(0, 2 if dtype.is_bool else 100, shape).astype(to_numpy(dtype))

"""Build and run CUDA programs on this CPU."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from weft.from_cuda.kept_program import build_or_take
from weft.from_cuda.nvcc_options import read_options, split_arguments
from weft.from_cuda.serve import run_program
from weft.ir.errors import ArgumentError

_RUN_SWITCHES = {"--serial": "WEFT_CUDA_SERIAL", "--guard": "WEFT_CUDA_GUARD"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=tuple(_ACTIONS),
        help="build an executable, build and run one, write a folder that makefiles take for a CUDA toolkit, show a "
        "kernel at a stage of its compilation, or run a program or a kernel with every access watched",
    )
    parser.add_argument(
        "rest", nargs=argparse.REMAINDER,
        help="files and nvcc's options; for run: --serial, --guard; for check: --html FILE, --ignore KIND; then the "
        "program's arguments behind --",
    )  # fmt: skip
    parser.set_defaults(usage=parser.format_help)


def main(options: argparse.Namespace) -> int:
    """Runs an action; what compiles is loaded where it is needed, since programs that are kept run without."""
    if options.rest[:1] in (["-h"], ["--help"]):  # behind an action, which takes all options for nvcc's
        print(options.usage())
        return 0
    return _ACTIONS[options.action](options.rest)


def _build(rest: Sequence[str]) -> int:
    from weft.from_cuda.program import build_program

    build_program(read_options(rest))
    return 0


def _show(rest: Sequence[str]) -> int:
    from weft.cli import cuda_kernel

    return cuda_kernel.show(rest)


def _check(rest: Sequence[str]) -> int:
    from weft.cli import cuda_check

    return cuda_check.check(rest)


def _toolkit(rest: Sequence[str]) -> int:
    from weft.from_cuda.toolkit import write_toolkit

    if len(rest) != 1:
        raise ArgumentError("one folder is to be named", why=f"{len(rest)} were", help="weft cuda toolkit ./cuda")
    folder = write_toolkit(Path(rest[0])).resolve()
    print(f"make CUDA_DIR={folder}    or    PATH={folder}/bin:$PATH make")
    return 0


def _run(rest: Sequence[str]) -> int:
    given, arguments = split_arguments(rest)
    environment = dict(os.environ)
    environment.update({variable: "1" for switch, variable in _RUN_SWITCHES.items() if switch in given})
    build = read_options([a for a in given if a not in (*_RUN_SWITCHES, "--report")])
    with tempfile.TemporaryDirectory(prefix="weft-cuda-") as folder:
        program = build_or_take(build, Path(folder))
        code, refused = run_program(program, arguments, build.units, environment)
        if "--report" in given:
            for kernel, why in refused.items():
                print(f"{kernel}: thread by thread: {why}", file=sys.stderr)
        if code < 0:
            print(f"`{program.name}` was ended by {signal.Signals(-code).name}", file=sys.stderr)
        return code if code >= 0 else 128 - code  # as shells have it


_ACTIONS = {"build": _build, "run": _run, "toolkit": _toolkit, "show": _show, "check": _check}

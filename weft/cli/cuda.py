"""Build and run CUDA programs on this CPU."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from weft.from_cuda.kept_program import build_or_take
from weft.from_cuda.nvcc_options import CUDA, HOST, LINKED, BuildOptions, read_options, split_arguments
from weft.from_cuda.serve import run_program
from weft.ir.errors import ArgumentError

_RUN_SWITCHES = {"--serial": "WEFT_CUDA_SERIAL", "--guard": "WEFT_CUDA_GUARD"}
#: Seconds before a terminal is told what takes so long.
_SILENT = 1.0

_HELP = {
    "build": """usage: weft cuda build FILES [nvcc's options] [-o PROGRAM]

Builds an executable, an object (-c, -dc) or a library (-shared, -lib) of CUDA, C++ and C files, as nvcc would.
What an option means for GPUs alone (-arch, -Xptxas ...) is taken and does nothing here.

  -o FILE      what is made; a.out where nothing is said
  -rdc=true    device code of several files is linked
  -G           for debuggers: kernels thread by thread, not optimized
  -lineinfo    lines of the source in the machine code, for perf and gdb
  -v, -dryrun  the steps; -dryrun does none of them
  --version    the release of CUDA that is played
""",
    "run": """usage: weft cuda run FILES [nvcc's options] [--serial] [--guard] [--report] [-- ARGUMENTS]

Builds a program, keeps it, and runs it with the arguments behind `--`.

  --serial     threads and blocks one after the other: printf in order
  --guard      accesses beyond an allocation of the device stop the program
  --report     which kernels ran thread by thread, and why
""",
    "check": """usage: weft cuda check FILES [nvcc's options] [--html FILE] [--ignore KIND] [--timeout S] [-- ARGUMENTS]
       weft cuda check FILE --kernel NAME --grid 4 --block 256 --arg float32[1000] --arg 1000

Runs a program, or one kernel, with every access watched: races, out of bounds, unset reads, divergent barriers, misuse
of the API, leaks. The exit code is 1 where something was found, else the program's own.

  --html FILE        a page with the findings and the lines around them
  --ignore KIND      leaves a kind out (leak, race ...); may be said again
  --timeout SECONDS  a program that takes longer is ended, and where its kernel was is told
""",
    "toolkit": """usage: weft cuda toolkit FOLDER

Writes a folder that makefiles and CMake take for a CUDA toolkit (bin/nvcc, include, lib64):
make CUDA_DIR=FOLDER, PATH=FOLDER/bin:$PATH make, or cmake -DCMAKE_CUDA_COMPILER=FOLDER/bin/nvcc.
""",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=tuple(_ACTIONS),
        help="build an executable, build and run one, write a folder that makefiles take for a CUDA toolkit, show a "
        "kernel at a stage of its compilation, or run a program or a kernel with every access watched; each tells more "
        "behind its name: weft cuda run --help",
    )
    parser.add_argument(
        "rest", nargs=argparse.REMAINDER,
        help="files and nvcc's options; for run: --serial, --guard, --report; for check: --html FILE, --ignore KIND, "
        "--timeout SECONDS; then the program's arguments behind --",
    )  # fmt: skip


def main(options: argparse.Namespace) -> int:
    """Runs an action; what compiles is loaded where it is needed, since programs that are kept run without."""
    given, _ = split_arguments(options.rest)
    if {"-h", "--help"} & set(given) and options.action in _HELP:
        print(_HELP[options.action], end="")
        return 0
    return _ACTIONS[options.action](options.rest)


def _build(rest: Sequence[str]) -> int:
    from weft.from_cuda.nvcc_steps import tell_steps, version_text
    from weft.from_cuda.program import build_program

    if {"-V", "--version"} & set(rest):
        print(version_text(), end="")
        return 0
    build = _read(rest)
    if build.verbose:
        tell_steps(build)
    if not build.dry:
        with _told_if_long(build):
            build_program(build)
    return 0


def _read(rest: Sequence[str]) -> BuildOptions:
    build = read_options(rest)
    for option, why in build.ignored.items():
        print(f"weft: `{option}` is ignored: {why}", file=sys.stderr)
    return build


@contextlib.contextmanager
def _told_if_long(build: BuildOptions) -> Iterator[None]:
    """A line on the terminal about a build that takes longer than a second."""
    said = threading.Event()

    def tell() -> None:
        sys.stderr.write(f"weft: building {', '.join(f.name for f in build.files)} ...")
        sys.stderr.flush()
        said.set()

    timer = threading.Timer(_SILENT, tell)
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if said.is_set():
            sys.stderr.write("\r\x1b[K")


def _show(rest: Sequence[str]) -> int:
    from weft.cli import cuda_kernel

    return cuda_kernel.show(rest)


def _check(rest: Sequence[str]) -> int:
    from weft.cli import cuda_check

    given, _ = split_arguments(rest)
    _check_names("check", given)
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
    build = _read([a for a in given if a not in (*_RUN_SWITCHES, "--report")])
    _check_names("run", [str(f) for f in build.files])
    with tempfile.TemporaryDirectory(prefix="weft-cuda-") as folder:
        with _told_if_long(build):
            program = build_or_take(build, Path(folder))
        code, refused = run_program(program, arguments, build.units, environment)
        if "--report" in given:
            _report(refused)
        if code < 0:
            print(f"`{program.name}` was ended by {signal.Signals(-code).name}", file=sys.stderr)
        return code if code >= 0 else 128 - code  # as shells have it


def _report(refused: Mapping[str, str]) -> None:
    from weft.from_cuda.demangle import source_name

    for kernel, why in refused.items():
        print(f"{source_name(kernel)}: thread by thread: {why}", file=sys.stderr)
    if not refused:
        print("all kernels that were launched ran as whole grids", file=sys.stderr)


def _check_names(action: str, files: Sequence[str]) -> None:
    """Refuses what is no file to build and may be meant for the program."""
    known = (*CUDA, *HOST, *LINKED)
    odd = [f for f in files if not f.startswith("-") and not f.endswith(known)]
    named = [f for f in files if f.endswith(known)]
    if named and odd and not any(f.startswith("-") for f in files):
        raise ArgumentError(
            f"{', '.join(odd)}: neither a source nor an object",
            why="what stands before `--` is built",
            help=f"arguments of the program go behind it: weft cuda {action} {' '.join(named)} -- {' '.join(odd)}",
        )


_ACTIONS = {"build": _build, "run": _run, "toolkit": _toolkit, "show": _show, "check": _check}

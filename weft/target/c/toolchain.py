"""The system's C compiler: which one, and C text to a shared library."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from weft.ir.errors import InternalError, TargetError
from weft.target.cpu.host import Machine

#: Looked for on PATH, in this order, where CC does not name one.
COMPILERS = ("cc", "gcc", "clang")


def find_compiler() -> list[str]:
    """The command of the C compiler: what ``CC`` says, else the first that there is."""
    asked = shlex.split(os.environ.get("CC", ""))
    names = asked[:1] or list(COMPILERS)
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        raise TargetError(
            "the C target needs a C compiler, and there is none",
            why=f"CC={os.environ['CC']} is not a command" if asked else f"looked for {', '.join(COMPILERS)} on PATH",
            help="install gcc or clang, or set CC to a compiler",
        )
    return [found, *asked[1:]]


def has_compiler() -> bool:
    try:
        return bool(find_compiler())
    except TargetError:
        return False


def toolchain_key() -> str:
    """What tells one compiler from another, without running it: its file."""
    command = find_compiler()
    real = os.path.realpath(command[0])
    info = os.stat(real)
    return f"{real} {info.st_mtime_ns} {info.st_size} {shlex.join(command[1:])}"


def build_flags(machine: Machine, *, fast: bool) -> list[str]:
    processor = [f"-march={machine.cpu}", "-mtune=native"] if machine.is_x86 else []
    contract = "-ffp-contract=fast" if fast else "-ffp-contract=off"
    return ["-O3", *processor, contract, "-fno-math-errno", "-fno-trapping-math", "-std=gnu11", "-w"]


def build_library(text: str, machine: Machine, *, fast: bool) -> bytes:
    """The shared library that the compiler makes of ``text``; without OpenMP where the compiler has none."""
    return _compile(text, machine, ["-shared", "-fPIC"], fast=fast)


def build_assembly(text: str, machine: Machine, *, fast: bool) -> str:
    return _compile(text, machine, ["-S"], fast=fast).decode()


def _compile(text: str, machine: Machine, kind: list[str], *, fast: bool) -> bytes:
    command = find_compiler()
    with tempfile.TemporaryDirectory(prefix="weft-c-") as folder:
        source, made = Path(folder) / "kernel.c", Path(folder) / "kernel.out"
        source.write_text(text, encoding="utf-8")
        rest = [*build_flags(machine, fast=fast), *kind, "-o", str(made), str(source), "-lm"]
        done = None
        for openmp in (["-fopenmp"], []):
            done = subprocess.run([*command, *openmp, *rest], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return made.read_bytes()
        assert done is not None
        first = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise InternalError(f"{command[0]} does not accept the generated C text", why=first)

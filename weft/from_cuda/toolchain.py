"""The programs that compile and link: clang for CUDA, and the system's compiler (or the wheel's) to link with."""

from __future__ import annotations

import functools
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from weft.ir.errors import LanguageError, TargetError

INCLUDE = Path(__file__).parent / "include" / "program"
NATIVE = Path(__file__).parent / "native"
#: The first clang whose LLVM text has pointers without types, as we write them.
_OLDEST = 18


@functools.cache
def find_zig() -> Path | None:
    """The program of the wheel `ziglang`, which contains a whole clang."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "zig"


@functools.cache
def clang_command() -> tuple[str, ...]:
    """How clang is called: the system's where it is new enough, else that of the wheel."""
    for name in ("clang", *(f"clang-{version}" for version in range(22, _OLDEST - 1, -1))):
        path = shutil.which(name)
        if path is not None and _version(path) >= _OLDEST:
            return (path,)
    zig = find_zig()
    if zig is not None:
        return (str(zig), "clang", "-resource-dir", str(zig.parent / "lib"))
    raise TargetError(
        "no clang was found to compile CUDA C++ with",
        why=f"there is neither a `clang` from version {_OLDEST} on in PATH nor the package `ziglang`",
        help='pip install "weft[cuda-source]", or install clang',
    )


def _version(path: str) -> int:
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"clang version (\d+)", said)
    return int(found.group(1)) if found else 0


@functools.cache
def linker_command() -> tuple[str, ...]:
    """How programs are linked: by the system's C++ compiler, whose library the host code is compiled against."""
    for name in ("g++", "c++", "clang++"):
        path = shutil.which(name)
        if path is not None:
            return (path,)
    raise TargetError(
        "no C++ compiler was found to link programs with",
        why="there is no `g++`, `c++` or `clang++` in PATH",
        help="install g++ (its headers are what the host code includes)",
    )


def run_tool(command: Sequence[str], *, echo: bool = True) -> str:
    """Runs a compiler; its errors, which name file and line, become ours. Its warnings go where ours go."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")
    except OSError as error:
        raise TargetError(f"`{command[0]}` could not be started", why=str(error)) from None
    if done.returncode == 0:
        if echo and done.stderr:
            print(done.stderr, end="")
        return done.stdout
    if re.search(r"\berror: ", done.stderr):
        raise LanguageError(_first_error(done.stderr), why=done.stderr.strip())
    raise TargetError(f"`{Path(command[0]).name}` failed", why=done.stderr.strip() or f"exit code {done.returncode}")


def _first_error(messages: str) -> str:
    return next(line.split("error: ", 1)[1] for line in messages.splitlines() if "error: " in line)

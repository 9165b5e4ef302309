"""The edge to NVRTC, NVIDIA's compiler as a library: CUDA C++ text in, machine code or PTX out. No GPU is needed.

It comes with the package ``nvidia-cuda-nvrtc`` or with PyTorch; cuda-bindings finds and calls it.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.ir.errors import InternalError, LanguageError, TargetError


@functools.cache
def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, OSError) as problem:
        raise TargetError(
            "no CUDA compiler was found",
            why=next(iter(str(problem).strip().splitlines()), type(problem).__name__),
            help="pip install 'weft[cuda]'",
        ) from None
    return nvrtc


def nvrtc_version() -> str:
    """The version of the compiler, ``13.0`` say."""
    _, major, minor = _nvrtc().nvrtcVersion()
    return f"{major}.{minor}"


@functools.cache
def supported_archs() -> tuple[str, ...]:
    """The architectures this NVRTC makes code for."""
    _, archs = _nvrtc().nvrtcGetSupportedArchs()
    return tuple(f"sm_{n}" for n in archs)


def compile_cubin(text: str, arch: str, *, fast: bool) -> bytes:
    """Machine code for GPUs of architecture ``arch``."""
    _check_arch(arch)
    return _compile(text, (f"--gpu-architecture={arch}", *_options(fast), *_side_by_side(text)), "CUBIN")


def compile_ptx(text: str, arch: str, *, fast: bool) -> str:
    """The PTX text of the same."""
    _check_arch(arch)
    options = (f"--gpu-architecture={arch.replace('sm_', 'compute_')}", *_options(fast))
    return _compile(text, options, "PTX").rstrip(b"\0").decode("utf-8")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a thread of a function takes: registers, and bytes of memory for values that did not fit them."""

    registers: int
    spilled: int


def resource_usage(text: str, arch: str, *, fast: bool) -> dict[str, Usage]:
    """What each function in ``text`` takes, as the assembler reports it."""
    _check_arch(arch)
    options = (f"--gpu-architecture={arch}", *_options(fast), "--ptxas-options=-v")
    log = _compile(text, options, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace")
    return {m[1]: Usage(int(m[3]), int(m[2])) for m in _USAGE.finditer(log)}


_USAGE = re.compile(r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores.*?Used (\d+) registers", re.DOTALL)


def _options(fast: bool) -> tuple[str, ...]:
    """Strict code rounds every operation once; fast code may fuse products into sums and divide by reciprocals."""
    numerics = ("--fmad=true", "--prec-div=false", "--prec-sqrt=false") if fast else ("--fmad=false",)
    return ("--std=c++17", "--minimal", "--extra-device-vectorization", *numerics)


def _side_by_side(text: str) -> tuple[str, ...]:
    """Several kernels are optimized by several threads, where NVRTC knows how to."""
    is_worth_it = text.count("__global__") > 1 and (os.cpu_count() or 1) > 2
    return ("--split-compile=0",) if is_worth_it and int(nvrtc_version().partition(".")[0]) >= 13 else ()


def _check_arch(arch: str) -> None:
    plain = arch.rstrip("af")
    if plain not in supported_archs():
        raise TargetError(
            f"NVRTC {nvrtc_version()} makes no code for `{arch}`",
            why=f"it supports {', '.join(supported_archs())}",
            help="install another version of nvidia-cuda-nvrtc",
        )


def _compile(text: str, options: tuple[str, ...], kind: str) -> bytes:
    nvrtc = _nvrtc()
    status, program = nvrtc.nvrtcCreateProgram(text.encode("utf-8"), b"weft.cu", 0, [], [])
    _require(status, "NVRTC cannot start")
    try:
        encoded = [o.encode("ascii") for o in options]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        if int(status) != 0:
            raise InternalError(
                "generated CUDA code does not compile",
                why=_log(nvrtc, program),
                notes=[("text", _excerpt(text, _log(nvrtc, program)))],
            )
        _, size = getattr(nvrtc, f"nvrtcGet{kind}Size")(program)
        result = bytearray(size)
        made = bytes(result)
        (status,) = getattr(nvrtc, f"nvrtcGet{kind}")(program, made)
        _require(status, "NVRTC gave no result")
        return made
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def compile_source(text: str, file: str, name: str, arch: str, options: Sequence[str] = ()) -> tuple[bytes, bytes]:
    """Machine code of a user's source, which is not changed, and what its function ``name`` is called there."""
    _check_arch(arch)
    nvrtc = _nvrtc()
    status, program = nvrtc.nvrtcCreateProgram(text.encode("utf-8"), file.encode("utf-8"), 0, [], [])
    _require(status, "NVRTC cannot start")
    try:
        (status,) = nvrtc.nvrtcAddNameExpression(program, name.encode("utf-8"))
        _require(status, f"NVRTC does not take the name `{name}`")
        encoded = [o.encode("utf-8") for o in (f"--gpu-architecture={arch}", "--std=c++17", *options)]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        if int(status) != 0:
            raise LanguageError(f"NVRTC cannot compile {file}", why=_log(nvrtc, program))
        status, lowered = nvrtc.nvrtcGetLoweredName(program, name.encode("utf-8"))
        _require(status, f"NVRTC has no function `{name}`")
        _, size = nvrtc.nvrtcGetCUBINSize(program)
        made = bytes(size)
        (status,) = nvrtc.nvrtcGetCUBIN(program, made)
        _require(status, "NVRTC gave no result")
        return made, bytes(lowered)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _require(status: Any, what: str) -> None:
    if int(status) != 0:
        raise TargetError(what, why=str(status))


def _log(nvrtc: Any, program: Any) -> str:
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = b" " * size
    nvrtc.nvrtcGetProgramLog(program, log)
    text: str = log.rstrip(b"\0").decode("utf-8", "replace")
    return text.strip()[:4000]


def _excerpt(text: str, log: str) -> str:
    """The lines around the first one the log names."""
    match = re.search(r"weft\.cu\((\d+)\)", log)
    if match is None:
        return text[:2000]
    at = int(match[1])
    lines = text.splitlines()
    return "\n".join(f"{n:5} {lines[n - 1]}" for n in range(max(1, at - 6), min(len(lines), at + 3) + 1))


@functools.cache
def toolchain_key() -> str:
    """The NVRTC packages that are installed, by name and version; where none is, the version that NVRTC says."""
    packages = sorted({name for folder in sys.path for name in _packages(folder)})
    if packages:
        return " ".join(packages)
    return nvrtc_version()


def _packages(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder or ".") if name.startswith("nvidia_cuda_nvrtc") and "-info" in name]
    except OSError:
        return []

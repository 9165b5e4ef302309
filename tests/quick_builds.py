"""Tests are about what Weft makes, not about what compilers make of it at their highest level, so these are told to be
quick. One test in twenty-five runs with the optimization that ships, always the same ones.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ONE_IN = 25
#: Whether the test that runs is one of those with the optimization that ships.
_shipping = [False]


def is_as_shipped(nodeid: str) -> bool:
    """Whether a test runs what users get; the same in every run."""
    return zlib.crc32(nodeid.encode()) % ONE_IN == 0


@pytest.fixture(autouse=True)
def as_shipped(request: pytest.FixtureRequest) -> Iterator[None]:
    """Some tests run what users get, and keep code apart from the others'."""
    if not is_as_shipped(request.node.nodeid):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE_DIR", str(Path(os.environ["WEFT_CACHE_DIR"]) / "shipped"))
        _shipping[0] = True
        try:
            yield
        finally:
            _shipping[0] = False


def pytest_collection_finish() -> None:
    build_c_quickly()
    if not Path("/proc/driver/nvidia").exists():
        build_cuda_quickly()


def build_c_quickly() -> None:
    """What a system's compiler makes of our C text at its highest level is not ours to test."""
    from weft.target.c import toolchain

    flags = toolchain.build_flags

    def quick_flags(machine: Any, *, fast: bool) -> list[str]:
        usual = flags(machine, fast=fast)
        return usual if _shipping[0] else ["-O1" if f == "-O3" else f for f in usual]

    toolchain.build_flags = quick_flags


def build_cuda_quickly() -> None:
    """NVRTC reads and translates all CUDA text as ever, but optimizes no machine code that nothing here can run."""
    from weft.ir.errors import InternalError
    from weft.target.cuda import nvrtc

    build = nvrtc._compile

    def build_unoptimized(text: str, options: tuple[str, ...], kind: str) -> bytes:
        if kind == "CUBIN" and not _shipping[0]:
            with contextlib.suppress(InternalError):  # some instructions need optimizing (``__dp4a``)
                return build(text, (*options, "--Ofast-compile=max"), kind)
        return build(text, options, kind)

    nvrtc._compile = build_unoptimized


@pytest.fixture
def quick_code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM writes programs down as they are: for tests that run much machine code and are about what is before it.

    Fresh seeds run the code that users get.
    """
    from weft.target.cpu import llvm, lower

    if request.config.getoption("seed"):
        return
    optimized = llvm.compile_llvm

    def compile_quickly(text: str, machine: Any, *, thorough: bool = False) -> bytes:
        if _shipping[0]:
            return optimized(text, machine, thorough=thorough)
        with llvm._lock:
            return bytes(llvm._target_machine(machine, 0).emit_object(llvm._prepare(text, machine, thorough=False)))

    monkeypatch.setattr(lower, "compile_llvm", compile_quickly)

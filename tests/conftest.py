"""Options and fixtures shared by all tests."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["random_seeds"]

GOLDEN = Path(__file__).parent / "golden"
CACHE = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    """Compiled code of this run is kept apart: what an older compiler left behind must not be what is tested.

    The processes of one run share it: the library of CUDA's runtime alone takes ten seconds to build.
    """
    if not hasattr(config, "workerinput"):
        config.stash[CACHE] = os.environ["WEFT_CACHE_DIR"] = tempfile.mkdtemp(prefix="weft-tests-")
    os.environ["WEFT_TRACEBACK"] = "full"  # a failing test shows where in Weft an error came from
    os.environ["WEFT_FAULTS"] = "raise"  # what users' models find another way around fails here


def pytest_collection_finish() -> None:
    """What is loaded by now stays: looking through it for cycles again and again takes a twentieth of all time."""
    if not Path("/proc/driver/nvidia").exists():
        build_cuda_quickly()
    build_c_quickly()
    gc.collect()
    gc.freeze()
    gc.set_threshold(1_000_000, 50, 100)


def build_c_quickly() -> None:
    """What a system's compiler makes of our C text at its highest level is not ours to test."""
    from weft.target.c import toolchain

    flags = toolchain.build_flags
    toolchain.build_flags = lambda machine, *, fast: ["-O1" if f == "-O3" else f for f in flags(machine, fast=fast)]


def build_cuda_quickly() -> None:
    """NVRTC reads and translates all CUDA text as ever, but optimizes no machine code that nothing here can run."""
    from weft.ir.errors import InternalError
    from weft.target.cuda import nvrtc

    build = nvrtc._compile

    def build_unoptimized(text: str, options: tuple[str, ...], kind: str) -> bytes:
        if kind == "CUBIN":
            with contextlib.suppress(InternalError):  # some instructions need optimizing (``__dp4a``)
                return build(text, (*options, "--Ofast-compile=max"), kind)
        return build(text, options, kind)

    nvrtc._compile = build_unoptimized


def pytest_unconfigure(config: pytest.Config) -> None:
    if CACHE in config.stash:
        shutil.rmtree(config.stash[CACHE], ignore_errors=True)


@pytest.fixture
def quick_code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM writes programs down as they are: for tests that run much machine code and are about what is before it.

    Fresh seeds run the code that users get.
    """
    from weft.target.cpu import llvm, lower

    if request.config.getoption("seed"):
        return

    def compile_quickly(text: str, machine: Any, *, thorough: bool = False) -> bytes:
        with llvm._lock:
            return bytes(llvm._target_machine(machine, 0).emit_object(llvm._prepare(text, machine, thorough=False)))

    monkeypatch.setattr(lower, "compile_llvm", compile_quickly)


@pytest.fixture
def two_threads() -> Iterator[None]:
    import weft

    before = weft.get_num_threads()
    weft.set_num_threads(2)
    yield
    weft.set_num_threads(before)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden("name.txt", text)`` compares ``text`` with a file in ``tests/golden``, or rewrites that file."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"no golden file {name}; run pytest --update-golden and review it"
        assert text == path.read_text(encoding="utf-8")

    return check

"""Options and fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest_plugins = ["random_seeds", "quick_builds", "skip_summary"]

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
    gc.collect()
    gc.freeze()
    gc.set_threshold(1_000_000, 50, 100)


def pytest_unconfigure(config: pytest.Config) -> None:
    if CACHE in config.stash:
        shutil.rmtree(config.stash[CACHE], ignore_errors=True)


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

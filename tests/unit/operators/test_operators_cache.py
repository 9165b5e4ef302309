"""The artifact store as a user of operators meets it: warm starts, damage, races, places that cannot be used."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from operator_process import finish, run, start

import weft
from weft.operators.specialization import find_specialization

#: Defines and calls a kernel, then says which of the modules that compile were needed.
CALL = """
import sys
import numpy as np
import weft
f = weft.define("def f(float(N) X) -> (Y) { Y(i) = X(i) * 2 + 1 }")
assert (f(np.full(5, 3, np.float32)) == 7).all()
print(*(m for m in ("lark", "llvmlite", "weft.lang.parse", "weft.tensor.lower") if m in sys.modules))
"""
COMPILED = "lark llvmlite weft.lang.parse weft.tensor.lower\n"
WARM = "\n"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache directory that holds what CALL needs."""
    cache = tmp_path_factory.mktemp("compiled") / "cache"
    assert run(CALL, WEFT_CACHE_DIR=str(cache))[0] == COMPILED
    return cache


@pytest.fixture
def filled(compiled: Path, tmp_path: Path) -> Path:
    """The same, for one test to spoil."""
    return Path(shutil.copytree(compiled, tmp_path / "cache"))


def test_a_warm_start_needs_neither_parser_nor_llvm(filled: Path) -> None:
    assert run(CALL, WEFT_CACHE_DIR=str(filled)) == (WARM, "")


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flip(data: bytes) -> bytes:
    return data[:-40] + bytes([data[-40] ^ 1]) + data[-39:]


@pytest.mark.parametrize("damage", [_cut, _flip, lambda _: b"", lambda _: b"WEFTART1" + bytes(200)])
def test_damaged_artifacts_are_made_again(filled: Path, damage: Callable[[bytes], bytes]) -> None:
    for path in filled.iterdir():
        path.write_bytes(damage(path.read_bytes()))
    assert run(CALL, WEFT_CACHE_DIR=str(filled))[0] == COMPILED
    assert run(CALL, WEFT_CACHE_DIR=str(filled))[0] == WARM


def test_artifacts_under_the_wrong_name_are_not_used(filled: Path) -> None:
    paths = sorted(filled.iterdir())
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, [*contents[1:], contents[0]]):
        path.write_bytes(content)
    assert run(CALL, WEFT_CACHE_DIR=str(filled))[0] == COMPILED


def test_processes_may_race_for_the_same_kernel(tmp_path: Path) -> None:
    racing = [start(CALL, WEFT_CACHE_DIR=str(tmp_path / "cache")) for _ in range(3)]
    for process in racing:
        finish(process)
    assert run(CALL, WEFT_CACHE_DIR=str(tmp_path / "cache"))[0] == WARM
    assert not list((tmp_path / "cache").glob("*.tmp"))


def test_a_file_in_the_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    for place in ("file", "file/below"):
        out, err = run(CALL, WEFT_CACHE_DIR=str(tmp_path / place))
        assert out == COMPILED
        assert err.count("RuntimeWarning: weft keeps no compiled code in") == 1
    assert (tmp_path / "file").read_text() == "not a directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_write_permission(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o500)
    out, err = run(CALL, WEFT_CACHE_DIR=str(tmp_path / "cache"))
    assert out == COMPILED
    assert err.count("RuntimeWarning") == 1


def test_a_directory_others_can_write_is_not_trusted(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    out, err = run(CALL, WEFT_CACHE_DIR=str(shared))
    assert out == COMPILED
    assert "other users can write to it (mode 777); chmod go-w it" in err
    assert not list(shared.iterdir())


def test_a_home_directory_is_not_needed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert run(CALL, WEFT_CACHE_DIR=None, XDG_CACHE_HOME=None, HOME=str(tmp_path / "file"))[0] == COMPILED


def test_the_user_s_cache_directory_is_the_default(tmp_path: Path) -> None:
    places = {"XDG_CACHE_HOME": str(tmp_path / "xdg")}, {"XDG_CACHE_HOME": None, "HOME": str(tmp_path / "home")}
    for place in places:
        assert [run(CALL, WEFT_CACHE_DIR=None, **place)[0] for _ in range(2)] == [COMPILED, WARM]
    assert (tmp_path / "xdg" / "weft").is_dir()
    assert (tmp_path / "home" / ".cache" / "weft").is_dir()


def test_the_cache_can_be_turned_off(tmp_path: Path, filled: Path) -> None:
    assert run(CALL, WEFT_CACHE="off", WEFT_CACHE_DIR=str(filled)) == (COMPILED, "")
    assert run(CALL, WEFT_CACHE="off", WEFT_CACHE_DIR=str(tmp_path / "new")) == (COMPILED, "")
    assert not (tmp_path / "new").exists()


X = np.arange(12, dtype=np.float32)
PLAIN = "def f(float(N) X) -> (Y) { Y(i) = X(i) }"

#: Calls whose code must not be shared with that of `f(X)`.
DIFFERENT: dict[str, Callable[[], object]] = {
    "text": lambda: weft.define("def f(float(N) X) -> (Y) { Y(i) = X(i) + 0 }")(X),
    "type": lambda: weft.define("def f(double(N) X) -> (Y) { Y(i) = X(i) }")(X.astype(np.float64)),
    "shape": lambda: weft.define(PLAIN)(X[:6]),
    "strides": lambda: weft.define(PLAIN)(X[::-1]),
    "zero strides": lambda: weft.define(PLAIN)(np.broadcast_to(X[:1], 12)),
    "strides of the output": lambda: weft.define(PLAIN)(X, out=np.zeros(24, np.float32)[::2]),
    "checks": lambda: weft.define(PLAIN, checks="off")(X),
    "constant": lambda: weft.define("def f(float(N) X, int S) -> (Y) { Y(i) = X(S*i) }")(X, 1),
    "other constant": lambda: weft.define("def f(float(N) X, int S) -> (Y) { Y(i) = X(S*i) }")(X, 2),
}


def test_what_code_depends_on_is_in_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    made: list[str] = []

    def count(*args: object) -> object:
        before = set(os.listdir(tmp_path))
        found = find_specialization(*args)  # type: ignore[arg-type]
        made.append("compiled" if set(os.listdir(tmp_path)) - before else "found")
        return found

    monkeypatch.setattr("weft.operators.operator.find_specialization", count)
    weft.define(PLAIN)(X)
    for call in DIFFERENT.values():
        call()
    assert made == ["compiled"] * (1 + len(DIFFERENT))
    made.clear()
    weft.define(PLAIN)(X)
    for call in DIFFERENT.values():
        call()
    assert made == ["found"] * (1 + len(DIFFERENT))

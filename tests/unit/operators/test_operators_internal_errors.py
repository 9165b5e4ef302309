"""A fault of Weft's own: told as one, with a script that runs and shows it again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from operator_process import ROOT

import weft
from weft.operators.reproduce import last_faults

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
a = np.ones((4, 3), np.float32)


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Scripts are written to a directory of the test, and nothing comes from the cache."""
    monkeypatch.setenv("WEFT_CACHE", "off")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def fault_of(
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[], Any],
    fault: Exception,
    place: str = "weft.operators.stages.lower",
) -> weft.InternalError:
    """The error of ``call`` while the function at ``place`` raises ``fault``."""

    def fail(*_: Any, **__: Any) -> Any:
        raise fault

    with monkeypatch.context() as broken:
        broken.setattr(place, fail)
        with pytest.raises(weft.InternalError) as caught:
            call()
    return caught.value


def run_script(path: str, prefix: str = "") -> subprocess.CompletedProcess[str]:
    code = prefix + f"exec(compile(open({path!r}).read(), {path!r}, 'exec'))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120, check=False
    )


def test_the_message_and_the_script(monkeypatch: pytest.MonkeyPatch, somewhere_else: Path) -> None:
    mm = weft.define(MM)
    error = fault_of(monkeypatch, lambda: mm(a[:, ::-1], np.asfortranarray(a.T)), KeyError("n"))
    path = error.reproduction
    assert path is not None
    assert Path(path).parent == somewhere_else
    assert str(error) == (
        "error: Weft failed on a program it should handle\n"
        "  why:   KeyError: 'n'\n"
        f"  help:  please report it with {path}, which reproduces it"
    )
    assert "Traceback" in Path(path).read_text()
    np.testing.assert_array_equal(mm(a, a.T), a @ a.T)  # nothing is left broken


BREAK = """
import weft.operators.stages
def fail(*_, **__):
    raise KeyError("n")
weft.operators.stages.lower = fail
"""


@pytest.mark.parametrize(
    ("program", "arguments", "out"),
    [
        (MM, (a[:, ::-1], np.asfortranarray(a.T)), None),
        (MM, (a[:0], a.T), np.zeros((0, 4), np.float32)),
        (
            "def f(bfloat16(N) X, float s, int S, bool b) -> (Y, Z) { Y(i) = X(S*i)\n Z(i) = b ? X(i) : X(i) }",
            None,
            None,
        ),
    ],
    ids=["strides", "empty, with out", "scalars"],
)
def test_the_script_runs_without_the_fault_and_fails_with_it(
    program: str, arguments: Any, out: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = weft.define(program)
    given = arguments or (np.ones(6, weft.numpy_dtype("bfloat16")), 0.5, 2, True)
    script = fault_of(monkeypatch, lambda: op(*given, out=out), KeyError("n")).reproduction
    assert script is not None
    mended = run_script(script)
    assert mended.returncode == 0, mended.stderr
    again = run_script(script, BREAK)
    assert again.returncode != 0
    assert "InternalError: error: Weft failed on a program it should handle\n  why:   KeyError: 'n'" in again.stderr


def test_the_script_leaves_out_checks_where_the_operator_did(monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = "def f(float(N) X, int(M) I) -> (Y) { Y(i) = X(I(i)) }"
    arguments = (np.ones(3, np.float32), np.int32([0, 2]))
    for checks in ("on", "off"):
        op = weft.define(lookup, checks=checks)  # type: ignore[arg-type]
        script = fault_of(monkeypatch, lambda op=op: op(*arguments), KeyError("n")).reproduction  # type: ignore[misc]
        assert script is not None
        assert f"checks='{checks}'" in Path(script).read_text()


def test_a_program_made_in_python_is_reproduced_from_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    n = weft.size("N")
    x = weft.placeholder("X", (n,))
    k = weft.reduce_axis(n, "k")
    op = weft.operator([x], [weft.compute((n,), lambda i: x[i] / weft.sum(x[k], over=k), name="Y")])
    script = fault_of(monkeypatch, lambda: op(np.ones(4, np.float32)), KeyError("n")).reproduction
    assert script is not None
    mended = run_script(script)
    assert mended.returncode == 0, mended.stderr


def test_a_fault_while_showing_or_defining(monkeypatch: pytest.MonkeyPatch) -> None:
    mm = weft.define(MM)
    showing = fault_of(monkeypatch, lambda: mm.show("loops"), ZeroDivisionError())
    assert showing.why == "ZeroDivisionError: "
    describing = "weft.operators.describe.interface_of"
    defining = fault_of(monkeypatch, lambda: weft.define(MM), IndexError("list index out of range"), describing)
    for script in (showing.reproduction, defining.reproduction):
        assert script is not None
        assert run_script(script).returncode == 0


def test_nowhere_to_write_the_script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    mm = weft.define(MM)
    error = fault_of(monkeypatch, lambda: mm(a, a.T), KeyError("n"))
    assert error.reproduction is None
    assert error.help == "please report it"


def test_scripts_are_files_of_their_own_beside_what_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A name that others could foresee would be a link of theirs; the same fault again needs no second file."""
    monkeypatch.setenv("WEFT_CACHE", "")
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    mm = weft.define(MM)
    paths = [fault_of(monkeypatch, lambda: mm(a, a.T), KeyError("n")).reproduction for _ in range(3)]
    assert len({*paths}) == 1
    (path,) = last_faults()
    assert str(path) == paths[0]
    assert path.parent == tmp_path / "cache" / "faults"
    assert path.stat().st_mode & 0o777 == 0o600
    for n in range(30):
        fault_of(monkeypatch, lambda: mm(a, a.T), KeyError(str(n)))
    assert len(last_faults()) == 20
    assert "KeyError: '29'" in last_faults()[0].read_text()

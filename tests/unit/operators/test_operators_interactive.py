"""What a prompt or a notebook shows: short tracebacks, names to complete, texts that keep their lines."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.at_the_call import told_at_the_call
from weft.ir.errors import Error, InternalError
from weft.operators.typing_stubs import stubs

COPY = "def f(float(N) X) -> (Y) { Y(i) = X(i) }"
COPY_SCHEDULE = weft.schedule(weft.define(COPY))
SCALE = "__global__ void scale(float *y, int n) { if (threadIdx.x < n) y[threadIdx.x] *= 2; }"


def in_python() -> Any:
    x = weft.placeholder("x", (4,))
    return weft.compute((4,), lambda i: x[i, 0])


WRONG: dict[str, Callable[[], Any]] = {
    "define": lambda: weft.define("def f(float(N) X) -> (Y) { Y(i) = X(j) }"),
    "call": lambda: weft.define(COPY)(np.ones((2, 2))),
    "named": lambda: weft.define(COPY)(Z=np.ones(2, np.float32)),
    "bind": lambda: weft.define(COPY).bind(Z=1),
    "show": lambda: weft.define(COPY).show("nothing"),
    "explain": lambda: weft.define(COPY).explain(Z=(3,)),
    "schedule": lambda: weft.schedule(weft.define(COPY), Z=(3,)),
    "load": lambda: weft.load("missing.weft"),
    "compute": in_python,
    "operator": lambda: weft.operator([], []),
    "primitive": lambda: COPY_SCHEDULE.split("i", 0),
    "primitive within another": lambda: COPY_SCHEDULE.tile("i", "i", 4, 4),
    "handles": lambda: COPY_SCHEDULE.loops("Z"),
    "trace": lambda: COPY_SCHEDULE.apply("s.nothing()"),
    "build": lambda: weft.schedule(weft.define(COPY)).apply("no trace"),
    "model": lambda: weft.compile(1),
    "CUDA kernel": lambda: weft.cuda.kernel(SCALE, "nothing"),
    "source": lambda: weft.cuda.kernel("missing.cu", "scale"),
    "launch": lambda: weft.cuda.kernel(SCALE, "scale")((1,), (0,), ()),
    "loop kernel": lambda: weft.kernel("kernel"),
    "intrinsic": lambda: weft.intrinsic("", "", {}),
}


@pytest.fixture(autouse=True)
def as_users_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_TRACEBACK", raising=False)


@pytest.mark.parametrize("name", WRONG)
def test_the_traceback_ends_at_the_call(name: str) -> None:
    with pytest.raises(Error) as refused:
        WRONG[name]()
    frames = traceback.extract_tb(refused.value.__traceback__)
    assert [f.name for f in frames if "/weft/" in f.filename] == ["told"]
    shown = refused.value._render_traceback_()
    assert not [line for line in shown if "at_the_call.py" in line]
    assert any(line.startswith(f'  File "{__file__}"') for line in shown)
    assert "\n".join(shown).endswith(str(refused.value))


def test_all_of_it_is_there_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_TRACEBACK", "full")
    with pytest.raises(Error) as refused:
        WRONG["define"]()
    assert len(traceback.extract_tb(refused.value.__traceback__)) > 5


def test_faults_of_ours_keep_theirs() -> None:
    @told_at_the_call
    def fails() -> None:
        raise InternalError("a fault")

    with pytest.raises(InternalError) as failed:
        fails()
    assert traceback.extract_tb(failed.value.__traceback__)[-1].name == "fails"
    assert any("in fails" in line for line in failed.value._render_traceback_())


def test_names_to_complete() -> None:
    for module in (weft, weft.cuda, weft.ops):
        offered = dir(module)
        assert not {"Any", "TYPE_CHECKING", "importlib", "annotations", "_LATER"} & set(offered)
        assert all(hasattr(module, name) for name in offered if name not in ("onnx", "load_inline", "make_operator"))
    assert {"define", "load", "exp", "scan", "cuda", "ops"} <= set(dir(weft))
    assert {"kernel", "synchronize"} <= set(dir(weft.cuda))
    assert {"tile", "vectorize", "build"} <= set(dir(weft.define(COPY).schedule(X=(8,))))


def test_notebooks_show_lines() -> None:
    op = weft.define("def f(float(N) X) -> (Y) { Y(i) = X(i) < 1 ? 1.0 : X(i) }")
    assert "Y(i) = X(i) &lt; 1 ?" in op._repr_html_()
    for shown in (op.explain(X=(8,)), op.show("loops", X=np.ones(3, np.float32)), op.guards(), op.schedule(X=(8,))):
        assert "<pre" in shown._repr_html_()  # type: ignore[union-attr]


def test_stubs_are_current() -> None:
    """After a change: python -m weft.operators.typing_stubs"""
    for path, text in stubs().items():
        assert path.read_text(encoding="utf-8") == text


def test_type_checkers_know_operators_functions_and_the_library(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    file = tmp_path / "typed.py"
    file.write_text(
        "import weft\n"
        'reveal_type(weft.define(""))\nreveal_type(weft.exp(1.0))\nreveal_type(weft.ops.softmax)\n'
        'reveal_type(weft.load("f.weft"))\nreveal_type(weft.sizes("M N"))\nweft.exp(1.0, 2.0)\n'
    )
    root = Path(weft.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent", "--no-error-summary", str(file)],
        capture_output=True, text=True, cwd=root, timeout=300, check=False,
    )  # fmt: skip
    revealed = [line.rsplit('"', 2)[1] for line in done.stdout.splitlines() if "Revealed" in line]
    operator, value = "weft.operators.operator.Operator", "weft.tensor.value.Value"
    assert [r.removeprefix("builtins.") for r in revealed] == [
        operator, value, operator, operator, f"tuple[{value}, ...]"
    ], done.stdout  # fmt: skip
    assert 'Too many arguments for "exp"' in done.stdout

"""Other Pythons that Weft starts run nothing that lies in the user's folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from weft.interpreters import module_folders, python_command, python_environment

ROOT = Path(__file__).resolve().parents[2]
#: Modules that workers import early, Python's and others'; one that is installed nowhere; and the package itself.
HOSTILE = (
    "abc", "contextlib", "functools", "json", "linecache", "numpy", "os", "pickle", "queue", "random", "re", "struct",
    "selectors", "signal", "subprocess", "tempfile", "threading", "types", "typing", "sitecustomize", "islpy", "lark",
)  # fmt: skip


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with modules that leave a file behind where they are run."""
    for name in HOSTILE:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name + ' '!r})\n")
    (tmp_path / "weft").mkdir()
    (tmp_path / "weft" / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('weft ')\n")
    return tmp_path


def ran(folder: Path) -> list[str]:
    told = folder / "ran"
    return told.read_text().split() if told.exists() else []


def run_in(folder: Path, script: str, **environment: str) -> str:
    """``script`` as an installed command runs: without the current folder in its path."""
    begin = f"import sys; sys.path[:] = {[p for p in sys.path if p and p != str(folder)] + [str(ROOT)]!r}\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", begin + script], cwd=folder, capture_output=True, text=True, timeout=300,
        env={**os.environ, "WEFT_CACHE": "off", **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_folder_would_be_run(hostile: Path) -> None:
    subprocess.run([sys.executable, "-c", "import queue"], cwd=hostile, check=False, capture_output=True)
    assert ran(hostile)


WORKERS = """
import operator, os
os.sched_getaffinity = lambda _: {0, 1}
from weft.graph.groups.workers import Workers
with Workers(2, 1) as workers:
    first = list(workers._processes)
    import queue, time
    from weft.graph.groups import workers as w
    w.send(first[0].stdin, (operator.neg, 5))
    assert w.receive(first[0].stdout) == -5
print("answered")
"""

FORKS = """
import operator
from weft.graph.groups import forked, workers as w
forks = forked.Forks(1, operator.not_)
one = forks.processes[0]
assert w.receive(one.stdout) > 0
w.send(one.stdin, (operator.neg, 5))
assert w.receive(one.stdout) == -5
forks.close()
print("answered")
"""

ISL = """
from weft.poly.isl_oracle import ask_worker
print("answered" if ask_worker("{ [x] : x > 3 and x < 5 }", 20) == {"point": [4]} else "not")
"""

INTRINSIC = """
import weft
two = "def twice(float(8) X) -> (Y) { Y(i) = X(i) + X(i) }"
try:
    weft.intrinsic("twice_of_a_test", two, {"cpu": "this is no instruction"})
except weft.ArgumentError as error:
    print("answered" if "LLVM does not take the code" in str(error) else error)
"""


@pytest.mark.parametrize("script", [WORKERS, FORKS, ISL, INTRINSIC], ids=["workers", "forks", "isl", "intrinsic"])
def test_nothing_in_the_current_folder_is_run(hostile: Path, script: str) -> None:
    if script is ISL:
        pytest.importorskip("islpy")
    assert run_in(hostile, script) == "answered\n"
    assert ran(hostile) == []


def test_nothing_is_run_where_the_path_of_the_environment_names_the_folder(hostile: Path) -> None:
    """``PYTHONPATH=$PYTHONPATH:/elsewhere`` begins with an empty entry, which is the current folder."""
    assert run_in(hostile, FORKS, PYTHONPATH=f":{hostile}") == "answered\n"
    assert ran(hostile) == []


def test_an_nvcc_in_a_source_tree_runs_nothing_of_it(hostile: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    from weft.from_cuda import toolkit

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toolkit, "_write_libraries", lambda folder: None)
        made = toolkit.write_toolkit(tmp_path_factory.mktemp("it's a toolkit"))
    done = subprocess.run([made / "bin" / "nvcc", "--help"], cwd=hostile, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "usage: weft cuda" in done.stdout
    assert ran(hostile) == []


def test_folders_of_the_program_come_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "packages").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "path", ["", "relative", str(tmp_path / "here"), *sys.path, str(tmp_path / "packages")])
    folders = module_folders()
    assert not {"", "relative"} & {*folders}
    assert folders.index(str(tmp_path / "packages")) < folders.index(str(tmp_path / "here"))
    assert re.search(r"python3\d*(\.zip|\.\d+|/lib)", folders[0].replace("lib/python", "python"))


def test_paths_with_quotes_and_spaces_arrive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    odd = tmp_path / 'it\'s "odd" $HOME \\ \n'
    odd.mkdir()
    (odd / "module_of_a_test.py").write_text("print('found')")
    monkeypatch.setattr(sys, "path", [*sys.path, str(odd)])
    command = python_command("import module_of_a_test, sys; print(sys.argv[1:])", "a b", "c")
    done = subprocess.run(command, env=python_environment(), capture_output=True, text=True, check=True)
    assert done.stdout == "found\n['a b', 'c']\n"


def test_python_is_started_in_one_place() -> None:
    """Whoever starts another Python asks `weft.interpreters` how."""
    files = [p for p in sorted((ROOT / "weft").rglob("*.py")) if "sys.executable" in p.read_text()]
    asks = {"poly/isl_oracle.py", "runtime/worker_process.py", "cli/report.py"}  # whether there is one, and which
    assert {str(p.relative_to(ROOT / "weft")) for p in files} <= asks | {"interpreters.py"}

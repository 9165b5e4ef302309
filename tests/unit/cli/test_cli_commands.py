"""The command line: what it prints, its exit codes, and its answers to wrong usage."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from weft.cli import main as main_module
from weft.cli.inputs import format_seconds
from weft.cli.main import COMMANDS, main
from weft.operators.reproduce import last_faults

ROOT = Path(__file__).parents[3]
MM = """def mm(float(M,K) A, float(K,N) B) -> (C) {
    C(m,n) +=! A(m,k) * B(k,n)
}
"""
BAD = """def f(float(N) X) -> (Y) { Y(i) = Z(i) }
def g(float(N) X) -> (Y) { Y(i) = X(i,j) }
"""
TWO = """def once(float(N) X) -> (Y) { Y(i) = X(i) }
def twice(float(N) X, float a, bool b, int S) -> (Y) { Y(i) = b ? X(S*i) * a : 0.0 }
"""
INTERFACE = "  why:   it is mm(float32(M,K) A, float32(K,N) B) -> (C)\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with programs and arrays, which is the current one."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"mm": MM, "bad": BAD, "two": TWO, "empty": ""}.items():
        (tmp_path / f"{name}.weft").write_text(text)
    (tmp_path / "binary.weft").write_bytes(bytes(range(128, 256)))
    np.save("a.npy", np.ones((4, 3), np.float32))
    np.save("wide.npy", np.ones((4, 3)))
    np.save("objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez("several.npz", a=np.ones(3))
    Path("cut.npy").write_bytes(Path("a.npy").read_bytes()[:-5])
    return tmp_path


Capture = pytest.CaptureFixture[str]


def weft(*arguments: str) -> int:
    return main(arguments)


def test_run_saves_what_numpy_would_compute(capsys: Capture) -> None:
    np.save("b.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    assert weft("run", "mm.weft", "--arg", "A=a.npy", "--arg", "B=b.npy", "--save", "C=c.npy") == 0
    np.testing.assert_array_equal(np.load("c.npy"), np.load("a.npy") @ np.load("b.npy"))
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "C: float32[4, 2] [6. 9. 6. ... 9. 6. 9.]"
    assert re.fullmatch(r"first call \d\S* (us|ms|s) \(with compilation\), then \d\S* us", shown[1])


def test_explain_says_what_was_chosen(capsys: Capture) -> None:
    assert weft("explain", "mm.weft", "--size", "M=64", "--size", "N=64", "--size", "K=32") == 0
    assert capsys.readouterr().out.startswith('mm, scheduled by schedule="auto"')


CARRIED = """def total(float(N) X) -> (float S) { S += X(i) }
def step(float(N) X, int(N) I) -> (float(N) S, int(N) Count) {
    S(i) = S(i) * 0.5 + X(i)
    Count(I(i)) += 1
}
"""


def test_run_takes_what_outputs_start_from(capsys: Capture) -> None:
    Path("step.weft").write_text(CARRIED)
    old = np.arange(4, dtype=np.float32)
    np.save("x.npy", np.ones(4, np.float32))
    np.save("old.npy", old)
    inputs = ("--arg", "X=x.npy", "--arg", "S=old.npy", "--size", "N=4", "--save", "S=new.npy")
    assert weft("run", "step.weft", *inputs, "--save", "Count=count.npy") == 0
    np.testing.assert_array_equal(np.load("new.npy"), old * 0.5 + 1)
    np.testing.assert_array_equal(np.load("old.npy"), old)
    assert np.load("count.npy").sum() == 4  # what is not given starts from zero, and is not counted twice
    np.save("start.npy", np.float32(10))
    shown = capsys.readouterr().out
    assert weft("run", "step.weft", "--def", "total", "--arg", "X=x.npy", "--arg", "S=start.npy") == 0
    assert capsys.readouterr().out.startswith("S: float32[] [14.]")
    assert weft("run", "step.weft", "--size", "N=4") == 0  # random, as the inputs are
    assert capsys.readouterr().out.splitlines()[0] != shown.splitlines()[0]


def test_run_refuses_an_output_of_another_size(capsys: Capture) -> None:
    Path("step.weft").write_text(CARRIED)
    np.save("old.npy", np.ones(5, np.float32))
    assert weft("run", "step.weft", "--arg", "S=old.npy", "--size", "N=4") == 1
    assert capsys.readouterr().err.startswith("error: dimension 0 of S must be 4, got 5\n")


def test_run_makes_random_inputs_of_given_sizes(capsys: Capture) -> None:
    sizes = ["--size", "M=4", "--size", "K=3", "--size", "N=2"]
    for seed in ("1", "1", "2"):
        assert weft("run", "mm.weft", *sizes, "--seed", seed) == 0
    values = [line for line in capsys.readouterr().out.splitlines() if line.startswith("C: float32[4, 2]")]
    assert values[0] == values[1] != values[2]


def test_run_takes_sizes_from_arrays_and_runs_on_none(capsys: Capture) -> None:
    assert weft("run", "mm.weft", "--arg", "A=a.npy", "--size", "N=0") == 0
    assert capsys.readouterr().out.startswith("C: float32[4, 0] (empty)\n")


def test_run_takes_scalars(capsys: Capture) -> None:
    np.save("x.npy", np.arange(6, dtype=np.float32))
    given = ["--arg", "X=x.npy", "--arg", "a=0.5", "--arg", "S=2"]
    assert weft("run", "two.weft", *given, "--arg", "b=true") == 0
    assert weft("run", "two.weft", *given, "--arg", "b=0") == 0
    shown = capsys.readouterr().out
    assert "Y: float32[3] [0. 1. 2.]" in shown
    assert "Y: float32[3] [0. 0. 0.]" in shown
    assert weft("run", "two.weft", "--size", "N=5") == 0  # scalars at random, too


def test_run_picks_a_definition(capsys: Capture) -> None:
    assert weft("run", "two.weft", "--def", "once", "--size", "N=3", "--save", "Y=y.npy") == 0
    assert np.load("y.npy").shape == (3,)


def test_show_prints_each_stage(capsys: Capture) -> None:
    marks = {"tensor": "C(m,n) +=! A(m,k) * B(k,n)", "loops": "for k in 0:4 {", "llvm": "define i32 @mm(ptr %args)"}
    marks |= {"lowered": "kernel mm(", "asm": ".globl\tmm"}
    for stage, mark in marks.items():
        assert weft("show", "mm.weft", "--stage", stage, "--size", "M=4", "--size", "K=4", "--size", "N=4") == 0
        assert mark in capsys.readouterr().out
    assert weft("show", "mm.weft") == 0
    assert "A: float32[M, K]" in capsys.readouterr().out


def test_check_lists_every_problem(capsys: Capture) -> None:
    assert weft("check", "mm.weft", "two.weft") == 0
    assert capsys.readouterr().out.endswith("no problems\n")
    assert weft("check", "--quiet", "mm.weft") == 0
    assert capsys.readouterr().out == ""
    assert weft("check", "--quiet", "mm.weft", "bad.weft") == 1
    assert capsys.readouterr().out == (
        "error: unknown tensor or function `Z`\n"
        "  bad.weft:1      def f(float(N) X) -> (Y) { Y(i) = Z(i) }\n"
        "                                                    ^\n"
        "  why:   it is not a parameter, not written by an earlier statement and not a builtin\n"
        "error: `X` has 1 dimension, but 2 indices are given\n"
        "  bad.weft:2      def g(float(N) X) -> (Y) { Y(i) = X(i,j) }\n"
        "                                                    ^^^^^^\n"
        "  help:  write `X(i)`\n"
        "2 problems\n"
    )


def _unreadable(name: str) -> str:
    return (
        f"error: cannot read {name} for `A`\n"
        "  why:   it is not a whole .npy file of numbers\n"
        "  help:  save it with numpy.save\n"
    )


#: Arguments, and the whole of standard error.
WRONG: list[tuple[str, str]] = [
    (
        "run mm.weft",
        "error: sizes M, K, N of mm are not known\n" + INTERFACE + "  help:  add --size M=64 --size K=64 --size N=64, "
        "or arrays with --arg NAME=file.npy\n",
    ),
    ("run missing.weft", "error: cannot read missing.weft\n  why:   No such file or directory\n"),
    ("check missing.weft", "error: cannot read missing.weft\n  why:   No such file or directory\n"),
    ("run .", "error: cannot read .\n  why:   Is a directory\n"),
    (
        "run binary.weft",
        "error: binary.weft is not text\n  why:   it is not valid UTF-8\n"
        "  help:  pass a .weft file, or a model in a file named *.onnx\n",
    ),
    (
        "show empty.weft",
        "error: there is no definition in the text\n"
        "  why:   a program is one `def` or several\n"
        "  help:  write `def name(float(N) A) -> (B) { B(i) = A(i) }`\n",
    ),
    ("run mm.weft --def nn", "error: mm.weft does not define `nn`\n  why:   it defines mm\n"),
    ("run mm.weft --arg A", "error: cannot read --arg A\n  help:  write --arg NAME=VALUE\n"),
    ("run mm.weft --save =c.npy", "error: cannot read --save =c.npy\n  help:  write --save NAME=VALUE\n"),
    ("run mm.weft --arg Q=a.npy", "error: mm has no parameter `Q`\n" + INTERFACE),
    ("run mm.weft --size Q=3", "error: mm has no size `Q`\n" + INTERFACE),
    ("run mm.weft --size M=x", "error: --size M=x is not a whole number\n  help:  write --size M=64\n"),
    ("run mm.weft --size M=-1", "error: --size M=-1 is not a whole number\n  help:  write --size M=64\n"),
    ("run mm.weft --save D=d.npy", "error: mm has no output `D`\n" + INTERFACE),
    ("run mm.weft --arg A=no.npy", "error: cannot read no.npy for `A`\n  why:   No such file or directory\n"),
    ("run mm.weft --arg A=mm.weft", _unreadable("mm.weft")),
    ("run mm.weft --arg A=objects.npy", _unreadable("objects.npy")),
    ("run mm.weft --arg A=several.npz", _unreadable("several.npz")),
    ("run mm.weft --arg A=cut.npy", _unreadable("cut.npy")),
    (
        "run mm.weft --arg A=wide.npy --size N=2",
        "error: argument `A` must be float32, not float64\n"
        "  mm.weft:1       def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
        "                                    ^\n"
        "  why:   it was called with an array of float64\n"
        "  help:  convert it: A.astype(numpy.float32)\n",
    ),
    (
        "run mm.weft --arg A=a.npy --size N=2 --size K=7",
        "error: dimension 0 of B must be 3, got 7\n"
        "  mm.weft:1       def mm(float(M,K) A, float(K,N) B) -> (C) {\n"
        "                                                  ^\n"
        "  why:   dimension 1 of A says K = 3, and dimension 0 of B is declared as K\n",
    ),
    (
        "run mm.weft --arg A=a.npy --size N=2 --save C=no/c.npy",
        "error: cannot write no/c.npy\n  why:   No such file or directory\n",
    ),
    (
        "run mm.weft --size M=100000000 --size K=100000000 --size N=2",
        "error: cannot make a random `A` of shape (100000000, 100000000)\n"
        "  why:   it does not fit in memory\n"
        "  help:  give smaller sizes\n",
    ),
    ("run two.weft --arg a=x --size N=2", "error: --arg a=x is not a number\n  why:   it is float32 a\n"),
    ("run two.weft --arg S=2.5 --size N=2", "error: --arg S=2.5 is not a number\n  why:   it is int32 S\n"),
    ("run two.weft --arg b=maybe --size N=2", "error: --arg b=maybe is not true or false\n  why:   it is bool b\n"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[arguments for arguments, _ in WRONG])
def test_a_mistake_is_told_and_gives_1(arguments: str, message: str, capsys: Capture) -> None:
    assert weft(*arguments.split()) == 1
    assert capsys.readouterr().err == message


@pytest.mark.parametrize("arguments", ["", "frob", "run", "show mm.weft --stage frob", "demo --stages-of frob"])
def test_wrong_usage_gives_2(arguments: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        weft(*arguments.split())
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: weft")


def process(*arguments: str, out: int = subprocess.PIPE) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "weft", *arguments]
    return subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True, env=environment)


def test_python_m_weft(capsys: Capture) -> None:
    running = process("check", "bad.weft")
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out.splitlines()[-1], err) == (1, "2 problems", "")


def test_a_reader_that_goes_away_is_no_error() -> None:
    running = process("show", "mm.weft", "--stage", "asm", "--size", "M=64", "--size", "K=64", "--size", "N=64")
    assert running.stdout is not None
    running.stdout.close()
    assert running.stderr is not None
    assert running.stderr.read() == ""
    assert running.wait(60) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_the_output() -> None:
    with open("/dev/full", "w") as full:
        running = process("check", "mm.weft", out=full.fileno())
        _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (1, "error: cannot write the output\n  why:   No space left on device\n")


def test_demo_checks_a_dozen_kernels(capsys: Capture) -> None:
    assert weft("demo", "--stages-of", "transpose") == 0
    shown = capsys.readouterr().out
    for stage in ("tensor", "loops", "lowered", "llvm", "asm", "cuda"):
        assert f"--- transpose: {stage} " in shown
    assert shown.endswith("12 of 12 kernels match numpy in float64\n")
    assert "WRONG" not in shown


def test_machine_says_where_each_figure_comes_from(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("machine.json").write_text('{"name": "toy", "cores": 64, "vector_bits": 256}')
    monkeypatch.setenv("WEFT_MACHINE", "machine.json")
    assert weft("machine") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("toy\n  cores ")
    assert "256 bits, " in shown
    assert "given" in shown
    assert weft("machine", "--json") == 0
    assert '"cores": 64' in capsys.readouterr().out
    monkeypatch.setenv("WEFT_MACHINE", "nothing.json")
    assert weft("machine") == 1
    assert "cannot read the machine description nothing.json" in capsys.readouterr().err


def test_times_are_in_units_one_can_read() -> None:
    told = [format_seconds(s) for s in (3.21e-7, 4.5678e-5, 9.99e-4, 0.0123, 1.5, 4000.0, 0.0)]
    assert told == ["0.321 us", "45.7 us", "999 us", "12.3 ms", "1.5 s", "4000 s", "0 us"]


def help_of(command: str, capsys: Capture) -> str:
    with pytest.raises(SystemExit) as caught:
        weft(*command.split(), "--help")
    assert caught.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_of_its_own(command: str, capsys: Capture) -> None:
    told = help_of(command, capsys)
    assert told.startswith(f"usage: weft {command}")
    others = [c for c in COMMANDS if c != command and f"\nweft {c} " in told]
    assert others == []
    if command not in ("check", "demo", "cuda"):
        assert f"\nweft {command}" in told  # an example
    names_models = "ONNX" in told
    assert names_models == (command in ("run", "explain", "profile", "trace"))


def test_version(capsys: Capture) -> None:
    import weft as package

    with pytest.raises(SystemExit) as caught:
        weft("--version")
    assert (caught.value.code, capsys.readouterr().out) == (0, f"weft {package.__version__}\n")


def test_what_is_kept_can_be_seen_and_forgotten(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    assert weft("run", "mm.weft", "--size", "M=4", "--size", "K=3", "--size", "N=2") == 0
    capsys.readouterr()
    assert weft("cache") == 0
    assert re.fullmatch(
        rf"\d+ artifacts \(0\.\d MiB\) in {tmp_path}/cache, 1024 MiB at most\n", capsys.readouterr().out
    )
    assert weft("cache", "clear") == 0
    assert re.fullmatch(rf"[1-9]\d* artifacts \(0\.\d MiB\) removed from {tmp_path}/cache\n", capsys.readouterr().out)
    assert weft("cache", "show") == 0
    assert capsys.readouterr().out.startswith("0 artifacts (0.0 MiB) in ")
    monkeypatch.setenv("WEFT_CACHE", "off")
    assert weft("cache", "clear") == 0
    assert capsys.readouterr().out.startswith("no compiled code is kept")


def test_a_report_has_what_an_issue_needs(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    assert weft("report") == 0
    shown = capsys.readouterr().out
    assert re.match(r"weft \S+ \(sources [0-9a-f]{12}\)\n  Python 3\.", shown)
    assert re.search(r"\n  numpy \d", shown)
    assert "\nmachine:\n" in shown
    assert f"WEFT_CACHE_DIR={tmp_path}/cache" in shown
    assert "no faults of Weft's own are kept" in shown

    def fail(*_: object, **__: object) -> None:
        raise KeyError("planted")

    with monkeypatch.context() as broken:
        broken.setattr("weft.operators.stages.lower", fail)
        assert weft("run", "mm.weft", "--size", "M=5", "--size", "K=3", "--size", "N=2") == 1
    capsys.readouterr()
    monkeypatch.setenv("WEFT_MACHINE", "nothing.json")
    assert weft("report") == 0
    shown = capsys.readouterr().out
    assert f"  {last_faults()[0]}\n    KeyError: 'planted'\n" in shown
    assert "cannot read the machine description nothing.json" in shown
    assert weft("report", "--no-machine") == 0
    assert "machine:" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (FileNotFoundError(2, "No such file or directory", "/usr/bin/cc"), "/usr/bin/cc: No such file or directory"),
        (OSError(24, "Too many open files"), "Too many open files"),
        (OSError("strange"), "strange"),
    ],
)
def test_what_the_system_refuses_is_not_told_as_the_output(
    error: OSError, why: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(main_module._command("check"), "main", fail)
    assert weft("check", "mm.weft") == 1
    assert capsys.readouterr().err == f"error: the system refused something that is needed\n  why:   {why}\n"

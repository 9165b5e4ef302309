"""Groups compiled in processes beside this one, and what a second compilation finds."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from contextvars import copy_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.graph.builder import GraphBuilder, formula_program
from weft.graph.compile_graph import compile_graph
from weft.graph.evaluate import evaluate
from weft.graph.formulas import contraction, pointwise
from weft.graph.graph import Edge, shape_of
from weft.graph.groups import group_code, workers
from weft.graph.groups.compile_group import prepare_group
from weft.graph.groups.group_program import group_program
from weft.graph.groups.open_sizes import OpenSizes
from weft.graph.groups.partition import Group
from weft.graph.groups.price_program import REMEMBER, RUN_ALL, price_all, price_program
from weft.graph.groups.storage import Storage
from weft.graph.groups.workers import EARLY, Workers, early_workers
from weft.graph.run.arrays import NumpyArrays
from weft.graph.run.processor import CPU
from weft.ir.dtype import float32
from weft.ir.errors import UnsupportedError
from weft.runtime.store import Artifact

TASKS = [(str(n), n) for n in range(20)]


def square(n: int) -> int:
    return n * n


def refuse_odd(n: int) -> int:
    if n % 2:
        raise ValueError(f"{n} is odd")
    return os.getpid()


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(3), raising=False)


@pytest.mark.usefixtures("cores")
def test_every_task_is_answered_once_by_some_process() -> None:
    with Workers[int, int](len(TASKS)) as pool:
        made = sorted(pool.run(TASKS, square))
    assert sorted(made) == sorted((key, n * n) for key, n in TASKS)


@pytest.mark.usefixtures("cores")
def test_processes_that_were_started_early_are_taken() -> None:
    code = group_code.GroupCode(CPU, "net", OpenSizes())
    with early_workers(2, square):
        pool = EARLY.get()
        assert pool is not None
        assert len(pool._processes) == 1
        made = dict(code.run_all(TASKS[:4], refuse_odd))  # fewer than other processes would be started for
        assert sorted(made) == [str(n) for n in range(4)]
        assert code._workers is None
    assert EARLY.get() is None
    assert pool._forks is not None
    assert pool._forks.has_ended


def note(_: None) -> None:
    os.environ["NOTED"] = "yes"


def fail(_: None) -> None:
    raise KeyError("whatever")


def read_note(n: int) -> tuple[int, str]:
    return os.getpid(), os.environ.get("NOTED", "no")


@pytest.mark.usefixtures("cores")
def test_processes_do_something_before_their_first_task() -> None:
    with Workers[int, tuple[int, str]](len(TASKS), 1, note) as pool:
        for _ in range(2):
            made = dict(pool.run(TASKS, read_note))
            assert made.keys() == dict(TASKS).keys()
            assert {value[1] for value in made.values() if value[0] != os.getpid()} <= {"yes"}
    with Workers[int, int](len(TASKS), 1, fail) as pool:
        assert sorted(pool.run(TASKS, square)) == sorted((key, n * n) for key, n in TASKS)


def process_of(n: int) -> tuple[int, int]:
    """Its number, and that of who started it."""
    time.sleep(0.005)  # so that each gets something
    return os.getpid(), os.getppid()


def end_here(n: int) -> int:
    if "NOTED" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
    return n


def test_many_that_have_begun_do_all_and_this_process_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(5), raising=False)
    done: list[int] = []
    with Workers[int, Any](len(TASKS), 1, note) as pool:
        made = dict(pool.run(TASKS, process_of, [lambda: done.append(os.getpid())]))
        numbers, starters = {pid for pid, _ in made.values()}, {starter for _, starter in made.values()}
        assert os.getpid() not in numbers
        assert len(starters) == 1
        assert os.getpid() not in starters, "forked from this process"
        assert done == [os.getpid()]
        assert dict(pool.run(TASKS[:8], end_here)) == dict(TASKS[:8])  # where all have failed, somebody has to
    assert not [pid for pid in (*numbers, *starters) if Path(f"/proc/{pid}").exists()]
    with Workers[int, int](1) as pool:
        assert dict(pool.run(TASKS[:1], square, [lambda: done.append(0)])) == {"0": 0}
    assert 0 not in done  # nobody else works meanwhile


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize("first", [None, note])
def test_what_was_begun_is_told_when_it_is_asked_for(first: Any) -> None:
    with Workers[float, int](len(TASKS), 1, first) as pool:
        slow = [(f"slow {n}", 0.05) for n in range(8)]
        begun = [(f"begun {n}", 100 + n) for n in range(4)]
        order = []
        for key, _ in pool.run(slow, sleep_a_while, [lambda: pool.begin(begun, square)]):
            order.append(key)
        assert sorted(order) == [key for key, _ in slow], "what was only begun is told"
        assert dict(pool.run([*begun[:2], ("more", 3)], square)) == {"begun 0": 10000, "begun 1": 10201, "more": 9}
    with Workers[int, int](1) as pool:
        pool.begin(TASKS, square)  # there is nobody to begin with them
        assert dict(pool.run(TASKS, square)) == {key: n * n for key, n in TASKS}


def sleep_a_while(seconds: float) -> int:
    time.sleep(seconds)
    return 0


def test_processes_are_started_early_for_what_is_not_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from weft.graph.from_torch import early

    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    started: list[int] = []
    monkeypatch.setattr(early, "early_workers", lambda count, _: started.append(count))
    model = torch.nn.Sequential(*(torch.nn.Linear(n, n + 1) for n in range(1, 5)))
    early.workers_for(model, (torch.ones(1),))
    assert not started  # on a CPU
    monkeypatch.setattr(early, "is_on_gpu", lambda _: True)
    for net in (model, model, model[:2], torch.relu):
        early.workers_for(net, (torch.ones(1),))
    assert started == [12]


@pytest.mark.usefixtures("cores")
def test_refusals_are_told_as_this_process_raises_them_and_others_do_the_rest() -> None:
    with Workers[int, int](len(TASKS)) as pool:
        made = dict(pool.run(TASKS, refuse_odd))
    assert [str(made[key]) for key, n in TASKS if n % 2] == [f"{n} is odd" for _, n in TASKS if n % 2]
    assert all(isinstance(made[key], int) for key, n in TASKS if n % 2 == 0)


def refuse_and_tell(n: int) -> int:
    raise UnsupportedError(f"{os.getpid()}", why=f"{n} is refused", help="nothing")


@pytest.mark.usefixtures("cores")
def test_refusals_of_other_processes_are_not_tried_again() -> None:
    with Workers[int, int](len(TASKS)) as pool:
        made = dict(pool.run(TASKS, refuse_and_tell))
    errors = [made[key] for key, _ in TASKS]
    assert all(isinstance(e, UnsupportedError) and e.why == f"{n} is refused" for n, e in enumerate(errors))
    assert len({e.what for e in errors if isinstance(e, UnsupportedError)}) > 1, "all were refused by this process"


@pytest.mark.usefixtures("cores")
def test_a_worker_that_dies_loses_nothing() -> None:
    with Workers[int, int](len(TASKS)) as pool:
        for process in pool._processes:
            process.kill()
        made = dict(pool.run(TASKS, square))
    assert made == {key: n * n for key, n in TASKS}


def test_few_tasks_start_no_process() -> None:
    with Workers[int, int](2) as pool:
        assert not pool._processes


_INTERRUPTED = """
import os, threading, signal, time
from weft.graph.groups import workers
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started this may have it ignored
os.sched_getaffinity = lambda _: range(2)
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    with workers.Workers(8) as pool:
        for key, made in pool.run([(str(n), 30.0) for n in range(8)], time.sleep):
            pass
except KeyboardInterrupt:
    print("interrupted", all(p.poll() is not None for p in pool._processes))
"""


def test_ctrl_c_ends_all_at_once() -> None:
    start = time.monotonic()
    run = subprocess.run([sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.split() == ["interrupted", "True"]
    assert time.monotonic() - start < 20


def test_types_are_the_same_objects_after_a_pipe() -> None:
    assert pickle.loads(pickle.dumps(float32)) is float32
    assert pickle.loads(pickle.dumps(float32.with_lanes(8))) is float32.with_lanes(8)


@pytest.mark.usefixtures("cores")
def test_groups_compiled_by_workers_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WORTH_IT", 2)
    monkeypatch.setenv("WEFT_CACHE", "off")
    g, rng = GraphBuilder("net"), np.random.default_rng(0)
    x = h = g.input("x", "float32", (6, 8))
    for size in (8, 12, 16, 8):
        width = g.edges[h].shape[1]
        h = g.formula("linear", [h, g.constant("w", rng.standard_normal((size, width), "f"))], contraction.linear)
        h = g.formula("relu", [h], pointwise.same, "relu")
    graph, array = g.finish([h]), rng.standard_normal((6, 8), "f")
    [made] = compile_graph(graph).executable.run([array])
    assert x == graph.inputs[0]
    assert np.allclose(made, evaluate(graph, [array], wide=True)[0], atol=1e-4)


def test_a_second_compilation_compiles_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    g = GraphBuilder("net")
    graph = g.finish([g.formula("relu", [g.input("x", "float32", (5, 7))], pointwise.same, "relu")])
    compile_graph(graph)

    def refuse(task: group_code.Task) -> Artifact:
        raise AssertionError("compiled again")

    monkeypatch.setattr(group_code, "compile_task", refuse)
    array = np.linspace(-1, 1, 35, dtype="f").reshape(5, 7)
    assert np.array_equal(compile_graph(graph).executable.run([array])[0], np.maximum(array, 0))


def test_prices_that_were_found_at_once_are_not_found_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    edges = [Edge("a", float32, (4, 5)), Edge("b", float32, (5, 6))]
    wanted = [(formula_program("p", edges, contraction.matmul), frozenset({"b"}))] * 2
    asked: list[str] = []

    def run_all(tasks: Any, _fn: Any) -> Any:
        asked.extend(key for key, _ in tasks)
        return [(key, 1.5) for key, _ in tasks]

    def prices() -> list[float]:
        REMEMBER.set(OpenSizes().price)
        RUN_ALL.set(run_all)
        price_all(CPU, wanted)
        price_all(CPU, wanted)
        return [price_program(CPU, *one) for one in wanted]

    assert copy_context().run(prices) == [1.5, 1.5]
    assert len(asked) == 1


def product(rows: int, columns: int, depth: int) -> Any:
    """Products of matrices of these sizes, as a group before it is compiled."""
    g = GraphBuilder("net")
    x, w = g.input("x", "float32", (rows, depth)), g.input("w", "float32", (depth, columns))
    graph = g.finish([g.formula("mm", [x, w], contraction.matmul)])
    storage = Storage(graph)
    (group,) = storage.partition.items
    assert isinstance(group, Group)
    program = group_program(graph, group.members, storage.outputs(group), storage.source, group.name)
    return prepare_group(graph, storage, program, NumpyArrays())


def test_there_is_no_code_of_what_is_expected_to_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    code, slow, quick = group_code.GroupCode(CPU, "net", OpenSizes()), product(64, 64, 64), product(8, 8, 8)
    made: list[str] = []
    artifact_of = group_code.artifact_of
    monkeypatch.setattr(group_code, "artifact_of", lambda *given: made.append("code") or artifact_of(*given))
    code.prepare([slow, quick], {slow.key: 0.0, quick.key: 1.0})
    assert made == ["code"]
    assert (code.is_too_slow(slow), code.is_too_slow(quick)) == (True, False)
    expected = code.expected(slow)
    assert expected > 0
    assert code.load(slow).expected == expected  # asked for nevertheless
    assert made == ["code", "code"]


def task_is_of_here(task: group_code.Task) -> Artifact:
    made = group_code.compile_task(task)
    return made._replace(metadata={**made.metadata, "process": os.getpid()})


@pytest.mark.usefixtures("cores")
def test_what_takes_too_long_is_told_by_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was done again here: an answer without code could not go through a pipe."""
    code = group_code.GroupCode(CPU, "net", OpenSizes())
    tasks = [(str(n), code._task(product(n, n, n))._replace(limit=0.0)) for n in range(4, 12)]
    with Workers[Any, Artifact](len(tasks), 1, note) as pool:
        monkeypatch.setattr(pool, "_is_behind", True)
        made = dict(pool.run(tasks, task_is_of_here))
    assert {key for key, artifact in made.items() if not artifact.blobs} == made.keys()
    assert os.getpid() not in {artifact.metadata["process"] for artifact in made.values()}


def test_who_waits_hears_of_each_that_is_compiled() -> None:
    code, groups = group_code.GroupCode(CPU, "net", OpenSizes()), [product(4, n, 4) for n in (4, 5, 6)]
    ready: list[int] = []
    code.prepare(groups, each=lambda: ready.append(sum(map(code.is_ready, groups))))
    assert ready == [1, 2, 3]


def test_products_of_few_steps_are_compiled_first(monkeypatch: pytest.MonkeyPatch) -> None:
    code = group_code.GroupCode(CPU, "net", OpenSizes())
    first: list[tuple[int, ...]] = []

    def run_all(tasks: Any, *_: Any) -> Any:
        first.extend(shape_of(task.program.inputs[0].shape) for _, task in tasks)
        return ()

    monkeypatch.setattr(code, "run_all", run_all)
    code.prepare([product(32, 32, 128), product(256, 64, 16), product(32, 64, 32)])
    assert first == [(256, 16), (32, 32), (32, 128)]

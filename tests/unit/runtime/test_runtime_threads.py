"""Parallel loops cover their range once, whoever calls, and survive forks and changes of the thread count."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from weft.ir.errors import ArgumentError
from weft.runtime import threads
from weft.runtime.native import load_native

LOOPS = """
declare i32 @weft_parallel_for(ptr, ptr, i64)

define i32 @count(ptr %data, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %at = getelementptr i32, ptr %data, i64 %i
  %old = atomicrmw add ptr %at, i32 1 seq_cst
  %next = add i64 %i, 1
  br label %loop
done:
  ret i32 0
}
define i32 @fail(ptr %data, i64 %begin, i64 %end) {
  %has = icmp sle i64 %begin, 77
  %upto = icmp sgt i64 %end, 77
  %hit = and i1 %has, %upto
  %status = select i1 %hit, i32 5, i32 0
  ret i32 %status
}
define i32 @measure(ptr %data, i64 %begin, i64 %end) {
  %length = sub i64 %end, %begin
  %short = trunc i64 %length to i32
  %at = getelementptr i32, ptr %data, i64 %begin
  store i32 %short, ptr %at
  ret i32 0
}
define i32 @nest(ptr %data, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %offset = mul i64 %i, 100
  %at = getelementptr i32, ptr %data, i64 %offset
  %s = call i32 @weft_parallel_for(ptr @count, ptr %at, i64 100)
  %next = add i64 %i, 1
  br label %loop
done:
  ret i32 0
}
define i32 @run(ptr %fn, ptr %data, i64 %n) {
  %s = call i32 @weft_parallel_for(ptr %fn, ptr %data, i64 %n)
  ret i32 %s
}
"""
_loaded = []


def loops():
    if not _loaded:
        _loaded.append(load_native(LOOPS, {"weft_parallel_for": threads.parallel_for_address()}))
    code = _loaded[0]
    run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(code.address("run"))

    def call(name: str, data: np.ndarray, n: int) -> int:
        return run(code.address(name), data.ctypes.data, n)

    return call


@pytest.fixture(autouse=True)
def _restore():
    yield
    with threads._lock:
        threads._state.chosen = None
        threads._publish() if threads._state.code else None


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 64, 1000, 12345])
def test_every_index_once(count, n):
    call = loops()
    threads.set_num_threads(count)
    data = np.zeros(n + 1, np.int32)
    assert call("count", data, n) == 0
    assert (data[:n] == 1).all()
    assert data[n] == 0


@pytest.mark.parametrize(("n", "chunk"), [(3, 1), (22, 5), (100, 25), (1600, 400)])
def test_chunks_begin_large_and_end_with_single_iterations(n, chunk):
    """So that threads go on where they were, and the last of them are shared out evenly."""
    call = loops()
    threads.set_num_threads(2)
    data = np.zeros(n, np.int32)
    assert call("measure", data, n) == 0
    assert data.sum() == n
    assert data.max() == chunk
    assert (data == 1).sum() >= 3


def test_threads_begin_with_the_same_share_in_every_loop():
    """So that a thread finds in its caches what it wrote in the loop before."""
    loops()("count", np.zeros(1, np.int32), 1)
    threads.set_num_threads(2)
    firsts: dict[int, list[int]] = {}

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    def note(_data, begin, _end):
        firsts.setdefault(threading.get_ident(), []).append(begin)
        time.sleep(0.001)
        return 0

    run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    parallel_for = run(threads.parallel_for_address())
    shared = 0
    for _ in range(200):
        firsts.clear()
        assert parallel_for(ctypes.cast(note, ctypes.c_void_p), None, 16) == 0
        if len(firsts) == 2:  # else the other thread was late, and this one did all
            assert firsts.pop(threading.get_ident())[0] == 0
            ((other, *_),) = firsts.values()
            assert other >= 8
            shared += 1
        if shared == 5:
            return


def test_negative_range_is_empty():
    assert loops()("count", np.zeros(1, np.int32), -3) == 0


def test_status_comes_back():
    threads.set_num_threads(4)
    assert loops()("fail", np.zeros(1, np.int32), 1000) == 5
    assert loops()("fail", np.zeros(1, np.int32), 70) == 0


def test_many_short_jobs():
    """Gate and tickets: no job may be lost, repeated, or seen by a worker of the job before."""
    call = loops()
    threads.set_num_threads(3)
    data = np.zeros(8, np.int32)
    for _ in range(20000):
        call("count", data, 8)
    assert (data == 20000).all()


def test_nested_loops_run_inside():
    threads.set_num_threads(4)
    data = np.zeros(100 * 50, np.int32)
    assert loops()("nest", data, 50) == 0
    assert (data == 1).all()


def test_several_callers_and_changing_counts():
    call = loops()
    arrays = [np.zeros(500, np.int32) for _ in range(4)]

    def caller(data):
        for _ in range(300):
            assert call("count", data, 500) == 0

    callers = [threading.Thread(target=caller, args=(a,)) for a in arrays]
    for c in callers:
        c.start()
    for i in range(200):
        threads.set_num_threads(1 + i % 5)
    for c in callers:
        c.join()
    assert all((a == 300).all() for a in arrays)


def run_script(body: str, **env: str) -> str:
    """A fresh process with `loops` at hand."""
    here = os.path.dirname(__file__)
    script = f"import sys; sys.path.insert(0, {here!r})\n" + textwrap.dedent(body)
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env={**os.environ, **env}
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


FORK = """
import os, numpy as np
{first}
from test_runtime_threads import loops, threads
call = loops()
threads.set_num_threads(3)
data = np.zeros(1000, np.int32)
for _ in range(50): call("count", data, 1000)
print(threads.thread_runtime())
pid = os.fork()
if pid == 0:
    for _ in range(50): call("count", data, 1000)
    print(threads.thread_runtime(), flush=True)
    os._exit(0 if (data == 100).all() else 1)
assert os.waitpid(pid, 0)[1] == 0
for _ in range(50): call("count", data, 1000)
assert (data == 100).all()
"""


def test_fork_with_our_pool():
    assert run_script(FORK.format(first="")).split() == ["pool", "pool"]


def test_fork_with_openmp():
    pytest.importorskip("torch")
    before, after = run_script(FORK.format(first="import torch")).split()
    assert "omp" in before
    assert after == "pool"


def test_moves_to_openmp_when_it_appears_and_follows_its_count():
    pytest.importorskip("torch")
    out = run_script(
        """
        import numpy as np
        from test_runtime_threads import LOOPS, loops, threads
        call = loops()
        data = np.zeros(100, np.int32)
        call("count", data, 100)
        print(threads.thread_runtime())
        import torch
        torch.set_num_threads(1)
        threads.parallel_for_address()
        print(threads.thread_runtime())
        before = len(__import__("os").listdir("/proc/self/task"))
        call("count", data, 100)
        assert len(__import__("os").listdir("/proc/self/task")) == before, "one thread was asked for"
        threads.set_num_threads(3)
        call("count", data, 100)
        assert len(__import__("os").listdir("/proc/self/task")) >= before + 1
        assert (data == 3).all()
        """,
        OMP_NUM_THREADS="2",
    )
    first, second = out.split()
    assert first == "pool"
    assert "omp" in second


def test_leaves_openmp_alone_while_its_threads_are_late():
    """A runtime that ends a loop 5 ms after its last chunk is asked again only after a pause, longer each time."""
    out = run_script(
        """
        import ctypes, time
        import numpy as np
        from test_runtime_threads import loops, threads
        call, data, delays = loops(), np.zeros(100, np.int32), []
        work = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        @ctypes.CFUNCTYPE(None, work, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        def parallel(work, job, size, flags):
            work(job)
            delays.append(delay)
            time.sleep(delay)
        nothing = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)
        threads.set_num_threads(2)
        call("count", data, 100)
        for name, function in (("gomp_parallel", parallel), ("omp_in_parallel", nothing),
                               ("omp_get_thread_num", nothing)):
            at = threads._state.code.address(name)
            ctypes.c_void_p.from_address(at).value = ctypes.cast(function, ctypes.c_void_p).value
        threads._word("runtime").value = 1
        pause = ctypes.cast(threads._state.code.address("lateness"), ctypes.POINTER(ctypes.c_int64))
        def run(seconds):
            global delay
            delay = seconds
            call("count", data, 100)
            return pause[0] / 1e9
        print(run(0.005))
        pause[1] += 10**12  # however long this thread waits for a core
        print(run(0.005), len(delays))
        pause[1] = 1  # the pause is over
        print(run(0.005), len(delays))
        for _ in range(100):  # in time, as soon as nobody takes this thread's core away meanwhile
            pause[1] = 1
            if run(0.0) == 0.0:
                break
        print(pause[0], pause[1])
        assert (data == data[0]).all()
        """
    )
    assert out.split() == ["0.02", "0.02", "1", "0.04", "2", "0", "0"]


TEAM = """
import ctypes, os, threading, time
import numpy as np
import torch
from test_runtime_threads import LOOPS, loops, threads
torch.set_num_threads(3)
threads.set_num_threads(3)
call = loops()
threads._word("late").value = 10**12  # on a busy machine, teams would be left alone for a while
inside = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
with_team = ctypes.CFUNCTYPE(ctypes.c_int32, inside, ctypes.c_void_p)(threads.thread_function("weft_with_team"))
end_team = ctypes.CFUNCTYPE(None)(threads.thread_function("weft_end_team"))
is_parallel = ctypes.CDLL(threads.thread_runtime()).omp_in_parallel
def size():
    return ctypes.c_int64.from_address(threads._state.code.address("team_state")).value
def run_team(fn):
    def body(_):
        try:
            return fn() or 0
        except BaseException as error:
            found.append(error)
            return -9
    found = []
    status = with_team(inside(body), None)
    if found:
        raise found[0]
    return status
data = np.zeros(1000, np.int32)
def count(times, data=data):
    for _ in range(times):
        assert call("count", data, len(data)) == 0
"""


def run_team_script(body: str) -> str:
    pytest.importorskip("torch")
    return run_script(TEAM + textwrap.dedent(body))


def test_a_team_serves_loop_after_loop():
    """From the third loop on, until its call ends; statuses and loops inside loops are as ever."""
    run_team_script(
        """
        for turn in range(10):
            def steps():
                count(2)
                assert (size(), is_parallel()) == (0, 0)
                count(20)
                assert (size(), is_parallel()) == (3, 1)
                assert call("fail", data, 1000) == 5 and call("fail", data, 70) == 0
                nested = np.zeros(5000, np.int32)
                assert call("nest", nested, 50) == 0 and (nested == 1).all()
                return 7
            assert run_team(steps) == 7
            assert (size(), is_parallel()) == (0, 0)
        assert (data == 10 * 22).all()
        """
    )


def test_a_team_ends_before_a_library_starts_threads():
    run_team_script(
        """
        a = torch.rand(300, 300)
        right = a @ a
        def steps():
            for _ in range(20):
                count(5)
                assert size() == 3
                end_team()
                assert (size(), is_parallel()) == (0, 0)
                assert torch.equal(a @ a, right)
        run_team(steps)
        assert (data == 100).all()
        """
    )


def test_teams_in_teams_and_of_several_callers():
    run_team_script(
        """
        assert run_team(lambda: count(5) or run_team(lambda: count(5)) or count(5)) == 0
        assert (data == 15).all() and size() == 0
        arrays = [np.zeros(500, np.int32) for _ in range(4)]
        def caller(array):
            for _ in range(10):
                assert run_team(lambda: count(5, array)) == 0
        callers = [threading.Thread(target=caller, args=(array,)) for array in arrays]
        for c in callers:
            c.start()
        for i in range(100):
            threads.set_num_threads(1 + i % 4)
        for c in callers:
            c.join()
        assert all((array == 50).all() for array in arrays)
        """
    )


def test_a_team_goes_on_after_a_pause_and_a_fork():
    """Its threads fall asleep in a long pause; a child, which has none of them, uses our own pool."""
    run_team_script(
        """
        def steps():
            for _ in range(5):
                count(4)
                time.sleep(0.01)
            pid = os.fork()
            if pid == 0:
                count(4)
                same = run_team(lambda: count(4)) == 0 and (data == 28).all() and threads.thread_runtime() == "pool"
                os._exit(0 if same else 1)
            assert os.waitpid(pid, 0)[1] == 0
            count(4)
        run_team(steps)
        run_team(lambda: count(4))
        assert (data == 28).all()
        """
    )


def test_default_count_from_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5,2")
    assert threads.get_num_threads() == 5
    monkeypatch.setenv("WEFT_NUM_THREADS", "3")
    assert threads.get_num_threads() == 3
    monkeypatch.setenv("WEFT_NUM_THREADS", "many")
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert threads.get_num_threads() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("bad", [0, -1, 2.5, "4", True])
def test_wrong_counts(bad):
    with pytest.raises(ArgumentError, match="threads"):
        threads.set_num_threads(bad)


def test_sleeping_workers_wake():
    import time

    call = loops()
    threads.set_num_threads(4)
    data = np.zeros(64, np.int32)
    for i in range(20):
        call("count", data, 64)
        time.sleep(0.003)
        assert (data == i + 1).all()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core only")
def test_a_worker_leaves_the_callers_core():
    run_script(
        """
        import os, time
        import numpy as np
        from test_runtime_threads import loops, threads
        call = loops()
        threads.set_num_threads(2)
        data = np.zeros(1000, np.int32)
        mine = set(os.listdir("/proc/self/task"))
        call("count", data, 1000)
        worker = int((set(os.listdir("/proc/self/task")) - mine).pop())
        cores = sorted(os.sched_getaffinity(0))

        def leaves(core):
            os.sched_setaffinity(worker, {core})
            for _ in range(20):  # the caller is on that core now and then
                call("count", data, 1000)
                time.sleep(0.002)
            return os.sched_getaffinity(worker) == set(cores) - {core}

        end = time.monotonic() + 40
        while not any(leaves(core) for core in cores[:8]):
            assert time.monotonic() < end
        """
    )


@pytest.mark.parametrize(("text", "count"), [("9" * 5000, threads.MAX_THREADS), ("0003", 3), ("2,4", 2)])
def test_numbers_of_threads_of_any_length(monkeypatch: pytest.MonkeyPatch, text: str, count: int) -> None:
    monkeypatch.setenv("WEFT_NUM_THREADS", text)
    assert threads._default_threads() == count

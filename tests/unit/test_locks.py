"""What a forked child finds: no lock that a thread of its parent held, no thread's work half done."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "weft"
MAKERS = {"new_lock", "new_rlock", "new_condition"}

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")


def run(script: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "WEFT_CACHE": "off"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules_with_locks() -> list[str]:
    """Modules whose source makes a lock, by name."""
    named = []
    for path in sorted(PACKAGE.rglob("*.py")):
        calls = [n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        if any(isinstance(f, ast.Name) and f.id in MAKERS for f in calls):
            named.append(".".join(("weft", *path.relative_to(PACKAGE).with_suffix("").parts)))
    return named


def test_locks_are_in_many_modules() -> None:
    assert {"weft.operators.callee", "weft.runtime.store", "weft.target.cpu.llvm"} <= set(modules_with_locks())
    for name in modules_with_locks():
        importlib.import_module(name)


HOLD_ALL = """
import functools, importlib, os, sys, threading
import numpy as np
import weft
from weft import locks

for name in sys.argv[1:]:
    importlib.import_module(name)
mm = weft.define("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
mm(np.ones((2, 3), "f"), np.ones((3, 4), "f"))
lock, rlock, condition = locks.new_lock(), locks.new_rlock(), locks.new_condition()
every = [one for one in locks._free_in_child if one not in locks._held] + locks._locks_of_properties()
held, forked = threading.Event(), threading.Event()


def hold():
    for one in every:
        one.acquire()
    held.set()
    forked.wait()


threading.Thread(target=hold, daemon=True).start()
held.wait()
pid = os.fork()
if pid == 0:
    stuck = [one for one in every if not one.acquire(timeout=0.2)]
    for one in every:
        one.release()
    right = mm(np.ones((5, 6), "f"), np.ones((6, 7), "f"))[0, 0] == 6
    os._exit(len(stuck) + (0 if right else 100))
forked.set()
print(len(every), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_child_finds_every_lock_free_that_another_thread_held() -> None:
    count, code = map(int, run(HOLD_ALL, *modules_with_locks()).split())
    assert count > 8
    assert code == 0


COMPILE = """
import faulthandler, os, threading, time
import numpy as np
import weft

mm = weft.define("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")


def compile_on(seed):
    sizes = np.random.default_rng(seed)
    while True:
        m, k, n = sizes.integers(1, 60, 3)
        mm(np.ones((m, k), "f"), np.ones((k, n), "f"))


for seed in range(2):
    threading.Thread(target=compile_on, args=[seed], daemon=True).start()
codes = []
for i in range(6):
    time.sleep(0.05 * i)
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(60, exit=True)
        c = mm(np.ones((61 + i, 70), "f"), np.ones((70, 3), "f"))
        os._exit(0 if (c == 70).all() else 7)
    codes.append(os.waitpid(pid, 0)[1])
print(codes)
os._exit(0) if not any(codes) else os._exit(1)
"""


def test_a_child_compiles_while_threads_of_its_parent_did() -> None:
    """The first fork is amid the imports of all that compiles."""
    run(COMPILE)


WORK = """
import os, threading
from weft.graph.run.background import BACKGROUND

gate, seen = threading.Event(), []
BACKGROUND.submit(gate.wait)
BACKGROUND.submit(lambda: seen.append("parent's"))
pid = os.fork()
if pid == 0:
    BACKGROUND.submit(lambda: seen.append("child's"))
    BACKGROUND.wait()
    os._exit(seen != ["child's"])
gate.set()
BACKGROUND.wait()
assert seen == ["parent's"]
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_work_in_the_background_is_done_by_the_process_that_asked() -> None:
    run(WORK)


OWN = """
import os
from weft import locks

lock = locks.new_rlock()
with lock:
    pid = os.fork()
if pid == 0:
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_thread_that_forks_under_its_own_lock_goes_on() -> None:
    run(OWN)

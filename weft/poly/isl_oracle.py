"""The same question as `solve`, put to isl: a process of its own, asked over pipes, given up on when it is late.

isl has no usable time limit and may abort; neither reaches the caller, who then gets `UNKNOWN`. So does one
without islpy.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import selectors
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from weft.interpreters import python_command, python_environment
from weft.ir.solve import UNKNOWN, Answer, Clause, Form
from weft.locks import in_child, new_lock

_START_SECONDS = 10.0


def ask_isl(
    equations: Iterable[Form], inequalities: Iterable[Form], clauses: Sequence[Clause] = (), seconds: float = 2.0
) -> Answer:
    """A point, None where isl proves that there is none, `UNKNOWN` where it does not answer within ``seconds``."""
    text, names = set_text(list(equations), list(inequalities), clauses)
    reply = ask_worker(text, seconds)
    if not isinstance(reply, dict):
        return UNKNOWN
    values = reply.get("point")
    return None if values is None else dict(zip(names, values))


def ask_worker(question: Any, seconds: float) -> Any:
    """The worker's reply to ``question`` (see `isl_worker`), or None where there is none in time."""
    with _lock:
        return _worker.ask(question, seconds)


def is_absent() -> bool:
    """Whether there is no isl to ask, as islpy is not installed."""
    return _worker.is_absent and importlib.util.find_spec("islpy") is None


def set_text(
    equations: Sequence[Form], inequalities: Sequence[Form], clauses: Sequence[Clause]
) -> tuple[str, list[str]]:
    """The constraints in isl's notation, and the names its dimensions stand for."""
    literals = [(f, True) for f in equations] + [(f, False) for f in inequalities]
    every = [f for f, _ in literals] + [f for clause in clauses for a in clause for f, _ in a]
    names = list(dict.fromkeys(n for f in every for n in f if n))
    place = {n: f"x{i}" for i, n in enumerate(names)}

    def one(form: Form, is_equation: bool) -> str:
        terms = [f"{c}{place[n]}" if n else str(c) for n, c in form.items()]
        return f"{' + '.join(terms) or '0'} {'=' if is_equation else '>='} 0"

    parts = [one(*literal) for literal in literals]
    for clause in clauses:
        choices = [" and ".join(one(*literal) for literal in a) or "0 = 0" for a in clause]
        parts.append("(" + (" or ".join(f"({c})" for c in choices) or "1 = 0") + ")")
    return f"{{ [{', '.join(place.values())}] : {' and '.join(parts) or '0 = 0'} }}", names


class _Worker:
    """The process; started when first needed and again after one was given up."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.is_absent = False

    def ask(self, question: Any, seconds: float) -> Any:
        try:
            if (self.process is None or self.process.poll() is not None) and not self.start():
                return None
            process = self.process
            assert process is not None
            assert process.stdin is not None
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            return self.read(seconds)
        except OSError:
            self.stop()
            return None

    def start(self) -> bool:
        if self.is_absent or not sys.executable:
            return False
        self.process = subprocess.Popen(
            python_command("from weft.poly.isl_worker import serve; serve()"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=python_environment(),
        )
        if self.read(_START_SECONDS) != "ready":
            self.stop()
            self.is_absent = True
            return False
        return True

    def read(self, seconds: float) -> Any:
        assert self.process is not None
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                self.stop()
                return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.communicate()


_worker = _Worker()
_lock = new_lock()
atexit.register(_worker.stop)


def _forget_worker() -> None:
    """A forked child must not share the pipes of its parent."""
    _worker.process = None


in_child(_forget_worker)

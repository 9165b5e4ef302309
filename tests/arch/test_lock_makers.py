"""Locks are made by `weft.locks` alone, so that none is forgotten where a process forks."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "weft"
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "locks.py"]

#: What waits for other threads. Queues and events that nobody but their maker sees may be in a function.
KINDS = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "allocate_lock"}
MODULES = {"threading", "_thread", "multiprocessing"}


def locks_made(text: str) -> list[int]:
    """Lines that make or import a lock of Python's, or ask to be told of forks."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            whole = node.value.id, node.attr
            is_lock = whole[0] in MODULES and whole[1] in KINDS
            if is_lock or whole == ("os", "register_at_fork"):
                found.append(node.lineno)
        if isinstance(node, ast.ImportFrom) and node.module in MODULES | {"os"}:
            found += [node.lineno for a in node.names if a.name in KINDS | {"register_at_fork"}]
    return found


def test_only_one_module_makes_locks() -> None:
    wrong = [f"{path}:{line}" for path in FILES for line in locks_made(path.read_text())]
    assert not wrong, f"{wrong}: use new_lock, new_rlock, new_condition or in_child of weft.locks"


@pytest.mark.parametrize(
    "text",
    [
        "import threading\nlock = threading.Lock()",
        "import threading\nclass A:\n    def __init__(self):\n        self.lock = threading.RLock()",
        "from threading import Condition",
        "import os\nos.register_at_fork(after_in_child=print)",
    ],
)
def test_locks_of_pythons_are_found(text: str) -> None:
    assert locks_made(text)

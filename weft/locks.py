"""All locks of the package, and what becomes of them where a process forks.

A child has the thread that forked and no other, so a lock that another thread held would stay locked for ever: locks
are free again there (`new_lock`). What is under one may be half done, which is all right for tables that are filled
entry by entry. Where it is not, as in LLVM, a fork waits until nobody holds the lock (`hold_while_forking`), and until
no other thread is importing modules of ours, or of what we import: the locks of imports are Python's own.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

#: Seconds that a fork waits; after that, the child had better not need what others are at.
_PATIENCE = 30.0
#: Seconds between two looks at what is being imported.
_LOOK = 0.001
#: Packages that are imported when they are first needed, by whichever thread that is.
_IMPORTED = {"weft", "lark", "llvmlite", "ml_dtypes", "numpy"}


class Lock(AbstractContextManager[bool], Protocol):
    """As `threading` has it."""

    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool: ...

    def release(self) -> None: ...


_free_in_child: weakref.WeakSet[Any] = weakref.WeakSet()
_held: list[Lock] = []
_taken: list[Lock] = []
_in_child: list[Callable[[], object]] = []


def new_lock() -> Lock:
    """A `threading.Lock`."""
    lock: Lock = threading.Lock()
    _free_in_child.add(lock)
    return lock


def new_rlock() -> Lock:
    """A `threading.RLock`."""
    lock: Lock = threading.RLock()
    _free_in_child.add(lock)
    return lock


def new_condition() -> threading.Condition:
    """A `threading.Condition`, for which nobody waits in a child."""
    condition = threading.Condition()
    _free_in_child.add(condition)
    return condition


def hold_while_forking(lock: Lock) -> Lock:
    """Lets forks wait until no other thread holds ``lock``; whoever holds it must wait for no other lock."""
    _held.append(lock)
    return lock


def in_child(work: Callable[[], object]) -> Callable[[], object]:
    """Does ``work`` in every child, when its locks are free again."""
    _in_child.append(work)
    return work


def _before_fork() -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        left = max(0.0, end - time.monotonic())
        _taken[:] = [lock for lock in _held if lock.acquire(timeout=left)]
        if not left or not _others_import():
            return
        _after_fork()  # whoever imports may need them
        time.sleep(_LOOK)


def _others_import() -> bool:
    """Whether another thread is amid an import of ours."""
    running = getattr(importlib._bootstrap, "_module_locks", {})
    locks = [ref() for name, ref in [*running.items()] if name.partition(".")[0] in _IMPORTED]
    return any(getattr(lock, "owner", None) not in (None, threading.get_ident()) for lock in locks)


def _after_fork() -> None:
    while _taken:
        _taken.pop().release()


def _after_fork_in_child() -> None:
    held = [lock for lock in _held if lock not in _taken]
    _after_fork()
    for lock in (*_free_in_child, *held, *_locks_of_properties()):
        _set_free(lock)
    for work in _in_child:
        work()


def _set_free(lock: Any) -> None:
    is_owned = getattr(lock, "_is_owned", None)
    if isinstance(lock, threading.Condition) or is_owned is None or not is_owned():  # the thread that forked goes on
        lock._at_fork_reinit()  # as `threading`, `logging` and `concurrent.futures` do


def _locks_of_properties() -> list[Any]:
    """Those of `cached_property`, which had one until Python 3.12."""
    if sys.version_info >= (3, 12):
        return []
    modules = [module for name, module in [*sys.modules.items()] if name.partition(".")[0] == "weft"]
    classes = {value for module in modules for value in [*vars(module).values()] if isinstance(value, type)}
    found = [value for cls in classes for value in vars(cls).values() if isinstance(value, functools.cached_property)]
    return [lock for value in found if (lock := getattr(value, "lock", None)) is not None]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)

"""While a thread traces a model: what torch has one of for all threads is changed for that thread alone.

Whether models are traced, what torch's developers are told, and what torch prints are variables of the process. Others
who compute meanwhile must see and hear what they would without us, and all is as before in the end, in whatever order
threads begin and end.
"""

from __future__ import annotations

import builtins
import contextlib
import logging
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from weft.locks import new_lock, new_rlock

#: Modules of torch that log what they cannot trace.
TRACERS = ("_subclasses.fake_tensor", "fx.experimental.symbolic_shapes", "_export.non_strict_utils")

#: torch's tracers have one state for all threads: ours take turns.
_tracing = new_rlock()
_here = threading.local()


@contextlib.contextmanager
def alone_while_tracing() -> Iterator[None]:
    """No other thread of ours traces meanwhile, and nothing is told to torch's own developers: a failure comes as an
    exception besides."""
    before = is_tracing()
    with _tracing, silent(*TRACERS), _untold():
        _here.is_tracing = True
        try:
            yield
        finally:
            _here.is_tracing = before


def is_tracing() -> bool:
    """Whether this thread traces a model: what that calls is a part of it."""
    return getattr(_here, "is_tracing", False)


class _WhileTracing:
    """In place of a pattern in the filters of `warnings`, which all threads share: matches in threads that trace."""

    def __init__(self, pattern: str = "") -> None:
        self._pattern = re.compile(pattern)

    def match(self, text: str) -> bool:
        return is_tracing() and self._pattern.match(text) is not None


#: Warnings that are not told: to torch's developers, and of lists of weights, which are put back.
_UNTOLD: tuple[Any, ...] = (
    ("ignore", _WhileTracing(), FutureWarning, None, 0),
    ("ignore", _WhileTracing(".* were assigned during export"), Warning, None, 0),
)


@contextlib.contextmanager
def _untold() -> Iterator[None]:
    """With `_UNTOLD` before all other filters. Threads put whole lists of filters in and back at any time: one that is
    left in such a list says nothing of a thread that does not trace."""
    for one in reversed(_UNTOLD):
        warnings.filters.insert(0, one)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for one in _UNTOLD:
            with contextlib.suppress(ValueError):
                warnings.filters.remove(one)  # type: ignore[attr-defined]


class _ThisThread:
    """A flag that is true in one thread."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def __bool__(self) -> bool:
        return threading.get_ident() == self._thread

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    def __hash__(self) -> int:
        return hash(bool(self))


@contextlib.contextmanager
def as_if_exporting() -> Iterator[None]:
    """Models that ask whether they are traced hear yes, where this thread asks."""
    names, compiler = ("_is_compiling_flag", "_is_exporting_flag"), sys.modules["torch"].compiler
    before = [getattr(compiler, name) for name in names]
    try:
        for name in names:
            setattr(compiler, name, _ThisThread())
        yield
    finally:
        for name, value in zip(names, before):
            setattr(compiler, name, value)


class _Silence(logging.Filter):
    """Drops what threads log that are to be silent; it is there while one of them is."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = new_lock()
        self._local = threading.local()
        self._users: dict[logging.Logger, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        return record.name not in getattr(self._local, "names", ())

    def begin(self, loggers: list[logging.Logger]) -> tuple[str, ...]:
        before: tuple[str, ...] = getattr(self._local, "names", ())
        self._local.names = (*before, *(logger.name for logger in loggers))
        with self._lock:
            for logger in loggers:
                self._users[logger] = self._users.get(logger, 0) + 1
                logger.addFilter(self)
        return before

    def end(self, loggers: list[logging.Logger], before: tuple[str, ...]) -> None:
        self._local.names = before
        with self._lock:
            for logger in loggers:
                self._users[logger] -= 1
                if not self._users[logger]:
                    del self._users[logger]
                    logger.removeFilter(self)


_SILENCE = _Silence()


@contextlib.contextmanager
def silent(*names: str) -> Iterator[None]:
    """These modules of torch, and those in them, log nothing in this thread."""
    prefixes = tuple(f"torch.{name}" for name in names)
    found = list(logging.root.manager.loggerDict.items())
    loggers = [one for name, one in found if name.startswith(prefixes) and isinstance(one, logging.Logger)]
    before = _SILENCE.begin(loggers)
    try:
        yield
    finally:
        _SILENCE.end(loggers, before)


@contextlib.contextmanager
def exporting_apart(module: Any) -> Iterator[None]:
    """`torch.export`, whose code is in ``module``, prints in this thread nothing of a program that it could not finish,
    and says to no other thread that it is at work."""
    thread, names = threading.get_ident(), vars(module)
    known = {"print": builtins.print, "_compiling_state_context": names.get("_compiling_state_context")}
    ours: dict[str, Any] = {"print": lambda *_, **__: None, "_compiling_state_context": as_if_exporting}
    before = {name: names[name] for name in known if name in names}

    def chosen(name: str) -> Any:
        return lambda *args, **named: (ours if threading.get_ident() == thread else known)[name](*args, **named)

    try:
        names.update({name: chosen(name) for name, value in known.items() if value is not None})
        yield
    finally:
        for name in known:
            names.pop(name, None)
        names.update(before)

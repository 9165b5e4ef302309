"""Why something cannot be compiled: a refusal, which an error of ours says on purpose, or a fault, which nobody meant.

Neither takes the user's model with it: a group is taken apart, an operator is the framework's, a model runs as eager.
Faults are collected, for `explain` to tell; with ``WEFT_FAULTS=raise`` in the environment, as in our own tests, they
are raised.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from weft.ir.errors import Error, InternalError, ProgramError

_COLLECTED: ContextVar[list[str] | None] = ContextVar("weft_faults", default=None)


@contextmanager
def collecting() -> Iterator[list[str]]:
    """The faults met inside, in words; those inside of another such block are its too."""
    outer = _COLLECTED.get()
    found: list[str] = [] if outer is None else outer
    token = _COLLECTED.set(found)
    try:
        yield found
    finally:
        _COLLECTED.reset(token)


def is_fault(error: BaseException) -> bool:
    """Whether an error is none that says no on purpose; what is nested too deep for Python is a refusal."""
    return isinstance(error, (InternalError, ProgramError)) or not isinstance(error, (Error, RecursionError))


def refused(error: Exception) -> str:
    """The reason in one line; where it is a fault it is collected or raised."""
    if not is_fault(error):
        return reason_of(error)
    if os.environ.get("WEFT_FAULTS") == "raise":
        raise error
    text = f"a fault of Weft, {reason_of(error)} ({place_of(error)})"
    collected = _COLLECTED.get()
    if collected is not None:
        collected.append(text)
    return text


def reason_of(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, Error):
        return error.what
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def place_of(error: BaseException) -> str:
    """The line that raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "no line is known"
    return f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"

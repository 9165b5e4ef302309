"""Candidates that go wrong, for processes that can be lost: a trace names its fault in a comment."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.ir.errors import ScheduleError
from weft.tune.job import Job, load_code, make_code

FAULTS = ("crash", "hang", "memory", "before", "behind", "argument", "wrong", "slow", "quits")


def fault_of(trace: str) -> str | None:
    return next((f for f in FAULTS if trace.endswith(f"# {f}\n")), None)


def make(job: Job, trace: str) -> Any:
    if trace.endswith("# compile crash\n"):
        ctypes.string_at(8)
    if trace.endswith("# compile hang\n"):
        time.sleep(1000)
    if trace.endswith("# refused\n"):
        raise ScheduleError("a step is refused")
    return make_code(job, trace), fault_of(trace)


def load(job: Job, made: Any) -> Callable[..., Any]:
    code, fault = made
    run = load_code(job, code)

    def call(*args: Any, out: Any) -> None:
        run(*args, out=out)
        if fault is not None:
            break_something(fault, args, out)

    return call


def break_something(fault: str, args: Any, out: Any) -> None:
    first: np.ndarray[Any, Any] = out[0]
    if fault == "crash":
        ctypes.string_at(8)
    elif fault == "hang":
        while True:
            pass
    elif fault == "memory":
        np.empty(100 << 30, np.uint8)[...] = 1
    elif fault == "before":
        ctypes.memset(first.ctypes.data - 4, 0, 4)
    elif fault == "behind":
        ctypes.memset(first.ctypes.data + first.nbytes, 0, 4)
    elif fault == "argument":
        args[0][0, 0] += 1
    elif fault == "wrong":
        first[-1, -1] += 0.5
    elif fault == "slow":
        time.sleep(0.005)
    elif fault == "quits":
        os._exit(3)

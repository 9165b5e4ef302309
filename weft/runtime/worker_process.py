"""A process that does what it is told through a pipe and answers through another; it ends when its pipe does.

It is started afresh, not forked from this one, which may have threads, of the framework's too, that hold locks. A
refusal is an answer.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import subprocess
import sys
from typing import Any, BinaryIO

from weft.interpreters import python_command, python_environment
from weft.ir.faults import is_fault


def can_start() -> bool:
    """Whether another interpreter like this one can be started: not from a program that embeds it."""
    return bool(sys.executable) and not getattr(sys, "frozen", False) and os.name == "posix"


def start() -> subprocess.Popen[bytes]:
    command = python_command(f"import {__name__} as here; here.serve_pipes()")
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=python_environment())


def serve_pipes() -> None:
    """What a process does that was started alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides when it ends
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what somebody prints is not an answer
    serve(sys.stdin.buffer, answers)


def serve(tasks: BinaryIO, answers: BinaryIO) -> None:
    """Answers tasks until there are no more."""
    while True:
        try:
            fn, task = receive(tasks)
            made = fn(task)
        except EOFError:
            return
        except Exception as error:  # a fault is told by the process that asked, which tries it too
            made = None if is_fault(error) else error
        try:
            send(answers, made)
        except (pickle.PicklingError, TypeError, AttributeError):  # nothing was written
            send(answers, None)


def send(pipe: BinaryIO | Any, value: object) -> None:
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    pipe.write(struct.pack("<Q", len(data)) + data)
    pipe.flush()


def receive(pipe: BinaryIO | Any) -> Any:
    header = pipe.read(8)
    if len(header) < 8:
        raise EOFError
    (size,) = struct.unpack("<Q", header)
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)

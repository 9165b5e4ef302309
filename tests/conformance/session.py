"""What a session is: a model, and what is done with it, in order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Call:
    """Arguments of one call."""

    args: tuple[Any, ...]
    named: dict[str, Any]


def call(*args: Any, **named: Any) -> Call:
    return Call(args, named)


#: What is called, or done to the model, in order.
Step = Call | Callable[[Any], Any]


@dataclass(frozen=True)
class Session:
    """``exact`` says whether eager can run it in float64 with the same results; ``typed`` that it names types itself,
    and so is one of float32 alone."""

    model: Any
    steps: list[Step]
    exact: bool = True
    typed: bool = False
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


SESSIONS: dict[str, Callable[[], Session]] = {}

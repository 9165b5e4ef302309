"""What `define` and `operator` return: one object that ties language, target and runtime together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Tunes an operator; the layer that knows the tuner sets it.
tune_operator: Callable[..., Any] | None = None

"""Which line of the user's program each operator of a traced one comes from.

torch records such lines too, but imports its exporter and its compiler to tell frames of its own from others, 36 MB
that nothing else here needs, and reads the text of every file that is in the stack.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from weft.graph.from_torch.edge import torch

#: Where our own frames are, among those of a traced program.
_HERE = os.path.dirname(__file__) + os.sep


@contextlib.contextmanager
def recorded_lines() -> Iterator[None]:
    """Operators that are traced within are told which line called for them: the innermost outside of torch."""
    record = torch().fx.traceback

    class Recording(torch().overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, fn: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            record.set_stack_trace([_line(sys._getframe(1))])
            try:
                return fn(*args, **(kwargs or {}))
            finally:
                record.set_stack_trace([])

    with record.preserve_node_meta(), Recording():
        yield


def _line(frame: FrameType) -> str:
    """As tracebacks have it; of torch's own where nobody else called it."""
    own = os.path.dirname(torch().__file__) + os.sep
    found: FrameType | None = frame
    while found is not None and found.f_code.co_filename.startswith((own, _HERE)):
        found = found.f_back
    found = frame if found is None else found
    return f'File "{found.f_code.co_filename}", line {found.f_lineno}, in {found.f_code.co_name}'

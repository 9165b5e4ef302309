"""Calls that see how a tensor lies in memory."""

from __future__ import annotations

from typing import Any

#: Those of torch for tensors that Weft made would see another layout.
OF_MEMORY = frozenset(f"aten.as_strided{kind}.default" for kind in ("", "_copy", "_scatter"))


def sees_memory(gm: Any) -> bool:
    """Whether results depend on where tensors begin in their memory, which is no part of a shape or stride."""
    return any(str(node.target) in OF_MEMORY for node in gm.graph.nodes if node.op == "call_function")

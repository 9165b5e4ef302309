"""Functions of tensors as torch traces them, without `torch.export` or Dynamo around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.graph.from_torch.edge import decompositions, torch


def retrace(gm: Any, args: Sequence[Any]) -> Any:
    """``gm`` for tensors of just these sizes: what was symbolic is a number."""
    from torch.fx.experimental.proxy_tensor import make_fx

    apart = make_fx(lambda *given: gm(*given), tracing_mode="fake", decomposition_table=decompositions())(*args)
    schemas = [getattr(node.target, "_schema", None) for node in apart.graph.nodes if node.op == "call_function"]
    if not any(schema is not None and schema.is_mutable for schema in schemas):
        return apart
    # What operators are made of may write to what it makes itself: a second tracing leaves operators without effects.
    return make_fx(torch().func.functionalize(apart), tracing_mode="fake")(*args)

"""Processes that compile for a GPU, started while torch still traces the model."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Any

from weft.graph.from_torch.edge import flatten, is_on_gpu, torch
from weft.graph.groups.warm_up import warm_up
from weft.graph.groups.workers import early_workers
from weft.runtime.store import Artifact, default_store
from weft.version import cache_key

#: Tasks for each shape of weights: a product is compiled by several plans.
_TASKS = 3
#: Shapes of weights up to which this process alone is as quick.
_FEW = 2


def workers_for(model: Any, args: tuple[Any, ...]) -> AbstractContextManager[None]:
    """As many as ``model`` has different matrices and filters for, where it is on a GPU; none otherwise, and none for
    what was compiled before: that is on disk."""
    parameters = list(model.parameters()) if isinstance(model, torch().nn.Module) else []
    shapes = {p.shape for p in parameters if p.dim() > 1}
    if len(shapes) <= _FEW or not is_on_gpu([*parameters, *flatten(args)[0]]):
        return contextlib.nullcontext()
    key = cache_key("compiled once", type(model).__qualname__, *sorted(map(str, shapes)))
    if default_store().get(key) is not None:
        return contextlib.nullcontext()
    default_store().put(key, Artifact({}))
    return early_workers(_TASKS * len(shapes), warm_up)

"""What tensors are that no input takes part in, computed while a model is translated, to see what a mask says.

By torch's own operators, where the constants are: a formula that adds up step by step takes the evaluator a thousand
times as long.
"""

from __future__ import annotations

import contextlib
from typing import Any

from weft.graph.builder import GraphBuilder
from weft.graph.evaluate import as_numpy, evaluate_fragment
from weft.graph.from_torch.arrays import TorchArrays
from weft.graph.from_torch.edge import torch
from weft.graph.graph import Fragment
from weft.graph.run.arrays import arguments
from weft.graph.run.processor import CPU


def known_values(builder: GraphBuilder, name: str) -> Any:
    """A tensor of torch's that is made of constants or of nothing; None where an input takes part."""
    if name in builder.known:
        return builder.known[name]
    constant = builder.constant_values(name)
    if constant is not None:
        return constant
    node = builder.producer(name)
    args = [known_values(builder, n) for n in node.inputs] if isinstance(node, Fragment) else []
    if isinstance(node, Fragment) and all(a is not None for a in args):
        builder.known |= dict(zip(node.outputs, _computed(node, args)))
    else:
        builder.known[name] = None
    return builder.known[name]


def _computed(node: Fragment, args: list[Any]) -> list[Any]:
    """The results of a fragment: as torch has them, where it has it and they are what the formula says."""
    if node.library is not None and {*node.library.refs()} <= {*node.inputs}:
        with contextlib.suppress(Exception):  # whatever it is, the formula says it too
            given, named = arguments(node.library, TorchArrays(CPU), dict(zip(node.inputs, args)).__getitem__)
            made = TorchArrays(CPU).function(node.library.target)(*given, **named)
            found = list(made) if isinstance(made, (tuple, list)) else [made]
            if len(found) == len(node.outputs):
                return found
    return [TorchArrays(CPU).own(made) for made in evaluate_fragment(node, [as_numpy(a) for a in args])]


def is_lower(seen: Any, nothing: float, everything: float) -> bool:
    """Whether matrices are ``everything`` up to their diagonals and ``nothing`` beyond."""
    rows, columns = seen.shape[-2:]
    lower = torch().ones((rows, columns), dtype=torch().bool, device=seen.device).tril()
    return bool((seen == torch().where(lower, everything, nothing)).all())

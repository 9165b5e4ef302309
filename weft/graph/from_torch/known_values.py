"""What tensors are that no input takes part in, computed while a model is translated, to see what a mask says.

By torch's own operators, where the constants are: a formula that adds up step by step takes the evaluator a thousand
times as long.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

from weft.graph.builder import GraphBuilder
from weft.graph.evaluate import as_numpy, evaluate_fragment
from weft.graph.from_torch.arrays import TorchArrays
from weft.graph.from_torch.edge import torch
from weft.graph.graph import Edge, Fragment
from weft.graph.run.arrays import arguments
from weft.graph.run.processor import CPU

#: Elements up to which a mask that no input changes is computed, to see what it says.
MOST_MASK = 1 << 24
#: Nothing that is added to a score and is less leaves anything of it: the least number of 16 bits.
_LEAST = -65504.0


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


def mask_says(builder: GraphBuilder, mask: Edge, rows: int, columns: int) -> str | None:
    """What a mask that depends on no input says: "all", "causal", or None where it is another."""
    key = f"{mask.name} for {rows} and {columns}"
    if key not in builder.told:
        values = known_values(builder, mask.name) if mask.count <= MOST_MASK else None
        builder.told[key] = None if values is None else _said(values, rows, columns)
    return builder.told[key]


def _said(seen: Any, rows: int, columns: int) -> str | None:
    is_bool = seen.dtype == torch().bool
    nothing, everything = (False, True) if is_bool else (-math.inf, 0.0)
    if bool((seen == everything).all()):
        return "all"
    if tuple(seen.shape[-2:]) != (rows, columns):
        return None
    # Frameworks write the least number of a type for minus infinity.
    least = seen if is_bool else torch().where(seen <= _LEAST, nothing, seen.to(torch().float64))
    return "causal" if is_lower(least, nothing, everything) else None

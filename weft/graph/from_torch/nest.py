"""Results in tuples, lists and dicts as a model nests them, by an expression of Python made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from weft.graph.from_torch.edge import unflatten

#: Among the results of a model: a tensor, where others are plain values.
TENSOR = object()


def nest_results(results: Sequence[Any], spec: Any) -> Callable[[Sequence[Any]], Any]:
    """What gives all results of a model, nested as ``spec`` says, of its tensors."""
    written = _expression(spec, [r is TENSOR for r in results], count(), count())
    if written is not None:
        made: Callable[[Sequence[Any]], Any] = eval(f"lambda tensors: {written}", {"values": tuple(results)})
        return made

    def nested(tensors: Sequence[Any]) -> Any:
        rest = iter(tensors)
        return unflatten([next(rest) if r is TENSOR else r for r in results], spec)

    return nested


def _expression(spec: Any, are_tensors: Sequence[bool], leaves: Iterator[int], tensors: Iterator[int]) -> str | None:
    """None where something else than tuples, lists and dicts with texts for keys is nested."""
    if spec.is_leaf():
        n = next(leaves)
        return f"tensors[{next(tensors)}]" if are_tensors[n] else f"values[{n}]"
    parts = [_expression(child, are_tensors, leaves, tensors) for child in spec.children()]
    if any(part is None for part in parts):
        return None
    if spec.type is tuple:
        return f"({''.join(f'{part}, ' for part in parts)})"
    if spec.type is list:
        return f"[{', '.join(map(str, parts))}]"
    if spec.type is dict and all(isinstance(key, str) for key in spec.context):
        return f"{{{', '.join(f'{key!r}: {part}' for key, part in zip(spec.context, parts))}}}"
    return None

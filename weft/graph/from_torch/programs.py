"""What one model was traced to: first for the very sizes of a call, from the second differing size on for all
values of the sizes that were seen to differ, so that further ones cost no tracing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.graph.from_torch.edge import torch
from weft.graph.from_torch.symbolic import check_sizes, is_symbolic
from weft.graph.from_torch.trace import Traced
from weft.ir.errors import UnsupportedError

#: Traces a model with these dimensions of each leaf of the arguments left open.
Trace = Callable[[Sequence[frozenset[int]]], Traced]


#: Kinds of calls that are remembered for their sizes: plain numbers among the arguments make one each.
MOST_ALIKE = 64


@dataclass
class _Like:
    """Calls that differ in sizes alone."""

    first: list[tuple[int, ...]]
    #: of each leaf: dimensions that were seen to differ
    dims: list[frozenset[int]]
    program: Traced | None = None
    #: dimensions that were left open, but torch did not
    tried: set[Hashable] = field(default_factory=set)


@dataclass
class Programs:
    """The traced programs of a model that serve several sizes."""

    _alike: dict[Any, _Like] = field(default_factory=dict)

    def find(self, nested: Hashable, leaves: Sequence[Any], trace: Trace) -> Traced:
        """The program for a call with these ``leaves``, in tuples and dicts (and in a mode) as ``nested`` says,
        or what ``trace`` makes."""
        kinds = (nested, *map(_kind, leaves))
        shapes = [tuple(leaf.shape) if isinstance(leaf, torch().Tensor) else () for leaf in leaves]
        like = self._alike.setdefault(kinds, _Like(shapes, [frozenset() for _ in leaves]))
        while len(self._alike) > MOST_ALIKE:
            del self._alike[next(iter(self._alike))]
        like.dims = [dims | _differing(a, b) for dims, a, b in zip(like.dims, like.first, shapes)]
        if like.program is not None and _takes(like.program, leaves):
            return like.program
        if any(like.dims) and tuple(like.dims) not in like.tried:
            like.tried.add(tuple(like.dims))
            made = _open(trace, like.dims, leaves)
            if made is not None:
                like.program = made
                return made
        return trace(())


def _kind(leaf: Any) -> Any:
    """What calls have in common that differ in sizes alone."""
    return (leaf.dtype, leaf.device, leaf.dim()) if isinstance(leaf, torch().Tensor) else leaf


def _differing(first: tuple[int, ...], second: tuple[int, ...]) -> frozenset[int]:
    return frozenset(d for d, (a, b) in enumerate(zip(first, second)) if a != b)


def _open(trace: Trace, dims: Sequence[frozenset[int]], leaves: Sequence[Any]) -> Traced | None:
    """None where torch needs the sizes to be numbers."""
    try:
        program = trace(dims)
    except Exception:  # of any kind: then it is traced for these sizes, and what is wrong is told there
        return None
    return program if is_symbolic(program.gm) and _takes(program, leaves) else None


def _takes(program: Traced, leaves: Sequence[Any]) -> bool:
    holders = [node for node in program.gm.graph.nodes if node.op == "placeholder"]
    said = [holders[place].meta.get("val") for place, _ in program.user]
    try:
        check_sizes(said, [leaves[n] for _, n in program.user])
    except UnsupportedError:
        return False
    return True

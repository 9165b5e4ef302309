"""What `torch.export` made of one model: first for the very sizes of a call, from the second differing size on for all
values of the sizes that were seen to differ, so that further ones cost no tracing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.graph.from_torch.edge import torch
from weft.graph.from_torch.symbolic import check_sizes, is_symbolic
from weft.ir.errors import UnsupportedError

#: Exports a model with these dimensions of each leaf of the arguments left open.
Export = Callable[[Sequence[frozenset[int]]], Any]


@dataclass
class _Like:
    """Calls that differ in sizes alone."""

    first: list[tuple[int, ...]]
    #: of each leaf: dimensions that were seen to differ
    dims: list[frozenset[int]]
    program: Any = None
    #: dimensions that were left open, but torch did not
    tried: set[Hashable] = field(default_factory=set)


@dataclass
class Programs:
    """The exported programs of a model that serve several sizes."""

    _alike: dict[Any, _Like] = field(default_factory=dict)

    def find(self, nested: str, leaves: Sequence[Any], export: Export) -> Any:
        """The program for a call with these ``leaves``, in tuples and dicts as ``nested`` says, or what ``export``
        makes."""
        kinds = (nested, *map(_kind, leaves))
        shapes = [tuple(leaf.shape) if isinstance(leaf, torch().Tensor) else () for leaf in leaves]
        like = self._alike.setdefault(kinds, _Like(shapes, [frozenset() for _ in leaves]))
        like.dims = [dims | _differing(a, b) for dims, a, b in zip(like.dims, like.first, shapes)]
        if like.program is not None and _takes(like.program, leaves):
            return like.program
        if any(like.dims) and tuple(like.dims) not in like.tried:
            like.tried.add(tuple(like.dims))
            made = _open(export, like.dims, leaves)
            if made is not None:
                like.program = made
                return made
        return export(())


def _kind(leaf: Any) -> Any:
    """What calls have in common that differ in sizes alone."""
    return (leaf.dtype, leaf.device, leaf.dim()) if isinstance(leaf, torch().Tensor) else leaf


def _differing(first: tuple[int, ...], second: tuple[int, ...]) -> frozenset[int]:
    return frozenset(d for d, (a, b) in enumerate(zip(first, second)) if a != b)


def _open(export: Export, dims: Sequence[frozenset[int]], leaves: Sequence[Any]) -> Any:
    """None where torch needs the sizes to be numbers."""
    try:
        program = export(dims)
    except Exception:  # of any kind: then it is exported for these sizes, and what is wrong is told there
        return None
    is_open = is_symbolic(program.graph_module) and not _gives_sizes(program)
    return program if is_open and _takes(program, leaves) else None


def _gives_sizes(program: Any) -> bool:
    """Whether some result is a number that follows from sizes."""
    return any(type(spec.arg).__name__.startswith("Sym") for spec in program.graph_signature.output_specs)


def _takes(program: Any, leaves: Sequence[Any]) -> bool:
    specs = program.graph_signature.input_specs
    holders = [node for node in program.graph.nodes if node.op == "placeholder"]
    said = [node.meta.get("val") for node, spec in zip(holders, specs) if spec.kind.name == "USER_INPUT"]
    try:
        check_sizes(said, leaves)
    except UnsupportedError:
        return False
    return True

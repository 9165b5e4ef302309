"""Weights that change without torch counting it: what is seen of that, and `refresh` for what cannot be seen.

torch counts writes by its own operators (`_version`), but not those of fused optimizers, nor through `.data`, numpy or
code of others. Optimizers tell when they have made a step; of tensors in this machine's memory some values are
compared in each call (`run/witness.py`).
"""

from __future__ import annotations

import functools
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from weft.graph.from_torch.edge import after_optimizer_steps, torch
from weft.graph.from_torch.mapped_weights import is_in_file
from weft.graph.run.witness import Memory, Witness
from weft.ir.errors import ArgumentError

if TYPE_CHECKING:
    from weft.graph.from_torch.model import FxModel

#: All that were compiled and are still there.
_models: weakref.WeakSet[FxModel] = weakref.WeakSet()


def watch(model: FxModel) -> None:
    """From now on ``model`` is told of changes."""
    _models.add(model)
    _watch_optimizers()


@functools.cache
def _watch_optimizers() -> None:
    after_optimizer_steps(_changed)


def refresh(model: Any = None) -> None:
    """Says that weights of ``model`` were written to, where Weft cannot see it: the next call reads all of them.

    ``model`` is a module or what was compiled of one; without it, all compiled models are meant. What is seen without
    it (optimizers, ``load_state_dict``, writes by torch's operators, most through ``.data``) is told in docs/models.md.
    """
    if model is None:
        _expire(None)
    elif isinstance(model, torch().nn.Module):
        _changed([*model.parameters(), *model.buffers()])
    elif callable(own := getattr(model, "refresh", None)):
        own()
    else:
        raise ArgumentError(
            f"weft.refresh takes a module, or what weft.compile gave, not a {type(model).__name__}",
            help="weft.refresh() without an argument means all compiled models",
        )


def _changed(tensors: Iterable[Any]) -> None:
    if len(_models):
        _expire(Memories(tensors))


def _expire(changed: Memories | None) -> None:
    for model in list(_models):
        model.expire(changed)


class Memories:
    """The memory of some tensors."""

    def __init__(self, tensors: Iterable[Any]) -> None:
        begins, ends = [], [-1]
        for begin, end in sorted(filter(None, map(_span, tensors))):
            begins.append(begin)
            ends.append(max(end, ends[-1]))
        self._begins, self._ends = begins, ends

    def meet(self, tensors: Iterable[Any]) -> bool:
        """Whether one of ``tensors`` shares memory with these."""
        return any(self._meets(*span) for span in map(_span, tensors) if span is not None)

    def _meets(self, begin: int, end: int) -> bool:
        """Of those that begin before ``end``, one ends behind ``begin``."""
        return self._ends[bisect_right(self._begins, end - 1)] > begin


def share_memory(a: Any, b: Any) -> bool:
    """Whether a write to one tensor may be seen in the other."""
    return Memories([a]).meet([b])


def _span(tensor: Any) -> tuple[int, int] | None:
    """From its first byte to behind its last one."""
    if not isinstance(tensor, torch().Tensor) or tensor.layout != torch().strided or not tensor.numel():
        return None
    begin = tensor.data_ptr()
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride()))
    return begin, begin + (last + 1) * tensor.element_size()


def witness_of(tensors: Sequence[Any]) -> Witness:
    """Of values of ``tensors``, in order; of those that lie elsewhere, or that nobody should read, none."""
    return Witness([_memory_of(t) for t in tensors])


def _memory_of(tensor: Any) -> Memory:
    is_seen = isinstance(tensor, torch().Tensor) and tensor.layout == torch().strided and tensor.device.type == "cpu"
    if not is_seen or not tensor.numel() or not tensor.data_ptr() or is_in_file(tensor):
        return Memory(0, 1, (0,), (1,))
    return Memory(tensor.data_ptr(), tensor.element_size(), tuple(tensor.shape), tuple(tensor.stride()))

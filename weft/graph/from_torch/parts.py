"""Parts of a program that Dynamo traces, and models that can be traced in parts alone."""

from __future__ import annotations

import contextlib
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from weft.graph.compiled import Compiled
from weft.graph.from_torch.edge import (
    asks_dynamo_again,
    flatten,
    lower_module,
    plain_results,
    static_inputs,
    torch,
    with_tensors_alone,
)
from weft.graph.from_torch.model import FxModel, Options
from weft.graph.from_torch.symbolic import SizeResults
from weft.ir.faults import reason_of

#: Parts that are remembered for `explain`; the last ones.
_MOST_REMEMBERED = 64
GRADIENTS = (
    "gradients are asked for (forward and backward run as eager operators); "
    "under torch.no_grad() or torch.inference_mode() it is compiled"
)
AS_EAGER = "the model runs as eager PyTorch"


class Remembered:
    """The last models that were made, as long as somebody has them: they hold weights."""

    def __init__(self) -> None:
        self._models: list[weakref.ref[FxModel]] = []
        #: what runs in this thread is put there, while somebody asks
        self._asked = threading.local()

    @contextlib.contextmanager
    def called(self) -> Iterator[list[tuple[Compiled, list[Any]]]]:
        """What this thread runs of these models within, with the tensors that it is given."""
        calls: list[tuple[Compiled, list[Any]]] = []
        self._asked.calls = calls
        try:
            yield calls
        finally:
            self._asked.calls = None

    def call(self, model: FxModel, args: Sequence[Any]) -> list[Any]:
        """A call of one of them."""
        calls = getattr(self._asked, "calls", None)
        if calls is None:
            return model(args)
        variant = model.find(args)
        if variant.compiled is not None:
            calls.append((variant.compiled, [args[n] for n in variant.places]))
        return model.run(variant, args)

    def append(self, model: FxModel) -> None:
        self._models = [one for one in self._models if one() is not None][1 - _MOST_REMEMBERED :]
        self._models.append(weakref.ref(model))

    def clear(self) -> None:
        self._models.clear()

    def __iter__(self) -> Iterator[FxModel]:
        return (model for one in self._models if (model := one()) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, number: int) -> FxModel:
        return list(self)[number]


def compile_part(gm: Any, example_inputs: Sequence[Any], options: Options, models: Remembered) -> Any:
    """What runs in place of ``gm``, of which Dynamo asks for it; what is compiled is put into ``models``."""
    if torch().is_grad_enabled() and _wants_gradients(gm, example_inputs):
        warnings.warn(f"weft: {AS_EAGER}: {GRADIENTS}", stacklevel=3)
        return _told(gm, GRADIENTS, models)

    def compiler(module: Any, _inputs: Sequence[Any]) -> Any:
        sizes = SizeResults(module)
        plain = plain_results(module)
        model = FxModel(with_tensors_alone(module, sizes.places), static_inputs(), options)
        models.append(model)

        def run(args: list[Any]) -> list[Any]:
            given = list(args)
            args.clear()  # the caller holds nothing: what is no longer used may go
            numbers = sizes.find(given)
            made = models.call(model, given)
            for place, value in sorted([*plain, *numbers]):
                made.insert(place, value)
            return made

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    try:
        return lower_module(gm, example_inputs, compiler)
    except Exception as error:  # whatever torch cannot take apart, it can still run
        if asks_dynamo_again(error):
            raise
        return _told(gm, reason_of(error), models)


def _wants_gradients(gm: Any, inputs: Sequence[Any]) -> bool:
    tensors = [*inputs, *gm.parameters(), *gm.buffers()]
    return any(isinstance(t, torch().Tensor) and t.requires_grad for t in tensors)


def _told(gm: Any, reason: str, models: Remembered) -> Any:
    """The module as it is; the reason is kept for `explain`, as long as the module."""
    told = FxModel(gm, reason=reason)
    models.append(told)

    def run(*args: Any) -> Any:
        return told.gm.forward(*args)

    return run


class BeforeCall:
    """The tensors that a call of ``model`` could write to, as they were before it: a call that fails midway can be made
    again. Buffers and ``arguments`` come back where it ``keeps_copies``; parameters, which are large, never do."""

    def __init__(self, model: Any, arguments: Any, *, keeps_copies: bool) -> None:
        is_module = isinstance(model, torch().nn.Module)
        found = [*(model.buffers() if is_module else ()), *flatten(arguments)[0]]
        small = [t for t in found if isinstance(t, torch().Tensor)]
        self._copies = [t.detach().clone() if keeps_copies else None for t in small]
        self._tensors = [*small, *(model.parameters() if is_module else ())]
        self._versions = self._now()

    def _now(self) -> list[int]:
        """How often each was written to; what was made in inference mode does not say."""
        return [0 if t.is_inference() else t._version for t in self._tensors]

    def restore(self) -> bool:
        """Whether all is as it was."""
        changed = [n for n, (now, then) in enumerate(zip(self._now(), self._versions)) if now != then]
        if any(n >= len(self._copies) or self._copies[n] is None for n in changed):
            return False
        with torch().no_grad():
            for n in changed:
                self._tensors[n].copy_(self._copies[n])
        return True


@dataclass(eq=False)
class InParts:
    """Takes calls that `torch.export` cannot trace as a whole, for ``reason``: Dynamo traces what it can, and the rest
    runs as eager. ``models`` are the parts."""

    reason: str
    call: Callable[..., Any]
    models: Remembered
    #: how many were made
    calls: int = 0

    def __str__(self) -> str:
        return f"the model is compiled in parts: {self.reason}"

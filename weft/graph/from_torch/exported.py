"""A model as it was traced once: what its program is given in a call, and what becomes of its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from weft.graph.from_torch.changes import share_memory
from weft.graph.from_torch.edge import torch, unflatten
from weft.graph.from_torch.model import FxModel, Options, Variant, strides_of
from weft.graph.from_torch.module_state import Row
from weft.graph.from_torch.nest import TENSOR, nest_results
from weft.graph.from_torch.trace import Traced
from weft.graph.groups.open_sizes import OpenSizes
from weft.graph.run.fast_model import TORCH
from weft.runtime.fastcall import Specialization

#: What was compiled for a call, and all inputs of it.
Prepared: TypeAlias = "tuple[Variant, list[Any]]"


def kind_of(leaf: Any) -> Any:
    """What a compiled model depends on of a value: how a tensor looks, any other value itself."""
    if not isinstance(leaf, torch().Tensor):
        return leaf
    return leaf.shape, leaf.dtype, strides_of(leaf), leaf.device, leaf.is_neg()


class OtherWeightsError(Exception):
    """The model has tensors of another type or shape by now than it was traced with, or none."""


class ExportedModel:
    """One traced program: parameters, then the tensors of a call."""

    def __init__(
        self,
        program: Traced,
        options: Options,
        sizes: OpenSizes | None = None,
        watched: Sequence[Row] = (),
        mode: tuple[Any, ...] = ((), ()),
    ) -> None:
        #: what was training, and which types torch chose, when it was traced
        self.mode = mode
        self.kinds: tuple[Any, ...] | None = None
        self._user = program.user
        self._held = [program.held.get(place) for place in range(program.count)]
        #: parameters and buffers where the model has them, so that other tensors in their place are seen
        self._live = [(place, table, key) for place, (table, key) in program.homes.items()]
        for place, table, key in self._live:
            self._held[place] = table[key]
        self._looks = {place: kind_of(self._held[place]) for place, _, _ in self._live}
        static = frozenset({*program.homes, *program.held} - program.updates.keys())
        self.model = FxModel(
            program.gm,
            static,
            options,
            program.updates,
            homes=program.homes,
            watched=watched,
            is_autocast=bool(mode[1]),
            sizes=sizes or OpenSizes(),
        )
        results, spec = program.results, program.specification
        self.nested = str(spec)
        self._is_single = spec.is_leaf() and results[0] is TENSOR
        self._nest = nest_results(results, spec)
        #: arguments that are given by name, and what nests results of machine code, where it must
        self.names: tuple[str, ...] = ()
        self.nest = None if self._is_single or _is_tuple(results, spec) else self._nest_flat
        self._is_alone = results.count(TENSOR) == 1
        #: what machine code was told about calls, and of which variant
        self.fast: Specialization | None = None
        self._fast_variant: Any = None
        self._has_gradients = any(t is not None and t.requires_grad for t in self._held)
        self._variant: Any = None

    def takes(self, args: tuple[Any, ...]) -> bool:
        """Whether these are tensors like those it was compiled for."""
        kinds = self.kinds
        if kinds is None or len(args) != len(kinds):
            return False
        return all(isinstance(a, torch().Tensor) and kind_of(a) == kind for a, kind in zip(args, kinds))

    def wants_gradients(self, leaves: Sequence[Any]) -> bool:
        if not torch().is_grad_enabled():
            return False
        return self._has_gradients or any(isinstance(t, torch().Tensor) and t.requires_grad for t in leaves)

    def arguments(self, leaves: Sequence[Any]) -> list[Any]:
        """All inputs of the program for a call."""
        given = list(self._held)
        for place, table, name in self._live:
            given[place] = table.get(name)
            if given[place] is None:
                raise OtherWeightsError
        for place, leaf in self._user:
            given[place] = leaves[leaf]
        return given

    def writes_shared(self, leaves: Sequence[Any]) -> bool:
        """Whether something that it writes to lies in the memory of an argument: to the program these are two tensors,
        and a write to one is not seen in the other."""
        updates = self.model.updates
        if not updates:
            return False
        given = self.arguments(leaves)
        places = [place for place, _ in self._user if isinstance(given[place], torch().Tensor)]
        return any(share_memory(given[a], given[b]) for a in updates for b in places if a != b)

    def checked_arguments(self, leaves: Sequence[Any]) -> list[Any]:
        given = self.arguments(leaves)
        self._check_looks(given)
        return given

    def _check_looks(self, given: Sequence[Any]) -> None:
        if any(kind_of(given[place]) != look for place, look in self._looks.items()):
            raise OtherWeightsError

    def find_fast(self) -> Specialization | None:
        """The last call for machine code; None where it needs Python."""
        variant = self._variant
        if variant is not self._fast_variant:
            self._fast_variant, self.fast = variant, None
            is_done = self.model.options.check is None or variant.is_checked
            is_ready = variant.compiled is not None and variant.fast is not None and is_done
            if is_ready and self.kinds is not None:
                executable = variant.compiled.executable
                self.fast = variant.fast.specialization(executable, TORCH) if variant.fast.takes(executable) else None
        return self.fast

    def __call__(self, leaves: Sequence[Any]) -> Any:
        return self.run(self.prepare(leaves))

    def prepare(self, leaves: Sequence[Any]) -> Prepared:
        """What a call with ``leaves`` runs, compiled where it was not."""
        given = self.arguments(leaves)
        variant = None if self._variant is None else self._variant.newest
        if variant is None or not self.model.is_current(variant, given):
            self._check_looks(given)
            variant = self.model.find(given)
        self._variant = variant
        return variant, given

    def run(self, prepared: Prepared) -> Any:
        """The results of a call, nested as the model has them."""
        made = self.model.run(*prepared)
        return made[0] if self._is_single else self._nest(made)

    def _nest_flat(self, made: Any) -> Any:
        """Of what machine code gives: one tensor, or a tuple of several."""
        return self._nest((made,) if self._is_alone else made)


def _is_tuple(results: Sequence[Any], spec: Any) -> bool:
    """Whether a model gives a plain tuple of several tensors."""
    numbers = tuple(range(len(results)))
    made = unflatten(numbers, spec)
    return len(numbers) > 1 and type(made) is tuple and made == numbers and all(r is TENSOR for r in results)

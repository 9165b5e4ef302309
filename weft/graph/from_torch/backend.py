"""`torch.compile(model, backend="weft")` and `weft.compile(model, example_inputs)`."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.graph.compile_graph import Compiled
from weft.graph.faults import reason_of
from weft.graph.from_torch.early import workers_for
from weft.graph.from_torch.edge import (
    compile_in_parts,
    flatten,
    register_backend,
    torch,
    unflatten,
)
from weft.graph.from_torch.model import FxModel, Options, begin_of, strides_of
from weft.graph.from_torch.nest import TENSOR, nest_results
from weft.graph.from_torch.parts import AS_EAGER, GRADIENTS, BeforeCall, InParts, compile_part
from weft.graph.from_torch.programs import Programs
from weft.graph.from_torch.trace import Traced, trace
from weft.graph.groups.open_sizes import OpenSizes
from weft.graph.run.fast_model import TORCH
from weft.ir.errors import ArgumentError, UnsupportedError
from weft.ir.numerics import CHOICES, NUMERICS
from weft.runtime.fastcall import MISS, CallTable, Specialization

#: Models that were compiled through torch.compile in this process, for `weft.explain`; the last ones.
COMPILED: list[FxModel] = []
#: Sizes that a model keeps executables for; the oldest goes first.
MOST_KEPT = 64


def backend(gm: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_mode: Any) -> Any:
    """What Dynamo calls with a part of a program: gives the function that runs in its place."""
    return compile_part(gm, example_inputs, _options(options), COMPILED)


def register() -> None:
    """Makes the backend known by its name, where the entry point of the package is not installed."""
    register_backend(backend)


def _options(given: Mapping[str, Any] | None) -> Options:
    named = dict(given or {})
    wrong = sorted(named.keys() - {"check", "numerics", "weights"})
    if wrong:
        raise ArgumentError(f"weft has no option `{wrong[0]}`", help="options are check, numerics and weights")
    if named.get("check") not in (None, "first"):
        raise ArgumentError(f"check={named['check']!r} is not known", help='use options={"check": "first"}')
    if named.get("weights") not in (None, "mapped"):
        raise ArgumentError(f"weights={named['weights']!r} is not known", help='use options={"weights": "mapped"}')
    if named.get("numerics", "fast") not in NUMERICS:
        raise ArgumentError(f"numerics={named['numerics']!r} is not known", help=f"use {CHOICES}")
    return Options(**named)


class CompiledModel:
    """A model compiled for the sizes it is called with, without Dynamo: it checks its inputs itself.

    >>> fast = weft.compile(model, (x,))
    >>> y = fast(x)
    """

    def __init__(self, model: Any, options: Options) -> None:
        self.model, self.options = model, options
        self.parts: dict[Any, ExportedModel | InParts | str] = {}
        self._last: ExportedModel | None = None
        #: whether it was found to matter where tensors begin in their memory
        self._sees_memory = False
        self._sizes, self._programs, self._lock = OpenSizes(), Programs(), threading.RLock()
        self._tables: dict[tuple[Any, ...], CallTable] = {}
        #: reasons for eager calls that the user was warned of
        self._told: set[str] = set()
        self._table_lock = threading.Lock()
        #: takes calls like some before without any Python: what is called, arguments that are given by name, and what
        #: nests the results
        self._fast: tuple[Callable[..., Any], tuple[str, ...], Callable[[Any], Any] | None] | None = None

    def __call__(self, *args: Any, **named: Any) -> Any:
        if self._fast is not None:
            call, names, nest = self._fast
            if tuple(named) == names:
                made = call(None, *args, *named.values())
                if made is not MISS:
                    return made if nest is None else nest(made)
        return self._call_slowly(args, named)

    def _call_slowly(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        leaves: Sequence[Any]
        last = self._last
        if last is not None and not named and last.takes(args):
            part, leaves = last, args
        else:
            found, leaves = self.find(args, named)
            if not isinstance(found, ExportedModel):
                return self._call_traced(found, args, named)
            part = self._last = found
        if part.wants_gradients(leaves):
            self.tell(f"{AS_EAGER}: {GRADIENTS}", stacklevel=3)
            return self.model(*args, **named)
        made = part(leaves)
        with self._table_lock:
            self._make_fast(part)
        return made

    def _call_traced(self, found: InParts | str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The model itself, or its parts; arguments that it does not take either are its own error, and all there is to
        say."""
        if isinstance(found, InParts):
            before = BeforeCall(self.model, (args, named), keeps_copies=not found.is_called)
            found.is_called = True
            try:
                made = found.call(*args, **named)
            except Exception as error:  # the model's own, or of a model that is another while it is traced
                reason = f"{found.reason}; in parts: {reason_of(error)}"
                self.parts |= {key: reason for key, part in self.parts.items() if part is found}
                if not before.restore():  # what was written would be written twice
                    raise
                made, found = self.model(*args, **named), reason
        else:
            made = self.model(*args, **named)
        self.tell(f"{AS_EAGER}: {found}" if isinstance(found, str) else str(found), stacklevel=4)
        return made

    def tell(self, what: str, stacklevel: int) -> None:
        """How calls run that are not compiled as a whole, and why, each once."""
        if what not in self._told:
            self._told.add(what)
            warnings.warn(f"weft: {what}", stacklevel=stacklevel + 1)

    def _make_fast(self, part: ExportedModel) -> None:
        """Later calls like the last of ``part`` go through machine code alone, where they can."""
        before, now = part.fast, part.find_fast()
        if now is None and before is None:
            return
        if before is not None and now is not before:
            for table in self._tables.values():
                table.remove(before)
        if now is not None:
            shape = len(now.arguments), len(now.outputs)
            table = self._tables.setdefault((*shape, part.names, part.nested), CallTable(*shape))
            if now is not before:
                table.add(now)
            self._fast = table.call, part.names, part.nest

    def find(
        self, args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[ExportedModel | InParts | str, Sequence[Any]]:
        """What takes such arguments, made now or before, or why nothing does; and the tensors among them."""
        leaves, spec = flatten((args, dict(named)))
        key = self._key(str(spec), leaves)
        try:
            found = self.parts.get(key)
        except TypeError:  # a numpy array, say: nothing to remember a model by
            strange = [leaf for leaf in leaves if type(leaf).__hash__ is None]
            return f"an argument is a {type(strange[0]).__name__}" if strange else "arguments without a hash", leaves
        if found is None:
            with self._lock:
                found = self.parts.get(key) or self._export(args, dict(named), leaves, str(spec))
                self._keep(self._key(str(spec), leaves), found)
        return found, leaves

    def _key(self, nested: str, leaves: Sequence[Any]) -> tuple[Any, ...]:
        begins = map(begin_of, leaves) if self._sees_memory else ()
        return (nested, *map(_kind, leaves), *begins)

    def _keep(self, key: Any, part: ExportedModel | InParts | str) -> None:
        self.parts[key] = part
        if len(self.parts) <= MOST_KEPT:
            return
        oldest = self.parts.pop(next(iter(self.parts)))
        with self._table_lock:
            if isinstance(oldest, ExportedModel) and oldest.fast is not None:
                for table in self._tables.values():
                    table.remove(oldest.fast)

    def find_compiled(self, args: tuple[Any, ...]) -> tuple[Compiled, list[Any]]:
        """What a call with ``args`` runs, and the tensors that it is given."""
        part, leaves = self.find(args, {})
        if isinstance(part, InParts):
            raise ArgumentError(str(part))
        if isinstance(part, ExportedModel):
            with torch().no_grad():
                given = part.arguments(leaves)
                variant = part.model.find(given)
            if variant.compiled is not None:
                return variant.compiled, [given[n] for n in variant.places]
            part = variant.reason or ""
        raise ArgumentError(f"{AS_EAGER}: {part}")

    def _export(
        self, args: tuple[Any, ...], named: dict[str, Any], leaves: Sequence[Any], nested: str
    ) -> ExportedModel | InParts:
        try:
            program = self._programs.find(nested, leaves, functools.partial(trace, self.model, args, named))
            part = ExportedModel(program, self.options, self._sizes)
        except Exception as error:  # torch cannot trace every model
            who = "" if isinstance(error, UnsupportedError) else "torch.export: "
            return InParts(f"{who}{reason_of(error)}", *self._in_parts)
        self._sees_memory = self._sees_memory or part.model.sees_memory
        is_plain = all(isinstance(a, torch().Tensor) for a in (*args, *named.values())) and not part.model.sees_memory
        part.kinds = tuple(map(_kind, leaves)) if is_plain else None
        part.names = tuple(named)
        return part

    @functools.cached_property
    def _in_parts(self) -> tuple[Callable[..., Any], list[FxModel]]:
        models: list[FxModel] = []
        of_model = functools.partial(compile_part, options=self.options, models=models)
        return compile_in_parts(self.model, of_model), models


def _kind(leaf: Any) -> Any:
    """What a compiled model depends on of an argument: how a tensor looks, any other value itself."""
    if not isinstance(leaf, torch().Tensor):
        return leaf
    return leaf.shape, leaf.dtype, strides_of(leaf), leaf.device, leaf.is_neg()


class ExportedModel:
    """One traced program: parameters, then the tensors of a call."""

    def __init__(self, program: Traced, options: Options, sizes: OpenSizes | None = None) -> None:
        self.kinds: tuple[Any, ...] | None = None
        self._user = program.user
        self._held = [program.held.get(place) for place in range(program.count)]
        #: parameters and buffers where the model has them, so that other tensors in their place are seen
        self._live = [(place, table, key) for place, (table, key) in program.homes.items()]
        for place, table, key in self._live:
            self._held[place] = table[key]
        static = frozenset({*program.homes, *program.held} - program.updates.keys())
        self.model = FxModel(
            program.gm, static, options, program.updates, homes=program.homes, sizes=sizes or OpenSizes()
        )
        results, spec = program.results, program.specification
        self.nested = str(spec)
        self._is_single = len(results) == 1 and spec.is_leaf()
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
        return all(isinstance(a, torch().Tensor) and _kind(a) == kind for a, kind in zip(args, kinds))

    def wants_gradients(self, leaves: Sequence[Any]) -> bool:
        if not torch().is_grad_enabled():
            return False
        return self._has_gradients or any(isinstance(t, torch().Tensor) and t.requires_grad for t in leaves)

    def arguments(self, leaves: Sequence[Any]) -> list[Any]:
        """All inputs of the program for a call."""
        given = list(self._held)
        for place, table, name in self._live:
            given[place] = table[name]
        for place, leaf in self._user:
            given[place] = leaves[leaf]
        return given

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
        given = self.arguments(leaves)
        variant = None if self._variant is None else self._variant.newest
        if variant is None or not self.model.is_current(variant, given):
            variant = self.model.find(given)
        self._variant = variant
        made = self.model.run(variant, given)
        return made[0] if self._is_single else self._nest(made)

    def _nest_flat(self, made: Any) -> Any:
        """Of what machine code gives: one tensor, or a tuple of several."""
        return self._nest((made,) if self._is_alone else made)


def _is_tuple(results: Sequence[Any], spec: Any) -> bool:
    """Whether a model gives a plain tuple of several tensors."""
    numbers = tuple(range(len(results)))
    made = unflatten(numbers, spec)
    return len(numbers) > 1 and type(made) is tuple and made == numbers and all(r is TENSOR for r in results)


def compile(model: Any, example_inputs: Any, *, options: Mapping[str, Any] | None = None) -> CompiledModel:
    """``model`` compiled for ``example_inputs``; a call with other sizes compiles it for these too.

    ``model`` is a module or a function of tensors, ``example_inputs`` a tensor or a tuple of arguments.
    ``options={"check": "first"}`` compares the first call with eager, and stays with eager where they differ;
    ``{"weights": "mapped"}`` moves the model's own weights into a file, so that memory has one copy of what was packed.
    """
    if not callable(model):
        raise ArgumentError(
            f"weft.compile takes a module or a function, not a {type(model).__name__}",
            help="fast = weft.compile(model, (x,)); files of models: weft.load_onnx",
        )
    compiled = CompiledModel(model, _options(options))
    args = tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    with torch().no_grad(), workers_for(model, args):
        part, leaves = compiled.find(args, {})
        if isinstance(part, ExportedModel):
            part.model.find(part.arguments(leaves))
        else:
            compiled.tell(f"{AS_EAGER}: {part}" if isinstance(part, str) else str(part), stacklevel=2)
    return compiled

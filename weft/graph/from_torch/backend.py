"""`torch.compile(model, backend="weft")` and `weft.compile(model, example_inputs)`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.graph.compiled import Compiled
from weft.graph.from_torch.early import workers_for
from weft.graph.from_torch.edge import (
    compile_in_parts,
    flatten,
    register_backend,
    torch,
)
from weft.graph.from_torch.exported import ExportedModel, OtherWeightsError, Prepared, kind_of
from weft.graph.from_torch.model import MOST_KEPT, Options, begin_of
from weft.graph.from_torch.module_state import ModuleShape
from weft.graph.from_torch.parts import AS_EAGER, GRADIENTS, BeforeCall, InParts, Remembered, compile_part
from weft.graph.from_torch.programs import Programs
from weft.graph.from_torch.quiet import is_tracing
from weft.graph.from_torch.trace import trace
from weft.graph.from_torch.what_is_called import as_module, autocast_types
from weft.graph.groups.open_sizes import OpenSizes
from weft.graph.run.renewed_table import RenewedTable
from weft.ir.at_the_call import told_at_the_call
from weft.ir.errors import ArgumentError, UnsupportedError
from weft.ir.faults import reason_of
from weft.ir.numerics import CHOICES, NUMERICS
from weft.locks import new_rlock
from weft.runtime.fastcall import MISS

#: Models that were compiled through torch.compile in this process and are still there, for `weft.explain`.
COMPILED = Remembered()


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
        #: reasons for eager calls that the user was warned of
        self._told: set[str] = set()
        self._lock, self._table_lock = new_rlock(), new_rlock()
        self._begin()

    def _begin(self) -> None:
        """As if it had never been called."""
        self._shape = ModuleShape(as_module(self.model))
        self.parts: dict[Any, ExportedModel | InParts | str] = {}
        self._last: ExportedModel | None = None
        #: whether it was found to matter where tensors begin in their memory
        self._sees_memory = False
        self._sizes, self._programs = OpenSizes(), Programs()
        self._tables: dict[tuple[Any, ...], RenewedTable] = {}
        #: takes calls like some before without any Python: what is called, arguments that are given by name, and what
        #: nests the results
        self._fast: tuple[Callable[..., Any], tuple[str, ...], Callable[[Any], Any] | None] | None = None

    def __reduce__(self) -> Any:
        """A copy compiles its own model anew, when it is called."""
        return CompiledModel, (self.model, self.options)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(self.__dict__.get("model"), name):
            raise AttributeError(f"a compiled model has no `{name}`; its model has: fast.model.{name}")
        raise AttributeError(f"a compiled model has no `{name}`")

    def __call__(self, *args: Any, **named: Any) -> Any:
        if self._fast is not None:
            call, names, nest = self._fast
            if tuple(named) == names:
                made = call(None, *args, *named.values())
                if made is not MISS:
                    return made if nest is None else nest(made)
        return self._call_slowly(args, named)

    def _call_slowly(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if is_tracing():  # of a model around this one
            return self.model(*args, **named)
        last = self._last
        if last is not None and last.wants_gradients(()):
            return self._call_for_gradients(args, named)
        with self._lock:  # while another thread traces the model, that has other tensors in it
            found, prepared = self._prepare(args, named)
        if not isinstance(found, ExportedModel):
            return self._call_traced(found, args, named)
        if prepared is None:
            return self._call_for_gradients(args, named)
        made = found.run(prepared)
        with self._table_lock:
            self._make_fast(found)
        return made

    def _prepare(
        self, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[ExportedModel | InParts | str, Prepared | None]:
        """What takes such arguments, and what it runs with them; nothing where gradients are wanted."""
        leaves: Sequence[Any]
        self._forget_another_model()
        last = self._last
        if last is not None and not named and last.mode == self._mode() and last.takes(args):
            part, leaves = last, args
        else:
            found, leaves = self.find(args, named)
            if not isinstance(found, ExportedModel):
                return found, None
            part = self._last = found
        if part.wants_gradients(leaves):
            return part, None
        try:
            return part, part.prepare(leaves)
        except OtherWeightsError:
            self._begin_again()
            return self._prepare(args, named)

    def _call_for_gradients(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        self.tell(f"{AS_EAGER}: {GRADIENTS}", stacklevel=4)
        return self.model(*args, **named)

    def _mode(self) -> tuple[Any, ...]:
        """What a traced program depends on besides arguments, and what comes and goes: it is kept for each."""
        return self._shape.training(), autocast_types()

    def _forget_another_model(self) -> None:
        """Forgets what was traced, where the model has other modules in it by now."""
        if not self._shape.is_current():
            self._begin_again()

    def _begin_again(self) -> None:
        with self._lock, self._table_lock:
            parts = [part for part in self.parts.values() if isinstance(part, ExportedModel)]
            for variant in [v for part in parts for v in part.model.variants.values()]:
                if variant.fast is not None:
                    variant.fast.forget()
            self._fast = None
            self._begin()

    def _call_traced(self, found: InParts | str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The model itself, or its parts; arguments that it does not take either are its own error, and all there is to
        say."""
        if isinstance(found, InParts):
            return self._call_parts(found, args, named)
        made = self.model(*args, **named)
        self.tell(f"{AS_EAGER}: {found}", stacklevel=4)
        return made

    def _call_parts(self, found: InParts, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The first call is the model's own: Dynamo is not asked about arguments that it refuses."""
        number, found.calls = found.calls, found.calls + 1
        if number == 0:
            try:
                made = self.model(*args, **named)
            except BaseException:
                self.parts = {key: part for key, part in self.parts.items() if part is not found}
                raise
            self.tell(str(found), stacklevel=5)
            return made
        before = BeforeCall(self.model, (args, named), keeps_copies=number == 1)
        try:
            return found.call(*args, **named)
        except Exception as error:  # the model's own, or of a model that is another while it is traced
            if not before.restore():  # what was written would be written twice
                raise
            made = self.model(*args, **named)
            reason = f"{found.reason}; in parts: {reason_of(error)}"
        self.parts |= {key: reason for key, part in self.parts.items() if part is found}
        self.tell(f"{AS_EAGER}: {reason}", stacklevel=5)
        return made

    def refresh(self) -> None:
        """Says that weights of the model were written to, where Weft cannot see it: as `weft.refresh`."""
        parts = list(self.parts.values())
        models = [part.model for part in parts if isinstance(part, ExportedModel)]
        for model in [*models, *(m for part in parts if isinstance(part, InParts) for m in part.models)]:
            model.expire()

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
            table = self._tables.setdefault((*shape, part.names, part.nested), RenewedTable(*shape))
            if now is not before:
                table.add(now)
            self._fast = table.call, part.names, part.nest

    def find(
        self, args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[ExportedModel | InParts | str, Sequence[Any]]:
        """What takes such arguments, made now or before, or why nothing does; and the tensors among them."""
        self._forget_another_model()
        leaves, spec = flatten((args, dict(named)))
        nested: tuple[Any, ...] = (str(spec), self._mode())
        try:
            found = self._find(nested, leaves, lambda: self._export(args, dict(named), leaves, nested))
        except TypeError:  # a numpy array, say: nothing to remember a model by
            strange = [leaf for leaf in leaves if type(leaf).__hash__ is None]
            return f"an argument is a {type(strange[0]).__name__}" if strange else "arguments without a hash", leaves
        if isinstance(found, ExportedModel) and found.writes_shared(leaves):
            return "an input that the model writes to shares memory with another", leaves
        return found, leaves

    def _find(
        self, nested: tuple[Any, ...], leaves: Sequence[Any], make: Callable[[], ExportedModel | InParts | str]
    ) -> ExportedModel | InParts | str:
        """What takes calls like this, as it was found before, or is made."""
        found = self.parts.get(self._key(nested, leaves))
        if found is None:
            with self._lock:
                found = self.parts.get(self._key(nested, leaves)) or make()
                self._keep(self._key(nested, leaves), found)
        return found

    def _key(self, nested: tuple[Any, ...], leaves: Sequence[Any]) -> tuple[Any, ...]:
        begins = map(begin_of, leaves) if self._sees_memory else ()
        return (nested, *map(kind_of, leaves), *begins)

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
            try:
                given = part.checked_arguments(leaves)
            except OtherWeightsError:
                self._begin_again()
                return self.find_compiled(args)
            with torch().no_grad():
                variant = part.model.find(given)
            if variant.compiled is not None:
                return variant.compiled, [given[n] for n in variant.places]
            part = variant.reason or ""
        raise ArgumentError(f"{AS_EAGER}: {part}")

    def _export(
        self, args: tuple[Any, ...], named: dict[str, Any], leaves: Sequence[Any], nested: tuple[Any, ...]
    ) -> ExportedModel | InParts | str:
        try:
            program = self._programs.find(nested, leaves, functools.partial(trace, self.model, args, named))
            part = ExportedModel(program, self.options, self._sizes, self._shape.watched(), nested[1])
        except Exception as error:  # torch cannot trace every model
            who = "" if isinstance(error, UnsupportedError) else "torch.export: "
            return self._without_export(f"{who}{reason_of(error)}")
        self._sees_memory = self._sees_memory or part.model.sees_memory
        is_plain = all(isinstance(a, torch().Tensor) for a in (*args, *named.values())) and not (
            part.model.sees_memory or program.updates
        )
        part.kinds = tuple(map(kind_of, leaves)) if is_plain else None
        part.names = tuple(named)
        return part

    def _without_export(self, reason: str) -> InParts | str:
        try:
            return InParts(reason, *self._in_parts)
        except Exception as error:  # Dynamo does not even load, where its first import was interrupted
            return f"{reason}; in parts: {reason_of(error)}"

    @functools.cached_property
    def _in_parts(self) -> tuple[Callable[..., Any], Remembered]:
        models = Remembered()
        of_model = functools.partial(compile_part, options=self.options, models=models)
        return compile_in_parts(self.model, of_model), models


@told_at_the_call
def compile(
    model: Any,
    example_inputs: Any = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> CompiledModel:
    """``model`` compiled for ``example_inputs``; a call with other sizes compiles it for these too.

    ``model`` is a module or a function of tensors, ``example_inputs`` a tensor or a tuple of arguments, ``kwargs``
    those that calls give by name.
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
    named = dict(kwargs or {})
    with torch().no_grad(), workers_for(model, (*args, *named.values())):
        part, leaves = compiled.find(args, named)
        if isinstance(part, ExportedModel):
            part.model.find(part.arguments(leaves))
        else:
            compiled.tell(f"{AS_EAGER}: {part}" if isinstance(part, str) else str(part), stacklevel=3)
    return compiled

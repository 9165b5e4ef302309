"""`weft.load_onnx`: a model that compiles itself for the sizes it is called with.

>>> net = weft.load_onnx("model.onnx")
>>> y = net(x)
>>> [y] = net.run(None, {"x": x})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from weft.graph.compile_graph import compile_graph
from weft.graph.compiled import Compiled
from weft.graph.evaluate import as_numpy
from weft.graph.from_onnx.check import check_file
from weft.graph.from_onnx.edge import read_model
from weft.graph.from_onnx.file import OnnxFile, Port
from weft.graph.from_onnx.places import Host, Place, find_place
from weft.graph.from_onnx.table import MOST_KNOWN, NeedsValues, Term
from weft.graph.from_onnx.translate import translate
from weft.graph.graph import Graph
from weft.graph.groups.open_sizes import OpenSizes
from weft.graph.run.arrays import Arrays
from weft.graph.run.fast_model import NUMPY, FastModel, is_fast
from weft.graph.run.renewed_table import RenewedTable
from weft.ir.errors import ArgumentError, Error, InternalError, ShapeError, UnsupportedError
from weft.ir.faults import place_of, reason_of
from weft.ir.numerics import Numerics
from weft.locks import new_rlock
from weft.runtime.fastcall import MISS, Specialization

#: Executables that a model keeps, for as many kinds of inputs; the oldest goes first.
MOST_KEPT = 64


def load_onnx(source: Any, *, numerics: Numerics = "fast", device: str = "cpu") -> OnnxModel:
    """The model in a file, in bytes, or an `onnx.ModelProto`; it is compiled when first called, for ``device``."""
    file = read_model(source)
    check_file(file)
    return OnnxModel(file, numerics, find_place(device))


def _again(file: OnnxFile, numerics: Numerics, device: str) -> OnnxModel:
    return OnnxModel(file, numerics, find_place(device))


@dataclass(frozen=True, eq=False)
class _Variant:
    """What was made for one kind of inputs: outputs are known, or come from the executable."""

    compiled: Compiled | None
    #: by their place among the arguments
    given: tuple[str, ...]
    outputs: tuple[Term, ...]
    #: outputs of the executable that share memory with something that stays
    shared: frozenset[str]
    place: Place
    #: the same for machine code, where that alone can run it
    fast: Specialization | None = None

    def run(self, arrays: Mapping[str, Any]) -> list[Any]:
        made: dict[str, Any] = {}
        if self.compiled is not None:
            graph = self.compiled.executable.graph
            results = self.compiled.executable.run([arrays[name] for name in self.given])
            made = {n: self.place.copied(a) if n in self.shared else a for n, a in zip(graph.outputs, results)}
        return [self.place.take(t.array.copy()) if t.edge is None else made[t.edge] for t in self.outputs]


class OnnxModel:
    """``net(x)`` or ``net.run(None, {"x": x})``; several threads may call it at once.

    ``inputs`` and ``outputs`` have a name, a type and a shape, whose sizes are numbers, names, or None.
    """

    def __init__(self, file: OnnxFile, numerics: Numerics = "fast", place: Place | None = None) -> None:
        self.file, self.numerics, self.place = file, numerics, place or Host()
        stored = file.graph.constants
        self.inputs: tuple[Port, ...] = tuple(p for p in file.graph.inputs if p.name not in stored)
        #: inputs that have a value of their own where none is given
        self.optional_inputs: tuple[Port, ...] = tuple(p for p in file.graph.inputs if p.name in stored)
        self.outputs: tuple[Port, ...] = file.graph.outputs
        self.variants: dict[Any, _Variant] = {}
        #: inputs that sizes of other tensors depend on: an executable is for their very values
        self._decisive: frozenset[str] = frozenset()
        self._lock = new_rlock()
        self._sizes = OpenSizes()
        #: takes calls like some before, with arrays in the order of the inputs, without any Python
        self._table = RenewedTable(len(self.inputs), len(self.outputs))
        for port in self.inputs:
            if port.dtype is None:
                raise UnsupportedError(
                    f"input `{port.name}` of {file.where} is a {port.kind}", why="Weft computes with tensors of numbers"
                )

    def __reduce__(self) -> Any:
        """A copy compiles its own code, when it is called."""
        return _again, (self.file, self.numerics, self.place.device)

    def get_inputs(self) -> tuple[Port, ...]:
        """As onnxruntime has it."""
        return self.inputs

    def get_outputs(self) -> tuple[Port, ...]:
        return self.outputs

    def __repr__(self) -> str:
        given, made = ", ".join(map(str, self.inputs)), ", ".join(map(str, self.outputs))
        return f"OnnxModel({given} -> {made})"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The output, or a tuple of them, for arrays in the order of the inputs or by their names."""
        if not named:
            result = self._table.call(None, *args)
            if result is not MISS:
                return result
        if len(args) > len(self.inputs):
            raise ArgumentError(f"{self._title} takes {len(self.inputs)} inputs, not {len(args)}", why=self._signature)
        made = self._run({**dict(zip((p.name for p in self.inputs), args)), **named})
        return made[0] if len(made) == 1 else tuple(made)

    def run(self, names: Sequence[str] | None, inputs: Mapping[str, Any]) -> list[Any]:
        """The outputs of these ``names``, all without, for inputs by name."""
        known = [p.name for p in self.outputs]
        for name in names or ():
            if name not in known:
                raise ArgumentError(f"{self._title} has no output `{name}`", why=self._signature)
        made = dict(zip(known, self._run_fast(inputs) or self._run(inputs)))
        return [made[name] for name in (known if names is None else names)]

    @property
    def _title(self) -> str:
        return self.file.where

    @property
    def _signature(self) -> str:
        return f"its inputs are {_listed(self.inputs)} and its outputs {_listed(self.outputs)}"

    def explain(self, tell: Callable[[Compiled], str]) -> list[str]:
        """What became of the model for each kind of inputs it met."""
        texts = []
        for key, variant in self.variants.items():
            looks = ", ".join(f"{name} {dtype}{list(shape)}" for name, dtype, shape, _ in key)
            texts.append(f"for {looks}: " + ("all is known" if variant.compiled is None else tell(variant.compiled)))
        return texts

    def _run_fast(self, inputs: Mapping[str, Any]) -> list[Any] | None:
        """A call for machine code alone; None where it is not."""
        if not isinstance(inputs, Mapping) or len(inputs) != len(self.inputs):
            return None
        result = self._table.call(None, *[inputs.get(port.name) for port in self.inputs])
        if result is MISS:
            return None
        return [result] if len(self.outputs) == 1 else list(result)

    def _run(self, inputs: Mapping[str, Any]) -> list[Any]:
        arrays = self._checked(inputs)
        variant = self.find(arrays)
        made = self.place.give(variant.run(arrays), inputs)
        if variant.fast is not None and variant.given == tuple(p.name for p in self.inputs):
            self._table.add(variant.fast)
        return made

    def _checked(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays by name, with the types and sizes that the model says."""
        if not isinstance(inputs, Mapping):
            raise ArgumentError(f"inputs are a {type(inputs).__name__}", help='net.run(None, {"x": x})')
        ports = {p.name: p for p in (*self.inputs, *self.optional_inputs)}
        for name in inputs:
            if name not in ports:
                raise ArgumentError(f"{self._title} has no input `{name}`", why=self._signature)
        missing = [p.name for p in self.inputs if p.name not in inputs]
        if missing:
            names = ", ".join(f"`{m}`" for m in missing)
            raise ArgumentError(f"{self._title} needs {names} too", why=self._signature)
        sizes: dict[str, tuple[int, str]] = {}
        return {n: _check_array(ports[n], inputs[n], sizes, self.place) for n in ports if n in inputs}

    def find(self, arrays: Mapping[str, Any]) -> _Variant:
        """What was made for such inputs, now or before."""
        found = self.variants.get(self._key(arrays))
        if found is not None:
            return found
        with self._lock:
            found = self.variants.get(self._key(arrays))
            if found is not None:  # of another thread
                return found
            while True:
                try:
                    variant = self._compile(arrays)
                    break
                except NeedsValues as needed:
                    self._decide_by(needed.names, arrays)
            while len(self.variants) >= MOST_KEPT:
                self._drop(next(iter(self.variants)))
            self.variants[self._key(arrays)] = variant
        return variant

    def find_compiled(self, inputs: Sequence[Any]) -> tuple[Compiled, list[Any]]:
        """What a call with ``inputs``, in order or as one mapping by name, runs, and the arrays that it is given."""
        by_name = len(inputs) == 1 and isinstance(inputs[0], Mapping)
        arrays = self._checked(inputs[0] if by_name else dict(zip((p.name for p in self.inputs), inputs)))
        variant = self.find(arrays)
        if variant.compiled is None:
            raise ArgumentError(f"{self._title} has nothing to run", why="all of it is known when it is compiled")
        return variant.compiled, variant.compiled.executable.check_inputs([arrays[name] for name in variant.given])

    def _key(self, arrays: Mapping[str, Any]) -> Any:
        decisive, look = self._decisive, self.place.look
        return tuple((n, *look(a), as_numpy(a).tobytes() if n in decisive else None) for n, a in arrays.items())

    def _decide_by(self, names: frozenset[str], arrays: Mapping[str, Any]) -> None:
        new = names - self._decisive
        large = [n for n in sorted(names) if prod(arrays[n].shape) > MOST_KNOWN]
        if large or not new:
            raise UnsupportedError(
                f"sizes in {self._title} depend on the values of `{(large or sorted(names))[0]}`",
                why=f"Weft compiles for the values of inputs of up to {MOST_KNOWN} elements",
            )
        self._decisive |= new
        for key in list(self.variants):  # which lack these values
            self._drop(key)

    def _drop(self, key: Any) -> None:
        dropped = self.variants.pop(key)
        if dropped.fast is not None:
            self._table.remove(dropped.fast)

    def _compile(self, arrays: Mapping[str, Any]) -> _Variant:
        looks = {name: self.place.look(a) for name, a in arrays.items()}
        decisive = [name for name in arrays if name in self._decisive or 0 in arrays[name].shape]
        values = {name: as_numpy(arrays[name]).copy() for name in decisive}
        made = translate(self.file, looks, values, self.numerics, self.place.arrays.call_of)
        if made.graph is None:
            return _Variant(None, (), made.outputs, frozenset(), self.place)
        compiled = _compiled(made.graph, self._title, self._sizes, self.place.arrays)
        given = tuple(name for name in arrays if name not in values)
        shared = _shared(compiled)
        is_plain = not shared and not values and [t.edge for t in made.outputs] == list(made.graph.outputs)
        fast = _fast(compiled) if is_plain else None
        return _Variant(compiled, given, made.outputs, shared, self.place, fast)


def _fast(compiled: Compiled) -> Specialization | None:
    executable = compiled.executable
    return FastModel(executable).specialization(executable, NUMPY) if is_fast(executable) else None


def _compiled(graph: Graph, title: str, sizes: OpenSizes, arrays: Arrays) -> Compiled:
    constants = {name: arrays.own(array) for name, array in graph.constants.items()}
    try:
        return compile_graph(replace(graph, constants=constants), arrays, sizes)
    except Error:
        raise
    except RecursionError as error:
        raise UnsupportedError(f"{title} has formulas nested too deep", why=str(error)) from error
    except Exception as error:
        raise InternalError(
            f"{title} could not be compiled",
            why=f"{reason_of(error)} ({place_of(error)})",
            help="this is a fault of Weft: please report it with the model",
        ) from error


def _shared(compiled: Compiled) -> frozenset[str]:
    """Outputs that are another look at an input, a constant, or another output."""
    graph, storage = compiled.executable.graph, compiled.executable.storage
    shared, seen = set(), set()
    for name in graph.outputs:
        found = storage.find(name)
        root = name if found is None else found.root
        if root in seen or root in graph.inputs or root in graph.constants:
            shared.add(name)
        seen.add(root)
    return frozenset(shared)


def _listed(ports: Sequence[Port]) -> str:
    return ", ".join(map(str, ports)) or "none"


def _check_array(port: Port, given: Any, sizes: dict[str, tuple[int, str]], place: Place) -> Any:
    """``given`` as an array of ``place``; ``sizes`` are those of names met so far, and where."""
    try:
        array = place.take(given)
    except Error as error:
        raise ArgumentError(
            f"input `{port.name}` is a {type(given).__name__}", why=error.what, help="pass a numpy array"
        ) from None
    if place.look(array)[0] != port.dtype:
        raise ArgumentError(
            f"input `{port.name}` is {array.dtype}, not {port.dtype}", help=f"pass {port.name}.astype(...) of that type"
        )
    if port.shape is None:
        return array
    is_like = len(array.shape) == len(port.shape)
    if not is_like or any(isinstance(n, int) and n != m for n, m in zip(port.shape, array.shape)):
        raise ShapeError(f"input `{port.name}` has shape {tuple(array.shape)}", why=f"the model says {port}")
    for size, n in zip(port.shape, array.shape):
        if isinstance(size, str) and sizes.setdefault(size, (n, port.name))[0] != n:
            first, other = sizes[size]
            raise ShapeError(
                f"input `{port.name}` has {n} elements along {size}", why=f"`{other}` has {first}: {size} is one size"
            )
    return array

"""A module of aten operators that compiles itself for what it is called with, and runs as eager where it cannot."""

from __future__ import annotations

import contextlib
import functools
import operator
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.graph.compiled import Compiled
from weft.graph.from_torch.arrays import TorchArrays
from weft.graph.from_torch.changes import Memories, watch, witness_of
from weft.graph.from_torch.edge import no_modes, numerics_on, torch
from weft.graph.from_torch.kept import KeptModule
from weft.graph.from_torch.mapped_weights import map_weights
from weft.graph.from_torch.sees_memory import sees_memory
from weft.graph.from_torch.symbolic import at_sizes
from weft.graph.from_torch.what_is_called import autocast_enabled
from weft.graph.groups.open_sizes import OpenSizes
from weft.graph.run.background import BACKGROUND
from weft.graph.run.cuda_fast import FastRecorded
from weft.graph.run.executable import Executable
from weft.graph.run.fast_model import FastModel, Weight
from weft.graph.run.processor import CPU, Processor
from weft.graph.run.witness import Witness
from weft.ir.errors import UnsupportedError
from weft.ir.faults import refused
from weft.locks import new_lock, new_rlock
from weft.runtime.native import trim_heap
from weft.runtime.paged_file import page_out
from weft.runtime.torch_layout import StateFields, find_state_fields, tensor_state

#: Calls after which a size gets code of its own, and sizes of a model that have such at a time, beside the first.
HOT_CALLS, MOST_SPECIAL = 32, 4
#: Sizes that a model keeps executables for; the oldest goes first.
MOST_KEPT = 64
#: Bytes of weights from which on memory is given back as soon as a model is compiled.
LARGE = 4 << 20


@dataclass(frozen=True)
class Options:
    """``check="first"`` compares the first call of each kind with eager, and stays with eager where they differ;
    ``weights="mapped"`` moves the model's own weights into a file."""

    check: str | None = None
    numerics: Any = "fast"
    weights: str | None = None


@dataclass(eq=False)
class Variant:
    """What was compiled for one set of sizes; ``reason`` where that failed."""

    compiled: Compiled | None = None
    reason: str | None = None
    constants: tuple[Any, ...] = ()
    stamps: tuple[list[int], list[int]] = ([], [])
    places: tuple[int, ...] = ()
    is_checked: bool = False
    #: the stamps for machine code, where it can read this torch's tensors
    fast: FastModel | None = None
    #: calls of code for many sizes; None where it is for these sizes, or will be
    calls: int | None = None
    #: what was compiled for just these sizes meanwhile
    replacement: Variant | None = None
    #: values of the constants, as far as they are looked at
    seen: Witness = field(default_factory=Witness)
    #: whether constants are known to have other values by now
    is_expired: bool = False

    @property
    def newest(self) -> Variant:
        return self if self.replacement is None else self.replacement

    def expire(self) -> None:
        """Constants have other values now."""
        self.is_expired = True
        if self.fast is not None:
            self.fast.forget()


@dataclass(eq=False)
class FxModel:
    """``gm`` with inputs some of which, by place, are ``static``: the same tensors in every call.

    ``updates`` says which inputs take the values of which outputs, as `translate` has it.
    """

    gm: Any
    static: frozenset[int] = frozenset()
    options: Options = field(default_factory=Options)
    updates: Mapping[int, int] = field(default_factory=dict)
    name: str = "model"
    #: dictionaries of the user's model that have inputs, by place, and under which keys
    homes: Mapping[int, tuple[dict[str, Any], str]] = field(default_factory=dict)
    #: objects other than tensors that the user's model has, in which dictionaries and under which keys
    watched: Sequence[tuple[dict[str, Any], str, Any]] = ()
    #: whether torch chose types automatically while it was traced
    is_autocast: bool = False
    #: what it has in common with the model for other sizes
    sizes: OpenSizes = field(default_factory=OpenSizes)
    #: why all of it runs as eager, where it does
    reason: str | None = None

    def __post_init__(self) -> None:
        self.variants: dict[Any, Variant] = {}
        self._lock, self._counting = new_rlock(), new_lock()
        #: for each compilation that is under way, what it was told of changes meanwhile
        self._told: dict[int, list[Memories | None]] = {}
        self._static = sorted(self.static)
        holders = [node for node in self.gm.graph.nodes if node.op == "placeholder"] if self.static else []
        #: the static ones that anything depends on
        self._watched = [n for n in self._static if n >= len(holders) or holders[n].users]
        watch(self)

    @functools.cached_property
    def sees_memory(self) -> bool:
        """Whether it matters where tensors begin in their memory."""
        return sees_memory(self.gm)

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """One call; the results, without those that are updates."""
        return self.run(self.find(args), args)

    def run(self, variant: Variant, args: Sequence[Any]) -> list[Any]:
        """A call of what `find` found for such arguments."""
        compiled = variant.compiled  # another thread may find it wrong meanwhile
        if compiled is None:
            return self._eager(args)
        if not variant.is_checked and self.options.check == "first":
            return self._check(variant, compiled, args)
        if variant.calls is not None:
            self._count(variant, args)
        return compiled.executable.run_checked([args[n] for n in variant.places])

    def _count(self, variant: Variant, args: Sequence[Any]) -> None:
        """Asks for code for just these sizes where they are met often."""
        with self._counting:
            if variant.calls is None:  # another thread has asked
                return
            variant.calls += 1
            if variant.calls < HOT_CALLS and not (variant.fast is not None and variant.fast.is_spent):
                return
            variant.calls = None
        if variant.fast is not None:
            variant.fast.refill()
        special = [v for v in self.sizes.special if v() is not None]
        if len(special) < MOST_SPECIAL:
            BACKGROUND.submit(functools.partial(self._specialize, variant, list(args)))

    def _specialize(self, before: Variant, args: Sequence[Any]) -> None:
        """Code for just the sizes of ``args`` in place of that for many."""
        sizes = self.sizes.closed()
        with self._told_of_changes() as told:
            with no_modes(), torch().no_grad():
                made = self._compile(args, sizes)
            with self._lock:
                self._replace(before, made, args, sizes)
                self._expire_of(made, told)

    def _replace(self, before: Variant, made: Variant, args: Sequence[Any], sizes: OpenSizes) -> None:
        key = next((key for key, variant in self.variants.items() if variant is before), None)
        if key is None or made.compiled is None or not self.is_current(made, args):
            return
        self.sizes.values.take(sizes.values)
        self.variants[key] = before.replacement = made
        self.sizes.special = [v for v in self.sizes.special if v() is not None] + [weakref.ref(made)]
        if before.fast is not None:
            before.fast.forget()

    def find(self, args: Sequence[Any]) -> Variant:
        key = tuple(
            (a.shape, strides_of(a), a.dtype, a.device, a.is_neg()) if isinstance(a, torch().Tensor) else a
            for n, a in enumerate(args)
            if n not in self.static
        )
        if self.sees_memory:
            key += tuple(map(begin_of, args))
        variant = self._current(key, args)
        if variant is not None:
            return variant
        with self._lock, no_modes():
            variant = self._current(key, args)
            if variant is not None:  # of another thread
                return variant
            variant = self.variants.get(key)
            if variant is not None and variant.fast is not None:
                variant.fast.forget()
            with self._told_of_changes() as told:
                variant = self.variants[key] = self._compile(args)
                self._expire_of(variant, told)
            self._let_go()
            page_out()
            if sum(t.nbytes for t in variant.constants) > LARGE:
                trim_heap()
        return variant

    def _let_go(self) -> None:
        """Of more sizes than are kept, those that were compiled first."""
        while len(self.variants) > MOST_KEPT:
            oldest = self.variants.pop(next(iter(self.variants)))
            if oldest.fast is not None:
                oldest.fast.forget()

    def _current(self, key: Any, args: Sequence[Any]) -> Variant | None:
        variant = self.variants.get(key)
        is_current = variant is not None and (variant.compiled is None or self.is_current(variant, args))
        return variant if is_current else None

    def is_current(self, variant: Variant, args: Sequence[Any]) -> bool:
        """Whether parameters are where they were, and unchanged as far as torch counts changes and samples show any."""
        if variant.is_expired:
            return False
        if variant.fast is not None and all(args[n] is t for n, t in zip(self._static, variant.constants)):
            return bool(variant.fast.is_current())
        return variant.stamps == _stamps([args[n] for n in self._watched]) and variant.seen.is_same()

    def expire(self, changed: Memories | None = None) -> None:
        """Constants that lie in ``changed`` memory have other values now; all, where none is given."""
        for told in list(self._told.values()):
            told.append(changed)
        for variant in list(self.variants.values()):
            self._expire_of(variant, [changed])

    def _expire_of(self, variant: Variant, changes: Sequence[Memories | None]) -> None:
        if any(changed is None or changed.meet(variant.constants) for changed in changes):
            variant.expire()
            self.sizes.values.forget()

    @contextlib.contextmanager
    def _told_of_changes(self) -> Iterator[list[Memories | None]]:
        told: list[Memories | None] = []
        self._told[id(told)] = told
        try:
            yield told
        finally:
            del self._told[id(told)]

    def _compile(self, args: Sequence[Any], sizes: OpenSizes | None = None) -> Variant:
        sizes = sizes or self.sizes
        constants = {n: args[n] for n in self._static}
        if self.options.weights == "mapped":
            map_weights(constants.values())
        watched = [args[n] for n in self._watched]
        stamps, seen = _stamps(watched), witness_of(watched)
        places = tuple(n for n, a in enumerate(args) if isinstance(a, torch().Tensor) and n not in constants)
        try:
            self._refuse_tensors(args)
            sizes.values.check(stamps[0], list(zip(stamps[1], seen.digests())))
            arrays = TorchArrays(_processor(args, self.static))
            gm = at_sizes(self.gm, args)
            numerics = numerics_on(arrays.device, self.options.numerics)
            begins = [*map(begin_of, args)] if self.sees_memory else []
            kept = KeptModule(gm, constants, arrays, self.updates, self.name, numerics, begins)
            compiled = kept.load(sizes)
            if compiled is None:
                from weft.graph.from_torch.compile_module import compile_module

                facts = {"updates": self.updates, "name": self.name, "device": arrays.device, "numerics": numerics}
                graph, compiled = compile_module(gm, args, constants, arrays, sizes, **facts)
                kept.save(graph, compiled)
        except Exception as error:  # a fault of ours must not take the user's program with it
            return self._failed(refused(error))
        made = Variant(compiled, None, tuple(constants.values()), stamps, places, seen=seen)
        made.calls = 0 if compiled.is_open else None
        made.fast = self._fast(made)
        return made

    def _fast(self, variant: Variant) -> FastModel | None:
        assert variant.compiled is not None
        executable, fields = variant.compiled.executable, state_fields()
        if fields is None or self.is_autocast or any(t.is_inference() for t in variant.constants):
            return None
        weights = []
        for place, tensor in zip(self._static, variant.constants):
            table, key = self.homes.get(place, (None, None))
            weights.append(Weight(tensor, tensor_state(tensor, fields), table, key))
        weights += [Weight(value, table=table, key=key) for table, key, value in self.watched]
        left = -1 if variant.calls is None else HOT_CALLS
        has_gradients = any(t.requires_grad for t in variant.constants)
        kind = FastModel if isinstance(executable, Executable) else FastRecorded
        asked = torch().is_grad_enabled if has_gradients else None, autocast_enabled()
        return kind(executable, weights, fields, asked, left, variant.seen)

    def _failed(self, reason: str) -> Variant:
        warnings.warn(f"weft: {self.name} runs as eager PyTorch: {reason}", stacklevel=3)
        return Variant(reason=reason)

    def _refuse_tensors(self, args: Sequence[Any]) -> None:
        if any(isinstance(a, torch().Tensor) and a.layout != torch().strided for a in args):
            raise UnsupportedError("a sparse tensor")
        if any(isinstance(a, torch().Tensor) and a.is_neg() for a in args):
            raise UnsupportedError("a negated view, whose memory holds other values than it shows")
        if self.sees_memory and any(begin_of(a) != begin for a, begin in zip(args, self._traced_begins())):
            raise UnsupportedError("places in the memory of a tensor that begins elsewhere than when it was traced")

    def _traced_begins(self) -> list[int]:
        return [begin_of(node.meta.get("val")) for node in self.gm.graph.nodes if node.op == "placeholder"]

    def _eager(self, args: Sequence[Any]) -> list[Any]:
        made = list(self.gm(*args))
        for place, number in self.updates.items():
            args[place].copy_(made[number])
        return [m for n, m in enumerate(made) if n not in self.updates.values()]

    def _check(self, variant: Variant, compiled: Compiled, args: Sequence[Any]) -> list[Any]:
        before = [a.clone() if isinstance(a, torch().Tensor) and n in self.updates else a for n, a in enumerate(args)]
        made = compiled.executable.run_checked([args[n] for n in variant.places])
        expected = self._eager(before)
        variant.is_checked = True
        worst = _difference(made, expected)
        if worst is None:
            return made
        variant.compiled, variant.fast, variant.reason = None, None, f"the first call differed from eager: {worst}"
        warnings.warn(f"weft: {self.name} runs as eager PyTorch: {variant.reason}", stacklevel=3)
        for n in self.updates:
            args[n].copy_(before[n])
        return expected


def _processor(args: Sequence[Any], static: frozenset[int]) -> Processor:
    """What has the tensors of a call."""
    tensors = [(a.device, n in static) for n, a in enumerate(args) if isinstance(a, torch().Tensor)]
    place = place_of(tensors)
    if place.type == "cpu":
        return CPU
    from weft.graph.run.cuda_processor import cuda_processor

    return cuda_processor(place.index or 0)


def place_of(tensors: Sequence[tuple[Any, bool]]) -> Any:
    """Where a model runs whose tensors are on these devices; constants (true) in this machine's memory are copied to
    the GPU that all others are on."""
    moving = {device for device, is_constant in tensors if not (is_constant and device.type == "cpu")}
    devices = moving or {device for device, _ in tensors}
    if len(devices) > 1 or any(d.type not in ("cpu", "cuda") for d in devices):
        names = " and ".join(sorted(map(str, devices)))
        raise UnsupportedError(f"tensors on {names}: graphs run on CPUs or on one NVIDIA GPU")
    return next(iter(devices), torch().device("cpu"))


def strides_of(tensor: Any) -> Any:
    """Of a tensor; sparse ones have a layout instead."""
    return tensor.stride() if tensor.layout == torch().strided else tensor.layout


def begin_of(value: Any) -> int:
    """Elements from where a tensor's memory begins to its own first one."""
    is_there = isinstance(value, torch().Tensor) and value.layout == torch().strided
    return int(value.storage_offset()) if is_there else 0


@functools.cache
def state_fields() -> StateFields | None:
    return find_state_fields(torch())


def _stamps(tensors: list[Any]) -> tuple[list[int], list[int]]:
    """What changes where torch knows that tensors did: where they are, and how often they were written to."""
    pointers = list(map(torch().Tensor.data_ptr, tensors))
    try:
        return pointers, list(map(_VERSION, tensors))
    except RuntimeError:  # those of inference mode have none
        return pointers, [0 if t.is_inference() else t._version for t in tensors]


_VERSION = operator.attrgetter("_version")


#: How far results may be from eager's: relative to the largest value, by the bits of the type's fraction.
_TOLERANCE = {"float64": 1e-9, "float32": 1e-3, "float16": 2e-2, "bfloat16": 6e-2}


def _difference(made: Sequence[Any], expected: Sequence[Any]) -> str | None:
    """In words, where results are not those expected."""
    for n, (ours, theirs) in enumerate(zip(made, expected)):
        if not isinstance(theirs, torch().Tensor):
            continue
        name = str(theirs.dtype).removeprefix("torch.")
        if name not in _TOLERANCE:
            if not torch().equal(ours, theirs):
                return f"output {n} is not equal"
            continue
        a, b = ours.double(), theirs.double()
        same = (a == b) | (a.isnan() & b.isnan())
        finite = b[b.isfinite()]
        scale = float(finite.abs().max()) if finite.numel() else 0.0
        off = (a - b).abs()[~same]
        worst = float(off.nan_to_num(nan=float("inf")).max()) if off.numel() else 0.0
        if worst > _TOLERANCE[name] * max(scale, 1e-3):
            return f"output {n} is off by {worst:.3g}, its largest value is {scale:.3g}"
    return None

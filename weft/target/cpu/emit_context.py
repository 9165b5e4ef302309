"""The state of one LLVM function under construction: names, masks, lanes, loops, heap memory.

Inside a vector loop an expression is uniform (one value for all lanes, emitted as a scalar)
or varying (emitted as a vector); the type of a value says which, so the same code emits both.
Values are held in their computing type: bool as i1, float16 and bfloat16 as a float that the
narrow type can represent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.errors import InternalError
from weft.ir.interval import Interval
from weft.ir.span import Span
from weft.target.cpu.builder import Builder, Module
from weft.target.cpu.host import Machine
from weft.target.cpu.llvm_values import Value, constant, vector
from weft.target.cpu.math import MATH, Emitter

I64 = "i64"
ZERO, ONE = Value("0", I64), Value("1", I64)

#: Functions a kernel may import from the runtime, as result and argument types.
PARALLEL_FOR, WITH_TEAM, ALLOCATE, FREE = "weft_parallel_for", "weft_with_team", "weft_alloc", "weft_free"
OUT_OF_MEMORY = -1


def compute_type(dtype: DType) -> str:
    """The LLVM type a value of ``dtype`` has in registers."""
    if dtype.is_bool:
        return vector("i1", dtype.lanes)
    if dtype.is_integer:
        return vector(f"i{dtype.bits}", dtype.lanes)
    return vector("double" if dtype.bits == 64 else "float", dtype.lanes)


def storage_type(dtype: DType) -> str:
    """The LLVM type one element of ``dtype`` has in memory: bools are bytes, narrow floats their bits."""
    if dtype.is_bool:
        return "i8"
    return f"i{dtype.bits}" if dtype.is_integer or dtype.is_narrow_float else compute_type(dtype.scalar)


@dataclass(frozen=True, slots=True)
class Slot:
    """A variable that is assigned to: its stack slot and the type of its value."""

    pointer: Value
    type: str


@dataclass(frozen=True, slots=True)
class Memory:
    """Where a buffer lives.

    ``lanes`` above 1: each element is repeated per lane (private in a vector loop). ``own_elements``
    above 0: it is this function's own, of that many elements, so that reading and rewriting any is harmless.
    ``streams``: whole vectors are stored past the caches. ``is_private``: no other core sees it.
    """

    pointer: Value
    lanes: int = 1
    invariant: bool = False
    own_elements: int = 0
    streams: bool = False
    is_private: bool = False


@dataclass(frozen=True, slots=True)
class LoopLabels:
    """Where ``break`` and ``continue`` go, and how many heap buffers were live outside the loop."""

    latch: str
    exit: str
    heap_depth: int
    is_thread: bool = False


@dataclass(slots=True)
class Program:
    """What all functions of a module share; ``sites`` numbers the asserts."""

    module: Module
    machine: Machine
    name: str
    sites: dict[tuple[str, Span | None], int] = field(default_factory=dict)
    mutable: frozenset[str] = frozenset()  # variables that are assigned to
    contract: bool = False  # a product may be fused into a sum
    zeros_are_alike: bool = False  # to minima and maxima
    math: Mapping[str, Emitter] = field(default_factory=lambda: MATH)  # functions by name
    outlined: int = 0
    varying: dict[int, frozenset[str] | None] = field(default_factory=dict)  # by id of a vector loop; None: not lanes
    #: By ids of buffer and subscripts, which are kept so that no others get these: see `weft.target.cpu.emit_offset`.
    offsets: dict[tuple[int, int], tuple[object, object, object]] = field(default_factory=dict)
    ranges: Mapping[str, Interval] = field(default_factory=dict)  # of the variables of the loops around


@dataclass(slots=True)
class Function:
    """A function being emitted; ``lane`` is the innermost vector loop's variable, with ``lanes`` lanes."""

    program: Program
    b: Builder
    error_record: Value
    names: dict[str, Value | Slot] = field(default_factory=dict)
    buffers: dict[str, Memory] = field(default_factory=dict)
    varying: frozenset[str] = frozenset()
    lane: str | None = None
    lanes: int = 1
    mask: Value | None = None
    mask_is_live: bool = True  # some lane is known to be active
    masks_around: tuple[Value | None, ...] = ()  # under which more lanes are active than under ``mask``
    in_parallel: bool = False
    loops: list[LoopLabels] = field(default_factory=list)
    heap: list[Value] = field(default_factory=list)
    stack_bytes: int = 0
    has_streamed: bool = False  # some stores may be seen late by other threads
    copies: int = 1  # of the current statement, made by unrolled loops around it

    @property
    def machine(self) -> Machine:
        return self.program.machine

    def read(self, name: str) -> Value:
        """The current value of a variable."""
        kept = self.names.get(name)
        if kept is None:
            raise InternalError(f"`{name}` is used where it has no value")
        return self.b.load(kept.type, kept.pointer) if isinstance(kept, Slot) else kept

    def memory(self, buffer: Buffer) -> Memory:
        kept = self.buffers.get(buffer.name)
        if kept is None:
            raise InternalError(f"buffer `{buffer.name}` is used where it does not exist")
        return kept

    @contextmanager
    def bound(self, name: str, value: Value | Slot) -> Iterator[None]:
        """``name`` stands for ``value`` inside the ``with``."""
        previous = self.names.get(name)
        self.names[name] = value
        self.b.shared.clear()
        yield
        self.b.shared.clear()
        if previous is None:
            del self.names[name]
        else:
            self.names[name] = previous

    @contextmanager
    def masked(self, condition: Value, *, is_live: bool) -> Iterator[None]:
        """Only lanes where ``condition`` holds are active inside the ``with``."""
        before = self.mask, self.mask_is_live, self.masks_around
        self.masks_around = (self.mask, *self.masks_around)
        self.mask = condition if self.mask is None else self.b.and_(self.mask, condition)
        self.mask_is_live = is_live
        yield
        self.mask, self.mask_is_live, self.masks_around = before

    def free_heap(self, depth: int) -> None:
        """Release heap buffers above ``depth`` on a way out; the emitter's own list stays as it is."""
        for pointer in reversed(self.heap[depth:]):
            self.b.call(FREE, "void", [pointer])

    def leave(self, status: Value) -> None:
        """Return from the function with ``status``."""
        self.free_heap(0)
        self.end(status)

    def end(self, status: Value) -> None:
        """Return, everything freed, with all stores done as other threads see it."""
        self.fence()
        self.b.ret(status)

    def fence(self) -> None:
        if self.has_streamed and self.machine.is_x86:
            self.b.call("llvm.x86.sse.sfence", "void", [])


def function_attributes(machine: Machine) -> str:
    """No unwinding, and vectors as wide as we say."""
    width = f'"prefer-vector-width"="{machine.vector_bits}" "min-legal-vector-width"="{machine.vector_bits}"'
    return f"nounwind {width}" if machine.is_x86 else "nounwind"


def plain_name(name: str) -> str:
    """``name`` in characters that LLVM and linkers take as they are."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name) or "_"


def status(code: int) -> Value:
    return Value(str(code), "i32")


def fit(f: Function, value: Value, lanes: int) -> Value:
    """``value`` with ``lanes`` lanes: a scalar is repeated."""
    return value if value.lanes == lanes else f.b.splat(value, lanes)


def fit_all(f: Function, *values: Value) -> list[Value]:
    """All with the same number of lanes."""
    lanes = max(v.lanes for v in values)
    return [fit(f, v, lanes) for v in values]


def literal_of(value: Value) -> int | None:
    """The number where an integer ``value`` is a literal, repeated over the lanes or not."""
    text = value.text
    if text[0] == "%":
        return None
    if text.startswith("splat"):
        text = text[len("splat (") : -1].split()[-1]
    return int(text) if text.lstrip("-").isdigit() else None


def add(f: Function, a: Value, b: Value) -> Value:
    """Scalar i64 sum; literals fold, since text goes through no folding builder."""
    x, y = literal_of(a), literal_of(b)
    if x is not None and y is not None:
        return literal(x + y)
    return b if x == 0 else a if y == 0 else f.b.add(a, b)


def multiply(f: Function, a: Value, b: Value) -> Value:
    """Scalar i64 product with literals folded."""
    x, y = literal_of(a), literal_of(b)
    if x is not None and y is not None:
        return literal(x * y)
    return b if x == 1 or y == 0 else a if y == 1 or x == 0 else f.b.mul(a, b)


def literal(number: int) -> Value:
    """``number``, wrapped around, as an i64."""
    return Value(str((number + 2**63) % 2**64 - 2**63), I64)


def lane_numbers(lanes: int) -> Value:
    """The constant vector 0, 1, 2, ..."""
    return Value("<" + ", ".join(f"i64 {n}" for n in range(lanes)) + ">", vector(I64, lanes))


def any_lane(f: Function, mask: Value) -> Value:
    if mask.lanes == 1:
        return mask
    return f.b.call(f"llvm.vector.reduce.or.v{mask.lanes}i1", "i1", [mask], pure=True)


def all_lanes(lanes: int) -> Value:
    return constant(vector("i1", lanes), True)

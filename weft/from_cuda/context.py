"""The state of a translation: code written so far, names, variables, and what was learned in earlier attempts.

A kernel is translated until nothing new is learned of it (`Facts`): that a variable holds indices, into which memories
a pointer points, that an array is used through a pointer. What is learned only grows, so this ends soon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from weft.from_cuda.ranges import Ranges
from weft.from_cuda.types import CType, type_in_scope
from weft.from_cuda.unit import Node, Unit
from weft.from_cuda.values import Memory, Place, Value
from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.expr import Const, Expr, Unary, Var
from weft.ir.interval import Interval
from weft.ir.span import Span
from weft.ir.stmt import Alloc, Kernel, Let, Param, Seq, Stmt
from weft.ir.visit import free_vars, substitute

#: So many variables deep.
_WRITTEN_OUT = 4


class Unsupported(Exception):
    """A part of a kernel that cannot be translated: where and why (not where that was told before)."""

    def __init__(self, node: Node, why: str) -> None:
        super().__init__(why)
        self.node, self.why = node, why


@dataclass
class Facts:
    """What is known of a kernel from earlier attempts; keys are ids of declarations."""

    indices: set[str] = field(default_factory=set)
    flat: set[str] = field(default_factory=set)
    pointees: dict[str, dict[str, Memory]] = field(default_factory=dict)
    nullable: set[str] = field(default_factory=set)
    wrapping: set[str] = field(default_factory=set)
    #: Memories that are accessed as elements of several sizes, and the least of these.
    parts: dict[str, int] = field(default_factory=dict)
    #: Memories of floats that are updated as whole numbers in one step, or the other way round: held as their bits.
    bits: set[str] = field(default_factory=set)
    #: Where shared variables are in the block's shared memory, in bytes, where addresses within it are numbers.
    window: dict[str, int] = field(default_factory=dict)
    window_bytes: int = 0
    #: Local variables that must be memory: their address is kept, or elements behind it are asked for.
    in_memory: set[str] = field(default_factory=set)
    is_new: bool = False

    def learn(self, known: set[str], key: str) -> None:
        if key not in known:
            known.add(key)
            self.is_new = True

    @property
    def has_window(self) -> bool:
        """Whether shared memory is one piece, in which an address is a number."""
        return "window" in self.flat

    @property
    def has_dynamic_window(self) -> bool:
        """Whether dynamic shared memory is part of that piece: its end."""
        return "dynamic in window" in self.flat

    def place_in_window(self, key: str, size: int) -> int:
        """Where a shared variable of ``size`` bytes begins."""
        if key not in self.window:
            self.window[key] = self.window_bytes
            self.window_bytes += -(-size // 128) * 128
            self.is_new = True
        return self.window[key]

    def learn_part(self, key: str, size: int) -> None:
        """The memory is accessed as elements of ``size`` bytes, the least there are."""
        if self.parts.get(key) != size:
            self.parts[key] = size
            self.is_new = True


@dataclass
class Binding:
    """A variable, or a buffer, for all that follows in its scope."""

    what: Var | Buffer
    value: Expr | None
    span: Span | None


Item = Stmt | Binding


@dataclass
class Loop:
    """A loop or switch around: what runs before its next iteration; ``flag``: a switch was left by continue."""

    kind: str
    step: Callable[[], None] | None = None
    flag: Var | None = None


@dataclass
class Frame:
    """A function that is being written out where it is called; the kernel itself has no ``result``."""

    function: Node
    is_kernel: bool
    start: tuple[list[Item], int]
    result: Place | None = None
    this: Place | None = None
    flag: Var | None = None
    loops: list[Loop] = field(default_factory=list)
    value: Value | None = None
    is_simple: bool = False


@dataclass(frozen=True)
class Launch:
    """What code is made for: the threads of a block in each dimension (None: any), the dimensions in which the grid
    has but one block, the bytes of dynamic shared memory (None: any), which pointers share memory, and ``numbers`` of
    the arguments, whose value is known: argument, byte in it, value."""

    block: tuple[int | None, int | None, int | None] = (None, None, None)
    grid_is_one: tuple[bool, bool, bool] = (False, False, False)
    shared: int | None = None
    alias: tuple[tuple[tuple[int, int], ...], ...] = ()
    numbers: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class Slot:
    """What a parameter of the loop program is at a launch.

    ``kind``: ``pointer`` and ``number`` are found ``offset`` bytes into the CUDA argument numbered ``argument``;
    ``bytes`` is how many there are behind that pointer. ``grid`` and ``block`` are sizes in the dimension numbered
    ``argument``; ``shared`` the bytes of dynamic shared memory; ``symbol`` and ``symbol bytes`` those of a variable,
    ``texture``, ``texture bytes``, ``surface`` and ``surface bytes`` those of what a texture or surface is bound to,
    ``texture number`` what else is known of it, in units of ``unit``, and ``texture fits`` whether it is as the code
    takes it to be: with elements of so many bytes, which are floats where ``unit`` is 1. ``prints`` is memory for what
    threads print, see `prints.py`, ``table`` an array of constants (its bytes in hexadecimal are ``symbol``).
    Pointers that share memory (`Launch.alias`) are one buffer from the lowest on; ``distance`` is how many units of
    ``unit`` bytes a pointer lies behind that. ``heap`` is address 0 and ``heap bytes`` all there is behind it;
    ``address`` is a pointer as a number of such units.
    """

    kind: str
    argument: int = 0
    offset: int = 0
    dtype: DType | None = None
    symbol: str = ""
    unit: int = 1


@dataclass(frozen=True)
class GridKernel:
    """A kernel as a loop program, what its parameters are, and the C++ types of the CUDA arguments."""

    kernel: Kernel
    slots: tuple[Slot, ...]
    arguments: tuple[CType, ...]
    launch: Launch


class Context:
    """One attempt to translate a kernel."""

    def __init__(self, unit: Unit, launch: Launch, facts: Facts) -> None:
        self.unit, self.launch, self.facts = unit, launch, facts
        self.items: list[Item] = []
        self.names: set[str] = set()
        self.places: dict[str, Place] = {}
        self.ranges = Ranges()
        self.keys: dict[str, str] = {}
        self.numbers: dict[str, tuple[int, int]] = {}
        self.slots: list[tuple[Param, Slot]] = []
        self.memories: dict[str, Memory] = {}
        self.shared: list[Buffer] = []
        self.frames: list[Frame] = []
        self.problems: list[Unsupported] = []
        self.failed: set[str] = set()
        self.dims: dict[str, tuple[Expr, Expr, Expr]] = {}
        self.fixed: set[str] = set()
        self.kept: dict[str, Expr] = {}
        self.span: Span | None = None

    # ---- code

    def emit(self, statement: Stmt) -> None:
        self.items.append(statement)

    def let(self, name: str, value: Expr) -> Var:
        """A new variable with ``value``."""
        var = Var(self.fresh(name), value.dtype)
        self.items.append(Binding(var, value, self.span))
        return var

    def keep(self, name: str, value: Expr) -> Expr:
        """``value`` as it is now, whatever is stored later."""
        if isinstance(value, Const) or (isinstance(value, Var) and value.name in self.fixed):
            return value
        var = self.let(name, value)
        self.fixed.add(var.name)
        self.kept[var.name] = value
        if var.dtype == dt.index:
            self.ranges[var.name] = self.ranges.of(value)
        return var

    def written_out(self, value: Expr) -> Expr:
        """``value`` with what was kept in variables put in their place."""
        for _ in range(_WRITTEN_OUT):
            known = {var: self.kept[name] for name, var in free_vars(value).items() if name in self.kept}
            if not known:
                break
            value = substitute(value, known)
        return value

    def fresh(self, name: str) -> str:
        """``name``, or with a number behind it where it is taken."""
        name = name or "t"
        made, n = name, 0
        while made in self.names:
            n += 1
            made = f"{name}_{n}"
        self.names.add(made)
        return made

    @contextmanager
    def scope(self) -> Iterator[list[Item]]:
        """Code that goes into a list of its own."""
        saved, self.items = self.items, []
        inner = self.items
        try:
            yield inner
        finally:
            self.items = saved

    def start_of(self, memory: Memory) -> Var:
        """The number of the first byte of what an argument points to."""
        slot = Slot("address", *memory.argument)
        found = next((p for p, s in self.slots if s == slot), None)
        if not isinstance(found, Var):
            found = Var(self.fresh(f"{memory.name}_start"), dt.index)
            self.slots.append((found, slot))
            self.ranges[found.name] = Interval(0, None)
            self.fixed.add(found.name)
        return found

    def unsigned_parameter(self, var: Var) -> Var:
        """The number that ``var``, a parameter, is as an unsigned one: a parameter of its own."""
        made = Var(f"{var.name}_unsigned", dt.index)
        if made.name not in self.names:
            self.names.add(made.name)
            self.fixed.add(made.name)
            self.ranges[made.name] = Interval(0, dt.uint32.max_value)
            self.slots.append((made, Slot("number", *self.numbers[var.name], dt.uint32)))
        return made

    # ---- reading the tree

    def type_of(self, n: Node) -> CType:
        return type_in_scope(n, self.unit)

    def refuse(self, n: Node, why: str) -> NoReturn:
        raise Unsupported(n, why)

    def check_read(self, n: Node, declaration: Node) -> None:
        """Refuses ``n``, which needs a declaration that clang could not read."""
        if why := self.unit.complaint_in(declaration):
            self.refuse(n, f"`{declaration.name}`, of which clang says: {why}")

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def returned(self) -> Var:
        """The flag that tells whether the function being written out has returned."""
        frame = self.frame
        if frame.flag is None:
            frame.flag = Var(self.fresh("returned"), dt.bool_)
            items, at = frame.start
            items.insert(at, Binding(frame.flag, Const(False, dt.bool_), self.span))
        return frame.flag


def close(items: list[Item]) -> Stmt:
    """The items of a scope as one statement: a variable is bound for all that follows."""
    body: list[Stmt] = []
    for item in reversed(items):
        if isinstance(item, Binding):
            inner = _sequence(body)
            if isinstance(item.what, Buffer):
                body = [Alloc(item.what, inner, span=item.span)]
            else:
                assert item.value is not None
                body = [Let(item.what, item.value, inner, span=item.span)]
        else:
            body.insert(0, item)
    return _sequence(body)


def _sequence(body: list[Stmt]) -> Stmt:
    return body[0] if len(body) == 1 else Seq(tuple(body))


def negate(condition: Expr) -> Expr:
    return Const(not condition.value, dt.bool_) if isinstance(condition, Const) else Unary("!", condition)

"""The state of one device function under construction: text, names, ranges of variables, where buffers live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from weft.ir.buffer import Buffer
from weft.ir.errors import InternalError
from weft.ir.expr import Expr
from weft.ir.interval import Interval
from weft.ir.span import Span
from weft.ir.stmt import For
from weft.target.cuda.machine import GpuMachine
from weft.target.cuda.names import Names

#: How tightly operators of C bind; a larger number binds tighter.
LEVEL: dict[str, int] = {
    "?": 1, "||": 2, "&&": 3, "|": 4, "^": 5, "&": 6, "==": 7, "!=": 7, "<": 8, "<=": 8, ">": 8, ">=": 8,
    "<<": 9, ">>": 9, "+": 10, "-": 10, "*": 11, "/": 11, "%": 11, "unary": 12, "atom": 13,
}  # fmt: skip
ATOM = LEVEL["atom"]


@dataclass(frozen=True, slots=True)
class Code:
    """The text of an expression and how tightly it binds; an int64 has 32 bits unless ``wide``."""

    text: str
    level: int = ATOM
    wide: bool = False

    def inside(self, level: int) -> str:
        """The text as an operand of something that binds as tightly as ``level``."""
        return self.text if self.level >= level else f"({self.text})"


@dataclass(frozen=True, slots=True)
class Memory:
    """Where a buffer lives: the text of its pointer, the bytes that is a multiple of, and whether threads see it.

    ``is_private``: an array of this thread of ``elements``, in registers if all subscripts are numbers in the end.
    ``streams``: what is stored is not read soon. ``is_swizzled``: see `weft.target.cuda.swizzle`.
    ``is_constant``: memory of the device that nothing in this function writes.
    """

    pointer: str
    align: int
    is_private: bool = False
    streams: bool = False
    elements: int = 0
    is_swizzled: bool = False
    is_constant: bool = False


@dataclass(slots=True)
class Program:
    """What all functions of a program share; ``sites`` numbers the asserts."""

    machine: GpuMachine
    fast: bool
    aligned: Mapping[str, int]
    sites: Mapping[tuple[str, Span | None], int]
    names: Names
    used: set[str] = field(default_factory=set)
    definitions: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Function:
    """One device function: ``lines`` of its body, and what the names in scope mean."""

    program: Program
    mutable: frozenset[str]
    threads: tuple[int, int, int] = (1, 1, 1)
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    ranges: dict[str, Interval] = field(default_factory=dict)
    variables: dict[str, Code] = field(default_factory=dict)
    buffers: dict[str, Memory] = field(default_factory=dict)
    replaced: dict[Expr, Code] = field(default_factory=dict)
    exits: list[str] = field(default_factory=list)
    declared: list[set[str]] = field(default_factory=lambda: [set()])
    shown: Span | None = None
    #: Serial loops around what is being written.
    serial_depth: int = 0
    #: Elements of shared memory that reductions across threads have used so far, by buffer.
    places: dict[str, int] = field(default_factory=dict)
    reductions_shuffle: bool = True
    #: Shared buffers that are filled by asynchronous copies, with the stages each has.
    rings: dict[str, int] = field(default_factory=dict)
    #: Whether the matrix unit itself reads shared memory, as with instructions of warp groups.
    has_groups: bool = False
    #: The variable that tells whether copies are started, where that is no branch around them.
    copies_if: str = ""
    #: The loops over the threads of a block, outermost first.
    thread_loops: tuple[For, ...] = ()
    #: Buffers that one statement alone stores to.
    stored_once: frozenset[str] = frozenset()

    @property
    def machine(self) -> GpuMachine:
        return self.program.machine

    def use(self, name: str) -> str:
        """``name``, a function of the prelude, which the program then has."""
        self.program.used.add(name)
        return name

    def define(self, name: str, text: str) -> str:
        """``name``, a device function that the program then has as ``text``, written out once."""
        self.program.definitions.setdefault(name, text)
        return name

    def fresh(self, hint: str) -> str:
        return self.program.names.fresh(hint)

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text if text else "")

    @contextmanager
    def braces(self, head: str = "") -> Iterator[None]:
        """What is written meanwhile stands between braces after ``head``."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        self.declared.append(set())
        yield
        self.declared.pop()
        self.depth -= 1
        self.line("}")

    @contextmanager
    def declaring(self, name: str) -> Iterator[None]:
        """What is written meanwhile may declare ``name``: between braces of its own only where one is needed."""
        if name in self.declared[-1]:
            with self.braces():
                yield
        else:
            self.declared[-1].add(name)
            yield

    @contextmanager
    def exit_to(self, label: str) -> Iterator[None]:
        """A `Return` written meanwhile goes to ``label``, which comes right after."""
        self.exits.append(label)
        with self.braces():
            yield
        self.exits.pop()
        self.line(f"{label}:;")

    @contextmanager
    def bound(self, name: str, code: Code, range: Interval) -> Iterator[None]:
        """``name`` is a variable whose text is ``code`` and whose values are in ``range``, meanwhile."""
        variables, ranges = self.variables, self.ranges
        self.variables, self.ranges = {**variables, name: code}, {**ranges, name: range}
        yield
        self.variables, self.ranges = variables, ranges

    def memory(self, buffer: Buffer) -> Memory:
        found = self.buffers.get(buffer.name)
        if found is None:
            raise InternalError(f"buffer `{buffer.name}` is not in scope", span=buffer.span)
        return found

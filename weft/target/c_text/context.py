"""The state of one function of C text under construction: lines, names, ranges of variables, where buffers live.

What C and C++ say differently is asked of the program: `Program.generic`, `overloaded` and `call`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.errors import InternalError
from weft.ir.expr import Binary, Expr
from weft.ir.interval import Interval
from weft.ir.span import Span
from weft.ir.stmt import Stmt
from weft.target.c_text.names import Names

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
class TextProgram:
    """What all functions of a program share; ``sites`` numbers the asserts, ``used`` are functions of the prelude."""

    fast: bool
    sites: Mapping[tuple[str, Span | None], int]
    names: Names
    #: What writes each kind of statement, and what the language is called.
    emitters: Mapping[type, Callable[[Any, Any], None]]
    language: str = field(kw_only=True)
    used: set[str] = field(default_factory=set)
    definitions: dict[str, str] = field(default_factory=dict)
    #: Whether indices have 64 bits throughout, or only where their ranges ask for them.
    wide_indices: bool = False

    def generic(self, name: str, type: str, source: str = "") -> str:
        """How text calls ``name`` of the prelude for a result of C's ``type``, made from a ``source``."""
        raise NotImplementedError

    def overloaded(self, name: str, type: str) -> str:
        """How text calls ``name`` of the prelude, which has the same meaning for several types of argument."""
        raise NotImplementedError

    def call(self, name: str, dtype: DType, args: Sequence[Code]) -> Code | None:
        """A call of an intrinsic that the language has code of its own for."""
        return None

    def fused(self, e: Binary) -> tuple[str, Expr] | None:
        """A function of the prelude that ``e`` is as a whole, and its argument."""
        return None

    def swizzled(self, pointer: str, offset: str) -> str:
        """The address of an element of a buffer whose `Memory` is swizzled."""
        raise NotImplementedError

    def small_float(self, code: Code) -> Code:
        """``code``, an integer of at most 22 bits, as a float."""
        return Code(f"(float){code.inside(LEVEL['unary'])}", LEVEL["unary"])

    def apart(self, code: Code) -> Code:
        """``code``, which the compiler does not make one with what it is used in."""
        return code


@dataclass(slots=True)
class TextFunction:
    """One function: ``lines`` of its body, and what the names in scope mean."""

    program: TextProgram
    mutable: frozenset[str]
    lines: list[str] = field(default_factory=list, kw_only=True)
    depth: int = field(default=1, kw_only=True)
    ranges: dict[str, Interval] = field(default_factory=dict, kw_only=True)
    variables: dict[str, Code] = field(default_factory=dict, kw_only=True)
    buffers: dict[str, Memory] = field(default_factory=dict, kw_only=True)
    replaced: dict[Expr, Code] = field(default_factory=dict, kw_only=True)
    exits: list[str] = field(default_factory=list, kw_only=True)
    declared: list[set[str]] = field(default_factory=lambda: [set()], kw_only=True)
    shown: Span | None = field(default=None, kw_only=True)

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
        kept = self.buffers.get(buffer.name)
        if kept is None:
            raise InternalError(f"buffer `{buffer.name}` is not in scope", span=buffer.span)
        return kept

    def show_source(self, s: Stmt) -> None:
        """A comment with the line of the user's text that ``s`` comes from, where it is another one than before."""
        if s.span is None or (
            self.shown is not None and (s.span.source, s.span.line) == (self.shown.source, self.shown.line)
        ):
            return
        self.shown = s.span
        text = s.span.source.line(s.span.line).strip()
        if text:
            self.line(f"// {s.span.source.name.rsplit('/', 1)[-1]}:{s.span.line}: {text[:100]}".rstrip("\\ "))

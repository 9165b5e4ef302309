"""A pass as data: the form of program it needs and gives, and what must be there for it to have something to do."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module

from weft.ir.buffer import Scope
from weft.ir.hardware import Hardware
from weft.ir.memory import PLAIN_SCOPES, SCOPES, MemoryScope
from weft.ir.stmt import For, Kernel
from weft.passes.analysis.contents import CONTENTS, contents

#: What a pass may depend on: what is in the program, what numerics allow.
CONDITIONS: dict[str, int] = {**CONTENTS, "fast numerics": 1 << len(CONTENTS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What passes may ask of the target that a program is lowered for, and of the numerics it is under.

    An option of a pass is a field of the same name. A target fills in those that its passes have.
    """

    #: What errors call the target and the machine.
    target: str = "this"
    machine_name: str = "this machine"
    #: Whether sums may be reassociated, products fused, and reciprocals taken.
    fast: bool = False
    #: Bits of a vector register; whether loads and stores of some lanes are one instruction.
    vector_bits: int = 128
    has_masks: bool = False
    #: How many lanes a loop gets, where it was ``scheduled`` as a vector loop, or not.
    choose_lanes: Callable[[For, bool], int] = lambda loop, scheduled: 1
    #: What is missing to run a hardware intrinsic; nothing where it can be.
    missing_for: Callable[[Hardware], Sequence[str]] = lambda hardware: ("code for this target",)
    #: Instructions that a core takes in the time of one update of sums in vectors.
    slots: float = 2.0
    #: Cores (of a GPU its multiprocessors), and bytes of the cache that each has to itself.
    cores: int = 1
    cache_bytes: int = 1 << 20
    #: Blocks of a launch that a multiprocessor is to hold, of threads that keep so many words, so many of them, with so
    #: much shared memory, whose tiles are so many turns of a ring.
    #: Whether threads that keep so many words each, and so many of them, leave registers for one that orders copies.
    blocks_a_core: Callable[..., int] = lambda words, consumers, shared, turns: 1
    has_registers: Callable[[int, int], bool] = lambda words, threads: False
    #: Memory that the threads of a block share, and the most threads of a block.
    shared_bytes: int = 48 << 10
    most_threads: int = 1024
    #: Whether threads can start copies to shared memory that run on their own.
    has_async_copies: bool = False
    #: Bytes that the addresses of arrays are multiples of, where the machine has an engine that copies boxes of them.
    aligned: Mapping[str, int] | None = None
    #: Memory whose elements are worth keeping in registers while a loop updates them.
    scopes: tuple[Scope, ...] = PLAIN_SCOPES
    #: The memories that buffers may be in.
    memory: Mapping[str, MemoryScope] = field(default_factory=lambda: SCOPES)

    @property
    def conditions(self) -> int:
        """The bits of what holds whatever the program is."""
        return CONDITIONS["fast numerics"] if self.fast else 0


@dataclass(frozen=True, slots=True)
class Pass:
    """A function from program to program: of this name, in the module of this name in ``folder``, loaded on first use.

    Before it, the forms ``needs`` hold; after it, those that it ``gives``. What held before holds still, except for
    what it ``takes``. Where one of ``only_if`` is missing there is nothing for it to do, and what it gives holds
    already. ``options`` are fields of the `Context`, handed on by name.
    """

    folder: str
    name: str
    needs: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    only_if: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def has_work(self, kernel: Kernel, context: Context) -> bool:
        return not _bits(self.only_if) & ~(contents(kernel.body) | context.conditions)

    def __call__(self, kernel: Kernel, context: Context) -> Kernel:
        return _load(self.folder, self.name)(kernel, **{name: getattr(context, name) for name in self.options})

    @property
    def purpose(self) -> str:
        """The first line of its module."""
        return (import_module(f"{self.folder}.{self.name}").__doc__ or "").strip().partition("\n")[0]


def declared_in(folder: str) -> Callable[..., Pass]:
    """How the table of a folder is written: several names in one text, with commas between."""

    def declare(name: str, **names: str) -> Pass:
        return Pass(folder, name, **{what: tuple(text.split(", ")) for what, text in names.items()})

    return declare


@functools.cache
def _bits(names: tuple[str, ...]) -> int:
    return sum(CONDITIONS[name] for name in names)


@functools.cache
def _load(folder: str, name: str) -> Callable[..., Kernel]:
    function: Callable[..., Kernel] = getattr(import_module(f"{folder}.{name}"), name)
    return function

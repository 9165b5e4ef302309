"""Hardware intrinsics: what a machine does in one instruction (or a few), declared as data.

The meaning is a small kernel, the rest is how to write it on targets that have it::

    declare(Hardware("dot4", '''
        kernel dot4(A: uint8[4], B: int8[16, 4], out C: int32[16]) {
          for i in 0:16 { for k in 0:4 { C[i] = C[i] + int32(A[k]) * int32(B[i, k]) } }
        }''', emit={"cpu": emit_dot4}, needs=("avx512vnni",)))

The meaning is the oracle: a loop nest of that form may be replaced by the intrinsic, the
interpreter runs it, and so does every machine without the instruction. Its buffers are dense
unless they have strides; a scalar parameter that stands for a stride or a size is whatever the
program has there. A call takes the parameters in order: an address for a buffer, a number for
a scalar.

What a warp does together has the thread loops of its lanes around it::

    kernel mma(...) { thread row in 0:8 { thread pair in 0:4 { for ... } } }

It replaces the nest inside, which says what one lane computes, in a thread nest that ends in such loops.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from weft.ir.buffer import Buffer
from weft.ir.errors import LanguageError, ScheduleError
from weft.ir.expr import AddressOf, Expr, Var
from weft.ir.nesting import perfect_nest
from weft.ir.stmt import For, If, Kernel, Seq, Stmt, Store
from weft.ir.visit import walk

#: How a target writes an intrinsic: text with holes, or a function; the target says of what.
Emit: TypeAlias = "str | Callable[..., bool | None]"


@dataclass(frozen=True, slots=True)
class Hardware:
    """An intrinsic: ``text`` is a kernel, ``emit`` has the code by target, ``needs`` what a machine must have.

    ``exact`` ones give the bits of the meaning; others may add in another order or treat
    subnormals differently, and are used only where numerics are "fast".
    """

    name: str
    text: str
    emit: Mapping[str, Emit] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    exact: bool = True
    #: A part of another intrinsic, which only lowering calls: no nest is replaced by it.
    is_part: bool = False
    #: Vectors that its code keeps for each vector it loads, besides that.
    scratch: int = 0

    @property
    def meaning(self) -> Kernel:
        return _read_meaning(self.name, self.text)

    @property
    def lanes(self) -> tuple[For, ...]:
        """The thread loops of the meaning, outermost first: the lanes of a warp."""
        return perfect_nest(self.meaning.body, "thread")[0]

    @property
    def nest(self) -> Stmt:
        """The meaning without those: what one lane, or who runs the intrinsic alone, computes."""
        return self.lanes[-1].body if self.lanes else self.meaning.body

    @property
    def key(self) -> str:
        """A text that changes whenever code made with the intrinsic could: part of cache keys."""
        emitted = [f"{target}={_emit_key(emit)}" for target, emit in sorted(self.emit.items())]
        return "|".join((self.name, self.text, *emitted, *self.needs, str(self.exact)))

    def find_problem(self, args: tuple[Expr, ...]) -> str | None:
        """Why a call with ``args`` is wrong, or None."""
        params = self.meaning.params
        if self.lanes:
            return f"`{self.name}` is what the lanes of a warp do together: it stands for a loop nest, not for a call"
        if len(args) != len(params):
            return f"`{self.name}` takes {len(params)} arguments, got {len(args)}"
        for param, arg in zip(params, args):
            if isinstance(param, Buffer):
                if not isinstance(arg, AddressOf) or arg.buffer.dtype != param.dtype:
                    return f"argument `{param.name}` of `{self.name}` is the address of a {param.dtype}"
            elif isinstance(arg, AddressOf) or arg.dtype != param.dtype:
                return f"argument `{param.name}` of `{self.name}` is a {param.dtype}"
        return None


#: What the threads of a group do together, which no small kernel says: see `weft.passes.analysis.thread_reductions`.
ACROSS_THREADS = frozenset({"thread_reduce"})
#: What a copy engine does, for boxes of any shape: see `weft.target.cuda.select_copies`.
BULK_COPY = "bulk_copy"

#: The declared intrinsics by name.
HARDWARE: dict[str, Hardware] = {}


def declare(hardware: Hardware) -> Hardware:
    """``hardware`` known by its name from now on; declaring the same again is fine."""
    before = HARDWARE.get(hardware.name)
    if before is not None and before.key != hardware.key:
        raise ScheduleError(
            f"intrinsic `{hardware.name}` is declared already, as something else",
            help="choose another name",
        )
    HARDWARE[hardware.name] = hardware
    return hardware


def find_hardware(name: str) -> Hardware:
    declared = {h.name: h for h in HARDWARE.values() if not h.is_part}
    hardware = declared.get(name)
    if hardware is None:
        near = difflib.get_close_matches(name, declared, 1)
        raise ScheduleError(
            f"there is no intrinsic `{name}`",
            why=f"declared are {', '.join(sorted(declared)) or 'none'}",
            help=f"did you mean `{near[0]}`?" if near else "declare it with weft.intrinsic",
        )
    return hardware


def _emit_key(emit: Emit) -> str:
    if isinstance(emit, str):
        return emit
    name = f"{emit.__module__}.{getattr(emit, '__qualname__', type(emit).__qualname__)}"
    cells = [c.cell_contents for c in getattr(emit, "__closure__", None) or ()]
    plain = [v for v in cells if isinstance(v, (str, int, float, tuple))]
    return f"{name}:{_code_key(getattr(emit, '__code__', None))}:{plain}"


def _code_key(code: Any) -> str:
    """What a function does, as text that is the same in every process."""
    if code is None:
        return ""
    parts = [_code_key(c) if hasattr(c, "co_code") else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()}{code.co_names}{parts}"


@cache
def _read_meaning(name: str, text: str) -> Kernel:
    from weft.ir.parser import parse_kernel
    from weft.ir.verify import verify

    kernel = parse_kernel(text, f"intrinsic {name}")
    verify(kernel)
    lanes, _ = perfect_nest(kernel.body, "thread")
    inside = lanes[-1].body if lanes else kernel.body
    for statement in (n for n in walk(inside) if isinstance(n, Stmt)):
        if not isinstance(statement, (For, If, Seq, Store)) or getattr(statement, "kind", "serial") != "serial":
            raise LanguageError(
                f"the meaning of intrinsic `{name}` is more than loops and stores",
                span=statement.span,
                why="it is matched against loop nests: serial loops, ifs and stores",
            )
    _require_bound(name, kernel)
    return kernel


def _require_bound(name: str, kernel: Kernel) -> None:
    """Every scalar shows in a size, a stride or a value: else nothing in a program says what it is."""
    used = {n.name for n in walk(kernel.body) if isinstance(n, Var)}
    for buffer in kernel.buffers:
        used |= {n.name for e in buffer.strides or () for n in walk(e) if isinstance(n, Var)}
    for scalar in kernel.scalars:
        if scalar.name not in used:
            raise LanguageError(
                f"parameter `{scalar.name}` of intrinsic `{name}` is used nowhere",
                span=scalar.span,
                why="its value is found by comparing a program with the meaning",
            )

"""Machine code for the whole grid of a kernel's launches, and how a launch is told to it, as text.

The program at run time knows nothing of C++ types: where pointers are in the arguments is a list
``argument:byte,...``, and each parameter of the code is a line (see `Slot`): ``pointer 0:0,1:0`` (the lowest of
pointers that share memory), ``bytes 0:0``, ``distance 0:0,1:0 1:0/4``, ``number 2:0 int32``, ``address 0:0 4``,
``grid 0``, ``block 1``, ``shared``, ``symbol name``, ``symbol_bytes name``, ``texture name``, ``texture_bytes name``
and the same of a ``surface`` (an object that is an argument is called ``@2:0``), ``texture_number name pitch 4``,
``texture_fits name 16 1``, ``prints table`` and ``prints_bytes table`` (see `prints.py`), ``table bytes`` (in
hexadecimal), and for all memory that there is ``heap`` and ``heap_bytes``.
A launch is ``bx by bz 1x 1y 1z shared ;0:0,1:0#2:0=4``: threads of a block, where the grid has one block, bytes of
shared memory, groups of pointers that share memory, and numbers that have this value (see `steering`).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from weft.from_cuda.context import Launch, Slot
from weft.from_cuda.demangle import demangle
from weft.from_cuda.kept_code import ANY
from weft.from_cuda.launch import pointers_of
from weft.from_cuda.launches_text import as_clang_reads
from weft.from_cuda.steering import steering_places
from weft.from_cuda.translate import translate
from weft.from_cuda.types import parse_type
from weft.from_cuda.unit import Node, Unit, read_unit
from weft.ir.errors import UnsupportedError
from weft.ir.stmt import Kernel
from weft.ir.visit import walk
from weft.runtime.machine_model import local_machine
from weft.target.cpu.lower import compile_kernel

#: Operations of a kernel up to which it is compiled as a whole grid: about a second for each three thousand of them.
MOST_NODES = 30_000


class Compiled(NamedTuple):
    """Object code with its entry, and the lines that say what the entry's parameters are."""

    object: bytes
    entry: str
    slots: str


def read_source(file: Path, flags: Sequence[str], uses: Sequence[str] = ()) -> Unit:
    """The device's half of a source that clang has compiled without complaint."""
    text = as_clang_reads(file.read_text(errors="replace"))
    options = []
    for before, flag in itertools.pairwise(("", *flags)):
        with_value = before in ("-include", "-isystem")
        if with_value or flag.startswith(("-D", "-I", "-U", "-std", "-include", "-isystem")):
            options.append(flag)
    return read_unit(text, str(file), include=(str(file.parent),), options=options, uses=uses, host_too=False)


def template_use(kernel: str) -> str | None:
    """The C++ name with template arguments, ``scale<float>``, that a mangled name stands for; None for no template."""
    name = (demangle(kernel) or "").removeprefix("void ")
    depth = 0
    for at, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            name = name[:at]
            break
    return name if name.endswith(">") else None


def linked_kernel(unit: Unit, name: str) -> Node:
    """The kernel that a program's linker knows by ``name``."""
    found = unit.linked(name)
    if found is None:
        raise UnsupportedError("the kernel is not among those that were read")
    return found


def pointer_places(unit: Unit, kernel: str) -> str:
    """Where the arguments of ``kernel`` have pointers, and numbers whose small values code is made for."""
    found = linked_kernel(unit, kernel)
    types = [parse_type(p.type, unit, p) for p in found.parameters]
    steering = steering_places(found)
    return _places(pointers_of(types)) + (f"|{_places(steering)}" if steering else "")


def compile_grid(unit: Unit, kernel: str, key: str, flags: Sequence[str] = ()) -> Compiled:
    """Code for launches of ``kernel`` that ``key`` describes; products go into sums in one rounding, as by nvcc, unless
    ``flags`` forbid it."""
    made = translate(unit, linked_kernel(unit, kernel), read_launch(key))
    _check_size(made.kernel)
    name = "k" + hashlib.blake2b(f"{unit.source.name} {kernel} {key}".encode(), digest_size=8).hexdigest()
    contract = "-ffp-contract=off" not in flags
    shown_as = made.kernel.name if any(f.startswith("-g") for f in flags) else ""
    code = compile_kernel(replace(made.kernel, name=name), local_machine(), contract=contract, shown_as=shown_as)
    return Compiled(code.object, code.entry, "".join(f"{_line(s, made.launch)}\n" for s in made.slots))


def _check_size(kernel: Kernel) -> None:
    """Refuses what takes ten seconds and more to compile; a program's threads then run it one by one."""
    count = sum(1 for _ in walk(kernel.body))
    if count > MOST_NODES:
        raise UnsupportedError(
            f"kernel `{kernel.name}` is too large to be compiled as a whole grid while a program waits for it",
            why=f"with all functions that it calls in it, it has {count} operations, more than {MOST_NODES}",
        )


def read_launch(key: str) -> Launch:
    """What a program says of a launch."""
    if key == ANY:
        return Launch()
    key, _, known = key.partition("#")
    numbers = tuple(tuple(map(int, one.replace("=", ":").split(":"))) for one in known.split(",") if one)
    sizes, _, groups = key.partition(";")
    x, y, z, *ones, shared = map(int, sizes.split())
    alias = tuple(
        tuple(sorted((int(a), int(b)) for a, b in (place.split(":") for place in group.split(","))))
        for group in groups.split(";")
        if group
    )
    return Launch((x, y, z), (ones[0] == 1, ones[1] == 1, ones[2] == 1), shared, alias, numbers)  # type: ignore[arg-type]


def _places(places: Sequence[tuple[int, int]]) -> str:
    return ",".join(f"{argument}:{offset}" for argument, offset in places)


def _line(slot: Slot, launch: Launch) -> str:
    at = (slot.argument, slot.offset)
    group = _places(next((g for g in launch.alias if at in g), (at,)))
    match slot.kind:
        case "pointer" | "bytes":
            return f"{slot.kind} {group}"
        case "distance":
            return f"distance {group} {_places([at])}/{slot.unit}"
        case "address":
            return f"address {_places([at])} {slot.unit}"
        case "number":
            return f"number {_places([at])} {slot.dtype}"
        case "grid" | "block":
            return f"{slot.kind} {slot.argument}"
        case (
            "symbol"
            | "symbol bytes"
            | "texture"
            | "texture bytes"
            | "surface"
            | "surface bytes"
            | "prints"
            | "prints bytes"
            | "table"
        ):
            return f"{slot.kind.replace(' ', '_')} {slot.symbol}"
        case "texture number" | "texture fits":
            return f"{slot.kind.replace(' ', '_')} {slot.symbol} {slot.unit}"
        case "shared" | "heap" | "heap bytes":
            return slot.kind.replace(" ", "_")
    raise UnsupportedError(f"a launch cannot give what is called `{slot.kind}`")

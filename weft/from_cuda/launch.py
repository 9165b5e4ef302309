"""A launch: CUDA's arguments as bytes, and the values that the parameters of the loop program have for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from weft.from_cuda.context import GridKernel, Launch, Slot
from weft.from_cuda.packing import unpack
from weft.from_cuda.tables import table_memory
from weft.from_cuda.translate import MOST_THREADS
from weft.from_cuda.types import CType, Pointer, Record
from weft.ir.errors import ArgumentError

Dim3: TypeAlias = "tuple[int, int, int]"
#: The first byte of the memory that an address is in, and one past the last.
Extent: TypeAlias = "Callable[[int], tuple[int, int]]"
#: Behind a pointer of which nothing is known.
UNKNOWN = 1 << 62


def dim3(value: object, what: str) -> Dim3:
    """A size of a grid or block: up to three positive numbers."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    whole = tuple(int(v) for v in given if isinstance(v, int) or hasattr(v, "__index__"))
    if len(whole) != len(given) or not 1 <= len(given) <= 3 or any(v < 1 for v in whole):
        raise ArgumentError(f"{what} must be one to three positive numbers, not {value!r}", help=f"{what}=(256,)")
    return (*whole, 1, 1)[:3]  # type: ignore[return-value]


def check_sizes(name: str, grid: Dim3, block: Dim3) -> None:
    """Raises where CUDA would refuse the launch, or thread numbers would not be exact."""
    threads = block[0] * block[1] * block[2]
    if threads > 1024:
        raise ArgumentError(f"`{name}` was launched with {threads} threads a block", why="a block has at most 1024")
    if threads * grid[0] * grid[1] * grid[2] >= MOST_THREADS:
        raise ArgumentError(
            f"`{name}` was launched with {threads * grid[0] * grid[1] * grid[2]} threads",
            why=f"numbers of threads are exact below {MOST_THREADS}",
        )


def launch_for(grid: Dim3, block: Dim3, shared: int, alias: tuple[tuple[tuple[int, int], ...], ...] = ()) -> Launch:
    """What code a launch needs."""
    return Launch(block, (grid[0] == 1, grid[1] == 1, grid[2] == 1), shared, alias)


def pointers_of(types: Sequence[CType]) -> list[tuple[int, int]]:
    """Where the arguments have pointers: number of the argument, and byte in it."""
    found: list[tuple[int, int]] = []
    for number, type in enumerate(types):
        found += [(number, at) for at in _pointers_in(type)]
    return found


def _pointers_in(type: CType) -> list[int]:
    if isinstance(type, Pointer):
        return [0]
    if isinstance(type, Record):
        return [f.offset + at for f in type.fields for at in _pointers_in(f.type)]
    return []


def pointer_at(arguments: Sequence[bytes], at: tuple[int, int]) -> int:
    number, offset = at
    return int.from_bytes(arguments[number][offset : offset + 8], "little")


def overlapping(
    arguments: Sequence[bytes], pointers: Sequence[tuple[int, int]], extent: Extent
) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Groups of pointers that reach into the same memory."""
    spans = sorted((*_reach(pointer_at(arguments, p), extent), p) for p in pointers)
    groups: list[list[tuple[int, int]]] = []
    end = -1
    for low, high, pointer in spans:
        if low == high:
            continue
        if groups and low < end:
            groups[-1].append(pointer)
        else:
            groups.append([pointer])
        end = max(end, high)
    return tuple(tuple(sorted(g)) for g in groups if len(g) > 1)


def _reach(pointer: int, extent: Extent) -> tuple[int, int]:
    if pointer == 0:
        return 0, 0
    return pointer, extent(pointer)[1]


def slot_values(
    grid_kernel: GridKernel,
    arguments: Sequence[bytes],
    extent: Extent,
    grid: Dim3,
    block: Dim3,
    shared: int = 0,
    symbols: Mapping[str, tuple[int, int]] | None = None,
) -> list[int | float]:
    """The values of the loop program's parameters; ``symbols`` are addresses and sizes of variables."""

    def one(slot: Slot) -> int | float:
        at = (slot.argument, slot.offset)
        match slot.kind:
            case "pointer":
                return min(pointer_at(arguments, p) for p in _group(grid_kernel, at))
            case "bytes":
                reaches = [_reach(pointer_at(arguments, p), extent) for p in _group(grid_kernel, at)]
                return max(high for _, high in reaches) - min(low for low, _ in reaches)
            case "distance":
                first = min(pointer_at(arguments, p) for p in _group(grid_kernel, at))
                return (pointer_at(arguments, at) - first) // slot.unit
            case "address":
                return pointer_at(arguments, at) // slot.unit
            case "heap":
                return 0
            case "heap bytes":
                return UNKNOWN
            case "number":
                assert slot.dtype is not None
                return unpack(arguments[slot.argument], slot.offset, slot.dtype)
            case "grid":
                return grid[slot.argument]
            case "block":
                return block[slot.argument]
            case "shared":
                return shared
            case "table":
                return table_memory(slot.symbol)[0]
        address, size = (symbols or {})[slot.symbol]
        return size if slot.kind.endswith("bytes") else address

    return [one(slot) for slot in grid_kernel.slots]


def _group(grid_kernel: GridKernel, at: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    return next((g for g in grid_kernel.launch.alias if at in g), (at,))

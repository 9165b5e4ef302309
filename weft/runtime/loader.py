"""Object code into the process.

x86-64 ELF objects are linked here, in Python, so that a start from the artifact store
loads no LLVM. Other formats, processors and exotic relocations go to LLVM's own linker.
Memory is never writable and executable at once.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from weft.ir.errors import TargetError
from weft.runtime.elf import Unlinkable, defined_symbols, lay_out, link_image, read_object


class LoadedObject:
    """Machine code in memory; it stays there as long as this object lives.

    Whoever keeps an address must keep the object too, in particular while a call runs.
    """

    def __init__(self, addresses: Mapping[str, int] | Callable[[str], int | None], owner: object = None) -> None:
        self._addresses = addresses
        self._owner = owner

    def address(self, name: str) -> int:
        """Where the symbol ``name`` is."""
        kept = self._addresses(name) if callable(self._addresses) else self._addresses.get(name)
        if not kept:
            raise TargetError(f"the object code defines no `{name}`")
        return kept


def load_object(object_bytes: bytes, symbols: Mapping[str, int]) -> LoadedObject:
    """``object_bytes`` placed, linked against ``symbols`` (name to address), and made executable."""
    if platform.machine().lower() not in ("x86_64", "amd64") or platform.system() != "Linux":
        return _load_with_llvm(object_bytes, symbols)
    try:
        return _load_elf(object_bytes, symbols)
    except Unlinkable:
        return _load_with_llvm(object_bytes, symbols)


def _load_elf(data: bytes, symbols: Mapping[str, int]) -> LoadedObject:
    obj = read_object(data)
    image = lay_out(obj)
    base, release = _map(image.size)
    try:
        memory = link_image(obj, image, base, symbols)
        ctypes.memmove(base, (ctypes.c_char * len(memory)).from_buffer(memory), len(memory))
        _protect(base, image.code)
    except BaseException:
        release()
        raise
    loaded = LoadedObject(defined_symbols(obj, image, base))
    # Not at exit: another thread may still be running the code while the interpreter goes down.
    weakref.finalize(loaded, release).atexit = False
    return loaded


@functools.cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


def _map(size: int) -> tuple[int, Callable[[], None]]:
    """Fresh zeroed writable memory, and what gives it back."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    libc = _libc()
    base = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if base in (None, ctypes.c_void_p(-1).value):
        raise TargetError("no memory to load machine code into", why=f"mapping {size} bytes failed")
    return base, functools.partial(libc.munmap, base, size)


def _protect(base: int, size: int) -> None:
    if size and _libc().mprotect(base, size, mmap.PROT_READ | mmap.PROT_EXEC):
        raise TargetError("the system does not let this process make memory executable", why="mprotect was refused")


def _load_with_llvm(data: bytes, symbols: Mapping[str, int]) -> LoadedObject:
    from weft.target.cpu.llvm import link_object

    try:
        address_of = link_object(data, dict(symbols))
    except RuntimeError as error:
        raise TargetError("the object code cannot be loaded", why=str(error).strip()) from None
    return LoadedObject(address_of, address_of)

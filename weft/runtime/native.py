"""The runtime's own machine code: written as LLVM text, compiled once, kept in the artifact store."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping

from weft.ir.errors import TargetError
from weft.runtime.loader import LoadedObject, load_object
from weft.runtime.memory import MEMORY, MEMORY_IMPORTS
from weft.runtime.native_module import NativeModule
from weft.runtime.store import Artifact, default_store
from weft.target.cpu.host import NAMED, Machine
from weft.version import cache_key


def load_native(source: NativeModule | str, symbols: Mapping[str, int]) -> LoadedObject:
    """``source``, a text being LLVM's, compiled for any processor of this kind (or found in the store) and loaded."""
    machine = baseline_machine()
    parts = (source,) if isinstance(source, str) else (source.source, *map(str, source[1:]))
    key = cache_key("native", machine.key, *parts)
    store = default_store()
    kept = store.get(key)
    if kept is not None and "object" in kept.blobs:
        try:
            return load_object(kept.blobs["object"], symbols)
        except TargetError:
            store.remove(key)
    from weft.target.cpu.llvm import compile_llvm

    code = compile_llvm(source if isinstance(source, str) else source.text(), machine)
    store.put(key, Artifact({"kind": "native"}, {"object": code}))
    return load_object(code, symbols)


def baseline_machine() -> Machine:
    is_arm = platform.machine().lower() in ("aarch64", "arm64")
    return NAMED["aarch64" if is_arm else "x86-64-sse2"]


def libc_symbols(names: Iterable[str]) -> dict[str, int]:
    """Addresses of functions of the C library (or of anything else loaded globally)."""
    library = ctypes.CDLL(None)
    addresses = {}
    for name in names:
        try:
            addresses[name] = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        except AttributeError:
            raise TargetError(f"the C library of this system has no `{name}`") from None
    return addresses


def trim_heap() -> None:
    """Gives memory that was freed back to the system, where the C library knows how to."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


@functools.cache
def _memory() -> LoadedObject:
    loaded = load_native(MEMORY, libc_symbols(MEMORY_IMPORTS))
    _immortal.append(loaded)
    return loaded


def memory_function(name: str) -> int:
    """The address of a function of `memory`."""
    return _memory().address(name)


def _thread_function(name: str) -> int:
    from weft.runtime.threads import thread_function

    return thread_function(name)


def _libc(name: str) -> int:
    return libc_symbols([name])[name]


#: Code that threads may be running until the process ends.
_immortal: list[LoadedObject] = []

_MAKERS: dict[str, Callable[[], int]] = {
    **{name: functools.partial(_thread_function, name) for name in ("weft_parallel_for", "weft_with_team")},
    "weft_alloc": lambda: memory_function("weft_alloc"),
    "weft_free": lambda: memory_function("weft_free"),
    # Calls that LLVM makes of loops.
    **{name: functools.partial(_libc, name) for name in ("memset", "memcpy", "memmove", "bcmp", "memcmp", "strlen")},
}


class RuntimeSymbols(Mapping[str, int]):
    """What kernels may call, by name; each is made when first asked for."""

    def __getitem__(self, name: str) -> int:
        return _MAKERS[name]()

    def __contains__(self, name: object) -> bool:
        return name in _MAKERS

    def __iter__(self) -> Iterator[str]:
        return iter(_MAKERS)

    def __len__(self) -> int:
        return len(_MAKERS)


RUNTIME_SYMBOLS = RuntimeSymbols()

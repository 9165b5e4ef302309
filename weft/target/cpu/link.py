"""LLVM's own linker, for object code the runtime's small one does not handle."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from weft.target.cpu import llvm

_numbers = itertools.count()


def link_object(data: bytes, symbols: Mapping[str, int]) -> Callable[[str], int | None]:
    """Loads ``data``; the result maps names to addresses, which stay valid as long as it lives.

    Raises RuntimeError with LLVM's text where the object is damaged or something stays undefined.
    """
    binding = llvm._binding()
    library = f"object{next(_numbers)}"
    with llvm._lock:
        jit = binding.create_lljit_compiler(suppress_errors=True)
        builder = binding.JITLibraryBuilder().add_object_img(data)
        for name, address in symbols.items():
            builder.import_symbol(name, address)
        tracker = builder.link(jit, library)
    found: dict[str, object] = {"": tracker}

    def address_of(name: str) -> int | None:
        if name not in found:
            try:
                found[name] = jit.lookup(library, name)
            except RuntimeError:
                return None
        return int(found[name][name])  # type: ignore[index]

    return address_of

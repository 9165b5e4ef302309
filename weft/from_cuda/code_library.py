"""Machine code of a whole grid as a library, for a process that runs.

What it calls of the runtime library it is told where it is loaded (`native/codes.cpp`). The system would look for these
names among those that the whole process shows, which a library in Python (an extension) does not.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from weft.from_cuda.toolchain import linker_command, run_tool
from weft.runtime.native import baseline_machine

#: Functions of the runtime that kernels call, in the order in which `native/codes.cpp` tells their addresses.
IMPORTS = {
    "weft_parallel_for": "i32 (ptr, ptr, i64)",
    "weft_with_team": "i32 (ptr, ptr)",
    "weft_alloc": "ptr (i64)",
    "weft_free": "void (ptr)",
}


def link_code(code: bytes) -> bytes:
    """The library that has the object ``code`` in it."""
    from weft.target.cpu.llvm import compile_llvm

    with tempfile.TemporaryDirectory(prefix="weft-cuda-") as folder:
        object, imports, library = (Path(folder) / name for name in ("code.o", "imports.o", "code.so"))
        object.write_bytes(code)
        imports.write_bytes(compile_llvm(_imports_text(), baseline_machine()))
        run_tool([*linker_command(), "-shared", "-nostdlib", str(object), str(imports), "-o", str(library)])
        return library.read_bytes()


def _imports_text() -> str:
    """Each function as a call of the one whose address is told."""
    parts = [f"@weft_imports = global [{len(IMPORTS)} x ptr] zeroinitializer, align 8\n"]
    for at, (name, type) in enumerate(IMPORTS.items()):
        result, _, types = type.rstrip(")").partition(" (")
        given = ", ".join(f"{t} %{n}" for n, t in enumerate(types.split(", ")))
        gets, gives = ("", "") if result == "void" else ("%found = ", " %found")
        parts.append(
            f"define hidden {result} @{name}({given}) {{\n"
            f"  %place = getelementptr [{len(IMPORTS)} x ptr], ptr @weft_imports, i64 0, i64 {at}\n"
            f"  %function = load ptr, ptr %place, align 8\n"
            f"  {gets}tail call {result} %function({given})\n  ret {result}{gives}\n}}\n"
        )
    return "".join(parts)

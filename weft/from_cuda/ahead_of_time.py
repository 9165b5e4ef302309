"""Code for whole grids as part of a program: for launches that earlier runs of it asked for, and for any other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from weft.from_cuda.device_text import text_constant
from weft.from_cuda.grid_code import ANY, GridCode, compile_grid, pointer_places, read_source, template_use
from weft.ir.errors import Error
from weft.runtime.native import baseline_machine
from weft.runtime.store import Artifact, default_store
from weft.version import cache_key


def remember_launches(unit: str, launches: Mapping[str, Iterable[str]]) -> None:
    """Keeps what a run of a program asked for, by kernel."""
    kept = {kernel: set(keys) for kernel, keys in known_launches(unit).items()}
    for kernel, keys in launches.items():
        kept.setdefault(kernel, set()).update(keys)
    facts = {kernel: sorted(keys)[:_MOST] for kernel, keys in kept.items()}
    default_store().put(_key(unit), Artifact({"kind": "cuda launches", "launches": facts}))


def known_launches(unit: str) -> Mapping[str, Sequence[str]]:
    found = default_store().get(_key(unit))
    return found.metadata["launches"] if found is not None else {}


#: Versions of a kernel that a program contains at most.
_MOST = 16


def _key(unit: str) -> str:
    return cache_key("cuda launches", unit)


def grid_objects(unit: str, file: Path, flags: Sequence[str], kernels: Sequence[str]) -> dict[str, bytes]:
    """Object code by name: the versions of all ``kernels`` that can be had, and a table of them."""
    from weft.target.cpu.llvm import compile_llvm

    uses = [use for use in map(template_use, kernels) if use is not None]
    try:
        read = read_source(file, flags, uses)
    except Error:  # then all its kernels run thread by thread
        return {}
    known = known_launches(unit)
    rows: list[tuple[str, str, str, GridCode]] = []
    for kernel in known or kernels:  # what an earlier run did not launch is not worth the time
        for key in (*known.get(kernel, ()), ANY):
            try:
                rows.append((kernel, key, pointer_places(read, kernel), compile_grid(read, kernel, key)))
            except (Error, KeyError, RecursionError, AssertionError, NotImplementedError):
                continue  # launches that would have used it run thread by thread; `weft cuda run --report` tells why
    if not rows:
        return {}
    objects = {code.entry: code.object for _, _, _, code in rows}
    return {**objects, "table": compile_llvm(_table(unit, rows), baseline_machine())}


def _table(unit: str, rows: Sequence[tuple[str, str, str, GridCode]]) -> str:
    lines = [text_constant("@unit", unit)]
    kept = []
    for n, (kernel, key, pointers, code) in enumerate(rows):
        fields = []
        for name, text in (("kernel", kernel), ("key", key), ("pointers", pointers), ("slots", code.slots)):
            lines.append(text_constant(f"@{name}.{n}", text))
            fields.append(f"ptr @{name}.{n}")
        lines += [
            f"declare i32 @{code.entry}(ptr)\n",
            f"@row.{n} = internal constant {{ ptr, ptr, ptr, ptr, ptr, ptr }} "
            f'{{ ptr @unit, {", ".join(fields)}, ptr @{code.entry} }}, section "weft_codes", align 8\n',
        ]
        kept.append(f"ptr @row.{n}")
    return "".join(lines) + (
        f'@llvm.used = appending global [{len(kept)} x ptr] [{", ".join(kept)}], section "llvm.metadata"\n'
    )

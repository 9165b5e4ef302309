"""Code for whole grids as part of a program: for launches that earlier runs of it asked for, and for any other."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from weft.from_cuda.demangle import source_name
from weft.from_cuda.device_text import text_constant
from weft.from_cuda.kept_code import ANY, GridCode, KeptCode, Refusal
from weft.from_cuda.kept_launches import known_launches
from weft.runtime.native import baseline_machine


def grid_objects(unit: str, kept: KeptCode, kernels: Sequence[str]) -> dict[str, bytes]:
    """Object code by name: the versions of all ``kernels`` that can be had, and a table of them."""
    from weft.target.cpu.llvm import compile_llvm

    known = known_launches(unit)
    rows: list[tuple[str, str, GridCode]] = []
    for kernel in known or kernels:  # what an earlier run did not launch is not worth the time
        refused: dict[str, str] = {}
        seen = known.get(kernel, ())
        for launch in dict.fromkeys((*seen, *(launch.partition("#")[0] for launch in seen), ANY)):
            code = kept.code(kernel, launch)
            if isinstance(code, Refusal):
                refused.setdefault(code.reason, launch)
            else:
                rows.append((kernel, launch, code))
        for reason, launch in refused.items():
            where = "" if launch == ANY else f" ({launch})"
            print(f"{source_name(kernel)}{where} runs thread by thread: {reason}", file=sys.stderr)
    if not rows:
        return {}
    objects = {code.entry: code.object for _, _, code in rows}
    return {**objects, "table": compile_llvm(_table(unit, rows), baseline_machine())}


def _table(unit: str, rows: Sequence[tuple[str, str, GridCode]]) -> str:
    lines = [text_constant("@unit", unit)]
    kept = []
    for n, (kernel, launch, code) in enumerate(rows):
        fields = []
        for name, text in (("kernel", kernel), ("key", launch), ("pointers", code.pointers), ("slots", code.slots)):
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

"""What `merge_blocks` does to the phases of a block first, done by itself wherever there are phases."""

from __future__ import annotations

from dataclasses import replace

from weft.ir.buffer import Buffer
from weft.ir.stmt import Alloc, If, Kernel, Let, Seq, Stmt
from weft.ir.visit import map_statements, used_names
from weft.passes.gpu_to_cpu.forward_phases import forwarded


def forward_phases(kernel: Kernel) -> Kernel:
    return replace(kernel, body=_visit(kernel.body, {}, used_names(kernel)))


def _visit(s: Stmt, shared: dict[str, Buffer], taken: set[str]) -> Stmt:
    """``shared`` are arrays that nothing after ``s`` touches."""
    if isinstance(s, Alloc) and s.buffer.scope == "shared":
        shared = {**shared, s.buffer.name: s.buffer}
    inner = shared if isinstance(s, (Alloc, Let, If)) else {}
    s = map_statements(s, lambda n: _visit(n, inner, taken))
    return replace(s, body=tuple(forwarded(s.body, shared, taken))) if isinstance(s, Seq) and shared else s

"""A kernel in grid form to CUDA C++ text and its launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from weft.ir.expr import Var
from weft.ir.stmt import Kernel
from weft.target.c_text.names import Names
from weft.target.cuda.emit_context import Program
from weft.target.cuda.emit_launch import emit_launch
from weft.target.cuda.emit_stmt import emit_stmt
from weft.target.cuda.machine import GpuMachine
from weft.target.cuda.prelude import RESERVED, prelude_text
from weft.target.cuda.program import ERROR_RECORD, FAILED, CudaProgram, Launch, Site
from weft.target.cuda.read_launches import read_launches


def emit_program(
    kernel: Kernel,
    machine: GpuMachine,
    *,
    fast: bool,
    aligned: Mapping[str, int],
    numbers: Mapping[tuple[str, Any], int],
    sites: tuple[Site, ...],
) -> CudaProgram:
    """The program without its machine code; ``numbers`` are those of its asserts by message and place."""
    parts = read_launches(kernel)
    names = Names(RESERVED | {ERROR_RECORD, FAILED})
    functions = [names.fresh(f"{kernel.name}_kernel") for _ in parts.nests]
    program = Program(fast, numbers, names, emit_stmt, machine=machine, aligned=aligned)
    launches: list[Launch] = []
    texts: list[str] = []
    may_have_failed = False
    for function, nest in zip(functions, parts.nests):
        # The steps of loops around a launch are numbers that it is given.
        given = replace(kernel, params=(*kernel.params, *(Var(s.name) for s in nest.steps)))
        launch, text = emit_launch(program, given, nest, function, tuple(parts.temporaries), may_have_failed)
        may_have_failed |= nest.has_assert
        launches.append(replace(launch, steps=nest.steps))
        texts.append(text)
    prelude = [*([found] if (found := prelude_text(program.used)) else []), *program.definitions.values()]
    header = f"// {kernel.name}: made by Weft for {machine.arch}, numerics {'fast' if fast else 'strict'}"
    source = "\n\n".join([header, *prelude, *texts]) + "\n"
    used = {p for launch in launches for p in launch.params}
    temporaries = tuple(b for b in parts.temporaries if b.name in used)
    return CudaProgram(source, b"", tuple(launches), temporaries, sites)

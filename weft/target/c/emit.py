"""A kernel in final loop form to the text of a C file that needs nothing else.

It holds two functions: one with a parameter for each of the kernel's, and one with the calling convention of the CPU
target, a pointer to slots of eight bytes. Both return 0, the number of the assert that failed, or -1 where memory
ran out; the last parameter is where a failed assert writes up to eight values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import Var
from weft.ir.interval import Interval, bounds
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Kernel
from weft.ir.visit import walk
from weft.target.c.emit_context import DONE, Function, Program
from weft.target.c.emit_stmt import EMITTERS, may_leave
from weft.target.c.prelude import RESERVED, prelude_text
from weft.target.c_text.c_types import storage_type, value_type
from weft.target.c_text.context import Code, Memory
from weft.target.c_text.emit_stmt import emit_stmt
from weft.target.c_text.names import Names, plain_identifier

BUILD = "cc -O3 -march=native -fopenmp"
_HEADERS = ("math", "stdatomic", "stdbool", "stddef", "stdint", "stdlib", "string")
#: A product and a sum stay two operations, each rounded; GCC takes the word of the standard for a comment.
_STRICT = """#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif"""


def entry_name(kernel: Kernel) -> str:
    """The function with the calling convention of the CPU target."""
    return f"weft_{plain_identifier(kernel.name)}"


def emit_module(kernel: Kernel, numbers: Mapping[tuple[str, Any], int], *, fast: bool) -> str:
    """The C text of ``kernel``; ``numbers`` are those of its asserts by message and place."""
    name = f"{plain_identifier(kernel.name)}_kernel"
    names = Names(RESERVED | {name, entry_name(kernel)})
    program = Program(fast, numbers, names, EMITTERS, wide_indices=True, language="C")
    body = _emit_body(program, kernel)
    functions = "\n".join([f"int32_t {name}({_parameters(program, kernel)}) {{", *body, "}"])
    entry = _entry(program, kernel, name)
    defined = "\n".join(program.definitions.values())
    prelude = prelude_text(program.used, defined)
    numerics = "fast" if fast else "strict"
    header = f"// {kernel.name}: made by Weft, numerics {numerics}. Build it with: {BUILD} {kernel.name}.c -lm"
    includes = "\n".join(f"#include <{h}.h>" for h in _HEADERS)
    parts = [header, includes, "" if fast else _STRICT, prelude, defined, functions, entry]
    return "\n\n".join(p for p in parts if p) + "\n"


def _emit_body(program: Program, kernel: Kernel) -> list[str]:
    f = Function(program, assigned_names(kernel.body))
    for b in kernel.buffers:
        f.buffers[b.name] = Memory(program.names.of(b.name), b.dtype.itemsize)
        if b.dtype.is_narrow_float:
            f.use(b.dtype.name)
    sizes = {n.name for b in kernel.buffers for e in b.shape for n in walk(e) if isinstance(n, Var)}
    for v in kernel.scalars:
        f.variables[v.name] = Code(program.names.of(v.name), wide=v.dtype == dt.index)
        f.ranges[v.name] = Interval(0, None) if v.name in sizes else bounds(v, {})
    if not may_leave(kernel.body):
        f.line("(void)weft_record;")
        emit_stmt(f, kernel.body)
        f.line("return 0;")
        return f.lines
    f.line("int32_t status = 0;")
    f.line("_Atomic int32_t failed = 0;")
    end = f.fresh("end")
    f.exits.append(end)
    with f.braces():
        emit_stmt(f, kernel.body)
    f.label(end)
    f.line("(void)failed, (void)weft_record;")
    f.line(f"return status == {DONE} ? 0 : status;")
    return f.lines


def _parameters(program: Program, kernel: Kernel) -> str:
    texts = []
    for p in kernel.params:
        name = program.names.of(p.name)
        if isinstance(p, Buffer):
            const = "" if p.name in kernel.outputs else "const "
            texts.append(f"{const}{storage_type(p.dtype)} *restrict {name}")
        else:
            texts.append(f"{value_type(p.dtype)} {name}")
    line = ", ".join([*texts, "long long *weft_record"])
    return line if len(line) < 100 else "\n    " + line.replace(", ", ",\n    ")


def _entry(program: Program, kernel: Kernel, name: str) -> str:
    """The slots of a call, one for each parameter: a pointer, an integer of eight bytes, a float32 or a float64."""
    lines = [f"int32_t {entry_name(kernel)}(void **slots) {{"]
    values = []
    for n, p in enumerate(kernel.params):
        if isinstance(p, Buffer):
            values.append(f"slots[{n}]")
        elif p.dtype.is_float:
            kind = value_type(p.dtype)
            lines += [f"  {kind} x{n};", f"  memcpy(&x{n}, &slots[{n}], sizeof x{n});"]
            values.append(_rounded(program, f"x{n}", p))
        else:
            values.append(f"({value_type(p.dtype)})(intptr_t)slots[{n}]")
    call = f"  return {name}({', '.join([*values, f'slots[{len(kernel.params)}]'])});"
    return "\n".join([*lines, call, "}"])


def _rounded(program: Program, text: str, param: Var) -> str:
    """A narrow float arrives as a float, and is rounded to what it is."""
    t = param.dtype
    if not t.is_narrow_float:
        return text
    program.used |= {f"widen_{t.name}", f"to_{t.name}"}
    return f"widen_{t.name}(to_{t.name}({text}))"

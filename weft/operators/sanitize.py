"""`weft.sanitize`: a program run with every access watched, on no GPU."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.ir.buffer import Buffer
from weft.ir.dtype import OTHER_FLOATS, parse_dtype
from weft.ir.errors import ArgumentError
from weft.ir.expr import Const
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.stmt import Kernel
from weft.operators.loop_kernel import LoopKernel
from weft.operators.operator import Operator
from weft.schedules.merge_axes import merged_arguments

if TYPE_CHECKING:
    from weft.sanitizer.findings import Report


def sanitize(program: str | Kernel | LoopKernel | Operator, /, *args: Any, target: str | None = "cuda") -> Report:
    """Runs ``program`` on copies of ``args`` and says what is wrong with it: data races, accesses out of bounds,
    reads of memory nothing has written, barriers that not all threads reach, each with blocks, threads and lines.

    It takes what `weft.kernel` takes or makes, with an argument for each parameter; or an operator, scheduled
    for ``target``, with its inputs. They may be given as one list, too. Arrays may be anywhere; nothing runs on a GPU.

    >>> report = weft.sanitize(open("scan.loops").read(), x, y)
    >>> print(report)
    """
    from weft.sanitizer.sanitize import sanitize_kernel

    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        args = tuple(args[0])
    arrays = [_on_host(a) for a in args]
    if isinstance(program, Operator):
        s = program.schedule(*args, target=target)
        arrays += [_fresh(p) for p in s.start.params[len(arrays) :]]
        report = sanitize_kernel(s.kernel, merged_arguments(s.start, s.kernel, arrays))
        shapes = {p.name: a.shape for p, a in zip(s.start.params, arrays) if p.name in report.outputs}
        return replace(report, outputs={name: a.reshape(shapes[name]) for name, a in report.outputs.items()})
    return sanitize_kernel(_kernel(program), arrays)


def _kernel(program: str | Kernel | LoopKernel) -> Kernel:
    if isinstance(program, LoopKernel):
        return program.kernel
    if isinstance(program, str):
        from weft.ir.parser import parse_kernel

        return parse_kernel(program)
    if not isinstance(program, Kernel):
        raise ArgumentError(
            f"sanitize takes a loop program, a weft.kernel or an operator, not {type(program).__name__}",
            help="weft.sanitize(kernel, *args)",
        )
    return program


def _fresh(param: Any) -> Any:
    """An output to write into."""
    assert isinstance(param, Buffer)
    sizes = [int(n.value) for n in param.shape if isinstance(n, Const)]
    return np.zeros(sizes, to_numpy(param.dtype))


def _on_host(value: Any) -> Any:
    """An array as numpy has it; numbers stay as they are."""
    if isinstance(value, (bool, int, float, np.generic, np.ndarray)):
        return value
    if hasattr(value, "detach"):  # torch
        value = value.detach().cpu().contiguous()
        other = parse_dtype(str(value.dtype).removeprefix("torch."))
        if other is not None and other.kind in OTHER_FLOATS:
            return value.view(getattr(sys.modules["torch"], f"int{other.bits}")).numpy().view(to_numpy(other))
        return value.numpy()
    if hasattr(value, "get") and hasattr(value, "__cuda_array_interface__"):  # cupy
        return value.get()
    try:
        return np.asarray(np.from_dlpack(value) if hasattr(value, "__dlpack__") else value)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise ArgumentError(f"a {type(value).__name__} is no array", why=first) from None

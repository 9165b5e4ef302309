"""`weft.kernel`: a loop program, written by hand or printed by a schedule, as a callable.

Nothing is scheduled: loops run as the program says. Arrays on the CPU run it as machine code of the CPU, block and
thread loops included; arrays on a GPU as a CUDA kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.ir.at_the_call import told_at_the_call
from weft.ir.buffer import Buffer
from weft.ir.errors import ArgumentError, ShapeError
from weft.ir.expr import Const
from weft.ir.numerics import CHOICES, NUMERICS, is_fast
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel, Param
from weft.ir.verify import verify
from weft.ir.visit import free_vars
from weft.operators.callee import Callee
from weft.operators.choose_machine import choose_machine
from weft.operators.interface import Interface, Parameter
from weft.operators.scheduling import Numerics, check_target
from weft.operators.signature import (
    Arguments,
    Signature,
    bind_arguments,
    canonical_strides,
    common_device,
    layout_of,
)
from weft.operators.specialization import (
    Specialization,
    check_parameters,
    code_key,
    compile_record,
    find_code,
    load_record,
)
from weft.operators.stages import STAGES, show_kernel
from weft.runtime.argument import ArgumentInfo, dense_strides
from weft.runtime.arrays import describe, describe_output, overlaps, scalar_value
from weft.runtime.executor import Executor
from weft.runtime.pause_collector import collector_paused
from weft.runtime.store import Artifact
from weft.target.cuda.program import evaluate_size, is_host_size

if TYPE_CHECKING:
    from weft.target.description import MachineDescription


@told_at_the_call
def kernel(program: str | Kernel, *, numerics: Numerics = "strict", target: str | None = None) -> LoopKernel:
    """The loop program ``program``, a text or a `Kernel`, as a callable.

    >>> add = weft.kernel('''kernel add(X: float32[n], out Y: float32[n], n: int64) {
    ...   block b in 0:(n + 255) // 256 { thread t in 0:256 {
    ...     if b * 256 + t < n { Y[b * 256 + t] = X[b * 256 + t] + 1.0_f32 } } }
    ... }''')
    >>> add(x, y, 1000)                 # arrays on the CPU or a GPU; y is written

    ``target="c"`` runs it as C, built by the system's compiler.
    """
    if isinstance(program, str):
        from weft.ir.parser import parse_kernel

        program = parse_kernel(program)
    if not isinstance(program, Kernel):
        raise ArgumentError(
            f"kernel takes the text of a loop program or a Kernel, not {type(program).__name__}",
            help='weft.kernel("kernel f(out Y: float32[8]) { ... }")',
        )
    if numerics not in NUMERICS:
        raise ArgumentError(f"numerics={numerics!r} is not known", help=f"use {CHOICES}")
    verify(program)
    check_target(target)
    return LoopKernel(program, numerics, target)


class LoopKernel(Callee):
    """A loop program one can call, with arrays and numbers in the order of its parameters; outputs are written."""

    def __init__(self, kernel: Kernel, numerics: Numerics, target: str | None = None) -> None:
        super().__init__(target, written=kernel.outputs, exact=_size_positions(kernel))
        self.kernel, self.numerics = kernel, numerics
        self._interface = _interface(kernel)

    @property
    def interface(self) -> Interface:
        return self._interface

    def __repr__(self) -> str:
        return f"<weft kernel {self.name}({', '.join(map(str, self._interface.params))})>"

    @told_at_the_call
    def show(self, stage: str = "loops", *, target: str | None = None) -> str:
        """The program at ``stage`` of its compilation: loops, lowered, or one of a target."""
        if stage == "tensor":
            raise ArgumentError("a loop program has no stage `tensor`", help=f"use one of: {', '.join(STAGES[1:])}")
        if stage == "loops":
            return print_kernel(self.kernel)
        machine = choose_machine(target or self._target, stage=stage)
        return show_kernel(self.kernel, stage, machine, fast=is_fast(self.numerics))

    @told_at_the_call
    def _call_slowly(self, /, *args: Any, **named: Any) -> None:
        bound = bind_arguments(self._interface, args, named)
        device = common_device(self._interface, bound) or "cpu"
        values = tuple(self._describe(p, value) for p, value in zip(self.kernel.params, bound))
        self._check_shapes(values)
        self._check_overlap(values)
        tensors = tuple((p.name, layout_of(v)) for p, v in zip(self.kernel.params, values) if isinstance(p, Buffer))
        self._execute(Arguments(values, (), Signature(tensors, (), ())), device)

    __call__ = _call_slowly  # `make_calls_fast` puts machine code in front of it

    def _describe(self, param: Param, value: Any) -> Any:
        if not isinstance(param, Buffer):
            return scalar_value(value, param.dtype, name=param.name, span=param.span)
        look = describe_output if param.name in self.kernel.outputs else describe
        return look(value, name=param.name, dtype=param.dtype, span=param.span)

    def _check_shapes(self, values: Sequence[Any]) -> None:
        sizes = {p.name: v for p, v in zip(self.kernel.params, values) if not isinstance(p, Buffer)}
        for param, info in zip(self.kernel.params, values):
            if isinstance(param, Buffer):
                _check_layout(param, info, sizes)

    def _check_overlap(self, values: Sequence[Any]) -> None:
        arrays = [(p, v) for p, v in zip(self.kernel.params, values) if isinstance(p, Buffer)]
        for n, (one, info) in enumerate(arrays):
            for other, other_info in arrays[:n]:
                written = {one.name, other.name} & set(self.kernel.outputs)
                if written and overlaps(info, other_info):
                    raise ArgumentError(
                        f"`{other.name}` and `{one.name}` overlap in memory",
                        why=f"the kernel writes `{sorted(written)[0]}`, and takes parameters for separate arrays",
                        help="pass arrays that share no memory",
                    )

    def _compile(
        self, signature: Signature, machine: MachineDescription, executor: Executor, misaligned: frozenset[str]
    ) -> Specialization:
        key = code_key("loops", machine, misaligned, print_kernel(self.kernel), self.numerics)

        def load(kept: Artifact) -> Specialization:
            loaded = load_record(kept.metadata, kept.blobs["code"], executor, signature, self.name, self._interface)
            check_parameters(loaded, [p.name for p in self._interface.params], self._interface)
            return loaded._replace(release_gil=True)

        return find_code(key, lambda: self._make(machine, misaligned), load)

    @collector_paused()
    def _make(self, machine: MachineDescription, misaligned: frozenset[str]) -> Artifact:
        return compile_record(self.kernel, machine, fast=is_fast(self.numerics), misaligned=misaligned)


def _size_positions(kernel: Kernel) -> tuple[int, ...]:
    """Integer parameters: shapes, grids and bounds depend on them, so a call with others is checked again."""
    used = {name for b in kernel.buffers for n in (*b.shape, *(b.strides or ())) for name in free_vars(n)}
    scalars = [(i, p) for i, p in enumerate(kernel.params) if not isinstance(p, Buffer)]
    return tuple(i for i, p in scalars if p.name in used or p.dtype.is_integer)


def _interface(kernel: Kernel) -> Interface:
    """What a caller sees: every parameter in order, outputs among them."""
    return Interface(kernel.name, tuple(_parameter(p) for p in kernel.params), ())


def _parameter(param: Param) -> Parameter:
    if not isinstance(param, Buffer):
        return Parameter(param.name, "scalar", param.dtype.name)
    from weft.ir.printer import print_expr

    dims = tuple(int(n.value) if isinstance(n, Const) else print_expr(n) for n in param.shape)
    return Parameter(param.name, "tensor", param.dtype.name, dims)


def _check_layout(buffer: Buffer, info: ArgumentInfo, sizes: Mapping[str, Any]) -> None:
    """The array has the shape and the strides that the program declares."""
    names = frozenset(sizes)
    if len(info.shape) != buffer.rank:
        raise ShapeError(
            f"argument `{buffer.name}` must have {buffer.rank} dimension{'s' * (buffer.rank != 1)}, "
            f"not {len(info.shape)}",
            span=buffer.span,
            why=f"its shape is {info.shape}",
        )
    open_sizes = [n for n in (*buffer.shape, *(buffer.strides or ())) if not is_host_size(n, names)]
    if open_sizes:
        raise ShapeError(
            f"the size of `{buffer.name}` cannot be computed before the call",
            span=buffer.span,
            why="sizes of parameters are made of numbers and integer parameters",
        )
    shape = tuple(int(evaluate_size(n, sizes)) for n in buffer.shape)
    if shape != info.shape:
        raise ShapeError(
            f"argument `{buffer.name}` must have the shape {shape}, not {info.shape}",
            span=buffer.span,
            why="the program declares it so",
        )
    declared = buffer.strides
    strides = dense_strides(shape) if declared is None else tuple(int(evaluate_size(n, sizes)) for n in declared)
    if canonical_strides(shape, info.strides) != canonical_strides(shape, strides):
        raise ArgumentError(
            f"argument `{buffer.name}` must have the strides {strides}, not {info.strides}",
            span=buffer.span,
            why="the program declares it so" if declared is not None else "without strides, arrays are dense",
            help=f"pass a contiguous copy of `{buffer.name}`" if declared is None else None,
        )

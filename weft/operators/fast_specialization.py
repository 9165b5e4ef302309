"""What the fast call (`weft.runtime.fastcall`) has to know of a specialization, on every device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from weft.ir.dtype import SCALAR_TYPES
from weft.operators.interface import Interface, Parameter
from weft.operators.signature import Layout
from weft.runtime import fastcall
from weft.runtime.argument import ArgumentInfo
from weft.runtime.executor import Executor
from weft.runtime.fastcall import ArgumentRule, ConstantValue, DeviceMemory, ScalarType, TensorLayout
from weft.runtime.kernel import slot_bits

if TYPE_CHECKING:
    from weft.operators.specialization import Specialization


def fast_specialization(
    interface: Interface,
    special: Specialization,
    executor: Executor,
    values: Sequence[ArgumentInfo | int | float | bool],
    exact: Mapping[str, int],
    written: frozenset[str],
) -> fastcall.Specialization | None:
    """For calls like that with ``values`` for the first parameters; None where machine code cannot read such arrays.

    Numbers in ``exact`` must have these values; arguments that are ``written`` must overlap no other.
    """
    signature, outputs = special.signature, special.outputs
    start = executor.fast_start(special.loaded, values, special.fixed, outputs)
    if start is None:
        return None
    layouts, constants, given = dict(signature.tensors), dict(signature.constants), dict(signature.outputs)
    fresh = {o.name: Layout.dense(o.dtype, o.shape) for o in outputs}

    def rule(p: Parameter) -> ArgumentRule:
        if p.name in layouts:
            return _rule(layouts[p.name], start.memory.get(p.name))._replace(written=p.name in written)
        value = (constants | dict(exact)).get(p.name)
        return ScalarType(SCALAR_TYPES[p.dtype]) if value is None else ConstantValue(value)

    passed = [p.name for p in interface.params if p.name not in constants]
    slots = [passed.index(p.name) if p.name not in constants else None for p in interface.params]
    types = [dtype for _, dtype in special.params]
    return fastcall.Specialization(
        start.kernel,
        [rule(p) for p in interface.params],
        slots,
        [_rule((fresh | given)[o.name], start.memory.get(o.name)) for o in outputs],
        range(len(passed), len(passed) + len(outputs)),
        fixed=[*slot_bits(types[len(types) - len(special.fixed) :], special.fixed), *start.last],
        release_gil=special.release_gil,
        allocates=not given and all(o.fill is None for o in outputs) and not any(o.needed for o in interface.outputs),
    )


def _rule(layout: Layout, memory: DeviceMemory | None) -> TensorLayout:
    return TensorLayout(SCALAR_TYPES[layout.dtype], layout.shape, layout.strides, memory)

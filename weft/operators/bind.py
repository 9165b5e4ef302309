"""`op.bind`: an operator some of whose arguments are fixed, so that what depends on them alone is done once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from weft.ir.errors import ArgumentError, did_you_mean
from weft.operators.definition import BoundValue, Definition
from weft.operators.interface import Interface
from weft.operators.signature import Layout, Signature, check_value
from weft.runtime.argument import ArgumentInfo
from weft.runtime.arrays import copy_dense
from weft.version import cache_key

if TYPE_CHECKING:
    from weft.tensor.program import TensorProgram


class BoundDefinition(Definition):
    """A definition with values for some parameters; arrays are copies, so later changes do not matter."""

    def __init__(self, whole: Definition, values: Mapping[str, BoundValue]) -> None:
        super().__init__(whole.source, whole.entry, whole.how, whole.dynamic)
        self.whole = whole
        self.bound = dict(values)

    @cached_property
    def key(self) -> str:
        return cache_key("bound", self.whole.key, *sorted(self.bound))

    @cached_property
    def program(self) -> TensorProgram:
        return self.whole.program

    @property
    def whole_interface(self) -> Interface:
        return self.whole.interface

    @cached_property
    def interface(self) -> Interface:
        whole = self.whole_interface
        return whole._replace(params=tuple(p for p in whole.params if p.name not in self.bound))

    def is_misread(self) -> bool:
        if not self.whole.is_misread():
            return False
        del self.interface
        return True

    @property
    def device(self) -> str:
        """Where a call without arrays runs: with the bound ones."""
        return next((v.device for v in self.bound.values() if isinstance(v, ArgumentInfo)), "cpu")

    def complete(self, signature: Signature) -> Signature:
        """The signature of a call with the bound values added."""
        roles = {p.name: p.role for p in self.whole_interface.params}
        arrays = {n: v for n, v in self.bound.items() if isinstance(v, ArgumentInfo)}
        tensors = tuple((n, Layout.dense(v.dtype, v.shape)) for n, v in arrays.items())
        constants = tuple((n, int(v)) for n, v in self.bound.items() if roles[n] == "constant")  # type: ignore[arg-type]
        return Signature((*signature.tensors, *tensors), (*signature.constants, *constants), signature.outputs)

    def scheduled(self, how: Any) -> Definition:
        return BoundDefinition(self.whole.scheduled(how), self.bound)


def bind_values(definition: Definition, named: Mapping[str, Any]) -> BoundDefinition:
    """``definition`` with the arguments ``named`` fixed to these values."""
    whole = definition.whole if isinstance(definition, BoundDefinition) else definition
    params = {p.name: p for p in definition.interface.params}
    if not named:
        raise ArgumentError("bind takes the arguments to fix by name", help=f"bind({next(iter(params), 'W')}=...)")
    values = dict(definition.bound) if isinstance(definition, BoundDefinition) else {}
    for name, value in named.items():
        if name not in params:
            raise ArgumentError(
                f"{definition.interface.name} has no parameter `{name}` to bind",
                why=f"its parameters are {', '.join(params) or 'none'}",
                help=did_you_mean(name, params),
            )
        checked = check_value(definition.interface, params[name], value)
        values[name] = copy_dense(checked) if isinstance(checked, ArgumentInfo) else checked
    return BoundDefinition(whole, values)


def check_bound_device(definition: Definition, device: str) -> None:
    """Bound arrays are where the arguments of a call are."""
    for name, value in definition.bound.items():
        if isinstance(value, ArgumentInfo) and value.device != device:
            raise ArgumentError(
                f"`{name}` is bound to an array on `{value.device}`, and this call is on `{device}`",
                why="a kernel runs on one device and reads arrays that are there",
                help=f"bind `{name}` to an array on `{device}`",
            )

"""The arguments of a call, checked against an interface and reduced to what code depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from weft.ir.dtype import DType
from weft.ir.errors import ArgumentError
from weft.operators.interface import Interface, Output, Parameter
from weft.runtime.argument import ArgumentInfo, dense_strides
from weft.runtime.arrays import describe, describe_output, device_of, is_on_gpu, scalar_value


class Layout(NamedTuple):
    """Type, shape and strides (in elements) of one tensor."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def dense(dtype: DType | str, shape: tuple[int, ...]) -> Layout:
        return Layout(str(dtype), shape, dense_strides(shape))

    @property
    def is_dense(self) -> bool:
        return self.strides == dense_strides(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}{list(self.strides)}"


class Signature(NamedTuple):
    """What machine code is specialized for: tensor layouts, constants, layouts of given outputs."""

    tensors: tuple[tuple[str, Layout], ...]
    constants: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, Layout], ...]

    @property
    def key(self) -> str:
        parts = [f"{name}:{layout}" for name, layout in self.tensors]
        parts += [f"{name}={value}" for name, value in self.constants]
        parts += [f"out {name}:{layout}" for name, layout in self.outputs]
        return ";".join(parts)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: layout.shape for name, layout in (*self.tensors, *self.outputs)}

    @property
    def strides(self) -> dict[str, tuple[int, ...]]:
        """Element strides of the tensors that are not dense and row-major."""
        named = (*self.tensors, *self.outputs)
        return {name: layout.strides for name, layout in named if not layout.is_dense}


class Arguments(NamedTuple):
    """A checked call: one entry a parameter (an array's description or a number), the given outputs, where they are."""

    values: tuple[ArgumentInfo | int | float | bool, ...]
    outputs: tuple[ArgumentInfo, ...] | None
    signature: Signature
    device: str | None = None


def canonical_strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides no element depends on (extents 0 and 1) replaced, so equal layouts compare equal."""
    dense = dense_strides(shape)
    return dense if 0 in shape else tuple(d if size == 1 else s for size, s, d in zip(shape, strides, dense))


def bind_arguments(interface: Interface, args: Sequence[Any], named: dict[str, Any]) -> list[Any]:
    """Positional and named arguments in the order of the parameters."""
    names = [p.name for p in interface.params]
    unknown = [n for n in named if n not in names]
    if unknown:
        raise ArgumentError(
            f"{interface.name} has no parameter `{unknown[0]}`",
            why=f"its parameters are {', '.join(names) or 'none'}",
            help="outputs are passed as out=",
        )
    if len(args) > len(names):
        raise ArgumentError(
            f"{interface.name} takes {len(names)} argument{'s' * (len(names) != 1)}, got {len(args)}",
            why=f"it is {interface}",
            help="pass outputs as out=" if len(args) <= len(names) + len(interface.outputs) else None,
        )
    twice = [n for n in names[: len(args)] if n in named]
    if twice:
        raise ArgumentError(f"`{twice[0]}` was given twice", why="once by position and once by name")
    bound = dict(zip(names, args)) | named
    missing = [p for p in interface.params if p.name not in bound]
    if missing:
        raise ArgumentError(
            f"{interface.name} misses {', '.join(f'`{p.name}`' for p in missing)}",
            span=interface.span(missing[0].place),
            why=f"it is {interface}",
            help=f"call {interface.name}({', '.join(names)})",
        )
    return [bound[n] for n in names]


def check_call(interface: Interface, args: Sequence[Any], out: Any) -> Arguments:
    """Every argument described and checked; raises the error that names the first wrong one."""
    device = common_device(interface, args, out)
    values = tuple(check_value(interface, p, a) for p, a in zip(interface.params, args))
    outputs = None if out is None else _check_outputs(interface, out)
    tensors = tuple((p.name, layout_of(v)) for p, v in zip(interface.params, values) if isinstance(v, ArgumentInfo))
    constants = tuple((p.name, int(v)) for p, v in zip(interface.params, values) if p.role == "constant")  # type: ignore[arg-type]
    given = () if outputs is None else tuple((o.name, layout_of(v)) for o, v in zip(interface.outputs, outputs))
    return Arguments(values, outputs, Signature(tensors, constants, given), device)


def common_device(interface: Interface, args: Sequence[Any], out: Any = None) -> str | None:
    """The device that all arrays of a call are on; None where there are none."""
    named = [(p, a) for p, a in zip(interface.params, args) if p.role == "tensor"]
    given = () if out is None else out if isinstance(out, (tuple, list)) else (out,)
    found: tuple[Parameter | Output, str] | None = None
    arrays: list[tuple[Parameter | Output, Any]] = [*named, *zip(interface.outputs, given)]
    for param, value in arrays:
        device = device_of(value)
        if device is None or not (device == "cpu" or is_on_gpu(device)):
            continue  # describing it says what is wrong
        if found is not None and device != found[1]:
            raise ArgumentError(
                f"`{found[0].name}` is on `{found[1]}` and `{param.name}` on `{device}`",
                span=interface.span(param.place),
                why="a kernel runs on one device and reads arrays that are there",
                help=f"copy one of them to the other's device, for example {param.name}.to({found[1]!r})",
            )
        found = found or (param, device)
    return None if found is None else found[1]


def layout_of(info: ArgumentInfo) -> Layout:
    """Type, shape and strides of an array, equal for arrays whose elements are in the same places."""
    return Layout(info.dtype.name, info.shape, canonical_strides(info.shape, info.strides))


def check_value(interface: Interface, param: Parameter, value: Any) -> ArgumentInfo | int | float | bool:
    """One argument described and checked against its parameter."""
    span = interface.span(param.place)
    if param.role != "tensor":
        return scalar_value(value, param.dtype, name=param.name, span=span)
    return describe(value, name=param.name, dtype=param.dtype, span=span)


def _check_outputs(interface: Interface, out: Any) -> tuple[ArgumentInfo, ...]:
    wanted = interface.outputs
    given = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    if len(given) != len(wanted):
        raise ArgumentError(
            f"{interface.name} has {len(wanted)} output{'s' * (len(wanted) != 1)}, out= holds {len(given)}",
            why=f"it is {interface}",
            help=f"pass out=({', '.join(o.name for o in wanted)}{',' * (len(wanted) == 1)})",
        )
    return tuple(
        describe_output(value, name=o.name, dtype=o.dtype, span=interface.span(o.place))
        for o, value in zip(wanted, given)
    )

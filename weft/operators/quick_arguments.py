"""Arguments of a call on a GPU, read as quickly as Python can: what they look like, and the values a kernel gets.

For each operator and each class of arrays, a function is written out as Python text, straight through the arguments:
attributes of arrays are most of what a call costs, and loops and calls around them would double it. Only what is
usual is read here; anything else raises `Unusual`, and the call is checked the careful way.

torch has a quicker way still, made for its own compiler: one C++ function compares many tensors with what they were
like before. Where it is there, `guarded_reader` uses it, and reads no more than the addresses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from weft.ir.dtype import SCALAR_TYPES
from weft.operators.interface import Interface, Parameter
from weft.runtime.executor import ALIGNMENT

#: Takes arguments and outputs (or None); gives all that code depends on, and the addresses and numbers in order.
Reader = Callable[[tuple[Any, ...], Any], tuple[tuple[Any, ...], list[Any]]]


class Unusual(Exception):
    """Not an argument that can be taken quickly."""


class ArrayText(NamedTuple):
    """How arrays of a class are read, as Python text about the array ``{a}``; ``refuse`` is why one is not usual."""

    address: str
    facts: tuple[str, ...]
    refuse: str | None = None


TORCH = ArrayText(
    "{a}.data_ptr()",
    ("{a}.dtype", "{a}.shape", "{a}.stride()", "{a}.get_device()", "{a}.is_neg()"),
    "{a}.requires_grad and grad_enabled()",
)
CUPY = ArrayText("{a}.data.ptr", ("{a}.dtype", "{a}.shape", "{a}.strides", "{a}.data.device_id"))
#: Texts for classes of arrays beyond torch's and CuPy's own.
OTHERS: dict[type, ArrayText] = {}


def quick_reader(interface: Interface, kind: type) -> Reader | None:
    """The reader of calls whose arrays are of class ``kind``; None where such calls are not usual."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and kind in (torch.Tensor, torch.nn.Parameter):
        return _make_reader(interface, TORCH, {"grad_enabled": torch.is_grad_enabled})
    if cupy is not None and kind is cupy.ndarray:
        return _make_reader(interface, CUPY, {})
    return _make_reader(interface, OTHERS[kind], {}) if kind in OTHERS else None


def _make_reader(interface: Interface, array: ArrayText, names: Mapping[str, Any]) -> Reader:
    space: dict[str, Any] = {"Unusual": Unusual, **names}
    exec(reader_text(interface, array), space)  # made of names of our own alone
    reader: Reader = space["read"]
    return reader


class _Names(NamedTuple):
    """What the texts below call things: arguments by role, the values that are passed on, outputs."""

    params: list[tuple[int, Parameter]]
    tensors: list[str]
    constants: list[str]
    values: list[str]
    outputs: list[str]


def _names(interface: Interface) -> _Names:
    params = list(enumerate(interface.params))
    return _Names(
        params,
        [f"a{i}" for i, p in params if p.role == "tensor"],
        [f"a{i}" for i, p in params if p.role == "constant"],
        [f"p_a{i}" if p.role == "tensor" else f"a{i}" for i, p in params if p.role != "constant"],
        [f"o{i}" for i in range(len(interface.outputs))],
    )


def reader_text(interface: Interface, array: ArrayText) -> str:
    """The Python text of a `Reader`."""
    params, tensors, constants, values, outputs = _names(interface)
    lines = ["def read(args, out):", f"  {_targets([f'a{i}' for i, _ in params])} = args"]
    lines += [f"  if {_number_test(f'a{i}', p)}: raise Unusual" for i, p in params if p.role != "tensor"]
    lines += _read_arrays(array, tensors)
    key = [*constants, *_facts(array, tensors)]
    lines += [f"  if out is None: return ({''.join(f'{k}, ' for k in key)}), [{', '.join(values)}]"]
    lines += [f"  {_targets(outputs)} = out if type(out) is tuple else (out,)"]
    lines += _read_arrays(array, outputs)
    whole = [*key, *_facts(array, outputs)]
    return "\n".join(
        [*lines, f"  return ({', '.join(whole)},), [{', '.join([*values, *(f'p_{o}' for o in outputs)])}]"]
    )


#: Takes arguments, outputs (or None) and two lists of `Guard`, for calls without and with outputs; gives what the
#: guard that fits stands for, and the addresses and numbers in order; or None.
GuardedReader = Callable[[tuple[Any, ...], Any, "list[Guard]", "list[Guard]"], "tuple[Any, list[Any]] | None"]


class Guard(NamedTuple):
    """Whether tensors are as they were (``check``), in a call with these constants: then ``ready`` is what to do."""

    check: Callable[..., bool]
    constants: tuple[Any, ...]
    ready: Any


def make_guard(tensors: Sequence[Any], constants: tuple[Any, ...], ready: Any) -> Guard | None:
    """A guard for aligned torch tensors that need no gradient; None where torch has no such function."""
    torch = sys.modules["torch"]
    if any(t.requires_grad or t.data_ptr() % ALIGNMENT for t in tensors):
        return None
    try:
        sizes, strides = [list(t.shape) for t in tensors], [list(t.stride()) for t in tensors]
        made = torch._C._dynamo.guards.TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
        return Guard(made.check, constants, ready) if made.check(*tensors) else None
    except (AttributeError, TypeError, RuntimeError, ValueError):  # not a public function: versions may differ
        return None


def guarded_reader(interface: Interface) -> GuardedReader:
    space: dict[str, Any] = {}
    exec(guarded_text(interface), space)  # made of names of our own alone
    reader: GuardedReader = space["read"]
    return reader


def guarded_text(interface: Interface) -> str:
    """The Python text of a `GuardedReader`."""
    params, tensors, constants, values, outputs = _names(interface)
    lines = ["def read(args, out, fresh, given):", f"  {_targets([f'a{i}' for i, _ in params])} = args"]
    lines += [f"  if {_number_test(f'a{i}', p)}: return None" for i, p in params if p.role != "tensor"]
    lines += ["  if out is None:", *_guarded("fresh", tensors, constants, values)]
    lines += [f"  {_targets(outputs)} = out if type(out) is tuple else (out,)"]
    given = _guarded("given", [*tensors, *outputs], constants, [*values, *(f"p_{o}" for o in outputs)])
    return "\n".join([*lines, "  if True:", *given])


def _guarded(guards: str, tensors: Sequence[str], constants: Sequence[str], values: Sequence[str]) -> list[str]:
    same = f"constants == {_targets(constants)} and " if constants else ""
    addresses = [f"    p_{a} = {a}.data_ptr()" for a in tensors]
    return [
        f"    for check, constants, ready in {guards}:",
        f"      if {same}check({', '.join(tensors)}): break",
        "    else: return None",
        *addresses,
        f"    if ({' | '.join(f'p_{a}' for a in tensors)}) & {ALIGNMENT - 1}: return None",
        f"    return ready, [{', '.join(values)}]",
    ]


def _targets(names: Sequence[str]) -> str:
    return f"({''.join(f'{n}, ' for n in names)})" if names else "()"


def _read_arrays(array: ArrayText, names: Sequence[str]) -> list[str]:
    lines = [f"  if {array.refuse.format(a=a)}: raise Unusual" for a in names] if array.refuse else []
    return lines + [f"  p_{a} = {array.address.format(a=a)}" for a in names]


def _facts(array: ArrayText, names: Sequence[str]) -> list[str]:
    """What code depends on: the class too, since a class of another's arrays may answer differently."""
    return [
        text
        for a in names
        for text in (f"type({a})", *(f.format(a=a) for f in array.facts), f"p_{a} & {ALIGNMENT - 1}")
    ]


def _number_test(name: str, param: Parameter) -> str:
    """Whether a number is not of the usual type, or out of range."""
    dtype = SCALAR_TYPES[param.dtype]
    if dtype.is_bool:
        return f"type({name}) is not bool"
    if dtype.is_integer:
        return f"type({name}) is not int or not {dtype.min_value} <= {name} <= {dtype.max_value}"
    largest = "1e309" if dtype.bits == 64 else "3.4e38"  # beyond, rounding decides
    return f"type({name}) is not float or not -{largest} <= {name} <= {largest}"

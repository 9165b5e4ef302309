"""Sizes that one compilation serves all values of.

Tensors with such a size must be dense, since their strides follow from it; a call with another layout is
compiled for its own shape, as without ``dynamic``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from weft.ir.errors import ArgumentError, did_you_mean
from weft.operators.interface import Interface
from weft.operators.signature import Layout, Signature


def check_dynamic(interface: Interface, dynamic: Any) -> tuple[str, ...]:
    """The names of dynamic sizes, each the dimension of some parameter, in the order in which a kernel takes them."""
    names = (dynamic,) if isinstance(dynamic, str) else tuple(dynamic)
    known = [d for p in interface.params for d in p.dims if isinstance(d, str) and d.isidentifier()]
    for name in names:
        if name not in known:
            raise ArgumentError(
                f"dynamic={name!r} is not a size of {interface.name}",
                why=f"sizes that its parameters have are {', '.join(dict.fromkeys(known)) or 'none'}",
                help=did_you_mean(str(name), known),
            )
    return tuple(dict.fromkeys(d for d in known if d in names))


def dynamic_sizes(interface: Interface, signature: Signature, dynamic: tuple[str, ...]) -> dict[str, int]:
    """The values of the dynamic sizes in a call; none where a layout needs code of its own."""
    if not dynamic:
        return {}
    dims = {p.name: p.dims for p in interface.params}
    addresses: dict[str, int] = {}
    for name, layout in (*signature.tensors, *signature.outputs):
        open_dims = [(d, n) for d, n in zip(dims.get(name, ()), layout.shape) if is_open(d, dynamic)]
        if (open_dims or name not in dims) and not layout.is_dense:
            return {}
        addresses |= {str(d): n for d, n in open_dims if d in dynamic}
    return {name: addresses[name] for name in dynamic}


def is_open(dim: str | int, names: Iterable[str]) -> bool:
    """Whether a dimension depends on one of the sizes ``names``."""
    return isinstance(dim, str) and not set(names).isdisjoint(re.findall(r"\w+", dim))


def general_key(interface: Interface, signature: Signature, sizes: Mapping[str, int]) -> str:
    """What the code for a call depends on: its signature, with dynamic sizes by name."""
    if not sizes:
        return signature.key
    dims = {p.name: p.dims for p in interface.params}
    parts = [f"{name}:{_general_layout(layout, dims[name], sizes)}" for name, layout in signature.tensors]
    parts += [f"{name}={value}" for name, value in signature.constants]
    parts += [f"out {name}" for name, _ in signature.outputs]
    return f"for all {', '.join(sizes)};{';'.join(parts)}"


def _general_layout(layout: Layout, dims: tuple[str | int, ...], sizes: Mapping[str, int]) -> str:
    shape = [d if is_open(d, sizes) else n for d, n in zip(dims, layout.shape)]
    if all(isinstance(n, int) for n in shape):
        return str(layout)
    return f"{layout.dtype}[{', '.join(map(str, shape))}]"

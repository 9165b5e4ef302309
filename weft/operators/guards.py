"""`op.guards`: what is compiled, for which calls, and what would cause a new compilation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from weft.operators.dynamic import dynamic_sizes, general_key

if TYPE_CHECKING:
    from weft.operators.definition import Definition
    from weft.operators.specialization import Specialization


def describe_guards(definition: Definition, specializations: Mapping[str, Specialization]) -> str:
    """A line for each compiled kernel, with the calls it served, and the rules for new ones."""
    kernels: dict[str, list[str]] = {}
    places = {
        key: f"; on {place}" if on else "" for key in specializations for _, on, place in [key.rpartition(" on ")]
    }
    for key, special in specializations.items():
        place, signature = places[key], special.signature
        whole = definition.complete(signature)
        sizes = dynamic_sizes(definition.whole_interface, whole, definition.dynamic)
        served = kernels.setdefault(general_key(definition.whole_interface, whole, sizes) + place, [])
        served.append(", ".join(f"{name}={value}" for name, value in sizes.items()))
    lines = [f"{definition.interface}: {len(kernels)} compiled in this process"]
    for number, (key, served) in enumerate(kernels.items(), 1):
        lines.append(f"  {number}. {key.replace(';', '; ')}")
        if any(served):
            lines.append(f"     called with {'; '.join(served)}")
    return "\n".join([*lines, "compiled anew for:", *_causes(definition, any(places.values()))])


def _causes(definition: Definition, on_gpus: bool) -> list[str]:
    interface = definition.interface
    sizes = dict.fromkeys(d for p in interface.params for d in p.dims if isinstance(d, str))
    bound = {d for p in definition.whole_interface.params if p.name in definition.bound for d in p.dims}
    fixed = [s for s in sizes if s not in definition.dynamic and s not in bound]
    causes = [f"another value of {', '.join(fixed)}"] if fixed else []
    constants = [p.name for p in interface.params if p.role == "constant"]
    causes += [f"another value of the constant {', '.join(constants)}"] if constants else []
    causes.append("other strides of an argument, or of an array passed as out=")
    if on_gpus:
        causes.append("arrays on a GPU that do not begin at a multiple of 16 bytes")
    causes += [f"never for another {', '.join(definition.dynamic)} of dense arrays"] if definition.dynamic else []
    return [f"  - {cause}" for cause in causes]

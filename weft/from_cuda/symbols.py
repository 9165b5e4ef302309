"""Variables of the device outside of functions: how large they are, and what they start as."""

from __future__ import annotations

from weft.from_cuda import calls as _calls  # noqa: F401  registers what it reads
from weft.from_cuda import casts as _casts  # noqa: F401
from weft.from_cuda import operators as _operators  # noqa: F401
from weft.from_cuda.context import Context, Facts, Launch, Unsupported
from weft.from_cuda.tables import fill_bytes
from weft.from_cuda.types import field_type
from weft.from_cuda.unit import Node, Unit
from weft.ir.errors import LanguageError, UnsupportedError


def find_symbol(unit: Unit, name: str) -> Node:
    """The variable of the device called ``name``, plainly or as the linker calls it."""
    for n in unit.nodes.values():
        if n.kind == "VarDecl" and name in (n.name, n.raw.get("mangledName")) and _is_on_device(n):
            return n
    raise LanguageError(f"{unit.source.name} has no __device__ or __constant__ variable `{name}`")


def _is_on_device(n: Node) -> bool:
    return any(n.has(kind) for kind in ("CUDADeviceAttr", "CUDAConstantAttr", "HIPManagedAttr"))


def initial_bytes(unit: Unit, n: Node) -> bytearray:
    """The memory of a variable as it starts: what its declaration says, zeros elsewhere."""
    type = field_type(n, unit)
    made = bytearray(type.size)
    initial = next((i for i in n.inner if not i.kind.endswith("Attr")), None) if "init" in n.raw else None
    if initial is not None and initial.kind != "CXXConstructExpr":
        try:
            fill_bytes(Context(unit, Launch(), Facts()), made, 0, type, initial)
        except Unsupported as problem:
            raise UnsupportedError(
                f"the value that `{n.name}` starts with is not known", span=unit.span(n), why=problem.why
            ) from None
    return made

"""Element types, and the one rule that says what two of them become together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["bool", "int", "uint", "float", "bfloat"]


def _derived() -> Any:
    return field(init=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type; ``lanes`` above 1 makes it a vector of that element.

    What follows from kind and bits is kept, because every expression that is built asks for it.
    """

    kind: Kind
    bits: int
    lanes: int = 1
    is_bool: bool = _derived()
    is_integer: bool = _derived()
    is_float: bool = _derived()
    _hash: int = _derived()

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "is_bool", self.kind == "bool")
        keep(self, "is_integer", self.kind in ("int", "uint"))
        keep(self, "is_float", self.kind in ("float", "bfloat"))
        keep(self, "_hash", hash((self.kind, self.bits, self.lanes)))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, DType):
            return NotImplemented
        return self.kind == other.kind and self.bits == other.bits and self.lanes == other.lanes

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Callable[..., DType], tuple[Kind, int, int]]:
        """In another process the same type is the same object there; hashes of names differ between processes."""
        return _interned, (self.kind, self.bits, self.lanes)

    @property
    def name(self) -> str:
        if self.kind == "bool":
            scalar = "bool"
        elif self.kind == "bfloat":
            scalar = "bfloat16"
        else:
            scalar = f"{self.kind}{self.bits}"
        return scalar if self.lanes == 1 else f"{scalar}x{self.lanes}"

    @property
    def itemsize(self) -> int:
        """Bytes one scalar element takes in memory (a bool takes a whole byte)."""
        return max(self.bits, 8) // 8

    @property
    def is_signed(self) -> bool:
        return self.kind not in ("bool", "uint")

    @property
    def is_narrow_float(self) -> bool:
        """float16 and bfloat16: stored narrow, computed in float32."""
        return self.is_float and self.bits < 32

    @property
    def scalar(self) -> DType:
        return self if self.lanes == 1 else self.with_lanes(1)

    def with_lanes(self, lanes: int) -> DType:
        return self if self.lanes == lanes else _interned(self.kind, self.bits, lanes)

    @property
    def min_value(self) -> int:
        """The least value of an integer or bool type."""
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def max_value(self) -> int:
        """The greatest value of an integer or bool type."""
        return (1 << (self.bits - (self.kind == "int"))) - 1

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


#: Types that differ in lanes alone are made once: comparing an object with itself is quick.
_made: dict[tuple[Kind, int, int], DType] = {}


def _interned(kind: Kind, bits: int, lanes: int) -> DType:
    key = (kind, bits, lanes)
    kept = _made.get(key)
    if kept is None:
        kept = _made[key] = DType(*key)
    return kept


bool_ = DType("bool", 1)
int8, int16, int32, int64 = (DType("int", bits) for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType("uint", bits) for bits in (8, 16, 32, 64))
float16, float32, float64 = (DType("float", bits) for bits in (16, 32, 64))
bfloat16 = DType("bfloat", 16)
_made.update(
    ((t.kind, t.bits, 1), t)
    for t in (
        bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64,
    )
)  # fmt: skip

#: The type of loop variables, sizes and subscripts.
index = int64

SCALAR_TYPES: dict[str, DType] = {t.name: t for t in tuple(_made.values())}


def parse_dtype(name: str) -> DType | None:
    """The type called ``name`` (``float32``, ``int8x16``), or None."""
    scalar, _, lanes = name.partition("x")
    dtype = SCALAR_TYPES.get(scalar)
    if dtype is None or not lanes:
        return dtype if not lanes and "x" not in name else None
    return dtype.with_lanes(int(lanes)) if lanes.isdigit() and int(lanes) > 1 else None


def promote(a: DType, b: DType) -> DType:
    """Float beats int, wider wins, mixed sign becomes signed, bool yields to all.

    float16 with bfloat16 has no common 16-bit type and becomes float32.
    """
    if a == b:
        return a
    if a.lanes != b.lanes:
        lanes = max(a.lanes, b.lanes)
        return promote(a.with_lanes(lanes), b.with_lanes(lanes))
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.bits != b.bits:
        wide = a if a.bits > b.bits else b
        return wide if wide.is_float or a.kind == b.kind else DType("int", wide.bits, wide.lanes)
    return DType("float", 32, a.lanes) if a.is_float else DType("int", a.bits, a.lanes)


def can_hold(target: DType, source: DType) -> bool:
    """Whether ``source`` values go into ``target`` without narrowing."""
    return promote(target, source) == target

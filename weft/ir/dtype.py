"""Element types, and the one rule that says what two of them become together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Kind = Literal["bool", "int", "uint", "float", "bfloat", "e4m3fn", "e5m2"]
#: Kinds of floats that IEEE 754 does not have (numpy neither: its types for them are the ml_dtypes package's), by name.
OTHER_FLOATS: dict[Kind, str] = {"bfloat": "bfloat16", "e4m3fn": "float8_e4m3fn", "e5m2": "float8_e5m2"}


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
        keep(self, "is_float", self.kind == "float" or self.kind in OTHER_FLOATS)
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
        else:
            scalar = OTHER_FLOATS.get(self.kind) or f"{self.kind}{self.bits}"
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
        """float16, bfloat16 and those of 8 bits: stored narrow, computed in float32."""
        return self.is_float and self.bits < 32

    @property
    def shape(self) -> FloatShape:
        """What numbers a type of floats has."""
        return FLOAT_SHAPES[self.scalar.name]

    @property
    def saturates(self) -> bool:
        """Whether what is too large for a type of floats becomes the largest of its numbers, not infinity."""
        return self.is_float and self.bits == 8

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
float8_e4m3fn, float8_e5m2 = DType("e4m3fn", 8), DType("e5m2", 8)
_made.update(
    ((t.kind, t.bits, 1), t)
    for t in (
        bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64,
        float8_e4m3fn, float8_e5m2,
    )
)  # fmt: skip

#: The type of loop variables, sizes and subscripts.
index = int64

SCALAR_TYPES: dict[str, DType] = {t.name: t for t in tuple(_made.values())}


class FloatShape(NamedTuple):
    """Bits after the point, the least exponent of a normal number, the largest number, whether there are infinities."""

    digits: int
    least: int
    largest: float
    has_infinity: bool = True


FLOAT_SHAPES = {
    "float8_e4m3fn": FloatShape(3, -6, 448.0, has_infinity=False),
    "float8_e5m2": FloatShape(2, -14, 57344.0),
    "float16": FloatShape(10, -14, 65504.0),
    "bfloat16": FloatShape(7, -126, float.fromhex("0x1.fep127")),
    "float32": FloatShape(23, -126, float.fromhex("0x1.fffffep127")),
    "float64": FloatShape(52, -1022, float.fromhex("0x1.fffffffffffffp1023")),
}


def parse_dtype(name: str) -> DType | None:
    """The type called ``name`` (``float32``, ``int8x16``), or None."""
    scalar, _, lanes = name.partition("x")
    dtype = SCALAR_TYPES.get(scalar)
    if dtype is None or not lanes:
        return dtype if not lanes and "x" not in name else None
    return dtype.with_lanes(int(lanes)) if lanes.isdigit() and int(lanes) > 1 else None


def promote(a: DType, b: DType) -> DType:
    """Float beats int, wider wins, mixed sign becomes signed, bool yields to all.

    float16 with bfloat16, or the two types of 8 bits, have no common type as narrow and become float32.
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

"""Operands of PTX instructions as C++: what a register, a number or an address is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

C_TYPES = {
    "u8": "unsigned char", "s8": "signed char", "b8": "unsigned char", "u16": "unsigned short", "s16": "short",
    "b16": "unsigned short", "u32": "unsigned", "s32": "int", "b32": "unsigned", "u64": "unsigned long long",
    "s64": "long long", "b64": "unsigned long long", "f32": "float", "f64": "double", "pred": "bool",
}  # fmt: skip
#: Types by a constraint's letter.
LETTERS = {"r": "u32", "l": "u64", "f": "f32", "d": "f64", "h": "u16", "n": "u32"}
_AS_BITS = {("f32", "u32"): "__float_as_uint", ("u32", "f32"): "__uint_as_float",
            ("f64", "u64"): "__double_as_longlong", ("u64", "f64"): "__longlong_as_double"}  # fmt: skip
_LANE = "weft_ptx_lane()"
_SPECIAL = {
    "laneid": _LANE, "warpid": "(weft_ptx_rank() / 32u)", "warpsize": "32u", "WARP_SZ": "32u",
    "lanemask_eq": f"(1u << {_LANE})", "lanemask_lt": f"((1u << {_LANE}) - 1u)",
    "lanemask_le": f"((2u << {_LANE}) - 1u)", "lanemask_gt": f"~((2u << {_LANE}) - 1u)",
    "lanemask_ge": f"~((1u << {_LANE}) - 1u)", "clock": "((unsigned)clock64())", "clock64": "clock64()",
    **{f"{ptx}.{d}": f"{cuda}.{d}" for d in "xyz" for ptx, cuda in
       (("tid", "threadIdx"), ("ntid", "blockDim"), ("ctaid", "blockIdx"), ("nctaid", "gridDim"))},
}  # fmt: skip


class Unknown(Exception):
    """An instruction that is not translated."""


@dataclass
class Scope:
    """What operands are: by number, and registers that the instructions declare."""

    operands: list[tuple[str, str]]
    registers: dict[str, str] = field(default_factory=dict)

    def type_of(self, name: str) -> str | None:
        if re.fullmatch(r"%\d+", name):
            number = int(name[1:])
            if number >= len(self.operands):
                raise Unknown
            return self.operands[number][0]
        return self.registers.get(name)

    def place(self, name: str) -> str:
        if name in self.registers:
            return local_name(name)
        if self.type_of(name) is None:
            raise Unknown
        return self.operands[int(name[1:])][1]

    def value(self, name: str, kind: str) -> str:
        """An operand as a value of ``kind``."""
        special = name.lstrip("%")
        if name.startswith("%") and special in _SPECIAL:
            return f"(({C_TYPES[kind]}){_SPECIAL[special]})"
        own = self.type_of(name)
        if own is None:
            return _constant(name, kind)
        return _converted(self.place(name), own, kind)

    def address(self, text: str, kind: str) -> str:
        """What is in square brackets, as a pointer to ``kind``."""
        found = re.fullmatch(r"\[\s*(%?\w+)\s*(?:\+\s*(-?\d+))?\s*\]", text)
        own = self.type_of(found[1]) if found is not None else None
        if found is None or own is None:
            raise Unknown
        where = self.place(found[1])
        if own in ("u32", "b32", "s32"):  # an address within shared memory
            return f"(({C_TYPES[kind]} *)weft_ptx_shared_at((unsigned){where} + {found[2] or 0}))"
        return f"(({C_TYPES[kind]} *){f'((char *){where} + {found[2]})' if found[2] else where})"

    def assign(self, name: str, kind: str, value: str) -> str:
        if name == "_":
            return f"(void)({value});"
        own = self.type_of(name)
        if own is None:
            raise Unknown
        if own == "u64" and name not in self.registers:  # it may be a pointer
            return f"weft_ptx_set({self.place(name)}, {_converted(value, kind, own)});"
        return f"{self.place(name)} = {_converted(value, kind, own)};"


def _constant(text: str, kind: str) -> str:
    """A number that is written out: floats may be their bits."""
    if bits := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text):
        return f"__uint_as_float(0x{bits[1]}u)"
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", text) or (kind[0] == "f" and re.fullmatch(r"-?\d+\.\d*", text)):
        return f"(({C_TYPES[kind]}){text.rstrip('U')})"
    raise Unknown


def local_name(name: str) -> str:
    return "weft_" + name.lstrip("%").replace("$", "_")


def _plain(kind: str) -> str:
    """A type by its size: whole numbers are not told apart."""
    return kind if kind.startswith("f") or kind == "pred" else f"u{kind[1:]}"


def _converted(value: str, own: str, kind: str) -> str:
    """A value of type ``own`` as one of ``kind``: the same bits, more or fewer of them."""
    if _plain(own) == _plain(kind) or not ({own[0], kind[0]} & {"f"}):
        return value if own == kind and own[0] == "f" else f"(({C_TYPES[kind]})({value}))"
    way = _AS_BITS.get((_plain(own), _plain(kind)))
    if way is None:
        raise Unknown
    return f"(({C_TYPES[kind]}){way}({value}))"

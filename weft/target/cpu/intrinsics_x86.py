"""The matrix instructions of x86-64, as hardware intrinsics.

VNNI and AVX512-BF16 work on vectors of 16 sums: ``C[16] += A[k] * B[16, k]`` for k up to 4 bytes or
2 bfloat16, B with the k of one column side by side. The integer ones are exact; the bfloat16 one
adds pairs in an order of its own and flushes subnormals, so it is for fast numerics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.ir.hardware import Hardware
from weft.target.cpu.builder import Builder
from weft.target.cpu.llvm_values import Value

_DOT = """
kernel {name}(A: {a}[{group}], B: {b}[16, {group}], out C: {c}[16]) {{
  for n in 0:16 {{ for k in 0:{group} {{ C[n] = C[n] + {c}(A[k]) * {c}(B[n, k]) }} }}
}}"""


def _emit_dot(b: Builder, operands: Mapping[str, Value], combine: Callable[[Value, Value, Value], Value]) -> None:
    """``combine(c, a, b)`` on vectors of 16 groups, that of A repeated, each seen as 32 bits."""
    group = b.load("i32", operands["A"], align=1)
    columns = b.load("<16 x i32>", operands["B"], align=1)
    total = b.load("<16 x i32>", operands["C"], align=4)
    b.store(combine(total, b.splat(group, 16), columns), operands["C"], align=4)


def _emit_vpdpbusd(b: Builder, operands: Mapping[str, Value]) -> None:
    _emit_dot(b, operands, lambda c, x, y: _vpdpbusd(b, c, x, y))


def _emit_vpdpbsud(b: Builder, operands: Mapping[str, Value]) -> None:
    """The instruction's unsigned side may be either of the two."""
    _emit_dot(b, operands, lambda c, x, y: _vpdpbusd(b, c, y, x))


def _vpdpbusd(b: Builder, c: Value, x: Value, y: Value) -> Value:
    return b.call("llvm.x86.avx512.vpdpbusd.512", "<16 x i32>", [c, x, y])


def _emit_signed(b: Builder, operands: Mapping[str, Value]) -> None:
    """x * y = (x + 128) * y - 128 * y: the instruction takes an unsigned left side."""
    high = Value("splat (i32 -2139062144)", "<16 x i32>")  # 0x80808080: 128 in every byte

    def combine(c: Value, x: Value, y: Value) -> Value:
        excess = _vpdpbusd(b, Value("zeroinitializer", "<16 x i32>"), high, y)
        return b.sub(_vpdpbusd(b, c, b.xor(x, high), y), excess)

    _emit_dot(b, operands, combine)


def _emit_vdpbf16ps(b: Builder, operands: Mapping[str, Value]) -> None:
    group = b.splat(b.load("i32", operands["A"], align=2), 16)
    columns = b.load("<32 x bfloat>", operands["B"], align=2)
    total = b.load("<16 x float>", operands["C"], align=4)
    pairs = b.emit("<32 x bfloat>", f"bitcast {group.typed} to <32 x bfloat>")
    summed = b.call("llvm.x86.avx512bf16.dpbf16ps.512", "<16 x float>", [total, pairs, columns])
    b.store(summed, operands["C"], align=4)


def _dot(name: str, a: str, b: str, c: str, group: int) -> str:
    return _DOT.format(name=name, a=a, b=b, c=c, group=group)


_VNNI = ("avx512vnni",)

DOTS = (
    Hardware("vpdpbusd", _dot("vpdpbusd", "uint8", "int8", "int32", 4), {"cpu": _emit_vpdpbusd}, _VNNI),
    Hardware("vpdpbsud", _dot("vpdpbsud", "int8", "uint8", "int32", 4), {"cpu": _emit_vpdpbsud}, _VNNI),
    Hardware("vpdpbssd", _dot("vpdpbssd", "int8", "int8", "int32", 4), {"cpu": _emit_signed}, _VNNI, scratch=1),
    Hardware(
        "vdpbf16ps",
        _dot("vdpbf16ps", "bfloat16", "bfloat16", "float32", 2),
        {"cpu": _emit_vdpbf16ps},
        ("avx512bf16",),
        exact=False,
    ),
)

"""Floats of 8 bits in CUDA C++: converted two at a time by way of float16, before sm_89 by integer arithmetic. Pairs of
narrow floats in a word, made of floats of 4 bits."""

from __future__ import annotations

from weft.ir.dtype import SCALAR_TYPES
from weft.target.c_text.functions import small_float_functions

_INLINE = "__device__ __forceinline__"
SMALL_FLOATS = tuple(t.name for t in SCALAR_TYPES.values() if t.saturates)

SMALL_TEXTS: dict[str, str] = small_float_functions(_INLINE, "compute_")
for _type in SMALL_FLOATS:
    _ptx = _type.removeprefix("float8_").removesuffix("fn")
    # Of infinities the instruction makes the largest number.
    _infinities = """
  if (fabsf(x) == infinity()) both = (both & 0xff80) | 0x7c;
  if (fabsf(y) == infinity()) both = (both & 0x80ff) | 0x7c00;"""
    SMALL_TEXTS |= {
        _type: f"struct alignas(1) {_type} {{ unsigned char bits; }};",
        f"widen_pair_{_type}": f"""{_INLINE} float2 widen_pair_{_type}(unsigned short x) {{
#if __CUDA_ARCH__ >= 890
  unsigned halves;
  float2 y;
  asm("cvt.rn.f16x2.{_ptx}x2 %0, %1;" : "=r"(halves) : "h"(x));
  asm("{{.reg .f16 l, h; mov.b32 {{l, h}}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}}"
      : "=f"(y.x), "=f"(y.y) : "r"(halves));
  return y;
#else
  const {_type} low = {{(unsigned char)x}}, high = {{(unsigned char)(x >> 8)}};
  return make_float2(compute_widen_{_type}(low), compute_widen_{_type}(high));
#endif
}}""",
        f"pack_{_type}": f"""{_INLINE} unsigned short pack_{_type}(float x, float y) {{
#if __CUDA_ARCH__ >= 890
  unsigned short both;
  asm("cvt.rn.satfinite.{_ptx}x2.f32 %0, %1, %2;" : "=h"(both) : "f"(y), "f"(x));{
            _infinities if _type == "float8_e5m2" else ""
        }
  return both;
#else
  return compute_to_{_type}(x).bits | compute_to_{_type}(y).bits << 8;
#endif
}}""",
        f"widen_{_type}": f"{_INLINE} float widen({_type} x) {{ return widen_pair_{_type}(x.bits).x; }}",
        f"to_{_type}": f"""{_INLINE} {_type} to_{_type}(float x) {{
  const {_type} y = {{(unsigned char)pack_{_type}(x, 0.0f)}};
  return y;
}}""",
    }

#: Two floats of 16 bits in a word: each alone; times two others; times a float, each rounded once; made of the codes of
#: two floats of 4 bits (e2m1), whose bits are exponent and fraction of a very small number.
for _narrow, _ptx, _shift, _large in (("bfloat16", "bf16", 6, "0x7e807e80u"), ("float16", "f16", 9, "0x74007400u")):
    SMALL_TEXTS |= {
        f"half_{_narrow}": f"""{_INLINE} {_narrow} half_{_narrow}(unsigned x) {{
  const {_narrow} y = {{(unsigned short)x}};
  return y;
}}""",
        f"multiply_pairs_{_narrow}": f"""{_INLINE} unsigned multiply_pairs_{_narrow}(unsigned x, unsigned y) {{
#if __CUDA_ARCH__ >= 800
  unsigned z;
  asm("fma.rn.{_ptx}x2 %0, %1, %2, %3;" : "=r"(z) : "r"(x), "r"(y), "r"(0x80008000u));
  return z;
#else
  return pack_{_narrow}(widen(half_{_narrow}(x)) * widen(half_{_narrow}(y)),
                        widen(half_{_narrow}(x >> 16)) * widen(half_{_narrow}(y >> 16)));
#endif
}}""",
        f"scale_pair_{_narrow}": f"""{_INLINE} unsigned scale_pair_{_narrow}(unsigned x, float scale) {{
  return pack_{_narrow}(widen(half_{_narrow}(x)) * scale, widen(half_{_narrow}(x >> 16)) * scale);
}}""",
        f"float4_pair_{_narrow}": f"""{_INLINE} unsigned float4_pair_{_narrow}(unsigned x) {{
  return multiply_pairs_{_narrow}((x & 0x70007u) << {_shift} | (x & 0x80008u) << 12, {_large});
}}""",
    }
#: Twice the power of two that a byte is the exponent of: the least, and no number, have a bit of the fraction.
SMALL_TEXTS["power_pair_bfloat16"] = f"""{_INLINE} unsigned power_pair_bfloat16(unsigned x) {{
  return (x << 7 | ((x + 1 & 0xfe) == 0 ? 0x40 : 0)) * 0x10001u;
}}"""

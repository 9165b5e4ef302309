"""Inline PTX: common instructions mean what PTX's manual says; others are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.from_cuda.ptx_text import translate_ptx
from weft.ir.errors import UnsupportedError

#: A statement, which sets `u` (unsigned) or `f` (float) from `a`, `b` and `x`, and what it is for a thread.
CASES: list[tuple[str, Any]] = [
    ('asm volatile("mov.u32 %0, %%laneid;" : "=r"(u));', lambda t, a, b: t % 32),
    ('asm("mov.u32 %0, %tid.x;" : "=r"(u));', lambda t, a, b: t),
    ('asm("mov.u32 %0, %%lanemask_lt;" : "=r"(u));', lambda t, a, b: (1 << t % 32) - 1),
    ('asm("add.u32 %0, %1, %2;" : "=r"(u) : "r"(a), "r"(b));', lambda t, a, b: a + b),
    ('asm("mad.lo.u32 %0, %1, %2, 5;" : "=r"(u) : "r"(a), "r"(b));', lambda t, a, b: a * b + 5),
    ('asm("mul.hi.u32 %0, %1, %2;" : "=r"(u) : "r"(a), "r"(b));', lambda t, a, b: a * b >> 32),
    ('asm("bfe.u32 %0, %1, 5, 7;" : "=r"(u) : "r"(a));', lambda t, a, b: a >> 5 & 127),
    ('asm("bfi.b32 %0, %1, %2, 8, 4;" : "=r"(u) : "r"(a), "r"(b));', lambda t, a, b: b & ~0xF00 | (a & 15) << 8),
    ('asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(u) : "r"(a), "r"(b));', lambda t, a, b: a & 0xFFFF | b << 16),
    ('asm("lop3.b32 %0, %1, %2, %1, 0x3c;" : "=r"(u) : "r"(a), "r"(b));', lambda t, a, b: a ^ b),
    ('asm("shf.l.wrap.b32 %0, %1, %1, 9;" : "=r"(u) : "r"(a));', lambda t, a, b: a << 9 | a >> 23),
    ('asm("shl.b32 %0, %1, %2;" : "=r"(u) : "r"(a), "r"(t + 20));', lambda t, a, b: a << t + 20 if t < 12 else 0),
    ('asm("popc.b32 %0, %1;" : "=r"(u) : "r"(a));', lambda t, a, b: bin(a).count("1")),
    ('asm("dp4a.u32.u32 %0, %1, %2, 9;" : "=r"(u) : "r"(a), "r"(b));',
     lambda t, a, b: 9 + sum((a >> 8 * k & 255) * (b >> 8 * k & 255) for k in range(4))),
    ('asm("shfl.sync.bfly.b32 %0, %1, 3, 0x1f, 0xffffffff;" : "=r"(u) : "r"(t));', lambda t, a, b: t ^ 3),
    ('asm("{.reg .pred p; setp.lt.u32 p, %1, %2; vote.sync.ballot.b32 %0, p, -1;}" : "=r"(u) : "r"(t), "r"(7u));',
     lambda t, a, b: 127 if t < 32 else 0),
    ('asm("{\\n\\t.reg .pred p;\\n\\tsetp.ge.s32 p, %1, 9;\\n\\t@p mov.u32 %0, 77;\\n\\t@!p mov.u32 %0, 66;\\n\\t}"\n'
     '      : "=r"(u) : "r"(t));', lambda t, a, b: 77 if t >= 9 else 66),
    ('unsigned long long w; asm("mov.b64 %0, {%1, %2};" : "=l"(w) : "r"(a), "r"(b)); u = (unsigned)(w >> 16);',
     lambda t, a, b: (b << 32 | a) >> 16),
    ('asm("fma.rn.f32 %0, %1, %1, 0f3F800000;" : "=f"(f) : "f"(x)); u = __float_as_uint(f);',
     lambda t, a, b: int(np.float32(t * t + 1).view(np.uint32))),
    ('asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(u) : "f"(x + 0.75f));', lambda t, a, b: t),
    ('asm volatile("ld.global.nc.u32 %0, [%1+4];" : "=r"(u) : "l"(in + t));', lambda t, a, b: 7 * (t + 1) + 2**31),
    ('uint2 v; asm("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(in + t / 2 * 2)); u = v.x + v.y;',
     lambda t, a, b: 14 * (t // 2 * 2) + 7),
    ('asm("{.reg .pred p;\\n setp.lt.u32 p, %1, 5;\\n mov.u32 %0, 3;\\n"\n#if __CUDACC_VER_MAJOR__ >= 11 && \\\n'
     '    __CUDACC_VER_MINOR__ >= 0\n " @p mov.u32 %0, 8;}"\n#else\n " @p mov.u32 %0, 9;}"\n#endif\n'
     '      : "=r"(u) : "r"(t));',
     lambda t, a, b: 8 if t < 5 else 3),
    ('asm volatile("membar.gl;" ::: "memory"); if (t & 1) asm("mov.u32 %0, 1;" : "=r"(u)); else u = 5;',
     lambda t, a, b: 1 if t & 1 else 5),
]  # fmt: skip


def source() -> str:
    body = "".join(
        f"  {{ unsigned u = 0; float f = 0;\n  {text}\n  out[{n} * 64 + t] = u + (unsigned)(f * 0); }}\n"
        for n, (text, _) in enumerate(CASES)
    )
    last = f'asm volatile("st.global.cg.u32 [%0], %1;" :: "l"(out + {len(CASES)} * 64 + t), "r"(t));'
    return (
        "__global__ void k(const unsigned *in, unsigned *out) {\n"
        f"  unsigned t = threadIdx.x, a = in[t], b = in[63 - t];\n  float x = t;\n{body}  {last}\n}}\n"
    )


def test_translated_instructions_mean_what_ptx_says() -> None:
    given = (7 * np.arange(65) + 2**31).astype(np.uint32)
    out = np.zeros((len(CASES) + 1, 64), np.uint32)
    weft.cuda.kernel(source(), "k")((1,), (64,), (given, out))
    for (text, expected), row in zip(CASES, out):
        right = [expected(t, int(given[t]), int(given[63 - t])) % 2**32 for t in range(64)]
        assert row.tolist() == right, text
    assert out[-1].tolist() == list(range(64))


def test_lines_and_what_is_not_known_stay() -> None:
    text = 'asm("lg.weird %0;"\n : "=r"(u)); asm("mov.u32 %0,\\n"\n  "1;" : "=r"(u));\nint y;'
    made = translate_ptx(text)
    assert made.startswith('asm("lg.weird %0;"\n : "=r"(u)); {')
    assert made.count("\n") == text.count("\n")


def test_the_preprocessor_may_choose_among_instructions() -> None:
    text = 'int x;\nasm("mov.u32 %0, "\n#ifdef A\n "1;"\n#elif B\n "2;"\n#else\n "3;"\n#endif\n : "=r"(u));\nint y;'
    made = translate_ptx(2 * text)
    assert "asm" not in made
    directives = [line for line in made.split("\n") if line.startswith("#")]
    assert directives == 2 * ["#ifdef A", "#elif B", "#else", "#endif"]
    assert made.count("\n") == 2 * text.count("\n")


def test_choices_within_choices_stay() -> None:
    text = 'asm("mov.u32 %0, "\n#if A\n#if B\n "1;"\n#endif\n#endif\n "2;"\n : "=r"(u));\n'
    assert translate_ptx(text) == text


def test_a_register_of_64_bits_may_be_a_pointer() -> None:
    made = translate_ptx('asm volatile("ld.global.b64 %0, [%0];" : "+l"(p));')
    assert made.startswith("{ weft_ptx_set((p), ")


def test_instructions_may_begin_on_a_macros_next_line() -> None:
    text = '#define ONE(x) \\\n  asm volatile( \\\n    "mov.u32 %0, " \\\n    "1;\\n" : "=r"(x))\nint y;'
    made = translate_ptx(text)
    assert "asm" not in made
    assert made.count("\\\n") == text.count("\\\n")


def test_other_instructions_are_refused_by_name() -> None:
    said = "the PTX `mma.sync.x %0;`, of which not every instruction is known here"
    with pytest.raises(UnsupportedError, match=rf"(?s){said}.*source.cu:1"):
        weft.cuda.kernel('__global__ void k(int *x) { asm("mma.sync.x %0;" : "=r"(x[0])); }', "k").show()

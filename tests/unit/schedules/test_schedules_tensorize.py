"""tensorize: nests matched against intrinsics, and what the machine code of each computes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.dtype import SCALAR_TYPES
from weft.ir.errors import ScheduleError, UnsupportedError
from weft.ir.expr import Var
from weft.ir.hardware import HARDWARE, Hardware, declare
from weft.ir.interpret import interpret
from weft.ir.match_hardware import Mismatch, match_hardware
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.parser import parse_kernel
from weft.ir.stmt import For, Kernel, Stmt
from weft.ir.verify import verify
from weft.ir.visit import rewrite
from weft.passes.registry import PASSES
from weft.runtime.kernel import load_kernel
from weft.schedules.schedule import Schedule
from weft.target.cpu.host import NAMED, Machine, host_machine
from weft.target.cpu.intrinsics import missing_for
from weft.target.cpu.lower import assembly, compile_kernel, context_of, lower_kernel

AVX512 = NAMED["x86-64-avx512"]
ALL_DOTS = replace(AVX512, features=(*AVX512.features, "+avx512vnni", "+avx512bf16"))
AMX = replace(AVX512, features=(*AVX512.features, "+amx-tile", "+amx-bf16", "+amx-int8"))
DOTS = {
    "vpdpbusd": ("uint8", "int8", "int32", 4),
    "vpdpbssd": ("int8", "int8", "int32", 4),
    "vpdpbsud": ("int8", "uint8", "int32", 4),
    "vdpbf16ps": ("bfloat16", "bfloat16", "float32", 2),
}


@pytest.fixture(autouse=True)
def declared() -> Iterator[None]:
    before = dict(HARDWARE)
    yield
    HARDWARE.clear()
    HARDWARE.update(before)


def matmul(a: str, b: str, c: str, group: int) -> Kernel:
    """C[8, 32] += A[8, 24] * B[24, 32], B with ``group`` rows side by side."""
    return parse_kernel(f"""
kernel mm(A: {a}[8, 24], B: {b}[{24 // group}, 32, {group}], out C: {c}[8, 32]) {{
  for m in 0:8 {{ for no in 0:2 {{ for ko in 0:{24 // group} {{
    for ni in 0:16 {{ for ki in 0:{group} {{
      C[m, no * 16 + ni] = C[m, no * 16 + ni] + {c}(A[m, ko * {group} + ki]) * {c}(B[ko, no * 16 + ni, ki])
    }} }}
  }} }} }}
}}""")


def values(kernel: Kernel, seed: int = 0) -> list[Any]:
    """Arrays of any values of their types; floats near one, so that sums of them stay comparable."""
    rng = np.random.default_rng(seed)
    made: list[Any] = []
    for p in kernel.params:
        if isinstance(p, Var):
            made.append(21)
            continue
        shape = tuple(21 if isinstance(n, Var) else int(n.value) for n in p.shape)  # type: ignore[attr-defined]
        if p.dtype.is_float:
            made.append(rng.standard_normal(shape).astype(to_numpy(p.dtype)))
        else:
            made.append(rng.integers(p.dtype.min_value, p.dtype.max_value, shape, endpoint=True).astype(p.dtype.name))
    return made


def interpreted(kernel: Kernel, seed: int = 0) -> Any:
    args = values(kernel, seed)
    interpret(kernel, args)
    return next(a for p, a in zip(kernel.params, args) if p.name in kernel.outputs)


def compiled(kernel: Kernel, machine: Machine, seed: int = 0) -> Any:
    code = compile_kernel(kernel, machine, fast=True)
    scalars = [p.dtype if isinstance(p, Var) else None for p in kernel.params]
    args = values(kernel, seed)
    loaded = load_kernel(code.object, code.entry, scalars, code.messages, [None] * len(code.messages))
    loaded.run([a.ctypes.data if isinstance(a, np.ndarray) else a for a in args])
    return next(a for p, a in zip(kernel.params, args) if p.name in kernel.outputs)


def tensorized(kernel: Kernel, loop: str, intrinsic: str) -> Kernel:
    s = Schedule(kernel, numerics="fast")
    s.tensorize(loop, intrinsic)
    verify(s.kernel)
    return s.kernel


@pytest.mark.parametrize("name", DOTS)
def test_a_dot_computes_its_meaning_at_every_stage(name: str) -> None:
    kernel = matmul(*DOTS[name])
    done = tensorized(kernel, "ni", name)
    wanted = interpreted(kernel)
    np.testing.assert_array_equal(interpreted(done), wanted)
    lowered = lower_kernel(done, ALL_DOTS)
    verify(lowered)
    np.testing.assert_array_equal(interpreted(lowered), wanted)


@pytest.mark.parametrize("name", DOTS)
def test_machines_without_the_instruction_run_the_loops(name: str) -> None:
    kernel = matmul(*DOTS[name])
    if not host_machine().is_x86:
        pytest.skip("x86-64 code")
    machine = NAMED["x86-64-sse2"]
    done = tensorized(kernel, "ni", name)
    np.testing.assert_array_equal(compiled(done, machine), interpreted(kernel))


@pytest.mark.parametrize("name", DOTS)
def test_the_instruction_gives_the_bits_of_the_meaning_or_nearly(name: str) -> None:
    if missing_for(HARDWARE[name], host_machine()):
        pytest.skip(f"this host has no {name}")
    done = tensorized(matmul(*DOTS[name]), "ni", name)
    for seed in range(5):
        got, wanted = compiled(done, host_machine(), seed), interpreted(matmul(*DOTS[name]), seed)
        if HARDWARE[name].exact:
            np.testing.assert_array_equal(got, wanted)
        else:
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", DOTS)
def test_the_instruction_is_in_the_assembly(name: str) -> None:
    text = assembly(tensorized(matmul(*DOTS[name]), "ni", name), ALL_DOTS)
    assert {"vpdpbssd": "vpdpbusd", "vpdpbsud": "vpdpbusd"}.get(name, name) in text


def tile_matmul(a: str, c: str, group: int, size: int, k: str) -> Kernel:
    scalar = "" if k.isdigit() else f", {k}: int64"
    return parse_kernel(f"""
kernel mm(A: {a}[64, {k}, {group}], B: {a}[{k}, 32, {group}], out C: {c}[64, 32]{scalar}) {{
  for mo in 0:{64 // size} {{ for no in 0:{32 // size} {{
    for mi in 0:{size} {{ for ni in 0:{size} {{ for ko in 0:{k} {{ for ki in 0:{group} {{
      C[mo * {size} + mi, no * {size} + ni] = C[mo * {size} + mi, no * {size} + ni]
        + {c}(A[mo * {size} + mi, ko, ki]) * {c}(B[ko, no * {size} + ni, ki])
    }} }} }} }}
  }} }}
}}""")


AMX_CASES = [("tdpbf16ps", "bfloat16", "float32", 2), ("tdpbssd", "int8", "int32", 4)]


@pytest.mark.parametrize(("instruction", "a", "c", "group"), AMX_CASES)
@pytest.mark.parametrize("size", [16, 32])
@pytest.mark.parametrize("k", ["32", "21", "K"])
def test_amx_code(instruction: str, a: str, c: str, group: int, size: int, k: str) -> None:
    done = tensorized(tile_matmul(a, c, group, size, k), "mi", f"{instruction}_{size}x{size}")
    text = assembly(done, AMX)
    whole, rest = (size // 16) ** 2, k != "32"
    assert text.count(f"\t{instruction}\t") == whole * (1 + rest)
    assert "ldtilecfg" in text
    spilled = k == "32" and text.count("tilestored") != whole
    assert not spilled


@pytest.mark.parametrize(("instruction", "a", "c", "group"), AMX_CASES)
def test_amx_calls_mean_the_loops(instruction: str, a: str, c: str, group: int) -> None:
    kernel = tile_matmul(a, c, group, 16, "3")
    lowered = lower_kernel(tensorized(kernel, "mi", f"{instruction}_16x16"), AMX)
    verify(lowered)
    np.testing.assert_array_equal(interpreted(lowered), interpreted(kernel))


@pytest.mark.parametrize(("instruction", "a", "c", "group"), AMX_CASES)
@pytest.mark.parametrize("size", [16, 32])
@pytest.mark.parametrize("k", ["32", "21", "5"])
def test_amx_runs(instruction: str, a: str, c: str, group: int, size: int, k: str) -> None:
    name = f"{instruction}_{size}x{size}"
    if missing_for(HARDWARE[name], host_machine()):
        pytest.skip("this host has no AMX")
    kernel = tile_matmul(a, c, group, size, k)
    args = values(kernel)
    wide = np.float64 if c == "float32" else np.int64
    left, right = args[0].astype(wide), args[1].astype(wide)
    wanted = args[2] + np.einsum("mkg,kng->mn", left, right)
    got = compiled(tensorized(kernel, "mi", name), host_machine())
    if c == "int32":
        np.testing.assert_array_equal(got, wanted.astype(np.int32))
    else:
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-3)


# Refusals


def refusal(kernel: Kernel, loop: str, intrinsic: str, numerics: Any = "fast") -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        Schedule(kernel, numerics=numerics).tensorize(loop, intrinsic)
    return caught.value


BASE = """
kernel mm(A: uint8[8, 24], B: int8[6, 32, 4], out C: int32[8, 32]) {
  for m in 0:8 { for no in 0:2 { for ko in 0:6 {
    for ni in 0:16 { for ki in 0:4 {
      C[m, no * 16 + ni] = C[m, no * 16 + ni] + int32(A[m, ko * 4 + ki]) * int32(B[ko, no * 16 + ni, ki])
    } }
  } } }
}"""


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("for ni in 0:16", "for ni in 0:8", "loop `ni` runs 8 times, its `n` runs 16 times"),
        ("for ki in 0:4", "parallel ki in 0:4", "loop `ki` is parallel"),
        (
            "B[ko, no * 16 + ni, ki]",
            "B[ki, no * 16 + ni, ko % 4]",
            "`B[ki, no * 16 + ni, ko % 4]` for its `B[n, k]`: with `ki` the address moves by 128 elements, not 1",
        ),
        (
            "B[ko, no * 16 + ni, ki]",
            "B[ko, no * 16 + ni // 2, ki]",
            "`B[ko, no * 16 + ni // 2, ki]` for its `B[n, k]`:"
            " a subscript is not a sum of multiples of the loop variables",
        ),
        (
            "+ int32(A",
            "- int32(A",
            "where it has `C[n] + int32(A[k]) * int32(B[n, k])`, the loop nest has"
            " `C[m, no * 16 + ni] - int32(A[m, ko * 4 + ki]) * int32(B[ko, no * 16 + ni, ki])`",
        ),
        ("A: uint8", "A: int8", "`A[m, ko * 4 + ki]` for its `A[k]`: `A` is int8, not uint8"),
        (
            "= C[m, no * 16 + ni]",
            "= C[m, no + ni]",
            "`C[m, no + ni]` for its `C[n]`: the two are not equally far from where the others start",
        ),
        (
            "for ki in 0:4 {",
            "for ki in 0:4 { if ki < 3 {",
            "where it has `C[n] = C[n] + int32(A[k]) * int32(B[n, k])`, the loop nest has `if ki < 3`",
        ),
    ],
)
def test_a_nest_that_differs_says_where(old: str, new: str, why: str) -> None:
    text = BASE.replace(old, new)
    if "if ki" in new:
        text = text.replace("ki])\n", "ki]) }\n")
    assert refusal(parse_kernel(text), "ni", "vpdpbusd").why == f"it is not `vpdpbusd`: {why}"


def test_operands_must_be_apart() -> None:
    text = """kernel f(out C: int32[32]) { for n in 0:16 { C[n] = C[n] + C[n + 16] } }"""
    declare(Hardware("add16", "kernel add16(A: int32[16], out C: int32[16]) { for n in 0:16 { C[n] = C[n] + A[n] } }"))
    why = refusal(parse_kernel(text), "n", "add16").why
    assert why == "it is not `add16`: `C` is both its `C` and its `A`, which it keeps apart"


@pytest.mark.parametrize("row", ["0", "0 * mi", "mi // 2"])
def test_rows_of_an_output_must_not_overlap(row: str) -> None:
    """Every row adds to the one sum in turn; the instruction would add to as many copies of it."""
    text = f"""kernel mm(A: int8[16, 8, 4], B: int8[8, 16, 4], out C: int32[16, 16]) {{
  for mi in 0:16 {{ for ni in 0:16 {{ for ko in 0:8 {{ for ki in 0:4 {{
    C[{row}, ni] = C[{row}, ni] + int32(A[mi, ko, ki]) * int32(B[ko, ni, ki])
  }} }} }} }}
}}"""
    assert refusal(parse_kernel(text), "mi", "tdpbssd_16x16").why.startswith("it is not `tdpbssd_16x16`: `C[")
    flat = text.replace("C: int32[16, 16]", "C: int32[256]").replace(f"C[{row}, ni]", "C[mi * 8 + ni]")
    assert "iterations of `mi` may write the same element" in str(
        refusal(parse_kernel(flat), "mi", "tdpbssd_16x16").why
    )
    apart = text.replace("C: int32[16, 16]", "C: int32[256]").replace(f"C[{row}, ni]", "C[mi * 16 + ni]")
    tensorized(parse_kernel(apart), "mi", "tdpbssd_16x16")


def test_inexact_intrinsics_need_fast_numerics() -> None:
    error = refusal(matmul(*DOTS["vdpbf16ps"]), "ni", "vdpbf16ps", "strict")
    assert error.why == '`vdpbf16ps` does not give the bits of its meaning, which numerics="strict" keeps'
    assert error.notes == (("legal", 'weft.schedule(..., numerics="fast")'),)


def test_alternatives_are_loops_and_intrinsics_that_fit() -> None:
    error = refusal(matmul(*DOTS["vpdpbssd"]), "ni", "vpdpbusd")
    assert error.notes == (("legal", 's.tensorize("ni", "vpdpbssd")'),)
    error = refusal(matmul(*DOTS["vpdpbusd"]), "ko", "vpdpbusd")
    assert error.notes == (("legal", 's.tensorize("ni", "vpdpbusd")'),)


def test_what_a_refusal_says_to_do_first_helps() -> None:
    op = weft.define("def quad(uint8(4) A, int8(16,4) B) -> (int32(16) C) { C(n) +=! int32(A(k)) * int32(B(n,k)) }")
    s = weft.schedule(op, A=(4,), B=(16, 4))
    with pytest.raises(ScheduleError, match=r's.decompose_reduction\("C", at="n"\) first'):
        s.tensorize("n", "vpdpbusd")
    s.decompose_reduction("C", at="n")
    s.tensorize("n", "vpdpbusd")
    a, b = np.arange(250, 254).astype(np.uint8), np.arange(-30, 34).astype(np.int8).reshape(16, 4)
    np.testing.assert_array_equal(s.build()(a, b), b.astype(np.int32) @ a.astype(np.int32))


def test_a_nest_is_tensorized_once_and_not_inside_lanes() -> None:
    s = Schedule(matmul(*DOTS["vpdpbusd"]))
    s.tensorize("ni", "vpdpbusd")
    with pytest.raises(ScheduleError, match="part of a nest that `vpdpbusd` does already"):
        s.tensorize("ni", "vpdpbusd")
    inside = parse_kernel(BASE.replace("for m in", "vector m in"))
    assert refusal(inside, "ni", "vpdpbusd").why == "it is inside the vector loop `m`, whose iterations are lanes"


def test_later_steps_leave_tensorized_loops_alone() -> None:
    s = Schedule(matmul(*DOTS["vpdpbusd"]))
    s.tensorize("ni", "vpdpbusd")
    with pytest.raises(ScheduleError) as caught:
        s.split("ki", 2)
    assert caught.value.why is not None
    assert caught.value.why.startswith("loops tensorized as `vpdpbusd` would not be that any more: ")
    s.unroll("no")
    s.parallel("m")
    np.testing.assert_array_equal(interpreted(s.kernel), interpreted(matmul(*DOTS["vpdpbusd"])))


def test_loops_that_change_afterwards_are_found_when_lowering() -> None:
    done = tensorized(matmul(*DOTS["vpdpbusd"]), "ni", "vpdpbusd")

    def shorten(n: Any) -> Any:
        return replace(n, hi=n.lo) if isinstance(n, For) and n.var.name == "ki" else None

    with pytest.raises(ScheduleError, match="loops tensorized as `vpdpbusd` have changed since"):
        PASSES["lower_intrinsics"](rewrite(done, shorten), context_of(ALL_DOTS))


def test_a_bare_call_needs_the_machine() -> None:
    lowered = lower_kernel(tensorized(matmul(*DOTS["vpdpbusd"]), "ni", "vpdpbusd"), ALL_DOTS)
    with pytest.raises(UnsupportedError, match=r"(?s)`x86-64-avx2` has no `vpdpbusd`.*needs: avx512vnni"):
        compile_kernel(lowered, NAMED["x86-64-avx2"])


# Whatever is accepted means the same


def test_random_nests_are_matched_only_where_they_mean_the_same() -> None:
    """Nests around a 3 by 2 dot with random subscripts: an accepted one computes the same as a call."""
    declare(
        Hardware(
            "dot",
            """kernel dot(A: int32[2], B: int32[3, 2] strides [ldb, 1], ldb: int64,
                   out C: int32[3] strides [ldc], ldc: int64) {
  for n in 0:3 { for k in 0:2 { C[n] = C[n] + A[k] * B[n, k] } } }""",
        )
    )
    rng = random.Random(5)
    accepted = 0
    for _ in range(400):
        kernel = parse_kernel(_random_nest(rng))
        nest = _find(kernel.body, "n")
        if isinstance(match_hardware(HARDWARE["dot"], nest, {}), Mismatch):
            continue
        accepted += 1
        always = replace(AVX512, features=())
        marked = tensorized(kernel, "n", "dot")
        HARDWARE["dot"] = replace(HARDWARE["dot"], emit={"cpu": "; never emitted"})
        lowered = PASSES["lower_intrinsics"](marked, context_of(always))
        np.testing.assert_array_equal(interpreted(lowered), interpreted(kernel))
    assert accepted >= 20


def _random_nest(rng: random.Random) -> str:
    def index(inner: str, most: int) -> str:
        terms = [t for t in ("o", inner) if rng.random() < 0.8]
        parts = [f"{rng.choice((1, 1, 2))} * {t}" for t in terms] + [str(rng.randrange(most))]
        return " + ".join(parts)

    c, b, k = index("n", 3), index("n", 3), index("k", 3)
    read = c if rng.random() < 0.8 else index("n", 3)
    a = index("k", 3) if rng.random() < 0.9 else index("n", 3)
    product = f"A[{a}] * B[{b}, {k}]" if rng.random() < 0.5 else f"B[{b}, {k}] * A[{a}]"
    loops = "for n in 0:3 { for k in 0:2 {" if rng.random() < 0.9 else "for n in 1:4 { for k in 0:2 {"
    return f"""kernel f(A: int32[24], B: int32[24, 24], out C: int32[24]) {{
  for o in 0:2 {{ {loops} C[{c}] = C[{read}] + {product} }} }} }} }}"""


def _find(s: Stmt, name: str) -> For:
    while not (isinstance(s, For) and s.var.name == name):
        s = s.body  # type: ignore[attr-defined]
    return s


# Through the front door


TEMPLATE = """
    declare <4 x i32> @llvm.smax.v4i32(<4 x i32>, <4 x i32>)
    %a = load <4 x i32>, ptr %A, align 4
    %c = load <4 x i32>, ptr %C, align 4
    %most = call <4 x i32> @llvm.smax.v4i32(<4 x i32> %a, <4 x i32> %c)
    store <4 x i32> %most, ptr %C, align 4
"""


def test_an_intrinsic_of_the_users_own() -> None:
    made = weft.intrinsic("max4", "def max4(int(4) A) -> (int(4) C) { C(i) max= A(i) }", {"cpu": TEMPLATE})
    assert made.name == "max4"
    op = weft.define("def colmax(int(M,N) A) -> (int(N) C) { C(n) max= A(m,n) }")
    s = weft.schedule(op, A=(6, 8))
    n, m = s.loops("C")
    outer, inner = s.split(n, 4)
    s.reorder(m, outer, inner)
    s.tensorize(inner, "max4")
    a = np.random.default_rng(0).integers(-99, 99, (6, 8)).astype(np.int32)
    built = s.build()
    np.testing.assert_array_equal(built(a), a.max(0))
    assert "llvm.smax.v4i32" in built.show("llvm", a)
    assert 's.tensorize("n_i", "max4")' in f"s.{s.trace.steps[-1]}"


def test_a_trace_with_another_intrinsic_of_the_name_is_another_program() -> None:
    op = weft.define("def colmax2(int(M,N) A) -> (int(N) C) { C(n) max= A(m,n) }")
    trace = 'numerics = "strict"\ntensorize("n", "max4")\n'
    meaning = "kernel max4(A: int32[4], out C: int32[4]) { for i in 0:4 { C[i] = max(C[i], A[i]) } }"
    keys = set()
    for template in (TEMPLATE, TEMPLATE.replace("smax", "smin")):
        HARDWARE.pop("max4", None)
        weft.intrinsic("max4", meaning, {"cpu": template})
        keys.add(op.with_schedule(trace)._definition.key)
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("no name", "kernel f(out C: int32[4]) { C[0] = 1_i32 }", {}), "cannot be the name of an intrinsic"),
        (("f", "kernel f(out C: int32[4]) { C[0] = 1_i32 }", {"gpu": ""}), "there is no target `gpu`"),
        (("f", "kernel f(out C: int32[4]) { C[0] = }", {}), "unexpected"),
        (("f", "def f(int(N) A) -> (C) { T(i) = A(i)  C(i) = T(i) }", {}), "more than loops and stores"),
    ],
)
def test_wrong_declarations(args: Any, message: str) -> None:
    with pytest.raises(weft.Error, match=message):
        weft.intrinsic(*args)


@pytest.mark.parametrize(
    ("code", "target"),
    [
        ("%a = load <4 x i32>, ptr %A, align 4\n%b = add <4 x float> %a, %a", "host"),
        ("this is not LLVM", "host"),
        (
            "declare <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32>, <16 x i32>, <16 x i32>)\n"
            "%c = load <16 x i32>, ptr %C, align 4\n"
            "%d = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %c, <16 x i32> %c, <16 x i32> %c)\n"
            "store <16 x i32> %d, ptr %C, align 4",
            "x86-64-avx2",
        ),
    ],
)
def test_code_that_llvm_refuses_is_told_at_the_declaration(
    code: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_TARGET", target)
    meaning = "kernel f(A: int32[4], out C: int32[16]) { for i in 0:4 { C[i] = A[i] } }"
    with pytest.raises(weft.Error, match="LLVM does not take the code of intrinsic `broken`"):
        weft.intrinsic("broken", meaning, {"cpu": code})
    assert "broken" not in HARDWARE


def test_every_builtin_meaning_is_well_formed() -> None:
    for hardware in HARDWARE.values():
        verify(hardware.meaning)
    names = [p.dtype for h in HARDWARE.values() for p in h.meaning.buffers]
    assert set(names) <= set(SCALAR_TYPES.values())
    assert len(list(itertools.chain(HARDWARE))) >= 7

"""Whole kernels: other machines' code, what objects import, what is refused, determinism."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from run_compiled import Runner, check_against_interpreter

from weft.ir.dtype import float32
from weft.ir.errors import Error, InternalError, ProgramError, UnsupportedError
from weft.ir.expr import Call
from weft.ir.intrinsics import INTRINSICS
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Evaluate, Kernel, Seq, Store
from weft.ir.verify import verify
from weft.runtime.elf import read_object
from weft.target.cpu.host import NAMED, host_machine
from weft.target.cpu.llvm import compile_llvm
from weft.target.cpu.lower import assembly, compile_kernel, emit_kernel, lower_kernel

MATMUL = """kernel mm(A: float32[13, 50], B: float32[50, 70], out C: float32[13, 70]) {
    for m in 0:13 { for n in 0:70 { for k in 0:50 {
        block C(vm spatial 0:13 = m, vn spatial 0:70 = n, vk reduce 0:50 = k)
            reads C[vm, vn], A[vm, vk], B[vk, vn] writes C[vm, vn]
        { init { C[vm, vn] = 0.0 } C[vm, vn] = C[vm, vn] + A[vm, vk] * B[vk, vn] } } } } }"""
IMPORTS = {"weft_parallel_for", "weft_with_team", "weft_alloc", "weft_free", "memset", "memcpy", "memmove"}


def test_matmul_is_vectors_with_accumulators_in_registers() -> None:
    check_against_interpreter(MATMUL)
    text = assembly(parse_kernel(MATMUL), NAMED["x86-64-avx512"])
    assert "zmm" in text
    inner = re.findall(r"vaddps|vmulps", text)
    assert len(inner) >= 8


TILE = """kernel tile(A: float32[14, 256], B: float32[256, 32], out C: float32[14, 32]) {
    alloc acc: float32[14, 32] in register {
        unroll i in 0:14 { vector j in 0:32 { acc[i, j] = 0.0 } }
        for k in 0:256 { unroll i in 0:14 { vector j in 0:32 { acc[i, j] = fma(A[i, k], B[k, j], acc[i, j]) } } }
        unroll i in 0:14 { vector j in 0:32 { C[i, j] = acc[i, j] } } } }"""


def test_a_register_tile_fills_the_registers_without_spilling() -> None:
    text = assembly(parse_kernel(TILE), NAMED["x86-64-avx512"])
    assert len(re.findall(r"vfmadd\w+", text)) == 4 * 28  # four steps at a time
    assert "rsp" not in text


def test_strict_code_never_contracts() -> None:
    assert "fmadd" not in assembly(parse_kernel(MATMUL), NAMED["x86-64-avx512"])
    assert "fmla" not in assembly(parse_kernel(MATMUL), NAMED["aarch64"])


def test_fast_code_contracts() -> None:
    assert "vfmadd" in assembly(parse_kernel(MATMUL), NAMED["x86-64-avx512"], fast=True)
    assert "fmla" in assembly(parse_kernel(MATMUL), NAMED["aarch64"], fast=True)


def test_aarch64_uses_neon() -> None:
    text = assembly(parse_kernel(MATMUL), NAMED["aarch64"])
    assert re.search(r"fmul\s+v\d+\.4s", text)
    assert re.search(r"fadd\s+v\d+\.4s", text)
    fused = parse_kernel(
        "kernel f(A: float32[64], out C: float32[64]) { for i in 0:64 { C[i] = fma(A[i], A[i], C[i]) } }"
    )
    assert re.search(r"fmla\s+v\d+\.4s", assembly(fused, NAMED["aarch64"]))


def _every_intrinsic(dtype: str) -> str:
    """A short vector loop for each."""
    names = {n: i for n, i in INTRINSICS.items() if i.rule != "integer"}
    calls = {n: f"{n}({', '.join(['A[i]'] * i.arity)})" for n, i in names.items()}
    stores = [f"C[i] = {calls[n]}" if i.rule == "test" else f"B[i] = {calls[n]}" for n, i in names.items()]
    loops = " ".join(f"vector i in 0:4 {{ {store} }}" for store in stores)
    return f"kernel k(A: {dtype}[4], out B: {dtype}[4], out C: bool[4]) {{ {loops} }}"


@pytest.mark.parametrize("machine", ["x86-64-avx512", "x86-64-sse2"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_objects_import_nothing_but_the_runtime(machine: str, dtype: str) -> None:
    compiled = compile_kernel(parse_kernel(_every_intrinsic(dtype)), NAMED[machine])
    undefined = {s.name for s in read_object(compiled.object).symbols if s.section == 0 and s.name}
    assert undefined <= IMPORTS


@pytest.mark.parametrize(("starts", "stay_awake"), [("t in 0:2", False), ("t in 0:3", True), ("t in 0:n", True)])
def test_threads_of_steps_stay_awake(starts: str, stay_awake: bool) -> None:
    text = f"""kernel s(n: int64, out C: float32[40]) {{
        for {starts} {{ parallel i in 0:40 {{ C[i] = C[i] * 2.0 + float32(t) }} }} }}"""
    compiled = compile_kernel(parse_kernel(text))
    undefined = {s.name for s in read_object(compiled.object).symbols if s.section == 0 and s.name}
    assert ("weft_with_team" in undefined) == stay_awake


def test_aarch64_calls_nothing() -> None:
    text = assembly(parse_kernel(_every_intrinsic("float32")), NAMED["aarch64"])
    defined = set(re.findall(r"^([\w.]+):", text, re.MULTILINE))
    assert set(re.findall(r"\bbl\s+([\w.]+)", text)) - defined <= IMPORTS


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_float_sums_in_another_order_only_when_asked(dtype: str) -> None:
    kernel = parse_kernel(f"kernel s(A: {dtype}[999], out C: {dtype}[1]) {{ for i in 0:999 {{ C[0] = C[0] + A[i] }} }}")
    strict, fast = lower_kernel(kernel), lower_kernel(kernel, fast=True)
    assert (strict == fast) == (dtype == "int32")
    a = np.arange(999).astype(dtype)
    for k in (kernel, fast):
        total = np.zeros(1, dtype)
        assert Runner(k)(a, total) == 0
        assert total[0] == a.sum()


def test_the_same_kernel_gives_the_same_object() -> None:
    first, second = (compile_kernel(parse_kernel(MATMUL)) for _ in range(2))
    assert (first.object, first.llvm) == (second.object, second.llvm)


def test_everything_unsupported_in_one_error() -> None:
    calls = tuple(Evaluate(Call(name, (), float32)) for name in ("launch", "print"))
    with pytest.raises(UnsupportedError) as caught:
        compile_kernel(Kernel("k", (), (), Seq(calls)))
    assert str(caught.value) == (
        "error: kernel `k` uses what the CPU target does not have\n"
        "  missing:a call of `launch`, which is not an intrinsic\n"
        "  missing:a call of `print`, which is not an intrinsic"
    )


def test_a_grid_barrier_that_blocks_do_not_surely_meet_at_is_refused() -> None:
    text = """kernel k(N: int32[4], out C: float32[4]) {
  block b in 0:4 {
    for i in 0:int64(N[b]) {
      C[b] = 1.0
      barrier(grid)
      C[3 - b] = 2.0
    }
  }
}"""
    with pytest.raises(UnsupportedError) as caught:
        compile_kernel(parse_kernel(text, "k.loops"))
    assert str(caught.value) == (
        "error: a grid barrier in a loop that blocks or threads leave each on its own\n"
        "  k.loops:5       barrier(grid)\n"
        "                  ^^^^^^^^^^^^^\n"
        "  why:   they would have to agree on how often it runs before it does\n"
        "  help:  give the loop bounds that are the same for all of them"
    )


def test_too_deep_is_an_error_of_ours() -> None:
    element = parse_kernel("kernel k(A: float32[1], out C: float32[1]) { C[0] = A[0] + 1.0 }")
    assert isinstance(element.body, Store)
    value = element.body.value
    for _ in range(700):
        value = value + 1.0
    deep = replace(element, body=replace(element.body, value=value))
    with pytest.raises(Error, match="nested too deeply"):
        compile_kernel(deep)


def test_nested_unrolling_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.target.cpu.emit_loop.MAX_COPIES", 100)
    loops = "".join(f"unroll i{n} in 0:10 {{ " for n in range(4))
    text = f"kernel k(out C: float32[10]) {{ {loops} C[i3] = C[i3] + 1.0 {'}' * 4} }}"
    assert emit_kernel(parse_kernel(text)).count("fadd") == 100


def test_malformed_text_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="not well formed"):
        compile_llvm("define i32 @f() { ret i64 0 }", host_machine())


def test_more_than_two_billion_elements() -> None:
    size, tail = 3_000_000_000, 100
    text = f"""kernel k(A: int8[2, {size // 2}], out C: int8[{tail}]) {{
        for i in {size // 2 - tail}:{size // 2} {{ C[i - {size // 2 - tail}] = A[1, i] }} }}"""
    a = np.zeros(size, np.int8)  # the system gives out only the pages that are touched
    a[-tail:] = np.arange(tail)
    out = np.zeros(tail, np.int8)
    assert Runner(parse_kernel(text))(a, out) == 0
    np.testing.assert_array_equal(out, np.arange(tail))


def test_names_that_are_not_identifiers() -> None:
    kernel = parse_kernel(
        "kernel `π r²`(A: float32[8], out `über`: float32[8]) { for `ü` in 0:8 { `über`[`ü`] = A[`ü`] } }"
    )
    out = np.zeros(8, np.float32)
    assert Runner(kernel)(np.arange(8, dtype=np.float32), out) == 0
    np.testing.assert_array_equal(out, np.arange(8))


def test_prefetch_is_an_instruction_and_nothing_else() -> None:
    text = """kernel k(A: float32[8, 64], out B: float32[8, 64]) {
        for i in 0:8 {
            call prefetch(&A[i + 2, 0])
            vector j in 0:64 { call prefetch(&B[i, j]) B[i, j] = A[i, j] } } }"""
    check_against_interpreter(text)
    assert "prefetcht0" in assembly(parse_kernel(text), NAMED["x86-64-avx512"])
    assert "prfm" in assembly(parse_kernel(text), NAMED["aarch64"])
    summed = "kernel k(A: float32[8], out B: float32[1]) { for i in 0:8 { call prefetch(&B[0]) B[0] = B[0] + A[i] } }"
    assert "let B_sum" in print_kernel(lower_kernel(parse_kernel(summed)))


@pytest.mark.parametrize("call", ["call prefetch(&A[0], &A[1])", "call prefetch(3_i64)", "A[0] = prefetch(&A[0])"])
def test_a_prefetch_takes_one_address_and_has_no_value(call: str) -> None:
    with pytest.raises(ProgramError, match="prefetch"):
        verify(parse_kernel(f"kernel k(out A: int64[4]) {{ {call} }}"))


PARTIAL_SUMS = """kernel s(A: float32[8, 1024], out B: float32[8]) {
    parallel i in 0:8 { alloc part: float32[64] in register {
        vector l in 0:64 { part[l] = 0.0 }
        for j in 0:16 { vector l in 0:64 { part[l] = part[l] + A[i, j * 64 + l] } }
        B[i] = 0.0
        for l in 0:64 { B[i] = B[i] + part[l] } } } }"""


def test_partial_results_are_combined_in_registers() -> None:
    check_against_interpreter(PARTIAL_SUMS)
    text = assembly(parse_kernel(PARTIAL_SUMS), NAMED["x86-64-avx512"], fast=True)
    assert "rsp" not in text.partition("s.parallel0:")[2]
    kernel = parse_kernel(PARTIAL_SUMS)
    a, b = np.random.default_rng(0).standard_normal((8, 1024)).astype(np.float32), np.zeros(8, np.float32)
    assert Runner(kernel, fast=True)(a, b) == 0
    np.testing.assert_allclose(b, a.astype(np.float64).sum(1), rtol=1e-4, atol=1e-4)


def test_computed_subscripts_of_registers_are_constants() -> None:
    kernel = """kernel k(A: float32[4, 64], out B: float32[4, 64]) {
        alloc T: float32[8, 32] in register {
            for i in 0:4 { for h in 0:2 { vector j in 0:32 { T[i * 2 + h, j] = A[i, h * 32 + j] } } }
            for i in 0:8 { vector j in 0:32 { B[i // 2, i % 2 * 32 + j] = T[7 - i, j] } } } }"""
    check_against_interpreter(kernel)
    assert "rsp" not in assembly(parse_kernel(kernel), NAMED["x86-64-avx512"])


def test_nests_without_vectors_of_a_scheduled_program_get_default_ones() -> None:
    text = """kernel k(A: float32[8, 64], out B: float32[8, 64]) {
        parallel i in 0:8 { for j in 0:64 { B[i, j] = A[i, j] } } }"""
    check_against_interpreter(text)
    assert "zmm" in assembly(parse_kernel(text), NAMED["x86-64-avx512"])


STREAM = """kernel k(A: float32[6, 64], out B: float32[6, 64]) {
    call stream(&B[0, 0])
    parallel i in 0:6 { vector j in 0:64 { B[i, j] = A[i, j] * 2.0 } } }"""


def test_streamed_stores_bypass_caches_where_aligned() -> None:
    text = assembly(parse_kernel(STREAM), NAMED["x86-64-avx512"])
    assert "vmovntps" in text
    assert "sfence" in text.partition("k.parallel0:")[2]
    assert "sfence" not in assembly(parse_kernel(STREAM.replace("call stream(&B[0, 0])", "")))
    compile_kernel(parse_kernel(STREAM), NAMED["aarch64"])
    a, memory = np.arange(384, dtype=np.float32).reshape(6, 64), np.zeros(384 + 16, np.float32)
    runner = Runner(parse_kernel(STREAM))
    for start in range(16):  # every alignment
        memory[:] = 0
        assert runner(a, memory[start : start + 384]) == 0
        np.testing.assert_array_equal(memory[start : start + 384].reshape(6, 64), a * 2)
        assert not memory[:start].any()
        assert not memory[start + 384 :].any()


@pytest.mark.parametrize(
    ("rows", "columns", "machine"),
    [(14, 32, "x86-64-avx512"), (8, 48, "x86-64-avx512"), (6, 16, "x86-64-avx2"), (4, 24, "x86-64-avx2")],
)
def test_register_tiles_of_every_shape_stay_in_registers(rows: int, columns: int, machine: str) -> None:
    text = f"""kernel tile(A: float32[{rows}, 64], B: float32[64, {columns}], out C: float32[{rows}, {columns}]) {{
        alloc acc: float32[{rows}, {columns}] in register
        for i in 0:{rows} {{ vector j in 0:{columns} {{ acc[i, j] = 0.0 }} }}
        for k in 0:64 {{ for i in 0:{rows} {{ vector j in 0:{columns} {{
            acc[i, j] = acc[i, j] + A[i, k] * B[k, j] }} }} }}
        for i in 0:{rows} {{ vector j in 0:{columns} {{ C[i, j] = acc[i, j] }} }} }}"""
    code = assembly(parse_kernel(text), NAMED[machine], fast=True)
    assert "rsp" not in code
    steps, left = divmod(len(re.findall(r"vfmadd", code)), rows * columns // NAMED[machine].lanes(32))
    assert steps in (1, 4, 8)  # at a time
    assert left == 0
    check_against_interpreter(text)

"""Machines, compiled programs as data, and every refusal of the CUDA target with its full text."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from weft.ir import dtype as dt
from weft.ir.errors import Error, InternalError, TargetError, UnsupportedError
from weft.ir.expr import Binary, Cast, Compare, Const, Select, Unary, Var, idx
from weft.ir.hardware import HARDWARE, Hardware
from weft.ir.parser import parse_kernel
from weft.runtime.cuda_program import launch_config
from weft.target.cuda import disassemble, nvrtc
from weft.target.cuda.lower import compile_kernel, emit_kernel, sass
from weft.target.cuda.machine import KNOWN, gpu_for_arch
from weft.target.cuda.program import evaluate_size, is_host_size, program_from_json

H200 = gpu_for_arch("sm_90")
COPY = "kernel copy(A: float32[N], N: int64, out B: float32[N]) { block b in 0:N { B[b] = A[b] } }"


def test_machines() -> None:
    assert H200.sms == 132
    assert H200.shared_per_block == 232448
    assert H200.capability == 90
    assert H200.has("cp.async")
    assert not gpu_for_arch("sm_75").has("bf16 mma")
    assert len({m.key for m in KNOWN.values()}) == len(KNOWN)


def test_a_program_is_data() -> None:
    program = compile_kernel(parse_kernel(COPY), H200)
    assert program_from_json(json.loads(json.dumps(program.to_json()))) == program
    assert [evaluate_size(n, {"N": 5}) for n in program.launches[0].grid] == [5, 1, 1]
    assert program.launches[0].params == ("A", "N", "B")


def test_sizes_are_computed_as_programs_do() -> None:
    n, x = Var("n"), Var("x", dt.uint8)
    wrapped = Binary("+", x, Const(255, dt.uint8))
    e = Select(Compare(">", n, idx(3)), Unary("-", n // 2), Cast(dt.int64, wrapped))
    assert evaluate_size(e, {"n": 7, "x": 0}) == -3
    assert evaluate_size(e, {"n": 1, "x": 2}) == 1
    assert evaluate_size(n // 0, {"n": 1}) == 0
    assert is_host_size(e, frozenset({"n", "x"}))
    assert not is_host_size(e, frozenset({"n"}))


def threads(count: str) -> str:
    return f"kernel k(out B: float32[4096]) {{ thread y in 0:64 {{ thread x in 0:{count} {{ B[x] = 1.0 }} }} }}"


SHARED = """kernel k(out B: float32[64]) {
  block b in 0:1 {
    alloc S: float32[60032] in shared
    thread t in 0:64 { for j in 0:938 { S[t * 938 + j] = 1.0 }  barrier(block)  B[t] = S[63 - t] } } }"""
GRID = """kernel k(out B: float32[8192]) { block b in 0:8192 { thread t in 0:1 {
  B[b] = 1.0
  barrier(grid) } } }"""
CALLS = """kernel k(A: float32[4], out B: float32[4]) {
  for i in 0:4 { B[i] = frobnicate.float32(A[i]) } }"""
REFUSED: dict[str, tuple[str, type[Error], str]] = {
    "shared memory": (
        SHARED,
        TargetError,
        "error: a block of `k` needs 240128 bytes of shared memory; H200 has 232448\n"
        "  <text>:3        alloc S: float32[60032] in shared\n"
        "                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  why:   bytes by buffer: `S` 240128\n"
        "  help:  make the tiles smaller, or use fewer stages",
    ),
    "barrier of the grid": (
        GRID,
        TargetError,
        "error: the blocks of `k` wait for one another, and not all of them run at once\n"
        "  <text>:1        kernel k(out B: float32[8192]) { block b in 0:8192 { thread t in 0:1 {\n"
        "                                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  why:   there are 8192 of 1 threads and 0 bytes of shared memory; H200 holds 4224\n"
        "  help:  start fewer blocks, and let each of them do more",
    ),
    "assert before a barrier of the grid": (
        """kernel k(A: float32[8], out B: float32[8]) { block b in 0:8 { thread t in 0:1 {
  assert A[b] > 0.0, "not positive"
  barrier(grid)
  B[b] = 1.0 } } }""",
        UnsupportedError,
        "error: an assert in a launch whose blocks wait for one another\n"
        '  <text>:2        assert A[b] > 0.0, "not positive"\n'
        "                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  why:   a thread whose assert fails ends there, and all others would wait for it\n"
        "  help:  check before, in a nest of its own",
    ),
    "unknown function": (
        CALLS,
        UnsupportedError,
        "error: kernel `k` uses what the CUDA target does not have\n"
        "  <text>:2        for i in 0:4 { B[i] = frobnicate.float32(A[i]) } }\n"
        "                                        ^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  missing:<text>:2: a call of `frobnicate`, which is not an intrinsic",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    text, kind, message = REFUSED[name]
    with pytest.raises(kind) as caught:
        emit_kernel(parse_kernel(text), H200)
    assert str(caught.value) == message


def test_too_many_threads() -> None:
    barrier = threads("64").replace("B[x] = 1.0", "barrier(block)  B[x] = 1.0")
    with pytest.raises(TargetError) as caught:
        emit_kernel(parse_kernel(barrier), H200)
    assert "has 4096 threads; H200 runs at most 1024" in str(caught.value)
    assert "64 x 64 iterations" in str(caught.value)


def test_unknown_and_unsupported_architectures() -> None:
    with pytest.raises(TargetError, match="unknown GPU architecture `sm_1`"):
        gpu_for_arch("sm_1")
    with pytest.raises(TargetError, match="unknown GPU feature `bf16 mmma`"):
        H200.has("bf16 mmma")
    with pytest.raises(TargetError, match="makes no code for `sm_35`") as caught:
        compile_kernel(parse_kernel(COPY), replace(H200, arch="sm_35"))
    assert "it supports sm_" in str(caught.value)


def test_text_that_does_not_compile_is_our_fault_and_shows_where() -> None:
    with pytest.raises(InternalError) as caught:
        nvrtc.compile_cubin('extern "C" __global__ void k() {\n  nonsense;\n}\n', "sm_90", fast=False)
    assert 'identifier "nonsense" is undefined' in str(caught.value)
    assert "2   nonsense;" in str(caught.value)


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    nvrtc._nvrtc.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(TargetError) as caught:
        nvrtc.nvrtc_version()
    assert "no CUDA compiler was found" in str(caught.value)
    assert "pip install 'weft[cuda]'" in str(caught.value)
    monkeypatch.undo()
    nvrtc._nvrtc.cache_clear()
    assert nvrtc.nvrtc_version()


def test_without_a_disassembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassemble, "_find_tool", lambda: None)
    with pytest.raises(TargetError, match="no disassembler for GPU code"):
        sass(parse_kernel(COPY), H200)


def test_names_that_mean_something_else_in_cuda() -> None:
    text = """kernel load(`float`: float32[8], expf: float32[8], out `int`: float32[8]) {
        block blockIdx in 0:2 { thread `a b` in 0:4 {
            `int`[blockIdx * 4 + `a b`] = exp(`float`[blockIdx * 4 + `a b`]) + expf[blockIdx * 4 + `a b`] } } }"""
    assert compile_kernel(parse_kernel(text), H200).cubin


def test_blocks_beyond_what_a_grid_has_take_turns() -> None:
    text = """kernel k(out B: uint8[70000, 70000]) {
        block i in 0:70000 { block j in 0:70000 { thread t in 0:1 { if i == j { B[i, j] = 1_u8 } } } } }"""
    program = compile_kernel(parse_kernel(text), H200)
    assert [evaluate_size(n, {}) for n in program.launches[0].grid] == [2**31 - 1, 1, 1]
    assert "+= gridDim.x" in program.source


@pytest.mark.parametrize("arch", [a for a in KNOWN if a in nvrtc.supported_archs()])
def test_every_architecture(arch: str) -> None:
    text = """kernel k(A: bfloat16[64], H: float16[64], out B: bfloat16[64], out M: float32[1]) {
        block b in 0:1 { alloc p: float32[64]  thread t in 0:64 {
            p[t] = float32(A[t]) * float32(H[t])
            B[t] = A[t] + bfloat16(H[t])
            atomic B[0] += B[t] }
            M[0] = -inf
            for t in 0:64 { M[0] = max(M[0], p[t]) } } }"""
    assert compile_kernel(parse_kernel(text), gpu_for_arch(arch), fast=True).cubin


def test_an_instruction_given_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    meaning = """kernel four_products(A: int8[4], B: int8[4], out C: int32[1]) {
        for k in 0:4 { C[0] = C[0] + int32(A[k]) * int32(B[k]) } }"""
    code = "*%C = __dp4a(*(const int*)%A, *(const int*)%B, *%C);"
    monkeypatch.setitem(HARDWARE, "four_products", Hardware("four_products", meaning, emit={"cuda": code}))
    text = """kernel k(A: int8[64, 4], B: int8[64, 4], out C: int32[64]) {
        block b in 0:2 { thread t in 0:32 {
            tensorized four_products { for j in 0:4 {
                C[b*32 + t] = C[b*32 + t] + int32(A[b*32 + t, j]) * int32(B[b*32 + t, j]) } } } } }"""
    program = compile_kernel(parse_kernel(text), H200)
    assert "__dp4a(*(const int*)(A + (b * 128 + t * 4))" in program.source
    older = emit_kernel(parse_kernel(text.replace("four_products", "no_such_thing")), H200)
    assert "__dp4a" not in older
    assert "for (int j = 0; j < 4; ++j)" in older


def test_launches_that_begin_before_the_last_has_ended_load_nothing_before() -> None:
    """What waits stands first, in NVRTC's order too: it knows constant inputs, which it might load earlier."""
    kernel = parse_kernel("""kernel k(X: float32[4096], Y: float32[4096], out Z: float32[4096]) {
      block b in 0:16 { thread t in 0:256 { Z[b * 256 + t] = X[b * 256 + t] * Y[b] } } }""")
    program = compile_kernel(kernel, H200, fast=True)
    (launch,) = program.launches
    config, attribute = launch_config(launch, (16, 1, 1), 0)
    assert launch.follows
    assert (config.attribute_count, attribute.id, attribute.value) == (1, 6, 1)
    text = nvrtc.compile_ptx(program.source, "sm_90", fast=True)
    assert text.index("griddepcontrol.wait") < text.index("ld.global")
    (before,) = compile_kernel(kernel, gpu_for_arch("sm_80"), fast=True).launches
    assert not before.follows
    assert launch_config(before, (16, 1, 1), 0)[0].attribute_count == 0

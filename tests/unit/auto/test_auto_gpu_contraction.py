"""Products on a GPU: which tiles, right results for any structure of indices, matrix instructions, CUDA that builds."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import weft
import weft.auto.gpu.contraction as contraction
from weft.auto.gpu import contraction_product
from weft.auto.gpu.contraction import CONTRACTION
from weft.auto.gpu.contraction_product import Product, read_product
from weft.auto.gpu.contraction_tiles import ContractionPlan, Tiles, count_blocks
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.auto.plan import Decision
from weft.auto.read_stages import read_stages
from weft.ir.interpret import interpret
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.operators.schedule import OperatorSchedule
from weft.target.cuda.lower import compile_kernel, emit_kernel, lower_kernel
from weft.target.cuda.machine import GpuMachine, gpu_for_arch

H200, A100 = gpu_for_arch("sm_90"), gpu_for_arch("sm_80")
#: So that the interpreter gets through more than one of each.
FEW = (Tiles(16, 16, 8, 4, 4, 3), Tiles(32, 32, 32, 16, 16, 3, warps=True))

PLAINLY = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
NARROW = "def f(bfloat16(M,K) A, bfloat16(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
CASES: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "uneven": (PLAINLY, {"A": (37, 29), "B": (29, 41)}),
    "left transposed": (
        "def f(float(K,M) A, float(K,N) B) -> (C) { C(m,n) +=! A(k,m) * B(k,n) }",
        {"A": (24, 20), "B": (24, 33)},
    ),
    "result transposed": (
        "def f(float(M,K) A, float(K,N) B) -> (C) { C(n,m) +=! A(m,k) * B(k,n) }",
        {"A": (20, 24), "B": (24, 33)},
    ),
    "batches": (
        "def f(float(B,M,K) X, float(B,K,N) Y) -> (Z) { Z(b,m,n) +=! X(b,m,k) * Y(b,k,n) }",
        {"X": (3, 20, 24), "Y": (3, 24, 17)},
    ),
    "several dimensions": (
        "def f(float(A,B,C,D) X, float(C,D,E) Y) -> (O) { O(a,b,e) +=! X(a,b,c,d) * Y(c,d,e) }",
        {"X": (2, 20, 3, 10), "Y": (3, 10, 24)},
    ),
    "convolution with zeros around": (
        "def f(float(C,H,W) X, float(F,C,P,Q) V) -> (O) { O(f,h,w) +=! X(c,h+p-1,w+q-1) * V(f,c,p,q)"
        " where h in 0:H, w in 0:W, X outside zero }",
        {"X": (8, 4, 17), "V": (16, 8, 3, 3)},
    ),
    "epilogue": (
        "def f(float(M,K) A, float(K,N) B, float(N) b) -> (D) { C(m,n) +=! A(m,k) * B(k,n)\n"
        " D(m,n) = max(C(m,n) + b(n), 0) }",
        {"A": (33, 20), "B": (20, 36), "b": (36,)},
    ),
    "narrow": (NARROW, {"A": (32, 64), "B": (64, 64)}),
    "narrow, uneven": (NARROW, {"A": (37, 44), "B": (44, 50)}),
    "narrow, transposed": (
        "def f(bfloat16(K,M) A, bfloat16(N,K) B) -> (C) { C(m,n) +=! A(k,m) * B(n,k) }",
        {"A": (32, 32), "B": (32, 32)},
    ),
    "narrow, batches, epilogue": (
        "def f(float16(B,M,K) A, float16(K,N) W, float16(N) b) -> (D) { C(i,m,n) +=! A(i,m,k) * W(k,n)\n"
        " D(i,m,n) = tanh(C(i,m,n) + b(n)) }",
        {"A": (2, 32, 32), "W": (32, 40), "b": (40,)},
    ),
}


def start(
    text: str, shapes: dict[str, Any], numerics: Any = "fast", machine: Any = H200
) -> tuple[OperatorSchedule, tuple[Decision, ...]]:
    s = weft.schedule(weft.define(text), numerics=numerics, **shapes)
    return s, auto_schedule_gpu(s, machine).decisions


def schedule(
    text: str, shapes: dict[str, Any], numerics: Any = "fast", machine: Any = H200
) -> tuple[Kernel, tuple[Decision, ...]]:
    s, decisions = start(text, shapes, numerics, machine)
    return s.kernel, decisions


def arguments(kernel: Kernel) -> list[np.ndarray[Any, Any]]:
    """Small whole numbers, so that sums are exact; results not written yet are NaN."""
    rng = np.random.default_rng(0)
    made = []
    for b in kernel.buffers:
        shape = [int(e.value) for e in b.shape]  # type: ignore[attr-defined]
        is_output = b.name in kernel.outputs
        values = np.full(shape, np.nan) if is_output else rng.integers(-3, 4, shape)
        made.append(values.astype(weft.numpy_dtype(b.dtype.name)))
    return made


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    def few(product: Product, machine: Any, kinds: tuple[str, ...]) -> list[Tiles]:
        return [t for t in reversed(FEW) if t.kind in kinds][:1]

    monkeypatch.setattr(contraction, "contraction_tiles", few)


@pytest.mark.usefixtures("_few")
@pytest.mark.parametrize("case", CASES)
def test_results(case: str) -> None:
    text, shapes = CASES[case]
    s, decisions = start(text, shapes)
    assert any(d.topic == "tiling" for d in decisions)
    assert not any(d.topic == "fallback" for d in decisions)
    *args, _ = arguments(weft.schedule(weft.define(text), **shapes).kernel)  # of axes as they were
    wanted = weft.define(text)(*args).astype(np.float32)
    got = s.build()(*args).astype(np.float32)  # the grid, as it runs on the CPU
    np.testing.assert_allclose(got, wanted, rtol=1e-2, atol=1e-2)
    assert ("tensorized mma" in print_kernel(s.kernel)) == ("narrow" in case)
    if case in ("uneven", "epilogue", "narrow, transposed", "narrow, batches, epilogue"):
        program = compile_kernel(s.kernel, H200, fast=True, aligned={b.name: 16 for b in s.kernel.buffers})
        assert len(program.launches) == 1  # what is done with the sums is done where they are
        assert ("mma.sync" in program.source) == ("narrow" in case)


@pytest.mark.usefixtures("_few")
@pytest.mark.parametrize(
    ("case", "shapes"), [("uneven", {"A": (17, 9), "B": (9, 18)}), ("narrow", {"A": (17, 32), "B": (32, 34)})]
)
def test_threads_do_not_race(case: str, shapes: dict[str, Any]) -> None:
    """In grid form, with its barriers, under the eyes of the interpreter."""
    kernel, _ = schedule(CASES[case][0], shapes)
    args = arguments(kernel)
    interpret(lower_kernel(kernel, H200, fast=True), args)
    wanted = weft.define(CASES[case][0])(*args[:-1])
    np.testing.assert_array_equal(args[-1].astype(np.float32), wanted.astype(np.float32))


def test_a_product_of_many_blocks_as_cuda() -> None:
    kernel, _ = schedule(NARROW, {"A": (4096, 4096), "B": (4096, 4096)}, machine=A100)
    text = emit_kernel(kernel, A100, fast=True, aligned={"A": 16, "B": 16, "C": 16})
    assert text.count("__syncthreads()") == 2  # before the loop through the depth, and before its last step
    assert "load_matrices_x4<true>" in text  # B lies along its columns
    assert "async_copy<16>" in text
    assert "if (" not in text.split("for (int k_o")[1]  # nothing stands in the way of the matrix instructions


def test_a_product_of_many_blocks_by_warp_groups() -> None:
    kernel, _ = schedule(NARROW, {"A": (4096, 4096), "B": (4096, 4096)})
    program = compile_kernel(kernel, H200, fast=True, aligned={"A": 16, "B": 16, "C": 16})
    text = program.source
    assert text.count("__syncthreads()") == 1  # before the copy engine begins
    assert "m64n256k16.f32.bf16.bf16" in text
    assert "bulk_copy_2(A_pack" in text
    assert "async_copy" not in text
    assert "take_registers<232>" in text
    unaligned = emit_kernel(kernel, H200, fast=True, aligned={"A": 16, "B": 8, "C": 16})
    assert "async_copy<8>(swizzle(" in unaligned  # the engine cannot fetch B, so threads copy


def test_rows_that_begin_anywhere_are_copied_for_the_copy_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = Tiles(64, 64, 64, 16, 64, 3, warps=True, grouped=True)
    monkeypatch.setattr(contraction, "possible_plans", lambda *a, **b: [ContractionPlan(tiles, moved=True)])
    s, decisions = start(NARROW, {"A": (70, 129), "B": (129, 67)})
    assert sum("multiples of 16 bytes" in d.what for d in decisions) == 2
    *args, _ = arguments(s.kernel)
    a, b = (x.astype(np.float32) for x in args)
    np.testing.assert_array_equal(s.build()(*args).astype(np.float32), (a @ b).astype(args[0].dtype).astype(np.float32))
    program = compile_kernel(s.kernel, H200, fast=True, aligned={"A": 2, "B": 2, "C": 2})
    assert [b.element_count() for b in program.temporaries] == [69 * 136 + 129, 128 * 72 + 67]
    assert program.source.count("bulk_copy_2(") >= 2


def test_a_copy_with_the_depth_along_memory_is_no_formula_that_makes_an_operand() -> None:
    """It is a launch of its own, though few rows use it."""
    text = """def f(float8_e4m3fn(X,K,M) A, float8_e4m3fn(K,N) B) -> (float32(X,M,N) C) {
        C(x,m,n) +=! float32(A(x,k,m)) * float32(B(k,n)) }"""
    _, decisions = schedule(text, {"A": (4, 376, 38), "B": (376, 688)})
    assert {f"a copy of `{x}` in which the depth lies along memory" for x in "AB"} <= {d.what for d in decisions}


def test_products_of_odd_rows_are_worth_a_copy() -> None:
    assert best_plan(4093, 4091, 4095, NARROW).moved
    assert not best_plan(4096, 4096, 4096, NARROW).moved
    assert not best_plan(4093, 4091, 4095, NARROW, A100).moved  # it has no copy engine


@pytest.mark.parametrize("rows", [256, 1024, 6272])
def test_blocks_of_one_tile_of_columns_run_side_by_side(rows: int) -> None:
    kernel, _ = schedule(NARROW, {"A": (rows, 4096), "B": (4096, 8192)})
    blocks = re.findall(r"block (\w)_o\w* in 0:(\d+)", print_kernel(kernel))
    assert blocks[-1][0] == "m"
    assert int(blocks[-1][1]) > 1


FEW_ROWS = {"along": ("A(m,k) * B(n,k)", "N,K"), "across": ("A(m,k) * B(k,n)", "K,N")}


@pytest.mark.parametrize(
    ("layout", "rows", "depth", "parts"), [("along", 2, 320, 1), ("across", 5, 512, 2), ("across", 20, 256, 1)]
)
def test_few_rows_are_those_of_one_instruction(
    monkeypatch: pytest.MonkeyPatch, layout: str, rows: int, depth: int, parts: int
) -> None:
    """Rows that are not there are zeros; the depth in parts, or whole."""
    high = 16 if rows < 16 else 32
    tiles = Tiles(high, 32, 64, high, 16, 3, warps=True)
    monkeypatch.setattr(contraction, "possible_plans", lambda *a, **b: [ContractionPlan(tiles, parts)])
    product, shape = FEW_ROWS[layout]
    text = f"def f(bfloat16(M,K) A, bfloat16({shape}) B) -> (bfloat16(M,N) C) {{ C(m,n) +=! {product} }}"
    s, decisions = start(text, {"A": (rows, depth), "B": (264, depth) if layout == "along" else (depth, 264)})
    assert not any(d.topic == "fallback" for d in decisions)
    *args, _ = arguments(s.kernel)
    a, b = (x.astype(np.float32) for x in args)
    np.testing.assert_allclose(s.build()(*args).astype(np.float32), a @ (b.T if layout == "along" else b), rtol=4e-3)
    program = compile_kernel(s.kernel, H200, fast=True, aligned={"A": 16, "B": 16, "C": 16})
    assert len(program.launches) == parts
    assert "mma.sync" in program.source


@pytest.mark.parametrize(("layout", "rows", "result"), [("along", 3, "bfloat16"), ("across", 16, "float32")])
def test_warps_share_the_depth_of_few_rows(
    monkeypatch: pytest.MonkeyPatch, layout: str, rows: int, result: str
) -> None:
    """One launch: the sums of all warps are added up in shared memory, and no thread reads what is not there yet."""
    tiles = Tiles(16, 32, 64, 16, 32, 2, warps=True, spread=2)
    monkeypatch.setattr(contraction_product, "BESIDE_FEW", 64)
    monkeypatch.setattr(contraction, "possible_plans", lambda *a, **b: [ContractionPlan(tiles)])
    product, shape = FEW_ROWS[layout]
    text = f"""def f(bfloat16(M,K) A, bfloat16({shape}) B, float(N) b) -> ({result}(M,N) D) {{
        C(m,n) +=! float32({product.split(" * ")[0]}) * float32({product.split(" * ")[1]})
        D(m,n) = {result}(max(C(m,n) + b(n), 0)) }}"""
    s, decisions = start(text, {"A": (rows, 128), "B": (64, 128) if layout == "along" else (128, 64), "b": (64,)})
    assert any("2 warps share the depth" in d.what for d in decisions)
    assert not any(d.topic == "fallback" for d in decisions)
    *args, out = arguments(s.kernel)
    a, b, bias = (x.astype(np.float32) for x in args)
    wanted = np.maximum(a @ (b.T if layout == "along" else b) + bias, 0)
    np.testing.assert_allclose(s.build()(*args).astype(np.float32), wanted, rtol=4e-3)
    interpret(lower_kernel(s.kernel, H200, fast=True), [*args, out])  # in grid form, with its barriers
    np.testing.assert_allclose(out.astype(np.float32), wanted, rtol=4e-3)
    program = compile_kernel(s.kernel, H200, fast=True, aligned={"A": 16, "B": 16, "D": 16})
    assert len(program.launches) == 1
    assert "mma.sync" in program.source


#: Two weights in a byte, with a scale for each 64 of a row.
UNPACKED = """def f(bfloat16(M,K) X, uint8(N,H) W, float32(N,G) q) -> (float32(M,N) C) {
    D(n,k) = bfloat16(float32(int32(k % 2 == 0 ? W(n,k/2) % 16 : W(n,k/2) / 16) - 8) * q(n,k/64)) where k in 0:K
    C(m,n) +=! float32(X(m,k)) * float32(D(n,k)) }"""


@pytest.mark.parametrize("rows", [1, 5])
def test_packed_weights_are_read_as_they_are(rows: int) -> None:
    """One launch: unpacked in registers, or from a ring in shared memory that copies fill on their own."""
    s, decisions = start(UNPACKED, {"X": (rows, 512), "W": (256, 256), "q": (256, 8)})
    assert not any(d.topic == "fallback" for d in decisions)
    x, w, q, _ = arguments(s.kernel)
    w, q = np.random.default_rng(0).integers(0, 256, w.shape, np.uint8), np.abs(q) + 1
    whole = np.stack([w % 16, w // 16], -1).reshape(256, 512).astype(np.float32) - 8
    np.testing.assert_allclose(s.build()(x, w, q), x.astype(np.float32) @ (whole * q.repeat(64, 1)).T, rtol=1e-5)
    program = compile_kernel(s.kernel, H200, fast=True, aligned={"X": 16, "W": 16, "q": 16})
    assert len(program.launches) == 1
    assert ("async_copy<16>(W_cache" in program.source) == (rows > 1)
    assert "load<4>(W_" in program.source  # eight weights


def test_one_row_across_memory_is_read_along_it() -> None:
    """A matrix times a vector whose depth lies across memory: threads side by side read side by side."""
    text = "def f({0}(M,K) A, {0}(K,N) B) -> ({0}(M,N) C) {{ C(m,n) +=! A(m,k) * B(k,n) }}"
    for dtype in ("float32", "bfloat16"):
        _, decisions = schedule(text.format(dtype), {"A": (1, 512), "B": (512, 512)})
        assert any("threads side by side" in d.what for d in decisions), decisions


def test_strict_numerics_add_one_after_another() -> None:
    kernel, decisions = schedule(NARROW, {"A": (64, 64), "B": (64, 64)}, "strict")
    assert "tensorized" not in print_kernel(kernel)
    assert any(d.topic == "tiling" for d in decisions)


def product(m: int, n: int, k: int) -> Product:
    s = weft.schedule(weft.ops.matmul, A=(m, k), B=(k, n))
    found = read_product(next(iter(read_stages(s.kernel))))
    assert found is not None
    return found


def best_plan(m: int, n: int, k: int, text: str = PLAINLY, machine: GpuMachine = H200) -> ContractionPlan:
    draft = GpuDraft(weft.schedule(weft.define(text), A=(m, k), B=(k, n), numerics="fast"), machine)
    plan = CONTRACTION.ranked(draft, next(iter(draft.stages)))[0]
    assert isinstance(plan, ContractionPlan)
    return plan


@pytest.mark.parametrize(("text", "machine"), [(PLAINLY, H200), (NARROW, A100), (NARROW, H200)])
def test_large_products_have_large_tiles_and_small_ones_enough_blocks(text: str, machine: GpuMachine) -> None:
    large = best_plan(4096, 4096, 4096, text, machine)
    small = best_plan(512, 512, 4096, text, machine)
    assert large.parts == 1
    assert large.tiles.rows * large.tiles.columns >= small.tiles.rows * small.tiles.columns
    assert count_blocks(product(512, 512, 4096), small.tiles) * small.parts >= machine.sms // 2


def test_few_tiles_sum_parts_of_the_depth() -> None:
    s, decisions = start(PLAINLY, {"A": (32, 4096), "B": (4096, 48)})
    assert any("parts of" in d.what for d in decisions)
    assert not any(d.topic == "fallback" for d in decisions)
    *args, _ = arguments(s.kernel)
    np.testing.assert_array_equal(s.build()(*args), args[0] @ args[1])
    assert len(compile_kernel(s.kernel, H200, fast=True).launches) == 2


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("text", [PLAINLY, NARROW])
def test_all_tiles_fit_the_machine(arch: str, text: str) -> None:
    machine = gpu_for_arch(arch)
    s = weft.schedule(weft.define(text), A=(4096, 4096), B=(4096, 4096), numerics="fast")
    draft = GpuDraft(s, machine)
    plans = contraction.contraction_plans(draft, next(iter(draft.stages)))
    assert plans
    for tiles in {p.tiles for p in plans}:
        assert tiles.threads <= machine.max_threads_per_block
        assert tiles.shared_bytes(4 if text is PLAINLY else 2) <= machine.shared_per_block
        sums = tiles.own_rows * tiles.own_columns // (32 if tiles.warps else 1)
        assert sums * tiles.threads <= machine.registers_per_sm
        assert not tiles.grouped or arch == "sm_90"


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("def f(float(M,K) A, float(K) x) -> (y) { y(m) +=! A(m,k) * x(k) }", {"A": (64, 64), "x": (64,)}),
        ("def f(float(M,K) A) -> (C) { C(m,n) +=! A(m,k) * A(n,k) }", {"A": (64, 64)}),
        ("def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) max=! A(m,k) * B(k,n) }", {"A": (64, 64), "B": (64, 64)}),
        ("def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }", {"A": (64, 64), "B": (64, 4)}),
        ("def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }", {"A": (4, 64), "B": (64, 64)}),
        ("def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }", {"A": (1, 512), "B": (512, 512)}),
    ],
)
def test_what_is_no_product_of_matrices(text: str, shapes: dict[str, Any]) -> None:
    s = weft.schedule(weft.define(text), **shapes)
    assert read_product(next(iter(read_stages(s.kernel)))) is None


def test_floats_that_no_16_bit_product_made_keep_their_bits() -> None:
    op = weft.define("""def f(float(M,K) S, bfloat16(K,N) B) -> (float(M,N) C) {
        T(m,k) = exp(S(m,k))
        C(m,n) +=! T(m,k) * float(B(k,n))
    }""")
    assert "kept as bfloat16" not in op.explain(S=(256, 256), B=(256, 256), target="cuda")

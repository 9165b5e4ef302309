"""Products whose fragments are loaded beyond the end of a piece: the CUDA text, run by the host."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scheduled_for_gpu import H200, make_case, schedule_case

sys.path.append(str(Path(__file__).parents[1] / "target"))  # how CUDA text is run on the host

from cuda_on_host import HostRunner, needs_compiler
from run_compiled import Fenced

import weft
import weft.auto.gpu.contraction as contraction
from weft.auto.gpu.contraction_tiles import ContractionPlan, Tiles
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.verify import verify
from weft.passes.registry import run_passes
from weft.sanitizer.sanitize import sanitize_kernel
from weft.target.cuda.lower import PASSES, context_of, lower_kernel
from weft.target.cuda.machine import GpuMachine

pytestmark = needs_compiler

PLAIN = "def f(bfloat16(M,K) A, bfloat16(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
TRANSPOSED = "def f(bfloat16(K,M) A, bfloat16(N,K) B) -> (C) { C(m,n) +=! A(k,m) * B(n,k) }"
RIGHT = "def f(bfloat16(M,K) A, bfloat16(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
BATCHED = "def f(bfloat16(G,M,K) A, bfloat16(G,N,K) B) -> (C) { C(g,m,n) +=! A(g,m,k) * B(g,n,k) }"
#: Operands called like what the code itself declares.
NAMED = "def f(bfloat16(M,K) a, bfloat16(K,N) b) -> (lane) { lane(i,j) +=! a(i,k) * b(k,j) }"
AROUND = "def f(bfloat16(G,M,K) A, bfloat16(G,K,N) B) -> (C) { C(m,n) +=! A(g,m,k) * B(g,k,n) }"
#: Fragments of the next piece, loaded while the last step of this one is computed.
AHEAD = re.compile(r"load_\w+<[^;]*\bk_o \+ 1\)")


def only(monkeypatch: pytest.MonkeyPatch, tiles: Tiles) -> None:
    """These tiles wherever the machine has the instructions, else small ones of each thread's own arithmetic."""
    plain = Tiles(16, 16, 8, 2, 1, 3)
    monkeypatch.setattr(contraction, "contraction_tiles", lambda p, m, kinds: [tiles if tiles.kind in kinds else plain])


def run(monkeypatch: pytest.MonkeyPatch, text: str, shapes: list[tuple[int, ...]], depth: int, stages: int) -> str:
    """The CUDA text, after its results were compared with the evaluator's."""
    only(monkeypatch, Tiles(32, 32, depth, 16, 16, stages, warps=True))
    return compare(text, shapes)


def run_groups(
    monkeypatch: pytest.MonkeyPatch, text: str, shapes: list[tuple[int, ...]], rows: int, columns: int, stages: int
) -> str:
    """The same by instructions of warp groups."""
    only(monkeypatch, Tiles(rows, columns, 64, 16, columns, stages, warps=True, grouped=True))
    return compare(text, shapes)


def compare(text: str, shapes: list[tuple[int, ...]], numerics: str = "fast", machine: GpuMachine = H200) -> str:
    rng = np.random.default_rng(0)
    types = re.findall(r"(\w+)\([A-Z,]+\) \w+(?=[,)])", text.partition("->")[0])
    elements = [weft.numpy_dtype(t) for t in types]
    drawn = [rng.integers(-3 * (e.kind != "u"), 4, s).astype(e) for e, s in zip(elements, shapes, strict=True)]
    case = make_case(text, drawn, "fast")
    runner = HostRunner(schedule_case(case, numerics, machine).schedule.kernel, machine, fast=True, aligned=16)
    given = [Fenced(a) for a in (*case.inputs, *case.outputs)]
    assert runner(*(a.array for a in given)) == 0
    assert all(a.is_whole() for a in given)
    wide = [np.asarray(x).astype(np.float64) for x in (given[-1].array, case.expected[0])]
    np.testing.assert_allclose(*wide, rtol=2e-2, atol=1e-5)
    return runner.program.source


@pytest.mark.parametrize(("depth", "stages"), [(32, 3), (64, 2), (64, 4)])
def test_pieces_follow_without_a_gap(monkeypatch: pytest.MonkeyPatch, depth: int, stages: int) -> None:
    source = run(monkeypatch, PLAIN, [(64, 320), (320, 32)], depth, stages)
    assert AHEAD.search(source)
    assert "async_copy_if<16>(ahead, " in source


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (TRANSPOSED, [(128, 32), (64, 128)]),
        (NAMED, [(32, 128), (128, 64)]),
        (AROUND, [(3, 32, 128), (3, 128, 32)]),
        (PLAIN, [(40, 200), (200, 56)]),
        (PLAIN, [(33, 131), (131, 35)]),
    ],
    ids=["transposed", "named", "around", "uneven", "odd"],
)
def test_any_product(monkeypatch: pytest.MonkeyPatch, text: str, shapes: list[tuple[int, ...]]) -> None:
    assert AHEAD.search(run(monkeypatch, text, shapes, 32, 3))


def test_an_odd_number_of_steps_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fragments of the next piece would come where those of the last step still are."""
    assert not AHEAD.search(run(monkeypatch, PLAIN, [(32, 96), (96, 32)], 48, 3))


@pytest.mark.parametrize("stages", [2, 4])
def test_groups_of_warps_start_a_piece_while_the_one_before_is_computed(
    monkeypatch: pytest.MonkeyPatch, stages: int
) -> None:
    """By copies of threads, since rows are no multiple of 16 bytes."""
    source = run_groups(monkeypatch, PLAIN, [(128, 316), (316, 64)], 64, 64, stages)
    loop = source.split("for (int k_o")[1].split("wgmma_wait<0>")[0]
    assert "wgmma_wait<1>();" in loop
    assert loop.count("__syncthreads()") == 2


@pytest.mark.parametrize(
    ("text", "shapes", "rows", "columns"),
    [
        (PLAIN, [(128, 128), (128, 256)], 128, 256),
        (TRANSPOSED, [(128, 128), (128, 128)], 64, 128),
        (TRANSPOSED, [(128, 128), (64, 128)], 128, 64),
        (PLAIN, [(72, 200), (200, 88)], 64, 64),
        (PLAIN, [(67, 131), (131, 75)], 64, 64),
        (PLAIN.replace("bfloat16", "float16"), [(64, 64), (64, 64)], 64, 64),
    ],
    ids=["wide", "transposed", "transposed rows", "uneven", "odd", "float16"],
)
def test_any_product_by_groups_of_warps(
    monkeypatch: pytest.MonkeyPatch, text: str, shapes: list[tuple[int, ...]], rows: int, columns: int
) -> None:
    assert f"_n{columns}<" in run_groups(monkeypatch, text, shapes, rows, columns, 3)


def test_rows_of_whole_vectors_are_copied_or_filled_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    source = run(monkeypatch, PLAIN, [(72, 200), (200, 88)], 32, 3)
    assert "async_copy_or_zero<16>" in source
    assert "to_bfloat16(0.0f)" not in source


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (TRANSPOSED, [(200, 72), (136, 200)]),
        (PLAIN, [(130, 136), (136, 72)]),
        (AROUND, [(3, 64, 72), (3, 72, 136)]),
        (BATCHED, [(2, 64, 136), (2, 72, 136)]),
    ],
    ids=["transposed", "plain", "around", "batched"],
)
def test_blocks_go_from_tile_to_tile_behind_the_copy_engine(
    monkeypatch: pytest.MonkeyPatch, text: str, shapes: list[tuple[int, ...]]
) -> None:
    """Two blocks for several tiles each, the ring of three going round across tiles; edges come as zeros."""
    monkeypatch.setattr("weft.target.cuda.launch_bounds.MOST_BLOCKS", 1)  # so that there are fewer than tiles
    only(monkeypatch, Tiles(64, 64, 64, 16, 64, 3, warps=True, grouped=True))
    source = compare(text, shapes, machine=replace(H200, sms=1))
    assert "bulk_copy" in source
    assert "for (int wave" in source
    assert "__syncthreads" not in source.split("start_turns<")[1]


@pytest.mark.parametrize("columns", [72, 104, 208])
def test_columns_need_not_be_whole_blocks(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Instructions take any eight that lie along the depth: 208 are two blocks of 104."""
    only(monkeypatch, Tiles(64, columns, 64, 16, columns, 3, warps=True, grouped=True))
    source = compare(RIGHT, [(130, 136), (2 * columns - 8, 136)], machine=replace(H200, sms=1))
    assert f"wgmma_bf16_n{columns}_by_{min(columns, 104)}" in source
    assert "bulk_copy" in source


def test_what_the_copy_engine_does_is_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is verified, read back and run like any other: turns are counted, and who waits for whom are hints."""
    only(monkeypatch, Tiles(64, 64, 64, 16, 64, 2, warps=True, grouped=True))
    rng = np.random.default_rng(0)
    args = [rng.integers(-3, 4, s).astype(weft.numpy_dtype("bfloat16")) for s in ((64, 128), (64, 128))]
    case, small = make_case(RIGHT, args, "fast"), replace(H200, sms=1)
    kernel = schedule_case(case, "fast", small).schedule.kernel
    lowered = lower_kernel(kernel, small, fast=True, aligned={"A": 16, "B": 16})
    verify(lowered)
    text = print_kernel(lowered)
    assert parse_kernel(text) == lowered
    calls = {"turn_claim": 1, "turn_await": 1, "turn_release": 2, "tensorized bulk_copy": 2}
    assert {name: text.count(name) for name in calls} == calls
    loops = tuple(name for name in PASSES if name != "select_products")  # products as the loops that they mean
    plain = run_passes(loops, kernel, context_of(small, fast=True, aligned={"A": 16, "B": 16}))
    report = sanitize_kernel(plain, [*case.inputs, *case.outputs])
    assert not report.findings
    np.testing.assert_array_equal(*(np.asarray(x).astype(np.float64) for x in (report.outputs["C"], case.expected[0])))
    beside = lower_kernel(kernel, small, fast=True, aligned={"A": 8, "B": 16})
    assert "bulk_copy" not in print_kernel(beside)  # the engine needs whole 16 bytes; threads copy then


def test_explain_says_who_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, Tiles(64, 64, 64, 16, 64, 3, warps=True, grouped=True))
    told = {}
    for depth in (128, 132):
        args = [np.ones((128, depth), weft.numpy_dtype("bfloat16")) for _ in range(2)]
        decisions = schedule_case(make_case(RIGHT, args, "fast"), "fast", H200).decisions
        told[depth] = [(d.what, d.why) for d in decisions if "copied by" in d.what]
    assert told[128] == [
        ("copied by the copy engine, for blocks that go from tile to tile", "if arrays begin at multiples of 16 bytes")
    ]
    assert told[132] == [("copied by all threads", "rows of `A` do not begin at multiples of 16 bytes")]


WARPS = Tiles(32, 32, 32, 16, 16, 2, warps=True)
GROUPS = Tiles(64, 64, 64, 16, 64, 2, warps=True, grouped=True)


@pytest.mark.parametrize(
    ("tiles", "calls"),
    [
        (WARPS, {"mma_bf16_load_a": 3, "mma_bf16_load_b": 3, "mma_bf16_multiply": 2, "async_wait": 2}),
        # the second wait is for results on their way out, through shared memory
        (GROUPS, {"wgmma_bf16_start": 1, "products_wait": 2, "hold": 2, "async_wait": 2}),
    ],
    ids=["warps", "groups"],
)
def test_all_that_overlaps_is_statements(monkeypatch: pytest.MonkeyPatch, tiles: Tiles, calls: dict[str, int]) -> None:
    """Copies, waits, loads of fragments and products, in the order of the code; the interpreter runs the smaller."""
    only(monkeypatch, tiles)
    rng = np.random.default_rng(0)
    shapes = [(tiles.rows, 3 * tiles.depth), (3 * tiles.depth, tiles.columns)]
    case = make_case(PLAIN, [rng.integers(-3, 4, s).astype(weft.numpy_dtype("bfloat16")) for s in shapes], "fast")
    small = replace(H200, sms=1)  # or the depth would be cut in parts
    lowered = lower_kernel(schedule_case(case, "fast", small).schedule.kernel, small, fast=True)
    verify(lowered)
    text = print_kernel(lowered)
    assert parse_kernel(text) == lowered
    assert {name: text.count(f"call {name}") for name in calls} == calls
    if not tiles.grouped:
        interpret(lowered, [*case.inputs, *case.outputs])
        np.testing.assert_array_equal(*(np.asarray(x).astype(np.float64) for x in (case.outputs[0], case.expected[0])))


@pytest.mark.parametrize(
    ("text", "shapes", "depth"),
    [
        (PLAIN, [(64, 160), (160, 32)], 16),
        (TRANSPOSED, [(160, 32), (64, 160)], 32),
        (PLAIN, [(37, 131), (131, 43)], 16),
    ],
    ids=["plain", "transposed", "odd"],
)
def test_products_of_ten_bits(
    monkeypatch: pytest.MonkeyPatch, text: str, shapes: list[tuple[int, ...]], depth: int
) -> None:
    only(monkeypatch, Tiles(32, 32, depth, 16, 16, 3, warps=True))
    text = text.replace("bfloat16", "float32")
    source = compare(text, shapes, "tf32")
    assert "m16n8k8.row.col.f32.tf32.tf32.f32" in source
    assert AHEAD.search(source)
    assert "mma" not in compare(text, shapes)  # only where that is asked for


#: Types of rows and columns, by what instructions are called.
ONE_BYTE = {
    "e4m3": ("float8_e4m3fn", "float8_e4m3fn"), "s8": ("int8", "int8"),
    "u8": ("uint8", "uint8"), "e5m2xe4m3": ("float8_e5m2", "float8_e4m3fn"), "s8xu8": ("int8", "uint8"),
}  # fmt: skip


@pytest.mark.parametrize("short", ONE_BYTE)
def test_elements_of_one_byte(monkeypatch: pytest.MonkeyPatch, short: str) -> None:
    """Scaled by rows and columns of the result: by groups of warps behind the copy engine, and by warps."""
    (rows, columns), wide = ONE_BYTE[short], "float32" if short.startswith("e") else "int32"
    text = f"""def f({rows}(M,K) A, {columns}(N,K) B, {rows}(M) p) -> (float32(M,N) C) {{
        S(m,n) +=! {wide}(A(m,k)) * {wide}(B(n,k))
        C(m,n) = float32(S(m,n)) * float32(p(m)) }}"""
    for tiles, call in (
        (Tiles(64, 64, 128, 16, 64, 3, warps=True, grouped=True), "wgmma"),
        (Tiles(32, 32, 64, 16, 16, 3, warps=True), "mma"),
    ):
        only(monkeypatch, tiles)
        source = compare(text, [(130, 272), (72, 272), (130,)], machine=replace(H200, sms=1))
        assert f"{call}_{short}" in source
        assert ("bulk_copy" in source) == tiles.grouped


GATED = """def f(bfloat16(M,K) X, bfloat16(N,K) W, bfloat16({v}) V) -> (bfloat16(M,N) O) {{
    G(m,n) +=! float32(X(m,k)) * float32(W(n,k))
    U(m,n) +=! float32(X(m,k)) * float32(V({i}))
    O(m,n) = bfloat16(max(G(m,n), 0.0) * U(m,n)) }}"""


@pytest.mark.parametrize(("v", "i", "shape"), [("N,K", "n,k", (136, 200)), ("K,N", "k,n", (200, 136))])
def test_products_of_the_same_rows_are_computed_together(
    monkeypatch: pytest.MonkeyPatch, v: str, i: str, shape: tuple[int, int]
) -> None:
    tiles = Tiles(64, 64, 64, 16, 64, 3, warps=True, grouped=True, twins=2)
    monkeypatch.setattr(contraction, "twin_tiles", lambda p, m, count: [tiles])
    monkeypatch.setattr(contraction, "contraction_tiles", lambda p, m, kinds: [])
    source = compare(GATED.format(v=v, i=i), [(130, 200), (136, 200), shape], machine=replace(H200, sms=1))
    assert source.count("__global__") == 1
    assert source.count("wgmma_commit();") == 2
    assert "wgmma_wait<2>" in source


@pytest.mark.parametrize("stages", [3, 8])
def test_copies_of_a_block_are_not_waited_for_by_warps(monkeypatch: pytest.MonkeyPatch, stages: int) -> None:
    """Where a ring has more stages than there are pieces, only the lanes of a warp meet in the loop, and what others
    copied would not be there yet: so copies do not run on their own."""
    plan = ContractionPlan(Tiles(16, 32, 128, 16, 32, stages, warps=True, spread=4, fetched=True))
    monkeypatch.setattr(contraction, "possible_plans", lambda *a, **b: [plan])
    text = """def f(float16(M,K) X, uint8(N,H) W) -> (float32(M,N) C) {
        D(n,k) = float16(int32(k % 2 == 0 ? W(n,k/2) % 16 : W(n,k/2) / 16) - 8) where k in 0:K
        C(m,n) +=! float32(X(m,k)) * float32(D(n,k)) }"""
    source = compare(text, [(9, 512), (320, 256)])
    loop = source.partition("for (int k_1_o")[2].partition("C_part_cache[")[0]
    assert "small_pair_float16<-8>(" in loop
    assert ("__syncthreads" in loop) == ("async_wait" in source) == (stages == 3)


@pytest.mark.parametrize(("rows", "parts"), [(2, None), (16, 1), (16, 2)])
def test_weights_are_unpacked_on_the_way(monkeypatch: pytest.MonkeyPatch, rows: int, parts: int | None) -> None:
    """Two in a byte: one launch, and no array of them, made in registers by the plan that is chosen, and in shared
    memory by one whose warps do not share the depth. Where that is in parts, their sums are stored, but no weights."""
    if parts is not None:
        plan = ContractionPlan(Tiles(16, 64, 64, 16, 16, 3, warps=True), parts)
        monkeypatch.setattr(contraction, "possible_plans", lambda *a, **b: [plan])
    text = """def f(bfloat16(M,K) X, uint8(N,H) W) -> (float32(M,N) C) {
        D(n,k) = bfloat16(int32(k % 2 == 0 ? W(n,k/2) % 16 : W(n,k/2) / 16) - 8) where k in 0:K
        C(m,n) +=! float32(X(m,k)) * float32(D(n,k)) }"""
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (rows, 512)).astype(weft.numpy_dtype("bfloat16"))
    case = make_case(text, [x, rng.integers(0, 256, (320, 256), np.uint8)], "fast")
    runner = HostRunner(schedule_case(case, "fast", H200).schedule.kernel, H200, fast=True, aligned=16)
    given = [Fenced(a) for a in (*case.inputs, *case.outputs)]
    assert runner(*(a.array for a in given)) == 0
    assert all(a.is_whole() for a in given)
    np.testing.assert_allclose(given[-1].array, case.expected[0], rtol=1e-5)
    assert runner.program.source.count("__global__") == (parts or 1)
    assert "mma_bf16" in runner.program.source
    assert ("small_pair_bfloat16<-8>(" in runner.program.source) == (parts is None)  # in the registers of lanes
    assert [t.name for t in runner.program.temporaries] == (["C_part"] if parts == 2 else [])


CODE = "k % 2 == 0 ? W(n,k/2) % 16 : W(n,k/2) / 16"
#: Types of the operand, of scales, what an element is times its scale, elements of a block, and how pairs are made.
PACKED = {
    "powers of two": ("bfloat16", "uint8", f"as_float4_e2m1fn({CODE}) * as_float8_e8m0fnu(q(n,k/32))", 32,
                      "multiply_pairs_bfloat16(float4_pair_bfloat16("),
    "floats of 8 bits": ("float16", "float8_e4m3fn", f"as_float4_e2m1fn({CODE}) * float32(q(n,k/16))", 16,
                         "multiply_pairs_float16(float4_pair_float16("),
    "floats": ("bfloat16", "float32", f"q(n,k/64) * as_float4_e2m1fn({CODE})", 64,
               "scale_pair_bfloat16(float4_pair_bfloat16("),
    "integers": ("float16", "float32", f"float32(int32({CODE}) - 8) * q(n,k/128)", 128,
                 "scale_pair_float16(small_pair_float16<-8>("),
}  # fmt: skip


@pytest.mark.parametrize("case", PACKED)
def test_packed_weights_with_scales_of_blocks(case: str) -> None:
    """Unpacked and scaled two at a time in the registers of lanes, to the bit what the definition says."""
    dtype, scales, value, block, made = PACKED[case]
    text = f"""def f({dtype}(M,K) X, uint8(N,H) W, {scales}(N,G) q) -> (float32(M,N) C) {{
        D(n,k) = {dtype}({value}) where k in 0:K
        C(m,n) +=! float32(X(m,k)) * float32(D(n,k)) }}"""
    rng = np.random.default_rng(0)
    q = rng.integers(120, 134, (320, 512 // block)).astype(np.uint8)
    if scales != "uint8":
        q = (q / np.float32(97)).astype(weft.numpy_dtype(scales))
    elif block == 32:
        q[:3, 2] = 0, 1, 254  # the ends of its range, in what is read
    x = np.eye(16, 512, k=64).astype(weft.numpy_dtype(dtype))  # rows of D as they are
    case_ = make_case(text, [x, rng.integers(0, 256, (320, 256), np.uint8), q], "fast")
    runner = HostRunner(schedule_case(case_, "fast", H200).schedule.kernel, H200, fast=True, aligned=16)
    given = [Fenced(a) for a in (*case_.inputs, *case_.outputs)]
    assert runner(*(a.array for a in given)) == 0
    assert all(a.is_whole() for a in given)
    np.testing.assert_array_equal(given[-1].array, case_.expected[0])
    assert made in runner.program.source


@pytest.mark.parametrize(
    ("rows", "types", "tiles"),
    [
        (3, ("bfloat16", "bfloat16"), (16, 128, 2)),
        (16, ("float16", "float16"), (32, 512, 4)),
        (8, ("int8", "int32"), (32, 256, 2)),
    ],
)
def test_columns_in_memory_are_fetched_by_lanes(
    monkeypatch: pytest.MonkeyPatch, rows: int, types: tuple[str, str], tiles: tuple[int, int, int]
) -> None:
    """Of few rows: warps share the depth, and nothing but the rows goes through shared memory. The last piece of the
    depth, or the only one, has none after it to fetch."""
    own, depth, spread = tiles
    only(monkeypatch, Tiles(16, own, depth, 16, own, 3, warps=True, spread=spread, fetched=True))
    wide = "int32" if types[0] == "int8" else "float32"
    text = f"""def f({types[0]}(M,K) A, {types[0]}(N,K) B) -> ({types[1]}(M,N) C) {{
        S(m,n) +=! {wide}(A(m,k)) * {wide}(B(n,k))
        C(m,n) = {types[1]}(S(m,n)) }}"""
    source = compare(text, [(rows, 512), (256, 512)])
    assert "fetch_words<16>" in source
    assert "load_matrices" not in source


@pytest.mark.parametrize(("rows", "through"), [(128, "P"), (72, "O")])
def test_residuals_come_16_bytes_at_a_time(monkeypatch: pytest.MonkeyPatch, rows: int, through: str) -> None:
    """Sums go through shared memory then, if all tiles are full; else results do."""
    text = """def f(bfloat16(M,K) X, bfloat16(N,K) W, bfloat16(N) B, bfloat16(M,N) R) -> (bfloat16(M,N) O) {
        P(m,n) +=! float32(X(m,k)) * float32(W(n,k))
        O(m,n) = bfloat16(max(P(m,n) + float32(B(n)) + float32(R(m,n)), 0)) }"""
    source = run_groups(monkeypatch, text, [(rows, 128), (128, 128), (128,), (rows, 128)], 64, 128, 3)
    assert f"{through}_cache = " in source
    assert ("load<16>(R_v" in source) == (through == "P")

"""Which way each kind of nest goes on a GPU, at sizes where it matters, and that the results are right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scheduled_for_gpu import H200, SMALL, check_case, make_case, schedule_case

from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.ir.errors import ProgramError, ShapeError
from weft.ir.interpret import interpret
from weft.ir.printer import print_kernel
from weft.ir.stmt import For
from weft.ir.visit import walk
from weft.ops import library
from weft.schedules.schedule import Schedule
from weft.target.cuda.lower import compile_kernel, emit_kernel, lower_kernel
from weft.target.cuda.machine import gpu_for_arch
from weft.tensor.lower import lower
from weft.tensor.normalize import normalize
from weft.tensor.specialize import solve_sizes, specialize

RNG = np.random.default_rng(3)


def array(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


TEXTS = {
    "rows": ("def f(float(M,N) A) -> (O) { O(m) +=! A(m,n) }", (7, 1100)),
    "short rows": ("def f(float(M,N) A) -> (O) { O(m) max=! A(m,n) }", (48, 40)),
    "few long rows": ("def f(float(M,N) A) -> (O) { O(m) +=! A(m,n) }", (1, 4500)),
    "columns": ("def f(float(M,N) A) -> (O) { O(n) +=! A(m,n) }", (700, 20)),
    "odd columns": ("def f(float(M,N) A) -> (O) { O(n) max=! A(m,n) * A(m,n) }", (131, 37)),
    "all": ("def f(float(M,N) A) -> (O) { O +=! A(m,n) }", (45, 101)),
    "four columns": ("def f(float(M,N) A) -> (O) { O(n) max=! A(m,n) }", (17, 4)),
    "rows of one that do not come out even": ("def f(float(M,N,K) A) -> (O) { O(m,n) max=! A(m,n,k) }", (32, 66, 1)),
    "channels": ("def f(float(M,N,P,Q) A) -> (O) { O(n) +=! A(m,n,p,q) }", (6, 5, 14, 28)),
    "channels last": ("def f(float(M,P,Q,N) A) -> (O) { O(n) +=! A(m,p,q,n) }", (60, 3, 3, 16)),
    "middle": ("def f(float(P,M,N) A) -> (O) { O(p,n) +=! A(p,m,n) }", (3, 90, 20)),
    "one plane of columns": ("def f(float(P,M,N) A) -> (O) { O(p,n) +=! A(p,m,n) }", (1, 300, 40)),
    "first least": ("def f(float(M,N) A) -> (O) { O(m) argmin=! A(m,n) }", (5, 260)),
    "first least of columns": ("def f(float(M,N) A) -> (O) { O(n) argmin=! A(m,n) }", (90, 24)),
    "turned": ("def f(float(M,N) A) -> (O) { O(j,i) = A(i,j) * 2 }", (130, 72)),
    "odd turned": ("def f(float(M,N) A) -> (O) { O(j,i) = A(i,j) }", (67, 131)),
    "odd points": ("def f(float(M,N) A) -> (O) { O(i,j) = exp(A(i,j)) }", (37, 41)),
    "two results": ("def f(float(M,N) A) -> (O, P) { O(i,j) = A(i,j) + 1  P(i,j) = A(i,j) * 2 }", (16, 64)),
    "stencil": (
        "def f(float(M,N) A) -> (O) { O(i,j) = A(i,j) + A(i,j+1) + A(i+1,j) where i in 0:M-1, j in 0:N-1 }",
        (30, 66),
    ),
    "softmax of columns": (
        """def f(float(M,N) A) -> (O) {
            T(n) max=! A(m,n)
            E(m,n) = exp(A(m,n) - T(n))
            S(n) +=! E(m,n)
            O(m,n) = E(m,n) / S(n)
        }""",
        (90, 24),
    ),
    "running sums": ("def f(float(M,N) A) -> (O) { O(m,n) = A(m,n) + (n > 0 ? O(m,n-1) : 0.0) }", (20, 30)),
}


@pytest.mark.parametrize("name", TEXTS)
def test_right_results(name: str) -> None:
    text, shape = TEXTS[name]
    check_case(text, [array(*shape)], tolerance=3e-3 if name in ("few long rows", "all") else 3e-4)


def big(name: str, dtype: str, *shapes: Any) -> Any:
    """The schedule of a kernel of the library for arguments of these shapes, none of which are made."""
    from weft.schedules.schedule import Schedule

    program = library.program(name, dtype)
    sizes = solve_sizes(program, dict(zip((b.name for b in program.inputs), shapes)))
    kernel = lower(normalize(specialize(program, sizes)))
    return auto_schedule_gpu(Schedule(kernel, numerics="fast", sizes=sizes), H200)


def text_of(made: Any) -> str:
    kernel = made.schedule.kernel
    return emit_kernel(kernel, H200, fast=True, aligned={b.name: 16 for b in kernel.buffers})


ROWS = {
    "softmax": [(16384, 4096)],
    "layer_norm": [(16384, 4096), (4096,), (4096,)],
    "rms_norm": [(16384, 4096), (4096,)],
}


@pytest.mark.parametrize("name", ROWS)
def test_a_chain_over_rows_is_one_launch_with_the_row_in_registers(name: str) -> None:
    text = text_of(big(name, "bfloat16", *ROWS[name]))
    assert text.count("__global__") == 1
    assert text.count("load<16>(X_v") == 1
    assert "__launch_bounds__(128)" in text
    assert "__shfl_xor_sync" in text


def test_rows_of_columns_are_summed_in_two_launches_16_bytes_at_a_time() -> None:
    text = text_of(big("sum_columns", "bfloat16", (16384, 4096)))
    assert text.count("__global__") == 2
    assert "load<16>(A_v" in text


def test_a_row_times_a_matrix_is_summed_as_columns() -> None:
    made = big("matmul", "float32", (1, 4096), (4096, 4096))
    assert "threads side by side" in str(made.decisions)
    assert "__global__" in text_of(made)


def test_pointwise_programs_are_one_launch() -> None:
    text = text_of(big("bias_gelu", "bfloat16", (16384, 4096), (4096,)))
    assert text.count("__global__") == 1
    assert "load<16>(X_v" in text
    assert "store<16>(O" in text


@pytest.mark.parametrize(("size", "scope"), [(4096, "in register"), (4088, "in shared")])
def test_transposes_go_through_registers_or_shared_memory(size: int, scope: str) -> None:
    made = big("transpose", "bfloat16", (size, size))
    assert scope in print_kernel(made.schedule.kernel)
    text = text_of(made)
    assert "load<16>(A_v" in text
    assert "store<16>(O" in text


LABELS = """def f(float(M,N) X, int(M) Label) -> (float32(M) L) {
    Top(m) max=! X(m,n)
    Total(m) +=! exp(X(m,n) - Top(m))
    L(m) = log(Total(m)) + Top(m) - X(m,Label(m))
}"""


def test_labels_are_tested_where_they_are_used() -> None:
    labels = RNG.integers(0, 64, 150).astype(np.int32)
    made = check_case(LABELS, [array(150, 64), labels])
    text = text_of(made)
    assert text.count("__global__") == 1
    assert "fail(" in text
    assert "if (*weft_failed)" not in text
    wrong = labels.copy()
    wrong[77] = 64
    case = make_case(LABELS, [array(150, 64), labels], "fast")
    kernel = lower_kernel(made.schedule.kernel, H200, fast=True)
    with pytest.raises(ProgramError, match=r"Label\[77\] = 64"):
        interpret(kernel, [case.inputs[0], wrong, *case.outputs])


def test_every_schedule_replays_from_its_trace() -> None:
    case = make_case(library.program("softmax", "float32"), [array(5, 40)], "fast")
    made = schedule_case(case, "fast")
    again = Schedule(case.kernel, numerics="fast", sizes=case.sizes)
    again.apply(str(made.schedule.trace))
    assert again.kernel == made.schedule.kernel
    assert any(isinstance(n, For) and n.kind == "block" for n in walk(again.kernel))


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "stencil"])
def test_nothing_to_do(name: str) -> None:
    """Arrays without elements."""
    text, shape = TEXTS[name]
    for empty in range(len(shape)):
        arrays = [array(*shape[:empty], 0, *shape[empty + 1 :])]
        if "argmin=!" in text and "mn"[empty] not in text.split("argmin")[0].split("{")[1]:
            with pytest.raises(ShapeError, match="over nothing"):
                check_case(text, arrays)
            continue
        check_case(text, arrays)


def test_results_that_are_added_to() -> None:
    case = make_case("def f(float(M,N) A) -> (O) { O(m,n) += A(m,n) * 2 }", [array(9, 20)], "strict")
    interpret(schedule_case(case, "strict").schedule.kernel, [*case.inputs, *case.outputs])
    np.testing.assert_array_equal(case.outputs[0], case.inputs[0] * 2)


HISTOGRAM = "def f(int(E) I, int N) -> (int(N) H) { H(I(e)) +=! 1 where e in 0:E }"


def test_updates_that_often_meet_are_of_copies_in_shared_memory() -> None:
    made = check_case(HISTOGRAM, [RNG.integers(0, 9, 3000).astype(np.int32), 9])
    assert "alloc H_own: int32[9] in shared" in print_kernel(made.schedule.kernel)
    rare = check_case(HISTOGRAM, [RNG.integers(0, 900, 3000).astype(np.int32), 900])
    assert "H_own" not in print_kernel(rare.schedule.kernel)
    assert "atomic H" in print_kernel(rare.schedule.kernel)


SUMS_OF_ROWS = "def f(float(M,N) X) -> (float(M,N) S) { S(m,0) = X(m,0)\n S(m,t) = S(m,t-1) + X(m,t) where t in 1:N }"
SUMS_OF_COLUMNS = """def f(float(N,M) X) -> (float(N,M) S) {
    S(0,m) = X(0,m)
    S(t,m) = S(t-1,m) + X(t,m) where t in 1:N
}"""


MAXIMA = "def f(float(N) X) -> (S) { S(0) = X(0)\n S(t) = max(S(t-1), X(t)) where t in 1:N }"


@pytest.mark.parametrize(
    ("arch", "text", "shape"),
    [("sm_90", SUMS_OF_ROWS, (3, 350)), ("sm_80", SUMS_OF_COLUMNS, (261, 24)), ("sm_100", MAXIMA, (333,))],
)
def test_recurrences_of_first_order_are_scanned_by_a_block(arch: str, text: str, shape: tuple[int, ...]) -> None:
    made = check_case(text, [array(*shape)], tolerance=1e-3)
    assert any("chunks of" in d.what for d in made.decisions)
    launches = compile_kernel(made.schedule.kernel, gpu_for_arch(arch), fast=True).launches
    assert len(launches) == (1 if text == SUMS_OF_ROWS else 2)  # rows with what they start from


def test_long_columns_are_scanned_in_segments_that_stay_in_the_second_cache() -> None:
    x = array(3 * 261 + 1, 24)
    case = make_case(SUMS_OF_COLUMNS, [x], "fast")
    made = schedule_case(case, "fast", replace(SMALL, l2_bytes=2 * 261 * 2 * 24 * 4))
    assert any("261 steps after another" in d.what for d in made.decisions)
    got = np.full_like(x, 7)
    interpret(lower_kernel(made.schedule.kernel, SMALL, fast=True), [x, got])
    np.testing.assert_allclose(got, x.astype(np.float64).cumsum(0), rtol=1e-3, atol=1e-3)

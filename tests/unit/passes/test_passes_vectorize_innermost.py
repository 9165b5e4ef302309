"""Which loop of a nest becomes the vector loop, and which never do."""

from __future__ import annotations

import pytest

from weft.ir.parser import parse_kernel
from weft.ir.stmt import For
from weft.ir.verify import verify
from weft.ir.visit import walk
from weft.passes.vectors.vectorize_innermost import vectorize_innermost


def vector_loops(params: str, body: str) -> list[str]:
    kernel = parse_kernel(f"kernel f({params}) {{ {body} }}")
    kernel = vectorize_innermost(kernel, choose_lanes=lambda loop, scheduled: 16, vector_bits=512, has_masks=True)
    verify(kernel)
    lanes = [n.var.name for n in walk(kernel) if isinstance(n, For) and n.kind == "vector"]
    return list(dict.fromkeys(name.partition("_")[0] for name in lanes))


MATRICES = "A: float32[64, 64], B: float32[64, 64], out C: float32[64, 64]"


@pytest.mark.parametrize("order", ["m n k", "n m k", "m k n", "k m n", "k n m"])
def test_matmul_takes_the_contiguous_spatial_loop(order: str) -> None:
    body = "C[m, n] = C[m, n] + A[m, k] * B[k, n]"
    for name in reversed(order.split()):
        body = f"for {name} in 0:64 {{ {body} }}"
    assert vector_loops(MATRICES, body) == ["n"]


def test_each_nest_has_its_own() -> None:
    body = "for i in 0:64 { for j in 0:64 { C[i, j] = A[i, j] } for k in 0:64 { C[i, k] = C[i, k] * B[i, k] } }"
    assert vector_loops(MATRICES, body) == ["j", "k"]


@pytest.mark.parametrize(
    "update",
    [
        "C[0, i + 1] = C[0, i] + A[0, i]",  # a recurrence
        "C[0, i % 8] = C[0, i % 8] + A[0, i]",  # elements met again
        "C[0, 0] = C[0, 0] + A[0, i]",  # a reduction
        "C[0, int64(A[0, i])] = A[1, i]",  # a scatter
        "C[0, i] = C[i, 0]",  # reads what other iterations write
        "C[0, i] = A[0, i] if A[0, i] > 5.0 { break }",  # leaves early
    ],
)
def test_dependent_iterations_stay_serial(update: str) -> None:
    assert vector_loops(MATRICES, f"for i in 0:63 {{ {update} }}") == []


def test_transposed_store_prefers_contiguous_stores() -> None:
    assert vector_loops(MATRICES, "for i in 0:64 { for j in 0:64 { C[j, i] = A[j, i] } }") == ["i"]


def test_single_iteration_stays() -> None:
    assert vector_loops(MATRICES, "for i in 0:1 { C[0, i] = A[0, i] }") == []


@pytest.mark.parametrize(
    ("dtype", "op", "expected"),
    [("float32", "max", ["k"]), ("int32", "+", ["k"]), ("float32", "+", []), ("float16", "min", ["k"])],
)
def test_a_reduction_is_spread_over_lanes_where_order_is_free(dtype: str, op: str, expected: list[str]) -> None:
    update = f"C[0] = C[0] {op} A[k]" if op == "+" else f"C[0] = {op}(C[0], A[k])"
    assert vector_loops(f"A: {dtype}[640], out C: {dtype}[1]", f"for k in 0:640 {{ {update} }}") == expected


@pytest.mark.parametrize("update", ["A[k] + C[0]", "(A[k] > 3_i32 ? 1_i32 : -1_i32) + C[0]", "A[k] + C[0] - B[k]"])
def test_what_is_there_so_far_may_stand_anywhere_in_a_sum_of_integers(update: str) -> None:
    kernel = "A: int32[640], B: int32[640], out C: int32[1]"
    assert vector_loops(kernel, f"for k in 0:640 {{ C[0] = {update} }}") != []


@pytest.mark.parametrize("kind", ["parallel", "block"])
def test_a_loop_around_one_for_several_cores_never_becomes_lanes(kind: str) -> None:
    assert vector_loops(MATRICES, f"for i in 0:64 {{ {kind} j in 0:4 {{ C[j, i] = A[j, i] }} }}") == []


def test_threads_inside_lanes_run_in_turn() -> None:
    body = "block b in 0:1 { thread i in 0:64 { thread j in 0:4 { C[j, i] = A[j, i] } } }"
    assert vector_loops(MATRICES, body) == ["i"]

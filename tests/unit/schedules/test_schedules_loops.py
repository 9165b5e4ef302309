"""The loop primitives: what they make, that it computes the same, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from schedule_kernels import (
    BLUR,
    CHAIN,
    MATMUL,
    SCAN,
    assert_unchanged,
    floats,
    kernel_of,
    parse_kernel,
    schedule_of,
)

from weft.ir.errors import ScheduleError
from weft.ir.interpret import interpret
from weft.schedules.schedule import Schedule

Step = Callable[[Schedule], object]


def outline(s: Schedule) -> list[str]:
    return [line.strip() for line in str(s).splitlines()[1:]]


STEPS: dict[str, Step] = {
    "split even": lambda s: s.split("m", 3),
    "split guard": lambda s: s.split("m", 4),
    "split separate": lambda s: s.split("k", 4, tail="separate"),
    "split pad": lambda s: s.split("m", 3, tail="pad"),
    "split longer than the loop": lambda s: s.split("n", 64),
    "split twice": lambda s: s.split(s.split("m", 4)[0], 2),
    "tile": lambda s: s.tile("m", "n", 4, 2),
    "tile separate": lambda s: s.tile("m", "n", 3, 5, tail="separate"),
    "fuse": lambda s: s.fuse("m", "n"),
    "fuse three": lambda s: s.fuse("m", "n", "k"),
    "fuse around a guard": lambda s: (s.split("m", 4), s.fuse("m_i", "n")),
    "reorder": lambda s: s.reorder("k", "n", "m"),
    "reorder two of three": lambda s: s.reorder("k", "m"),
    "reorder with guards": lambda s: (s.split("m", 4), s.split("n", 4), s.reorder("n_o", "m_o", "k", "n_i", "m_i")),
    "unroll": lambda s: s.unroll("k"),
    "unroll by 4": lambda s: s.unroll("k", 4),
    "vectorize": lambda s: s.vectorize("n"),
    "vectorize by 4": lambda s: s.vectorize("n", 4),
    "vectorize all": lambda s: s.vectorize("n", 10),
    "parallel": lambda s: s.parallel("m"),
    "parallel and back": lambda s: (s.parallel("m"), s.serial("m")),
    "split a parallel loop": lambda s: (s.parallel("m"), s.split("m", 4)),
    "bind": lambda s: (s.bind("m", "block"), s.bind("n", "thread")),
    "peel first": lambda s: s.peel("k", 2),
    "peel last": lambda s: s.peel("k", 2, end="last"),
    "peel all": lambda s: s.peel("m", 100),
    "shift": lambda s: s.shift("m", -5),
    "skew": lambda s: s.skew("n", "m", 2),
    "alternate": lambda s: s.alternate("n", "m"),
    "alternate tiles": lambda s: (s.split("n", 4), s.alternate("n_o", "m"), s.alternate("n_i", "n_o")),
    "alternate and split": lambda s: (s.alternate("n", "m"), s.split("n", 4)),
    "alternate and vectorize": lambda s: (s.alternate("n", "m"), s.vectorize("n")),
    "alternate and run on threads": lambda s: (s.alternate("n", "m"), s.run_as("parallel", "n")),
    "alternate a sum's outer loop": lambda s: (
        s.decompose_reduction("C", "m"),
        s.reorder("k", "m", "n"),
        s.alternate("m", "k"),
        s.unroll("n", 5),
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_keeps_every_bit(name: str) -> None:
    kernel = kernel_of(MATMUL, M=9, N=10, K=7)
    s = Schedule(kernel)
    STEPS[name](s)
    assert_unchanged(s, kernel, floats(9, 7), floats(7, 10))
    twin = Schedule(kernel)
    twin.apply(str(s.trace))
    assert twin.kernel == s.kernel


def test_split_guards_only_where_tiles_may_be_incomplete() -> None:
    s = schedule_of(MATMUL, M=9, N=10, K=7)
    s.split("m", 3)
    s.split("n", 4)
    assert outline(s) == [
        "for m_o in 0:3",
        "for m_i in 0:3",
        "for n_o in 0:3",
        "for n_i in 0:4",
        "if n_o * 4 + n_i < 10",
        "for k in 0:7",
        "block C(vm=m_o * 3 + m_i, vn=n_o * 4 + n_i, vk=k) init writes C[vm, vn]",
    ]


def test_separate_tails_have_names_of_their_own() -> None:
    s = schedule_of(BLUR, N=10)
    s.split("i", 4, tail="separate")
    assert outline(s)[1:6] == [
        "for i_o in 0:2",
        "for i_i in 0:4",
        "block Y(vi=i_o * 4 + i_i) writes Y[vi]",
        "for i_t in 8:10",
        "block Y_t(vi=i_t) writes Y[vi]",
    ]


def test_symbolic_sizes_split_too() -> None:
    s = schedule_of(MATMUL)
    s.split("m", 14)
    assert "for m_o in 0:(M + 13) // 14" in outline(s)
    assert "if m_o * 14 + m_i < M" in outline(s)


def test_ranges_that_may_be_negative_do_not_run() -> None:
    kernel = parse_kernel("kernel f(a: int64, b: int64, out y: float32[8]) { for i in a:b { y[i] = 1.0 } }")
    for tail in ("guard", "separate"):
        s = Schedule(kernel)
        s.split("i", 4, tail=tail)  # type: ignore[arg-type]
        for a, b in ((0, 8), (2, 7), (5, 2), (3, 3), (7, 0)):
            got, want = np.zeros(8, np.float32), np.zeros(8, np.float32)
            interpret(s.kernel, [a, b, got])
            interpret(kernel, [a, b, want])
            np.testing.assert_array_equal(got, want)


def test_fuse_of_symbolic_loops_divides() -> None:
    s = schedule_of(CHAIN, N=8)
    s.split("i", 4)
    s.fuse("i_o", "i_i")
    assert outline(s)[1:3] == ["for i_o_i_i in 0:8", "block Y(vi=i_o_i_i) writes Y[vi]"]


def test_fission_and_fuse_loops_are_inverse() -> None:
    kernel = kernel_of(CHAIN, N=8)
    s = Schedule(kernel)
    before = s.kernel
    s.fuse_loops("i", "i_1")
    assert outline(s)[1:] == ["for i in 0:8", "block Y(vi=i) writes Y[vi]", "block Z(vi=i) writes Z[vi]"]
    assert_unchanged(s, kernel, floats(8))
    s.fission("i", "Y")
    assert s.kernel == before


def test_fuse_loops_may_need_a_shift() -> None:
    kernel = kernel_of(BLUR, N=10)
    s = Schedule(kernel)
    s.peel("i", 1)
    with pytest.raises(ScheduleError, match="cannot merge loops `i_first` and `i_1`"):
        s.fuse_loops("i_first", "i_1")
    s.fuse_loops("i", "i_1")
    assert_unchanged(s, kernel, floats(10))


def test_reads_ahead_forbid_fuse_loops() -> None:
    kernel = kernel_of(
        "def f(float(N) X) -> (Z) { Y(i) = X(i) * 2 where i in 0:N\n Z(i) = Y(N-1-i) where i in 0:N }", N=6
    )
    with pytest.raises(ScheduleError, match=r"Y\[") as found:
        Schedule(kernel).fuse_loops("i", "i_1")
    assert found.value.witness is not None


def test_skewing_straightens_a_wavefront() -> None:
    text = """kernel f(out x: float32[6, 6]) {
        for i in 1:6 { for j in 1:6 { x[i, j] = x[i - 1, j] + x[i, j - 1] } } }"""
    kernel = parse_kernel(text)
    s = Schedule(kernel)
    for loop in ("i", "j"):
        with pytest.raises(ScheduleError):
            s.parallel(loop)
    s.skew("j", "i")
    s.reorder("j", "i")
    s.parallel("i")
    assert outline(s)[:2] == ["for j in 2:11", "for i in max(j - 5, 1):min(j, 6) parallel"]
    start = floats(6, 6)
    got, want = start.copy(), start.copy()
    interpret(s.kernel, [got])
    interpret(kernel, [want])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("ranges", "order"),
    [
        (("i 0:6", "j 0:i"), "j i"),
        (("i 0:6", "j i:6"), "j i"),
        (("i 0:6", "j 2*i - 3:3*i + 1"), "j i"),
        (("i 0:6", "j 7 - 2*i:12 - i"), "j i"),
        (("i 0:5", "j 0:i", "k 0:j"), "k j i"),
        (("i 0:5", "j i:5", "k i:j"), "k i j"),
        (("i 0:5", "j 0:5", "k i + j:6"), "k j i"),
        (("i 0:0", "j i:5"), "j i"),
    ],
)
def test_triangles_turn_around(ranges: tuple[str, ...], order: str) -> None:
    """Every point is visited just once, in the new order."""
    loops = [r.split(" ", 1) for r in ranges]
    nest = " ".join(f"for {name} in {bounds} {{" for name, bounds in loops)
    where = ", ".join(f"{name} + 4" for name, _ in loops)
    body = f"x[{where}] = x[{where}] + 1.0"
    kernel = parse_kernel(
        f"kernel f(out x: float32[{', '.join(['24'] * len(loops))}]) {{ {nest} {body} {'}' * len(loops)} }}"
    )
    s = Schedule(kernel)
    s.reorder(*order.split())
    assert [line.split()[1] for line in outline(s) if line.startswith("for")] == order.split()
    assert not any(line.startswith("if") for line in outline(s))
    got, want = (np.zeros((24,) * len(loops), np.float32) for _ in range(2))
    interpret(s.kernel, [got])
    interpret(kernel, [want])
    np.testing.assert_array_equal(got, want)


def test_specialized_versions_are_chosen_at_the_call() -> None:
    kernel = kernel_of(MATMUL)
    s = Schedule(kernel)
    _, n, _ = s.specialize("m", "N % 4 == 0 and M >= 4")
    s.vectorize(n, 4, tail="guard")
    assert "if N % 4 == 0 && M >= 4" in outline(s)
    for sizes in ((5, 3, 8), (5, 3, 7), (2, 3, 8)):
        rows, depth, columns = sizes
        a, b = floats(rows, depth), floats(depth, columns)
        got, want = np.zeros((rows, columns), np.float32), np.zeros((rows, columns), np.float32)
        interpret(s.kernel, [a, b, rows, depth, columns, got])
        interpret(kernel, [a, b, rows, depth, columns, want])
        np.testing.assert_array_equal(got, want)


def test_a_fixed_size_becomes_a_number_in_its_version() -> None:
    s = schedule_of(MATMUL)
    s.specialize("m", "K == 3")
    assert "for k_s in 0:3" in outline(s)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("Q == 3", "there is no size or scalar `Q`"),
        ("M + 1", "`M + 1` is not a condition"),
        ("M ==", "this is not a condition"),
        ("M == foo(3)", "cannot stand in a condition"),
        ("M and N", "`M` is not a condition"),
    ],
)
def test_conditions_are_over_sizes_and_scalars(condition: str, why: str) -> None:
    with pytest.raises(ScheduleError, match=why.replace("+", r"\+")):
        schedule_of(MATMUL).specialize("m", condition)


REFUSED: dict[str, tuple[Step, str]] = {
    "factor 0": (lambda s: s.split("m", 0), "the factor is 0"),
    "factor True": (lambda s: s.split("m", True), "the factor is True"),
    "tail": (lambda s: s.split("m", 4, tail="drop"), "tail='drop' is not known"),  # type: ignore[arg-type]
    "pad": (lambda s: s.split("m", 4, tail="pad"), "which is not a multiple of 4"),
    "fuse one": (lambda s: s.fuse("m"), "at least two loops"),
    "fuse inside out": (lambda s: s.fuse("n", "m"), "nested in another order"),
    "fuse over one": (lambda s: s.fuse("m", "k"), "`n` is between them"),
    "fuse twice the same": (lambda s: s.fuse("m", "m"), "named twice"),
    "fuse kinds": (lambda s: (s.parallel("m"), s.fuse("m", "n")), "`m` is parallel and `n` is serial"),
    "reorder nothing": (lambda s: s.reorder(), "no loop is named"),
    "reorder twice": (lambda s: s.reorder("m", "m"), "`m` is named twice"),
    "parallel reduction": (lambda s: s.parallel("k"), "both update C"),
    "vector reduction": (lambda s: s.vectorize("k", 4), "both update C"),
    "bind elsewhere": (lambda s: s.bind("m", "warp"), "a grid has blocks and threads"),  # type: ignore[arg-type]
    "parallel in vector": (lambda s: (s.vectorize("m"), s.parallel("n")), "parallel loop inside a vector loop"),
    "peel nothing": (lambda s: s.peel("m", 0), "the count is 0"),
    "peel where": (lambda s: s.peel("m", 1, end="middle"), "end='middle' is not known"),  # type: ignore[arg-type]
    "shift by half": (lambda s: s.shift("m", 0.5), "the distance is 0.5"),  # type: ignore[arg-type]
    "skew outwards": (lambda s: s.skew("m", "n"), "`n` is not around `m`"),
    "alternate outwards": (lambda s: s.alternate("m", "n"), "`n` is not around `m`"),
    "alternate a sum": (lambda s: s.alternate("k", "n"), "block `C` starts its sum in the first iteration of `k`"),
    "alternate a started sum": (lambda s: (s.decompose_reduction("C", "m"), s.alternate("k", "n")), "both update C"),
    "alternate lanes": (lambda s: (s.vectorize("n"), s.alternate("n", "m")), "have no order that could alternate"),
    "alternate in threads": (lambda s: (s.parallel("m"), s.alternate("n", "m")), "have no order that could alternate"),
    "fission of one": (lambda s: s.fission("m", "C"), "not a sequence of statements"),
    "merge nested": (lambda s: s.fuse_loops("m", "n"), "do not follow one another"),
    "merge one": (lambda s: s.fuse_loops("m", "m"), "these are one loop"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_step_says_why_and_changes_nothing(name: str) -> None:
    step, why = REFUSED[name]
    s = schedule_of(MATMUL, M=9, N=10, K=7)
    with pytest.raises(ScheduleError) as found:
        step(s)
    assert why in (found.value.why or "")
    assert found.value.span is not None
    assert found.value.span.source.name == "test_schedules_loops.py"


def test_arguments_of_the_wrong_type_are_refused() -> None:
    s = schedule_of(MATMUL, M=9, N=10, K=7)
    for step in (lambda: s.specialize("m", 5), lambda: s.apply(5), lambda: s.split("m", "4"), lambda: s.fuse(1, 2)):  # type: ignore[arg-type]
        with pytest.raises(ScheduleError):
            step()


def test_scans_stay_in_order() -> None:
    s = schedule_of(SCAN, N=8)
    for step in (s.parallel, s.vectorize):
        with pytest.raises(ScheduleError, match=r"S\["):
            step("i")
    s.split("i", 4)
    with pytest.raises(ScheduleError):
        s.reorder("i_i", "i_o")


@pytest.mark.parametrize(
    ("body", "step", "why"),
    [
        ("for i in 0:8 { if y[i] > 0.0 { break } y[i] = 1.0 }", lambda s: s.split("i", 2), "leaves it early"),
        ("for i in 0:8 { return }", lambda s: s.unroll("i", 2), "leaves it early"),
        ("for i in 0:int64(n[0]) { n[0] = 3_i32 }", lambda s: s.split("i", 2), "which the loop changes"),
        ("thread i in 0:8 { y[i] = 1.0 barrier(block) }", lambda s: s.split("i", 3), "miss the barrier"),
        ("thread i in 0:8 { y[i] = 1.0 barrier(block) }", lambda s: s.peel("i", 3), "miss the barrier"),
        ("thread i in 0:8 { y[i] = 1.0 barrier(block) }", lambda s: s.serial("i"), "wait for one another"),
        ("for i in 0:8 { for j in 0:i * i { y[j] = 1.0 } }", lambda s: s.reorder("j", "i"), "depends on `i`"),
        ("for i in 0:8 { for j in 0:i { y[j] = 1.0 } }", lambda s: s.fuse("i", "j"), "depends on `i`"),
        ("for i in 0:8 { y[i] = 0.0 for j in 0:8 { y[j] = 1.0 } }", lambda s: s.reorder("j", "i"), "stands between"),
        ("for i in 0:8 { y[i] = 0.0 } for j in 0:7 { y[j] = 1.0 }", lambda s: s.fuse_loops("i", "j"), "equally often"),
        ("for i in 0:8 { y[i] = 0.0 } for j in 0:8 { y[j] = 1.0 }", lambda s: s.fuse_loops("j", "i"), "comes before"),
    ],
)
def test_control_flow_is_respected(body: str, step: Step, why: str) -> None:
    s = Schedule(parse_kernel(f"kernel f(out y: float32[8], out n: int32[1]) {{ {body} }}"))
    with pytest.raises(ScheduleError) as found:
        step(s)
    assert why in (found.value.why or ""), found.value


def test_even_tiles_of_threads_stay_threads() -> None:
    body = "thread i in 0:8 { y[i] = 1.0 barrier(block) }"
    s = Schedule(parse_kernel(f"kernel f(out y: float32[8]) {{ {body} }}"))
    s.split("i", 4)
    assert [line.rsplit(" ", 1)[-1] for line in outline(s)[:2]] == ["thread", "thread"]


def test_print_shows_one_line_a_loop_and_block() -> None:
    s = schedule_of(CHAIN, N=8)
    s.parallel("i")
    assert str(s) == (
        "kernel chain\n"
        "  alloc Y: float32[8]\n"
        "  for i in 0:8 parallel\n"
        "    block Y(vi=i) writes Y[vi]\n"
        "  for i_1 in 0:8\n"
        "    block Z(vi=i_1) writes Z[vi]"
    )

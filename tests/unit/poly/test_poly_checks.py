"""Verdicts on programs with every kind of statement, and the words of refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.ir.expr import AddressOf, Call, Var, idx
from weft.ir.parser import parse_kernel
from weft.ir.stmt import Block, Evaluate, For, Iter, Kernel, Region
from weft.poly.check_neighbours import check_fuse_loops as check_mergeable
from weft.poly.check_parallel import check_parallel
from weft.poly.check_reorder import check_reorder as check_order
from weft.poly.conflicts import Meeting, Surroundings, after
from weft.poly.leaves import leaves, loop_named
from weft.poly.places import place_of
from weft.poly.verdict import OK, Verdict, Witness
from weft.schedules.fission import check_fission

PARAMS = (
    "A: float32[64, 64], B: float32[64, 64], I: int32[64], out C: float32[64, 64], out R: float32[64], out H: int32[8]"
)


def kernel(body: str, params: str = PARAMS) -> Kernel:
    return parse_kernel(f"kernel test({params}) {{ {body} }}")


def loop(program: Kernel, name: str) -> For:
    found = loop_named(program, name)
    assert found is not None
    return found


def check_reorder(program: Kernel, old: str, new: str, numerics: str = "strict") -> Verdict:
    return check_order(program, [loop(program, n) for n in old], [loop(program, n) for n in new], numerics)


def check_fuse_loops(program: Kernel, first: str, second: str) -> Verdict:
    return check_mergeable(program, loop(program, first), loop(program, second))


MATMUL = kernel(
    """for m in 0:8 { for n in 0:8 { for k in 0:8 {
      block C(vm spatial 0:8 = m, vn spatial 0:8 = n, vk reduce 0:8 = k) reads A[vm, vk], B[vk, vn] writes C[vm, vn] {
        init { C[vm, vn] = 0.0 }
        C[vm, vn] = C[vm, vn] + A[vm, vk] * B[vk, vn] } } } }"""
)


def test_the_refusal_of_the_design() -> None:
    verdict = check_parallel(MATMUL, "k", "parallel", "fast")
    assert not verdict.ok
    assert verdict.reason == "iterations (m=0, n=0, k=0) and (m=0, n=0, k=1) both update C[0, 0]"
    assert verdict.alternatives == ('s.parallel("m")', 's.parallel("n")', 's.rfactor("k", 8) first')
    assert verdict.witness == Witness({"m": 0, "n": 0, "k": 0}, {"m": 0, "n": 0, "k": 1}, "C[0, 0]")


def test_strict_numerics_do_not_offer_what_they_refuse() -> None:
    assert check_parallel(MATMUL, "k").alternatives[-1] == 's.rfactor("k", 8) first with numerics="fast"'


@pytest.mark.parametrize(("kind", "call"), [("vector", 's.vectorize("m")'), ("thread", 's.bind("m", "thread")')])
def test_alternatives_are_calls_of_the_same_kind(kind: str, call: str) -> None:
    assert check_parallel(MATMUL, "k", kind).alternatives[0] == call


def test_a_verdict_has_no_truth_value() -> None:
    with pytest.raises(TypeError):
        bool(OK)


LEGAL = {
    "own element": "for i in 0:64 { R[i] = 1.0 }",
    "own row": "for i in 0:64 { for j in 0:64 { C[i, 0] = C[i, 0] + A[i, j] } }",
    "stride": "for i in 0:8 { for j in 0:4 { R[i*4 + j] = 0.0 } }",
    "storage of each iteration": "for i in 0:64 { alloc t: float32[1] t[0] = 1.0 R[i] = t[0] }",
    "a variable of each iteration": "for i in 0:64 { let x: float32 = 0.0 x = A[i, 0] R[i] = x }",
    "even and odd": "for i in 0:32 { R[2*i] = R[2*i + 1] }",
    "disjoint halves": "for i in 0:32 { R[i] = R[i + 32] }",
    "a test keeps them apart": "for i in 0:64 { if i == 5 { R[0] = 1.0 } }",
    "a lazy load": "for i in 0:64 { R[i] = i < 0 ? R[i - 1] : 0.0 }",
    "integer atomics": "for i in 0:64 { atomic H[int64(I[i])] += 1_i32 }",
    "the same gather in each": "for i in 0:64 { for j in 0:64 { C[int64(I[i]), j] = 1.0 } }",
    "passes of a while": "for i in 0:64 { let x: float32 = 0.0 while x < 1.0 { x = x + 1.0 } R[i] = x }",
    "rows by vectors": "for i in 0:8 { R[ramp(i*8, 1, 8)] = broadcast(0.0, 8) }",
    "prefetching nothing": "for i in 0:0 { R[0] = 1.0 }",
}
PARALLEL = {"the same gather in each": "j", "own row": "i"}


@pytest.mark.parametrize("name", LEGAL)
def test_legal_in_parallel(name: str) -> None:
    verdict = check_parallel(kernel(LEGAL[name]), PARALLEL.get(name, "i"))
    assert verdict.ok, verdict.reason


ILLEGAL = {
    "for i in 0:64 { R[0] = A[i, 0] }": "iterations (i=0) and (i=1) both write R[0]",
    "for i in 1:64 { R[i] = R[i - 1] }": "iteration (i=1) writes R[1], which iteration (i=2) reads",
    "for i in 0:63 { R[i] = R[i + 1] }": "iteration (i=1) writes R[1], which iteration (i=0) reads",
    "alloc t: float32[1] for i in 0:64 { t[0] = 1.0 R[i] = t[0] }": "iterations (i=0) and (i=1) both write t[0]",
    "let x: float32 = 0.0 for i in 0:64 { x = A[i, 0] R[i] = x }": (
        "every iteration assigns `x`, which lives longer than an iteration"
    ),
    "for i in 0:64 { atomic R[0] += 1.0 }": "iterations (i=0) and (i=1) both update R[0]",
    "for i in 0:64 { R[int64(I[i])] = 0.0 }": "iterations (i=0) and (i=1) may both write one element of `R`",
    "for i in 0:64 { if A[i, 0] > 0.0 { R[0] = 1.0 } }": "iterations (i=0) and (i=1) may both write one element of `R`",
    "for i in 0:64 { if i == 5 { break } R[i] = 0.0 }": "an iteration may end the loop early",
    "for i in 0:64 { if i == 5 { continue } R[i] = 0.0 }": "an iteration may skip its rest",
    "for i in 0:64 { if i == 5 { return } R[i] = 0.0 }": "its body may return from the kernel",
    "for i in 0:64 { barrier(block) }": "its body waits at a barrier",
    "for i in 0:57 { R[ramp(i, 1, 8)] = broadcast(0.0, 8) }": "iterations (i=0) and (i=1) both write R[1]",
    "alloc t: float32[64] in register for i in 0:64 { t[i] = 1.0 }": (
        "`t` is register storage of one thread, made outside the loop"
    ),
}


@pytest.mark.parametrize("body", ILLEGAL)
def test_illegal_in_parallel(body: str) -> None:
    verdict = check_parallel(kernel(body), "i")
    assert not verdict.ok
    assert verdict.reason == ILLEGAL[body]


def test_float_atomics_have_an_order_unless_numerics_are_fast() -> None:
    program = kernel("for i in 0:64 { atomic R[0] += 1.0 }")
    assert not check_parallel(program, "i").ok
    assert check_parallel(program, "i", "parallel", "fast").ok


def test_updates_race_whatever_the_numerics() -> None:
    program = kernel("for i in 0:64 { R[0] = max(R[0], A[i, 0]) }")
    assert not check_parallel(program, "i", "parallel", "fast").ok


SYMBOLIC = "M: int64, N: int64, S: float32[M, N], out F: float32[M], out D: float32[M, N]"


@pytest.mark.parametrize(
    ("body", "loops"),
    [
        ("for i in 0:M { for j in 0:N { D[i, j] = S[i, j] } }", "ij"),
        ("for i in 0:M { for j in 0:N { F[i*N + j] = 0.0 } }", "ij"),
        ("for f in 0:M*N { D[f // N, f % N] = 0.0 }", "f"),
        (
            "for f in 0:(M*N + 7)//8 { for g in 0:8 { if f*8 + g < M*N { D[(f*8 + g)//N, (f*8 + g) % N] = 0.0 } } }",
            "fg",
        ),
        ("for i in 0:(M + 13) // 14 { for j in 0:14 { if i*14 + j < M { F[i*14 + j] = 0.0 } } }", "ij"),
        ("for i in 0:(M + 13) // 14 { for j in 0:min(14, M - i*14) { F[i*14 + j] = 0.0 } }", "ij"),
    ],
)
def test_symbolic_sizes(body: str, loops: str) -> None:
    for loop in loops:
        verdict = check_parallel(kernel(body, SYMBOLIC), loop)
        assert verdict.ok, verdict.reason


def test_a_conflict_names_the_sizes_it_needs() -> None:
    verdict = check_parallel(kernel("for i in 0:M { F[0] = 0.0 }", SYMBOLIC), "i")
    assert verdict.reason == "iterations (i=0) and (i=1) both write F[0] (with M=2)"


def test_division_by_a_size_that_may_be_zero_proves_nothing() -> None:
    verdict = check_parallel(kernel("for f in 0:8 { D[f // N, f % N] = 0.0 }", SYMBOLIC), "f")
    assert not verdict.ok


# Order


def test_reductions_keep_their_order_when_strict() -> None:
    assert check_reorder(MATMUL, "mnk", "kmn").ok
    two = kernel("for i in 0:8 { for j in 0:8 { R[0] = R[0] + A[i, j] } }")
    verdict = check_reorder(two, "ij", "ji")
    assert verdict.reason == "iterations (i=0, j=1) and (i=1, j=0) both update R[0], in this order"
    assert check_reorder(two, "ij", "ji", "fast").ok
    assert check_reorder(kernel("for i in 0:8 { for j in 0:8 { R[0] = max(R[0], A[i, j]) } }"), "ij", "ji").ok
    assert check_reorder(kernel("for i in 0:8 { for j in 0:8 { H[0] = H[0] + I[i] } }"), "ij", "ji").ok


def test_another_operator_ends_a_reduction() -> None:
    program = kernel("for i in 0:8 { for j in 0:8 { H[0] = H[0] + I[i] H[0] = H[0] * I[j] } }")
    assert not check_reorder(program, "ij", "ji", "fast").ok


def test_what_an_update_reads_of_its_own_target_counts() -> None:
    program = kernel("for i in 0:8 { for j in 0:7 { H[j] = H[j] + H[j + 1] } }")
    assert not check_reorder(program, "ij", "ji", "fast").ok


def test_a_parallel_loop_that_comes_out_must_stand_alone() -> None:
    """Row by row the columns are independent; across rows they are not."""
    program = kernel("for i in 1:8 { parallel j in 0:7 { C[i, j] = C[i - 1, j + 1] } }")
    verdict = check_reorder(program, "ij", "ji")
    assert verdict.reason == "iteration (i=1, j=1) writes C[1, 1], which iteration (i=2, j=0) reads, in this order"
    assert check_reorder(kernel("for i in 1:8 { parallel j in 0:7 { C[i, j] = C[i - 1, j] } }"), "ij", "ji").ok


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("for i in 0:8 { R[i] = 0.0 for j in 0:8 { C[i, j] = 0.0 } }", "a statement between the loops writes `R`"),
        (
            "for i in 0:8 { if C[i, 0] > 0.0 { for j in 0:8 { C[i, j] = 0.0 } } }",
            "a test between the loops reads `C`, which the loops write",
        ),
        (
            "for i in 0:8 { for j in 0:8 { if j == 3 { continue } C[i, j] = 0.0 } }",
            "a statement inside leaves the loops early (continue)",
        ),
        (
            "thread i in 0:8 { for j in 0:8 { C[i, j] = 0.0 barrier(block) } }",
            "a statement inside waits at a barrier",
        ),
        (
            "for i in 0:8 { for j in i:8 { C[i, j] = 0.0 } }",
            "the range of `j` depends on `i`, which would run inside it",
        ),
        ("for i in 0:8 { for j in 0:int64(I[0]) { C[i, j] = 0.0 } }", "the range of `j` is read from `I`"),
    ],
)  # fmt: skip
def test_reorder_of_what_is_no_plain_nest(body: str, reason: str) -> None:
    assert check_reorder(kernel(body), "ij", "ji").reason == reason


def test_a_refused_order_comes_with_legal_ones() -> None:
    program = kernel("for i in 1:8 { for j in 0:7 { for k in 0:8 { C[i, j] = C[i - 1, j + 1] + A[i, k] } } }")
    verdict = check_reorder(program, "ijk", "jik")
    assert verdict.alternatives == ('s.reorder("i", "k", "j")',)
    for order in ("ikj", "jki", "kij", "kji"):
        offered = "s.reorder({})".format(", ".join(f'"{name}"' for name in order)) in verdict.alternatives
        assert check_reorder(program, "ijk", order).ok == offered
    two = kernel("for i in 0:8 { for j in 0:8 { R[0] = R[0] + A[i, j] } }")
    assert check_reorder(two, "ij", "ji").alternatives == ('the same with numerics="fast"',)


# Splitting and merging bodies


def test_fission() -> None:
    straight = kernel("for i in 0:63 { block a() { R[i] = 1.0 } block b() { C[i, 0] = R[i] } }")
    assert check_fission(straight, "i", "a", numerics="strict").ok
    ahead = kernel("for i in 0:63 { block a() { R[i] = C[i, 0] } block b() { C[i + 1, 0] = 1.0 } }")
    verdict = check_fission(ahead, "i", "a", numerics="strict")
    assert verdict.reason == "iteration (i=1) reads C[1, 0], which iteration (i=0) writes"


def test_fuse_loops() -> None:
    ok = kernel("for i in 0:63 { R[i] = 1.0 } for j in 0:63 { C[j, 0] = R[j] }")
    assert check_fuse_loops(ok, "i", "j").ok
    early = kernel("for i in 0:63 { R[i] = 1.0 } for j in 0:63 { C[j, 0] = R[j + 1] }")
    verdict = check_fuse_loops(early, "i", "j")
    assert verdict.reason == "iteration (i=1) writes R[1], which iteration (j=0) reads"
    shifted = kernel("for i in 1:64 { R[i] = 1.0 } for j in 0:63 { C[j, 0] = R[j + 1] }")
    assert check_fuse_loops(shifted, "i", "j").ok


def test_merged_parallel_loops_must_not_meet_either_way() -> None:
    back = "{} i in 1:64 {{ R[i] = 1.0 }} {} j in 1:64 {{ C[j, 0] = R[j - 1] }}"
    assert check_fuse_loops(kernel(back.format("for", "for")), "i", "j").ok
    assert not check_fuse_loops(kernel(back.format("parallel", "parallel")), "i", "j").ok


def test_checks_come_before_what_they_protect() -> None:
    program = kernel('for i in 0:64 { assert I[i] >= 0_i32, "no" } for j in 0:64 { R[int64(I[63 - j])] = 1.0 }')
    assert check_fuse_loops(program, "i", "j").reason == "`j` must not start before all checks in `i` have passed"


# Calls


def call_in(reads: tuple[Region, ...], writes: tuple[Region, ...], *, block: bool) -> Kernel:
    buffers = {b.name: b for b in MATMUL.buffers}
    i, v = Var("i"), Var("vi")
    call = Evaluate(Call("hardware", (AddressOf(buffers["R"], (idx(0),)),), buffers["R"].dtype))
    inside = Block("b", (Iter(v, idx(0), idx(8), "spatial", i),), reads, writes, None, call) if block else call
    return Kernel("test", MATMUL.params, MATMUL.outputs, For(i, idx(0), idx(8), "serial", inside))


def test_a_call_touches_what_its_block_declares() -> None:
    r = next(b for b in MATMUL.buffers if b.name == "R")
    own = Region(r, (Var("vi") * idx(8),), (idx(8),))
    overlapping = Region(r, (Var("vi") * idx(7),), (idx(8),))
    assert check_parallel(call_in((own,), (own,), block=True), "i").ok
    assert not check_parallel(call_in((), (overlapping,), block=True), "i").ok


def test_a_call_that_no_block_speaks_for_touches_all_it_is_given() -> None:
    assert not check_parallel(call_in((), (), block=False), "i").ok
    assert not check_parallel(call_in((), (), block=True), "i").ok


def test_meetings_as_documented() -> None:
    leaf = leaves(MATMUL)[-1]
    around = Surroundings(shared=frozenset("mn"))
    found = Meeting(leaf, leaf.accesses[0], leaf, leaf.accesses[0], around).find([after("k")])
    assert isinstance(found, Witness)
    assert found.element == "C[0, 0]"
    assert leaf.update_op == "+"
    assert leaf.block == "C"


def test_accesses_made_for_a_question_are_not_taken_for_earlier_ones() -> None:
    (leaf,) = leaves(k := kernel("for i in 0:9 { R[i] = 1.0 }"), k.body)
    (write,) = (a for a in leaf.accesses if a.writes)
    for distance in range(20):  # each is gone before the next is made, which may lie where it lay
        moved = replace(write, indices=(write.indices[0] + idx(distance),))
        assert Meeting(leaf, write, leaf, moved, Surroundings()).right.indices[0].get("", 0) == distance


def test_places_put_together_what_fused_loops_take_apart() -> None:
    """Loops that were fused and cut again: 12 steps of each ``f``, none of which is another's."""
    fused = kernel("for f in 0:20 { for t in 0:12 { H[f // 10, (12*f + t) // 40 % 3, (12*f + t) // 8 % 5, "
                   "(12*f + t) % 8] = 1.0 } }", "out H: float32[2, 3, 5, 8]")  # fmt: skip
    (leaf,) = leaves(fused)
    assert place_of(leaf, leaf.accesses[0]) == {"f": 12, "t": 1}
    assert check_parallel(fused, "f").ok
    overlapping = kernel("for f in 0:20 { for t in 0:13 { H[f // 10, (12*f + t) // 40 % 3, (12*f + t) // 8 % 5, "
                         "(12*f + t) % 8] = 1.0 } }", "out H: float32[2, 3, 5, 8]")  # fmt: skip
    (leaf,) = leaves(overlapping)
    assert place_of(leaf, leaf.accesses[0]) is None
    assert not check_parallel(overlapping, "f").ok

"""``online``: an extremum and sums that depend on it in one pass over tiles; minus infinity; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.errors import ScheduleError
from weft.ir.interpret import interpret
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.parser import parse_kernel
from weft.ir.visit import loads
from weft.lang.parse import parse_programs
from weft.schedules.find import find_block
from weft.schedules.schedule import Schedule
from weft.tensor.evaluate import evaluate
from weft.tensor.lower import lower
from weft.tensor.normalize import normalize
from weft.tensor.specialize import solve_sizes, specialize

HEAD = "def f(float(M,N) X, float(N,E) V) -> (float(M,E) O, float(M) Z) {"
TAIL = "O(m,e) = U(m,e) / S(m)\n Z(m) = A(m) + log(S(m)) }"
SOFTMAX = f"""{HEAD} A(m) max=! X(m,n)
 W(m,n) = exp(X(m,n) - A(m))
 S(m) +=! W(m,n)
 U(m,e) +=! W(m,n) * V(n,e)
 {TAIL}"""
TEXTS = {
    "softmax": SOFTMAX,
    "minimum": SOFTMAX.replace("max=!", "min=!").replace("X(m,n) - A(m)", "A(m) - X(m,n)"),
    "powers of two, scaled": SOFTMAX.replace("exp(X(m,n) - A(m))", "exp2(0.5 * X(m,n) - A(m) / 2)"),
    "a choice and two factors": SOFTMAX.replace(
        "= exp(X(m,n) - A(m))",
        "= n > 3 ? exp(3.0 * (X(m,n) - A(m))) : -exp(X(m,n) - A(m)) * exp(2 * (X(m,n) - A(m)))",
    ),
    "a masked row": SOFTMAX.replace("X(m,n)", "(m >= n ? X(m,n) : -1e999)"),
    "what does not depend on it": SOFTMAX.replace("S(m) +=! W(m,n)", "S(m) +=! X(m,n) * X(m,n)"),
}


def make(text: str, args: list[Any], numerics: Any = "fast") -> Schedule:
    program = parse_programs(text)["f"]
    sizes = solve_sizes(program, {b.name: a.shape for b, a in zip(program.inputs, args)}, {})
    return Schedule(lower(normalize(specialize(program, sizes))), numerics=numerics, sizes=sizes)


def in_tiles(s: Schedule, blocks: str, rows: int, steps: int) -> list[str]:
    """The loops of ``blocks`` over tiles of steps, in one loop over tiles of rows."""
    heads = []
    for block in blocks:
        loops = {x.split("_")[0]: x for x in map(str, s.loops(block))}
        tile, row = map(str, s.split(loops["m"], rows))
        piece, step = map(str, s.split(loops["n"], steps))
        s.reorder(tile, piece, row, *([loops["e"]] if "e" in loops else []), step)
        heads.append((tile, piece))
    for block, (_, piece) in zip(blocks, heads):
        if block != "W":
            s.decompose_reduction(block, at=piece)
    for tile, _ in heads[1:]:
        s.fuse_loops(heads[0][0], tile)
    return [piece for _, piece in heads]


def given(m: int, n: int) -> list[Any]:
    rng = np.random.default_rng(m * n)
    return [rng.normal(scale=5, size=(m, n)).astype(np.float32), rng.normal(size=(n, 3)).astype(np.float32)]


def run(s: Schedule, args: list[Any]) -> list[Any]:
    outputs = [np.full([int(e.value) for e in b.shape], 7, to_numpy(b.dtype)) for b in s.kernel.buffers[len(args) :]]  # type: ignore[attr-defined]
    interpret(s.kernel, [*args, *outputs])
    return outputs


@pytest.mark.parametrize(("rows", "steps"), [(4, 4), (1, 1), (8, 16)])
@pytest.mark.parametrize("name", TEXTS)
def test_right_results(name: str, rows: int, steps: int) -> None:
    """Rows and steps that come out even or not, and all at once."""
    args = given(6, 10)
    s = make(TEXTS[name], args)
    s.online(*in_tiles(s, "AWSU", rows, steps))
    for got, want in zip(run(s, args), evaluate(parse_programs(TEXTS[name])["f"], args)):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("steps", [1, 4])
def test_infinite_values_give_what_two_passes_give(steps: int) -> None:
    args = given(7, 10)
    x = args[0]
    x[1], x[2, :4], x[3, 4:] = -np.inf, -np.inf, -np.inf
    x[4, 2], x[5, 7], x[6, :9] = np.inf, np.nan, -np.inf
    s = make(SOFTMAX, args)
    s.online(*in_tiles(s, "AWSU", 4, steps))
    with np.errstate(invalid="ignore"):
        for got, want in zip(run(s, args), evaluate(parse_programs(SOFTMAX)["f"], args)):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
            assert np.isfinite(got[[0, 2, 3, 6]]).all()


TRIANGLE = """kernel f(X: float32[6, 8], out S: float32[6]) {
  alloc A: float32[6]
  for m in 0:6 {
    block A_start(vm spatial 0:6 = m) writes A[vm] { A[vm] = -inf }
    block S_start(vm spatial 0:6 = m) writes S[vm] { S[vm] = 0.0 }
    for n in 0:8 { if n < m {
      block A(vm spatial 0:6 = m, vn reduce 0:8 = n) reads A[vm], X[vm, vn] writes A[vm] {
        A[vm] = max(A[vm], X[vm, vn])
      } } }
    for k in 0:8 { if k < m {
      block S(vm spatial 0:6 = m, vk reduce 0:8 = k) reads S[vm], X[vm, vk], A[vm] writes S[vm] {
        S[vm] = S[vm] + exp(X[vm, vk] - A[vm])
      } } }
  }
}"""


def test_rows_of_nothing_stay_at_their_start() -> None:
    """The first row looks at no step: its sum is 0, as in two passes; a sum over more than was looked at is refused."""
    (x, _), kernel = given(6, 8), parse_kernel(TRIANGLE)
    x[3] = -np.inf
    want, got = np.zeros(6, np.float32), np.zeros(6, np.float32)
    s = Schedule(kernel, numerics="fast")
    s.online("n", "k")
    with np.errstate(invalid="ignore"):
        interpret(kernel, [x, want])
        interpret(s.kernel, [x, got])
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert got[0] == 0.0
    assert np.isnan(got[3])
    with pytest.raises(ScheduleError, match="by a factor"):
        Schedule(parse_kernel(TRIANGLE.replace("if k < m", "if k < 7")), numerics="fast").online("n", "k")


REFUSED = {
    "rounding": (SOFTMAX, "strict", "rescaling changes how `S` is rounded"),
    "no factor": (SOFTMAX.replace("exp(X(m,n) - A(m))", "X(m,n) - A(m)"), "fast", "by a factor"),
    "no bound": (SOFTMAX.replace("exp(X(m,n) - A(m))", "exp(2.0 * X(m,n) - A(m))"), "fast", "at most a constant"),
    "the other sign": (SOFTMAX.replace("max=!", "min=!"), "fast", "at most a constant"),
    "nothing beside it": (
        SOFTMAX.replace("= exp(X(m,n) - A(m))", "= n < 3 ? exp(X(m,n) - A(m)) : 0.0"),
        "fast",
        "by a factor",
    ),
    "a product": (SOFTMAX.replace("S(m) +=!", "S(m) *=!"), "fast", "only sums are rescaled"),
    "used afterwards": (
        SOFTMAX.replace(") {", ", float(M,N) Y) {", 1).replace("Z(m) =", "Y(m,n) = W(m,n)\n Z(m) ="),
        "fast",
        "`W`, which depends on the extremum so far, is used after the loops",
    ),
    "a sum first": (SOFTMAX.replace("max=!", "+=!"), "fast", "finds no maximum or minimum"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    text, numerics, reason = REFUSED[name]
    s = make(text, given(6, 8), "fast")
    loops = in_tiles(s, "AWSU", 4, 4)
    s = Schedule(s.kernel, numerics=numerics)
    with pytest.raises(ScheduleError) as refusal:
        s.online(*loops)
    assert reason in str(refusal.value)


def test_starts_are_to_be_apart() -> None:
    s = make(SOFTMAX, given(6, 8))
    loops = [str(s.loops(name)[1]) for name in "AS"]
    with pytest.raises(ScheduleError, match="do not follow one another"):
        s.online(*loops)


def test_partial_results_in_each_iteration() -> None:
    """``rfactor(at=...)``: what four lanes have of a tile is brought together for each tile."""
    args = given(6, 16)
    s = make(SOFTMAX, args)
    pieces = in_tiles(s, "AWSU", 2, 8)
    s.online(*pieces)
    for name in "AS":
        lane = str(s.split(s.loops(name)[-1], 2)[0])
        s.rfactor(lane, axis=1, at=pieces[0])
    for got, want in zip(run(s, args), evaluate(parse_programs(SOFTMAX)["f"], args)):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_factors_become_as_narrow_as_what_they_are_multiplied_with() -> None:
    text = """def f(float(M,N) X, bfloat16(N,E) V) -> (float(M,E) O) { W(m,n) = exp(X(m,n))
 O(m,e) +=! W(m,n) * float(V(n,e)) }"""
    x, v = given(4, 6)
    args = [x / 5, v.astype(weft.numpy_dtype("bfloat16"))]
    s = make(text, args)
    s.narrow("W", "bfloat16")
    (got,), (want,) = run(s, args), evaluate(parse_programs(text)["f"], args)
    np.testing.assert_allclose(got, want, rtol=2e-2, atol=2e-2)
    assert not np.array_equal(got, want)
    with pytest.raises(ScheduleError, match="elsewhere than in products"):
        make(text.replace("* float(V(n,e))", "+ float(V(n,e))"), args).narrow("W", "bfloat16")
    with pytest.raises(ScheduleError, match="is rounded to bfloat16"):
        make(text, args, "strict").narrow("W", "bfloat16")
    with pytest.raises(ScheduleError, match="does not become int8"):
        make(text, args).narrow("W", "int8")


@pytest.mark.parametrize("size", [1, 3, 5, 16])
@pytest.mark.parametrize("name", [n for n in TEXTS if n != "what does not depend on it"])
def test_parts(name: str, size: int) -> None:
    """Parts that are full or not, that a mask leaves nothing of, and rows that it leaves nothing of."""
    args = given(6, 10)
    args[0][1], args[0][2, :7], args[0][3, 3:] = -np.inf, -np.inf, -np.inf
    s = make(TEXTS[name], args)
    s.compute_inline("W")
    s.in_parts("A", "S", "U", size=size)
    with np.errstate(invalid="ignore"):
        for got, want in zip(run(s, args), evaluate(parse_programs(TEXTS[name])["f"], args)):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


FACTORS = {
    "divided first": "W(m,n) / S(m) * V(n,e)",
    "on the left, with a constant": "S(m) * 2.0 * (W(m,n) * V(n,e))",
    "rounded on the way": "float(bfloat16(W(m,n) / S(m))) * V(n,e)",
    "under what is divided": "W(m,n) / S(m) / V(n,e)",
}


@pytest.mark.parametrize("is_output", [False, True])
@pytest.mark.parametrize("name", FACTORS)
def test_factors_outside_of_sums(name: str, is_output: bool) -> None:
    """They are what does not depend on steps; where the sum is a result it gets a block that multiplies."""
    text, block = SOFTMAX.replace("W(m,n) * V(n,e)", FACTORS[name]), "O" if is_output else "U"
    text = text.replace("O(m,e) = U(m,e) / S(m)", "").replace("U(m,e)", "O(m,e)") if is_output else text
    args = given(6, 10)
    args[1] = np.abs(args[1]) + 1
    s = make(text, args)
    s.unscale(block)
    assert "S" not in {x.buffer.name for x in loads(find_block(s.kernel, block).body)}
    for got, want in zip(run(s, args), evaluate(parse_programs(text)["f"], args)):
        np.testing.assert_allclose(got, want, rtol=2e-2 if "rounded" in name else 1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "numerics", "why"),
    [
        (SOFTMAX, "fast", "or the sum of multiples by a factor"),
        (SOFTMAX.replace("* V(n,e)", "* V(n,e) / S(m)"), "strict", "change how `U` is rounded"),
        (SOFTMAX.replace("* V(n,e)", "* V(n,e) / U(m,0)"), "fast", "factor"),
    ],
    ids=["no factor", "rounding", "of itself"],
)
def test_factors_that_stay(text: str, numerics: Any, why: str) -> None:
    with pytest.raises(ScheduleError) as refusal:
        make(text, given(6, 10), numerics).unscale("U")
    assert why in str(refusal.value)

"""Rounds of threads as vectors: folded where their outcome is a reduction, and the same to the last bit everywhere."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "target"))
from run_compiled import check_against_interpreter

import weft
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.ir.verify import verify
from weft.passes.declare import Context
from weft.passes.registry import run_passes

TO_PHASES = ("unroll_rounds", "inline_indices", "remove_barriers", "split_threads", "unroll_phases")
#: How a value and its partner's are combined, by type.
OPERATORS = {
    "float32": ("{0} + {1}", "{0} * {1}", "fmax({0}, {1})", "min({0}, {1})"),
    "float64": ("{1} + {0}", "fmin({0}, {1})"),
    "int32": ("{0} + {1}", "{0} ^ {1}", "max({0}, {1})", "{0} | {1}"),
}


def folded(text: str) -> tuple[Kernel, str]:
    """The program, and the text of it once its rounds are folded, which means the same."""
    kernel = parse_kernel(text)
    phases = run_passes(TO_PHASES, kernel, Context())
    done = run_passes(("fold_rounds",), phases, Context(vector_bits=256))
    verify(done)
    given = arguments(kernel)
    one, other = ([a.copy() for a in given] for _ in range(2))
    interpret(kernel, one)
    interpret(done, other)
    np.testing.assert_array_equal(one[1], other[1])
    return kernel, print_kernel(done)


def arguments(kernel: Kernel) -> list[np.ndarray]:  # type: ignore[type-arg]
    rng = np.random.default_rng(7)
    shapes = [(tuple(int(e.value) for e in b.shape), b.dtype.name) for b in kernel.buffers]  # type: ignore[attr-defined]
    return [(rng.standard_normal(shape) * 100).astype(type) for shape, type in shapes]


def block(threads: int, type: str, body: str, shared: str = "") -> str:
    return f"""kernel k(X: {type}[{2 * threads}], out Y: {type}[{2 * threads}]) {{
  block b in 0:2 {{
    alloc s: {type}[{threads + 8}] in shared
    {shared}
    thread t in 0:{threads} {{
{body}
    }}
  }}
}}"""


def tree(seed: int) -> str:
    """A tree over some block, which combines threads that differ in one bit of their number, bits in any order."""
    choose = random.Random(seed)
    bits = [1 << n for n in range(choose.choice((3, 4, 5, 6, 7)))]
    threads, type = 2 * bits[-1], choose.choice(list(OPERATORS))
    choose.shuffle(bits)
    how, offset = choose.choice(OPERATORS[type]), choose.choice((0, 0, 8))
    at = f"t + {offset}"
    lines = [f"s[{at}] = X[b * {threads} + t]", "barrier(block)"]
    gone = 0
    for bit in bits[: choose.choice((len(bits), len(bits), len(bits) - 1))]:
        gone |= bit
        value = how.format(f"s[{at}]", f"s[{at} + {bit}]")
        lines += [f"if (t & {gone}) == 0 {{ s[{at}] = {value} }}", "barrier(block)"]
    rest = (threads - 1) & ~gone
    if rest:
        lines.append(f"if (t & {gone}) == 0 {{ Y[b * {threads} + t] = s[{at}] }}")
    else:
        lines.append(choose.choice((f"if t == 0 {{ Y[b] = s[{offset}] }}", f"Y[b * {threads} + t] = s[{offset}]")))
    return block(threads, type, "\n".join(lines))


@pytest.mark.parametrize("seed", range(24))
def test_trees_in_any_order_of_bits(seed: int) -> None:
    kernel, text = folded(tree(seed))
    assert "s_result" in text
    assert " s[" not in text
    check_against_interpreter(kernel, args=arguments(kernel))


def shuffles(threads: int, rounds: str, last: str) -> str:
    shared = f"alloc e: float32[{threads + 32}] in shared"
    lines = [f"let v: float32 = X[b * {threads} + t]"]
    for word in rounds.split():
        lines += ["e[t] = v", "barrier(warp)"]
        by = int(word[1:])
        lane, sum = "t % 32", f"t + {by}"
        if word[0] == "x":
            heard = f"e[t - {lane} + ({lane} ^ {by})]"
        else:
            heard = f"{lane} + {by} >= 32 ? v : e[{sum}]"
        lines += [f"let h{word}: float32 = {heard}", "barrier(warp)", f"v = v + h{word}"]
    return block(threads, "float32", "\n".join([*lines, last]), shared)


TWO_LEVELS = """
if t % 32 == 0 { s[t // 32] = v }
barrier(block)
let w: float32 = t < 4 ? s[t] : 0.0
s[t] = w
barrier(block)
if t < 2 { s[t] = s[t] + s[t + 2] }
barrier(block)
if t == 0 { Y[b] = s[0] + s[1] }"""


@pytest.mark.parametrize(
    ("threads", "rounds", "last", "is_folded"),
    [
        (64, "d16 d8 d4 d2 d1", "if t % 32 == 0 { Y[b * 2 + t // 32] = v }", True),
        (128, "x1 x2 x4 x8 x16", "Y[b * 128 + t] = v", True),
        (96, "x16 x8 x4 x2 x1", "if t % 32 == 7 { Y[b * 3 + t // 32] = v }", True),
        (128, "d16 d8 d4 d2 d1", TWO_LEVELS, True),
        (64, "x4 x2 x1", "Y[b * 64 + t] = v", True),
        (64, "d16 d8 d4 d2 d1", "Y[b * 64 + t] = v", False),
        (64, "d1 d2", "Y[b * 64 + t] = v", False),
    ],
)
def test_shuffles(threads: int, rounds: str, last: str, is_folded: bool) -> None:
    kernel, text = folded(shuffles(threads, rounds, last))
    assert ("_result" in text) == is_folded, text
    check_against_interpreter(kernel, args=arguments(kernel))


def test_what_others_read_stays() -> None:
    body = """s[t] = X[b * 64 + t]
barrier(block)
for n in 0:6 {
  if t < 32 >> n { s[t] = s[t] + s[t + (32 >> n)] }
  barrier(block)
}
if t < 2 { Y[b * 2 + t] = s[0] * s[t + 40] }"""
    _, text = folded(block(64, "float32", body))
    assert "s_result[0] * " in text


def test_rounds_in_a_loop_over_rows() -> None:
    body = """for row in 0:2 {
  s[t] = X[row * 64 + t]
  barrier(block)
  for n in 0:6 {
    if t < 32 >> n { s[t] = s[t] + s[t + (32 >> n)] }
    barrier(block)
  }
  Y[row * 64 + t] = X[row * 64 + t] / s[0]
  barrier(block)
}"""
    kernel, text = folded(block(64, "float32", body).replace("block b in 0:2", "block b in 0:1"))
    assert "s_result" in text
    check_against_interpreter(kernel, args=arguments(kernel))


def test_zeros_of_threads_that_are_not_there_do_not_change_a_sum_of_negative_zeros() -> None:
    body = """let w: float32 = t < 8 ? X[t] : 0.0
s[t] = t < 8 ? w : 0.0
barrier(block)
for n in 0:4 {
  if t < 8 >> n { s[t] = s[t] + s[t + (8 >> n)] }
  barrier(block)
}
if t == 0 { Y[b] = s[0] }"""
    kernel = parse_kernel(block(16, "float32", body))
    done = run_passes((*TO_PHASES, "fold_rounds"), kernel, Context(vector_bits=256))
    given = [np.full(32, -0.0, np.float32), np.ones(32, np.float32)]
    one, other = ([a.copy() for a in given] for _ in range(2))
    interpret(kernel, one)
    interpret(done, other)
    assert np.array_equal(np.signbit(one[1]), np.signbit(other[1]))


def test_the_least_of_the_largest_integers() -> None:
    """What a minimum starts with is more than an int64 holds."""
    op, given = weft.define("def least(uint64(N) A) -> (O) { O min=! A(i) }"), np.arange(5, 3005, dtype=np.uint64)
    assert op.schedule(given, target="cuda").build()(given) == 5

"""Steps that brute force once found wrong: each is refused now, or right."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from primitive_case import Setting
from shrink_steps import replay

from weft.schedules.trace import parse_trace


class Once(NamedTuple):
    """What was wrong: a program with sizes, and the steps after which it meant something else."""

    name: str
    text: str
    steps: str
    sizes: tuple[tuple[str, int], ...]
    numerics: str = "strict"
    symbolic: bool = False


ONCE = (
    Once(
        "unscale_one_of_two_blocks",
        "def f(float(N,M) A, float(M) q) -> (O) { T(i) max=! A(i,j) * 0.5 O(i,j) = q(j) - T(i) }",
        'split("j", 3, tail="separate")\nunscale("T")',
        (("N", 3), ("M", 4)),
    ),
    Once(
        "in_parts_beyond_an_uneven_end",
        "def f(float(N,M) A) -> (S) { G(i) max=! A(i,j) S(i) +=! exp(A(i,j) - G(i)) * A(i,j) }",
        'in_parts("G", "S", size=3)',
        (("N", 3), ("M", 4)),
        "fast",
    ),
    Once(
        "in_parts_of_a_factor_that_has_a_pole_beyond_the_end",
        "def f(float(N,M) A) -> (S) { G(i) max=! A(i,j) S(i) +=! exp(A(i,j) - G(i)) / float(4 - j) }",
        'in_parts("G", "S", size=3)',
        (("N", 3), ("M", 4)),
        "fast",
    ),
    Once(
        "skip_masked_of_a_tail_that_is_empty",
        "def f(float(N) X) -> (S) { S(i) = X(i) S(i) += X(i) }",
        'split("i_1", 3, tail="separate")\nskip_masked("i_1_t")',
        (("N", 3),),
        "fast",
        symbolic=True,
    ),
    Once(
        "online_of_no_steps",
        "def f(float(N) A) -> (S) { X max=! (j <= 2 ? A(j) : -1e999)\n S +=! exp((j <= 2 ? A(j) : -1e999) - X) }",
        'online("j", "j_1")',
        (("N", 0),),
        "fast",
        symbolic=True,
    ),
    Once(
        "scan_of_no_steps",
        "def f(float(N) X) -> (S) { S(0) = X(0) S(t) = S(t-1) + X(t) where t in 1:N }",
        'scan("t", 2)',
        (("N", 1),),
        "fast",
    ),
    Once(
        "surround_of_an_empty_buffer",
        "def f(float(N) A) -> (O) { O(i) = A(i-1) + A(i+1) where i in 0:N, A outside edge }",
        'surround("A")',
        (("N", 0),),
        symbolic=True,
    ),
    Once(
        "precompute_outside_of_a_range",
        "def f(float(N) A) -> (O) { T(i) = A(i)*2.0 O(i) = T(i-1) + T(i) + T(i+1) where i in 0:N, T outside zero }",
        'compute_at("T", "i_1")\nexpand_storage("T")\nprecompute("O", "vi", "vT_1", "vT_1_1")',
        (("N", 5),),
    ),
    Once(
        "reverse_compute_at_a_loop_that_runs_no_time",
        "def f(float(W,C) I) -> (O) { O(w) +=! I(w+c,c) where c in 0:3, w in 0:1, I outside zero }",
        'skew("c", "w", 2)\nw_o, w_i, w_t = split("w", 3, tail="separate")\nw_o_w_i = fuse("w_o", "w_i")\n'
        'reverse_compute_at("O_t", "w_o_w_i")',
        (("W", 0), ("C", 0)),
    ),
    Once(
        "merge_axes_under_a_bound",
        "def f(float(N,M) A) -> (O) { O +=! A(i,j) }",
        'wrap("O", "i")\nmerge_axes("A", 0)',
        (("N", 3), ("M", 4)),
    ),
)


@pytest.mark.parametrize("once", ONCE, ids=lambda once: once.name)
def test_what_was_wrong_once_is_refused_or_right(once: Once) -> None:
    setting = Setting(once.text, once.numerics, once.symbolic, once.sizes)
    trace = parse_trace(f'numerics = "{once.numerics}"\n{once.steps}')
    assert replay(setting, trace.steps) is None

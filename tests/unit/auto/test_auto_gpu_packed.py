"""Attention of sequences one after another in memory, of queries, keys and values in one array, and of heads that share
keys backwards: as CUDA text that the host runs, compared with the evaluator."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scheduled_for_gpu import H200, make_case, schedule_case

sys.path.append(str(Path(__file__).parents[1] / "target"))  # how CUDA text is run on the host

from cuda_on_host import needs_compiler
from test_auto_gpu_backward import PLAIN, run_on_host

import weft
from weft.lang.parse import parse_programs
from weft.tensor.program import TensorProgram

FILE = Path(__file__).parents[3] / "examples" / "operators" / "attention.weft"


@cache
def example(name: str) -> TensorProgram:
    return parse_programs(FILE.read_text(encoding="utf-8"))[name]


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(weft.numpy_dtype("bfloat16"))


@needs_compiler
def test_sequences_of_any_lengths() -> None:
    """A tile goes through the keys of its sequences alone, which the offsets tell when it runs."""
    offsets = np.array([0, 20, 21, 130, 140], np.int32)
    text, source = run_on_host(example("sequences"), [normal(140, 1, 64) for _ in range(3)] + [offsets])
    assert "First_least[" in text.partition("ahead")[0].splitlines()[-1]
    assert "End_greatest[" in text.partition("ahead")[0].splitlines()[-1]
    assert "bulk_copy_" in source


@needs_compiler
def test_queries_keys_and_values_in_one_array() -> None:
    text, source = run_on_host(example("one_array"), [normal(1, 200, 3, 2, 64)])
    assert source.count("__global__") == 1
    assert source.count("&A_map") > 3
    assert "in 0:s_o + 1 ahead" in text


def backward_arguments(heads: int, keys: int, width: int) -> list[Any]:
    narrow = [normal(1, n, 130, width) for n in (heads, keys, keys, heads)]
    return [*narrow, *(np.abs(normal(1, heads, 130 + n)[..., n:]).astype(np.float32) + 4 for n in (0, 1))]


def test_wide_sums_have_a_launch_each() -> None:
    case = make_case(PLAIN, [np.zeros_like(a) for a in backward_arguments(1, 1, 256)], "unchecked")
    made = schedule_case(case, "fast", H200)
    told = [d.what for d in made.decisions if d.topic == "fusion" and "scores never leave registers" in d.why]
    assert len(told) == 3

"""Random programs split over random meshes give what the evaluator gives, bit for bit where no sum is reordered."""

from __future__ import annotations

import math
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import RandomProgram, programs
from test_random_programs import assert_close
from weft.dist.mesh import Mesh
from weft.dist.ranks import evaluate_on_ranks

from weft.lang.parse import parse_programs
from weft.tensor.evaluate import evaluate

sys.path.append(str(Path(__file__).parents[1] / "unit" / "dist"))
from splits import RandomChoices

EXAMPLES = int(os.environ.get("WEFT_SPLIT_PROGRAMS", "200"))


def random_mesh(seed: int) -> Mesh:
    """One to three axes, at most 64 ranks."""
    rng = random.Random(seed)
    sizes = tuple(rng.choice([1, 2, 2, 3, 4, 5, 8]) for _ in range(rng.choice([1, 1, 2, 2, 3])))
    sizes = sizes if math.prod(sizes) <= 64 else (4, 4)
    return Mesh(sizes, tuple("abc"[: len(sizes)]))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(programs(), st.integers(0, 1 << 30), st.booleans())
def test_split_programs_mean_the_same(drawn: RandomProgram, seed: int, strict: bool) -> None:
    program: Any = next(iter(parse_programs(drawn.text).values()))
    arguments, mesh = list(drawn.arguments.values()), random_mesh(seed)
    with np.errstate(all="ignore"):
        expected = evaluate(program, arguments, wide=not strict)
    choose = RandomChoices(seed, mesh, strict=strict)
    actual, _ = evaluate_on_ranks(program, arguments, mesh, choose, wide=not strict)
    for output, split, whole in zip(program.outputs, actual, expected):
        told = f"{drawn.text}\n{mesh}\n{choose.made}"
        assert_close(output.name, told, split, whole, exact=False)

"""Each rewrite of the normal form alone: one form for both programs, equal results, nothing changed the second time."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from tensor_oracles import program_of, run_loops

from weft.ir.numpy_dtypes import to_numpy
from weft.tensor.evaluate import evaluate
from weft.tensor.normal_form.normal_form import normal_form
from weft.tensor.normal_form.rewrites import REWRITES
from weft.tensor.normalize import normalize
from weft.tensor.printer import print_program
from weft.tensor.specialize import solve_sizes, specialize

WORD = re.compile(r"\b[A-Za-z_]\w*")
KEPT = {"where", "in", "outside", "zero", "max", "exp", "log", "float32", "bfloat16", "e"}


def special(text, trial):
    """``text`` at random sizes, with arguments."""
    size = {s: random.Random(f"{trial}{s}").randint(2 + (s == "N"), 7) for s in "MNK"} | {"S": 3 * trial + 6}
    program, rng = program_of(text), np.random.default_rng(trial)
    shapes = {b.name: [size[n.name] for n in b.shape] for b in program.inputs}
    args = [rng.standard_normal(shapes[b.name]).astype(to_numpy(b.dtype)) for b in program.inputs]
    return specialize(program, solve_sizes(program, {n: tuple(s) for n, s in shapes.items()})), args


def unnamed(program):
    """The statements with names by their first occurrence."""
    names: dict[str, str] = {}
    lines = "\n".join(line for line in print_program(normalize(program)).split("\n") if "=" in line)
    return WORD.sub(lambda m: m[0] if m[0] in KEPT else names.setdefault(m[0], f"n{len(names)}"), lines)


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda r: r.name)
@pytest.mark.parametrize("fast", [True, False])
def test_both_programs_have_one_form_that_computes_the_same(rewrite, fast):
    for trial in range(4):
        (before, args), (after, _) = special(rewrite.before, trial), special(rewrite.after, trial)
        form = normal_form(before, fast)
        assert unnamed(before) != unnamed(after)
        if fast or rewrite.exact:
            assert unnamed(form) == unnamed(normal_form(after, fast))
        assert normal_form(form, fast) == form
        expected, got = (evaluate(p, args, wide=True)[0].astype(np.float64) for p in (before, form))
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
        if not fast:
            loops = [run_loops(p, args, {}, symbolic=False)[0] for p in (before, form)]
            assert loops[0].tobytes() == loops[1].tobytes()

"""Every kind of work in many spellings: equal results, and on a GPU of class 9.0 the same kernels and instructions."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from bench.spellings.kinds import KINDS, arguments, specialized, spellings
from bench.spellings.measure import as_numpy
from weft.tensor.evaluate import evaluate
from weft.tensor.normal_form.normal_form import normal_form


def difference(got, wanted):
    return float(np.abs(got - wanted).max() / np.abs(wanted).max())


def test_there_are_many():
    assert len(KINDS) >= 14
    assert all(len(spellings(kind, kind.small, "bfloat16")) >= 5 for kind in KINDS.values())


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_spellings_and_their_forms_compute_the_same(name, dtype):
    kind, plain = KINDS[name], None
    args = arguments(kind, kind.small)
    for spelling in spellings(kind, kind.small, dtype):
        program = specialized(spelling.text, kind.small)
        expected = evaluate(program, args, wide=True)[0].astype(np.float64)
        plain = expected if plain is None else plain
        assert difference(expected, plain) < 1e-6, spelling.text
        for fast in (True, False):
            form = normal_form(program, fast)
            assert normal_form(form, fast) == form, spelling.text
            got = evaluate(form, args, wide=True)[0].astype(np.float64)
            assert difference(got, plain) < 1e-6, spelling.text


@pytest.mark.parametrize("name", KINDS)
def test_compiled_spellings_compute_the_same(name):
    kind, plain = KINDS[name], None
    args = arguments(kind, kind.small)
    for spelling in spellings(kind, kind.small, "float32"):
        result = as_numpy(weft.define(spelling.text)(*args))
        plain = result if plain is None else plain
        assert difference(result, plain) < 1e-5, spelling.text


@pytest.mark.parametrize("name", KINDS)
def test_spellings_take_the_same_kernels_and_instructions(name):
    torch = pytest.importorskip("torch")
    kind = KINDS[name]
    args = [torch.empty(shape, dtype=torch.bfloat16) for shape in kind.gpu]
    found = {}
    for spelling in spellings(kind, kind.gpu, "bfloat16"):
        code = weft.define(spelling.text).show("cuda", *args)
        signs = tuple(sign for sign in ("wgmma", "mma.sync", "ex2.approx", "cp.async.bulk") if sign in code)
        found.setdefault((code.count("__global__"), signs), []).append(spelling)
    assert len(found) == 1, {key: [s.name for s in spellings] for key, spellings in found.items()}

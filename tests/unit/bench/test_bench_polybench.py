"""PolyBench-style programs in both modes, against plain Python loops, at small sizes."""

from __future__ import annotations

import pytest

from bench.field.statistics import relative_error
from bench.polybench import python_loops
from bench.polybench.programs import FOLDER, Program, find_workload, standard_programs
from bench.polybench.weft_modes import prepare_mode


def small(program: Program) -> Program:
    sizes = {name: 3 if name == "T" else 7 + n for n, name in enumerate(program.sizes)}
    return find_workload(program.family.name, sizes)


PROGRAMS = [small(p) for p in standard_programs()]


@pytest.mark.parametrize("mode", ["auto", "polyhedral"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.family.name)
def test_right_in_both_modes(program: Program, mode: str) -> None:
    if mode == "polyhedral":
        pytest.importorskip("islpy")
    inputs = program.inputs(2)
    want = program.make_results(inputs)
    steps = [program.sizes["T"]] if "T" in program.sizes else []
    getattr(python_loops, program.family.definition)(*steps, *program.read_only(inputs), *want.values())
    got = prepare_mode(mode, program, inputs, 2).results()
    assert max(relative_error(g, w) for g, w in zip(got, want.values(), strict=True)) < 1e-12


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.family.name)
def test_everyone_has_the_loops(program: Program) -> None:
    name = program.family.definition
    assert (FOLDER / "c" / f"{name}.c").exists()
    assert (FOLDER / "loops" / f"{name}.loops").exists() == program.in_place

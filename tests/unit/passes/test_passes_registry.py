"""The registry of passes: every declaration is true, on the whole library and on GPU programs, for every target."""

from __future__ import annotations

import inspect
import sys
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "ops"))  # the cases of the operator library
from check_forms import FormError, check_forms
from test_ops_library import CASES, make_argument

from weft.ir.errors import InternalError
from weft.ir.parser import parse_kernel
from weft.ir.stmt import Kernel
from weft.ops import library
from weft.passes.declare import CONDITIONS, Context, Pass
from weft.passes.forms import FORMS
from weft.passes.registry import PASSES, find_passes, run_passes, trace_passes
from weft.schedules.schedule import Schedule
from weft.target.c import lower as c
from weft.target.cpu import lower as cpu
from weft.target.cpu.host import NAMED
from weft.target.cuda import lower as cuda
from weft.target.cuda.machine import gpu_for_arch
from weft.tensor.lower import lower
from weft.tensor.normalize import normalize
from weft.tensor.specialize import solve_sizes, specialize

TESTS = Path(__file__).parents[2]

AVX512, AVX2, H200 = NAMED["x86-64-avx512"], NAMED["x86-64-avx2"], gpu_for_arch("sm_90")
KERNELS = TESTS.parent / "examples" / "kernels"
#: Those whose loops around launches are too long to be written out.
REFUSED_BY_CUDA = {"lud", "needle", "pathfinder"}


def library_kernel(name: str) -> tuple[Kernel, dict[str, int]]:
    rng = np.random.default_rng(len(name))
    program = library.program(name, "float32")
    given = dict(zip((p.name for p in program.params), (make_argument(s, "float32", rng) for s in CASES[name].args)))
    shapes = {b.name: np.shape(given[b.name]) for b in program.inputs}
    sizes = solve_sizes(program, shapes, {c.name: int(given[c.name]) for c in program.constants})
    return lower(normalize(specialize(program, sizes))), sizes


def check_for(target: Any, machine: Any, kernel: Kernel, *, fast: bool) -> None:
    passes, context = find_passes(target.PASSES), target.context_of(machine, fast=fast)
    assert check_forms(kernel, passes, context, target.NEEDS) == target.lower_kernel(kernel, machine, fast=fast)


@pytest.mark.parametrize("each", PASSES.values(), ids=lambda p: p.name)
def test_a_pass_declares_what_there_is(each: Pass) -> None:
    assert {*each.needs, *each.gives, *each.takes} <= FORMS.keys()
    assert set(each.only_if) <= CONDITIONS.keys()
    assert set(each.options) <= {f.name for f in fields(Context)}
    function = getattr(import_module(f"{each.folder}.{each.name}"), each.name)
    _, *parameters = inspect.signature(function).parameters.values()
    required = {p.name for p in parameters if p.default is inspect.Parameter.empty}
    assert required <= set(each.options) <= {p.name for p in parameters}
    assert each.purpose.endswith((".", ":"))


def test_every_pass_is_on_the_list_of_a_target() -> None:
    assert {*cpu.PASSES, *cuda.PASSES} == PASSES.keys()


@pytest.mark.parametrize("target", [cpu, cuda, c], ids=["cpu", "cuda", "c"])
def test_what_a_pass_needs_is_given_before_it(target: Any) -> None:
    held: set[str] = set()
    for each in find_passes(target.PASSES):
        assert set(each.needs) <= held, each.name
        held = (held - set(each.takes)) | set(each.gives)
    assert set(target.NEEDS) <= held


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_library_on_a_cpu(name: str) -> None:
    from weft.auto.scheduler import auto_schedule

    kernel, sizes = library_kernel(name)
    check_for(cpu, AVX2, kernel, fast=False)
    check_for(c, AVX2, kernel, fast=False)
    schedule = Schedule(kernel, numerics="fast", machine=AVX512, sizes=sizes)
    auto_schedule(schedule, AVX512, 2)
    check_for(cpu, AVX512, schedule.kernel, fast=True)


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_library_on_a_gpu(name: str) -> None:
    from weft.auto.gpu.scheduler import auto_schedule_gpu

    kernel, sizes = library_kernel(name)
    machine = replace(H200, name="small", sms=2)
    schedule = auto_schedule_gpu(Schedule(kernel, numerics="fast", machine=machine, sizes=sizes), machine).schedule
    check_for(cuda, machine, schedule.kernel, fast=True)
    check_for(cpu, AVX512, schedule.kernel, fast=True)


@pytest.mark.parametrize("path", sorted(KERNELS.glob("*.loops")), ids=lambda p: p.stem)
def test_gpu_programs(path: Path) -> None:
    kernel = parse_kernel(path.read_text(encoding="utf-8"))
    check_for(cpu, AVX512, kernel, fast=False)
    check_for(c, AVX2, kernel, fast=False)
    if path.stem not in REFUSED_BY_CUDA:
        check_for(cuda, H200, kernel, fast=False)


PLAIN = parse_kernel("kernel f(A: float32[8], out B: float32[8]) { for i in 0:8 { B[i] = A[i] } }")
BLOCK = """kernel f(A: float32[8], out B: float32[8]) {
    for i in 0:8 { block B(v spatial 0:8 = i) reads A[v] writes B[v] { B[v] = A[v] } } }"""


def test_a_program_without_threads_skips_the_passes_for_threads() -> None:
    steps = {s.by.name: s.skipped for s in trace_passes(cpu.PASSES, PLAIN, cpu.context_of(AVX512))}
    assert all(steps[name] for name in ("split_threads", "merge_blocks", "lower_blocks", "drop_guards"))
    assert not steps["vectorize_innermost"]


def test_a_pass_that_does_not_give_what_it_says_is_found() -> None:
    idle = Pass("weft.ir", "simplify", gives=("no blocks",))
    with pytest.raises(FormError, match="after simplify the program has not `no blocks`: block `B`"):
        check_forms(parse_kernel(BLOCK), [idle], Context(), ())


def test_a_pass_that_takes_a_form_unsaid_is_found() -> None:
    passes = [
        Pass("weft.ir", "simplify", gives=("strip mined",)),
        replace(PASSES["lower_blocks"], needs=("no vectors",)),
    ]
    with pytest.raises(FormError, match=r"lower_blocks needs what nothing before it gives: \['no vectors'\]"):
        check_forms(PLAIN, passes, Context(), ())


def test_a_pass_that_is_skipped_in_error_is_found() -> None:
    skipped = replace(PASSES["lower_blocks"], only_if=("barriers",))
    with pytest.raises(FormError, match="lower_blocks is skipped although it has something to do"):
        check_forms(parse_kernel(BLOCK), [skipped], Context(), ())


def test_an_unknown_pass_offers_one_that_there_is() -> None:
    with pytest.raises(InternalError, match=r"(?s)no pass `lower_block`.*did you mean `lower_blocks`"):
        run_passes(("lower_block",), PLAIN, Context())

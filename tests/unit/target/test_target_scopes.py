"""Machines with other memories than usual: in text, to interpreter and verifier, in schedules, in targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from run_compiled import needs_c_compiler

import weft
from weft.ir.buffer import Buffer
from weft.ir.dtype import float32
from weft.ir.errors import InternalError, ScheduleError, UnsupportedError
from weft.ir.expr import idx
from weft.ir.interpret import interpret
from weft.ir.memory import SCOPES, MemoryScope, declare_scope
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.ir.verify import verify
from weft.runtime.kernel import LoadedKernel
from weft.runtime.library import load_library
from weft.target import TARGETS
from weft.target.cpu.host import NAMED, Machine
from weft.target.cuda.machine import gpu_for_arch

AVX2 = NAMED["x86-64-avx2"]
SCRATCH = MemoryScope("scratch", "block", size=4096, rate=1e11)
WEIGHTS = MemoryScope("weights", "all", size=1 << 20, rate=1e9, read_by=("matrix_unit",))


@dataclass(frozen=True, slots=True)
class Accelerator(Machine):
    """A CPU beside which there are two scratchpads."""

    @property
    def scopes(self) -> Mapping[str, MemoryScope]:
        return {**super(Accelerator, self).scopes, "scratch": SCRATCH, "weights": WEIGHTS}


def accelerator() -> Accelerator:
    return Accelerator("accelerator", AVX2.triple, AVX2.cpu, vector_bits=256, target="c")


def program(scope: str = "scratch", size: int = 64, inside: str = "") -> Kernel:
    return parse_kernel(
        f"kernel k(X: float32[2, 64], out Y: float32[2, 64]) {{\n"
        f"  parallel i in 0:2 {{\n"
        f"    alloc T: float32[{size}] in {scope} {{\n"
        f"      for j in 0:64 {{ T[j] = X[i, 63 - j] }}\n"
        f"      for j in 0:64 {{ Y[i, j] = T[j] + T[0] }}\n"
        f"    }}\n"
        f"  }}\n"
        f"}}"
    )


def test_any_name_is_a_scope_of_the_text() -> None:
    kernel = program()
    assert "alloc T: float32[64] in scratch\n" in print_kernel(kernel)
    assert parse_kernel(print_kernel(kernel)) == kernel
    odd = parse_kernel(print_kernel(kernel).replace("in scratch", "in `block`"))
    assert parse_kernel(print_kernel(odd)) == odd, "a scope named like a word of the notation"
    verify(kernel)
    x, y = np.arange(128, dtype=np.float32).reshape(2, 64), np.zeros((2, 64), np.float32)
    interpret(kernel, [x, y])
    np.testing.assert_array_equal(y, x[:, ::-1] + x[:, 63:])
    with pytest.raises(InternalError, match="no name of a scope"):
        Buffer("T", float32, (idx(4),), scope="two words")


@needs_c_compiler
def test_a_machine_that_has_it_runs_it() -> None:
    made = TARGETS["c"].compile(program(), accelerator(), fast=False, aligned={})
    loaded = LoadedKernel(load_library(made.blob), made.facts["entry"], [None, None])
    x, y = np.arange(128, dtype=np.float32).reshape(2, 64), np.zeros((2, 64), np.float32)
    loaded.run([x.ctypes.data, y.ctypes.data])
    np.testing.assert_array_equal(y, x[:, ::-1] + x[:, 63:])


@pytest.mark.parametrize(("target", "name"), [("cpu", "CPU"), ("c", "C"), ("cuda", "CUDA")])
def test_targets_without_it_say_what_they_have(target: str, name: str) -> None:
    machine = gpu_for_arch("sm_90") if target == "cuda" else AVX2
    with pytest.raises(UnsupportedError) as caught:
        TARGETS[target].lower(program(), machine)
    assert str(caught.value) == (
        f"error: kernel `k` uses what the {name} target does not have\n"
        "  <text>:3        alloc T: float32[64] in scratch {\n"
        "                        ^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  missing:<text>:3: memory `scratch`, where `T` is; "
        "its scopes are global, shared, register, constant, local"
    )


@pytest.mark.parametrize(
    ("kernel", "what"),
    [
        (program(size=2000), "room for `T`, which needs 8000 bytes of `scratch`; there are 4096"),
        (
            parse_kernel(
                "kernel k(out Y: float32[8]) { alloc T: float32[8] in scratch { block b in 0:8 { T[b] = 1.0 } } }"
            ),
            "`scratch` that the iterations of `b` share: each can address its own alone",
        ),
        (program("weights"), "a load of `T` from `weights`, which only matrix_unit reads"),
    ],
)
def test_what_a_memory_cannot_do_is_refused(kernel: Kernel, what: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        TARGETS["c"].lower(kernel, accelerator())
    assert what in str(caught.value)


@pytest.fixture
def scratch() -> Iterator[None]:
    declare_scope(SCRATCH)
    yield
    del SCOPES["scratch"]


def test_schedules_use_what_is_declared(scratch: None) -> None:
    op = weft.define("def f(float(M,N) X) -> (Y) { T(m,n) = X(m,n) * 2\n Y(m,n) = T(m,N-1-n) }")
    s = weft.schedule(op, X=(8, 64))
    m, _ = s.loops("Y")
    s.compute_at("T", m)
    s.set_scope("T", "scratch")
    assert "in scratch" in print_kernel(s.kernel)
    s = weft.schedule(op, X=(8, 64))
    with pytest.raises(ScheduleError, match="'scrach' is no scope for temporaries"):
        s.set_scope("T", "scrach")

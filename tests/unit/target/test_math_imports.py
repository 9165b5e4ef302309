"""Emitted math stands alone: an object may import nothing, whatever the machine."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest
from vector_math_harness import MACHINES, emit_loop, undefined_symbols

from weft.ir.dtype import float32, float64, int32
from weft.ir.intrinsics import INTRINSICS
from weft.target.cpu.builder import Features, Module
from weft.target.cpu.math import MATH

FLOATS = [name for name in INTRINSICS if name != "popcount"]


def test_every_intrinsic_has_an_emitter() -> None:
    assert set(MATH) == set(INTRINSICS)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", FLOATS)
def test_no_library_is_called(name: str, machine: str) -> None:
    assert undefined_symbols(name, float32, 8, machine) == []
    assert undefined_symbols(name, float64, 1, machine) == []


@pytest.mark.parametrize("machine", MACHINES)
def test_popcount_calls_nothing(machine: str) -> None:
    assert undefined_symbols("popcount", int32, 1, machine) == []


def assemble_for_aarch64(name: str) -> str:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = Module(Features(vector_bits=128))
    emit_loop(module, name, float32, 4)
    target = llvm.Target.from_triple("aarch64-unknown-linux-gnu").create_target_machine(cpu="generic", opt=2)
    parsed = llvm.parse_assembly(module.text())
    parsed.triple = "aarch64-unknown-linux-gnu"
    return str(target.emit_assembly(parsed))


@pytest.mark.parametrize("name", FLOATS)
def test_aarch64_is_vector_code_without_calls(name: str) -> None:
    text = assemble_for_aarch64(name)
    called = [line.split()[1] for line in text.splitlines() if line.strip().startswith("bl\t")]
    assert all(c.startswith("weft.") for c in called), called
    assert ".4s" in text

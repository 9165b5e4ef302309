"""Machines: what is found on a host, what is asked for by name."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from weft.ir.errors import TargetError
from weft.target.cpu.host import NAMED, host_machine, machine_with_flags, named_machine
from weft.target.cpu.host_facts import read_host_facts

V3 = "avx2 fma bmi1 bmi2 f16c movbe abm ssse3 sse4_1 sse4_2 popcnt cx16"
V4 = V3 + " avx512f avx512bw avx512cd avx512dq avx512vl"


@pytest.mark.parametrize(
    ("flags", "name", "bits"),
    [
        (V4, "x86-64-avx512", 512),
        (V3, "x86-64-avx2", 256),
        (V3.replace("fma ", ""), "x86-64-sse4", 128),
        (V4.replace("avx512vl", ""), "x86-64-avx2", 256),
        ("sse2", "x86-64-sse2", 128),
    ],
)
def test_the_best_level_all_of_whose_flags_are_there(flags: str, name: str, bits: int) -> None:
    machine = machine_with_flags(frozenset(flags.split()))
    assert (machine.name, machine.vector_bits) == (name, bits)


def test_optional_features_only_with_their_level() -> None:
    assert "+avx512bf16" in machine_with_flags(frozenset([*V4.split(), "avx512_bf16"])).features
    assert machine_with_flags(frozenset([*V3.split(), "avx512_bf16"])).features == ()


def test_a_name_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_TARGET", "x86-64-avx2")
    assert host_machine() == replace(NAMED["x86-64-avx2"], facts=read_host_facts())
    monkeypatch.setenv("WEFT_TARGET", "host")
    assert host_machine() == named_machine("host")


def test_an_unknown_name() -> None:
    with pytest.raises(TargetError) as caught:
        named_machine("pdp-11")
    assert str(caught.value) == (
        "error: unknown CPU target `pdp-11`\n"
        "  why:   it is not one of the machines Weft generates code for\n"
        "  help:  use one of: host, x86-64-avx512, x86-64-avx2, x86-64-sse4, x86-64-sse2, aarch64"
    )


def test_keys_tell_machines_apart() -> None:
    machines = {*NAMED.values(), host_machine()}
    assert len({m.key for m in machines}) == len(machines)


def test_the_host_is_described_without_llvm() -> None:
    code = (
        "import sys; from weft.target.cpu.host import host_machine; from weft.target.cpu.llvm import toolchain_key;"
        "host_machine().key; toolchain_key(); import weft.target.cpu.lower; sys.exit('llvmlite' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

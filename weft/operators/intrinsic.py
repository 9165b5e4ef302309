"""`weft.intrinsic`: hardware instructions declared by the user."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.interpreters import python_command, python_environment
from weft.ir.at_the_call import told_at_the_call
from weft.ir.errors import ArgumentError
from weft.ir.hardware import Emit, Hardware, declare
from weft.ir.printer import print_kernel
from weft.operators.operator import Operator
from weft.passes.plain.lower_blocks import lower_blocks
from weft.runtime.store import Artifact, default_store
from weft.target.cpu.host import host_machine
from weft.target.cpu.intrinsics import TARGETS, emit_alone
from weft.target.cpu.llvm import toolchain_key
from weft.tensor.lower import lower
from weft.tensor.normalize import normalize
from weft.version import cache_key


@told_at_the_call
def intrinsic(
    name: str,
    meaning: str | Operator,
    emit: Mapping[str, Emit],
    *,
    needs: Sequence[str] = (),
    exact: bool = True,
) -> Hardware:
    """Declares an instruction that schedules can `tensorize` loops to.

    ``meaning`` is a loop program (``kernel name(...) { ... }``), a tensor definition
    (``def name(...) -> (...) { ... }``) or an operator; ``emit["cpu"]`` a function of a builder and
    the operands by name, or LLVM text with ``%name`` for each. ``needs`` are features of the machine
    (LLVM's names); without them the loops run. ``exact=False`` says the bits may differ from the
    meaning's, which only ``numerics="fast"`` allows.
    """
    if not name.isidentifier():
        raise ArgumentError(f"`{name}` cannot be the name of an intrinsic", help="use a plain identifier")
    unknown = [target for target in emit if target not in TARGETS]
    if unknown:
        raise ArgumentError(f"there is no target `{unknown[0]}`", help=f"use one of: {', '.join(TARGETS)}")
    hardware = Hardware(name, _meaning_text(name, meaning), dict(emit), tuple(needs), exact)
    _ = hardware.meaning  # so that what is wrong with it is told here
    if "cpu" in emit:
        _try_code(hardware)
    return declare(hardware)


def _try_code(hardware: Hardware) -> None:
    """Compiles the intrinsic alone, in a process of its own: LLVM ends the process it runs in over some mistakes."""
    host = host_machine()
    machine = replace(host, features=(*host.features, *(f"+{f}" for f in hardware.needs)))
    store, key = default_store(), cache_key("intrinsic", hardware.key, machine.key, toolchain_key())
    if store.get(key) is not None:
        return
    facts = {name: getattr(machine, name) for name in ("name", "triple", "cpu", "features", "vector_bits")}
    request = json.dumps({"text": emit_alone(hardware, machine), "machine": facts})
    try:
        done = subprocess.run(
            python_command(_TRY), input=request, capture_output=True, text=True, timeout=60, env=python_environment()
        )
    except (OSError, subprocess.SubprocessError):
        return  # no other process to be had: the code is tried where it is used
    if done.returncode:
        reasons = [line.strip() for line in done.stderr.splitlines() if "rror" in line]
        raise ArgumentError(
            f"LLVM does not take the code of intrinsic `{hardware.name}`",
            why=reasons[-1] if reasons else "it stopped",
            help="`needs` names the features that its instructions are part of",
        )
    store.put(key, Artifact({"intrinsic": hardware.name}))


_TRY = """
import json
from weft.target.cpu.host import Machine
from weft.target.cpu.llvm import assemble_llvm
request = json.load(sys.stdin)
fields = {k: tuple(v) if isinstance(v, list) else v for k, v in request["machine"].items()}
assemble_llvm(request["text"], Machine(**fields))
"""


def _meaning_text(name: str, meaning: str | Operator) -> str:
    if isinstance(meaning, str) and not meaning.lstrip().startswith("def"):
        return meaning
    if isinstance(meaning, str):
        from weft.operators.define import define

        meaning = define(meaning, name=f"intrinsic {name}")
    return print_kernel(lower_blocks(lower(normalize(meaning.program), checks=False)))

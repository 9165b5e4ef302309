"""Where an operator comes from: text, or a program made in Python; read only when it must be.

A text that was accepted once leaves a note of its interface in the artifact store, so the
next process can check calls and find machine code without loading the parser.
"""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import TYPE_CHECKING

from weft.ir.errors import LanguageError
from weft.ir.span import Source
from weft.operators.interface import Interface
from weft.operators.scheduling import DEFAULT, Scheduling
from weft.runtime.store import Artifact, default_store
from weft.version import cache_key

if TYPE_CHECKING:
    from weft.tensor.program import TensorProgram


class Definition:
    """A text in the whiteboard language, which of its definitions is meant, and how it is scheduled."""

    def __init__(self, source: Source, entry: str | None, how: Scheduling = DEFAULT) -> None:
        self.source = source
        self.entry = entry
        self.how = how

    @cached_property
    def key(self) -> str:
        parts = (self.source.name, self.source.text, self.entry or "", self.how.key)
        return cache_key("definition", *parts, *_intrinsic_keys(self.how.trace or ""))

    @cached_property
    def programs(self) -> dict[str, TensorProgram]:
        from weft.lang.parse import parse_programs

        return parse_programs(self.source.text, self.source.name)

    @cached_property
    def program(self) -> TensorProgram:
        if self.entry is None:
            return next(reversed(self.programs.values()))
        if self.entry not in self.programs:
            raise LanguageError(
                f"{self.source.name} does not define `{self.entry}`",
                why=f"it defines {', '.join(self.programs)}",
            )
        return self.programs[self.entry]

    @cached_property
    def interface(self) -> Interface:
        store = default_store()
        known = store.get(self.key)
        if known is not None:
            with contextlib.suppress(KeyError, TypeError, ValueError):
                return Interface.from_json(known.metadata, self.source)
        from weft.operators.describe import interface_of

        interface = interface_of(self.program)
        store.put(self.key, Artifact(interface.to_json()))
        return interface

    def sibling(self, entry: str) -> Definition:
        """Another definition of the same text."""
        other = Definition(self.source, entry, self.how)
        other.programs = self.programs
        return other

    def scheduled(self, how: Scheduling) -> Definition:
        """The same definition, scheduled as ``how`` says."""
        other = Definition(self.source, self.entry, how)
        if "program" in self.__dict__:
            other.programs, other.program = self.programs, self.program
        return other


def _intrinsic_keys(trace: str) -> list[str]:
    """What tells the intrinsics that ``trace`` names from others of those names."""
    if "tensorize(" not in trace:
        return []
    from weft.ir.hardware import HARDWARE

    return [h.key for name, h in sorted(HARDWARE.items()) if f'"{name}"' in trace]


class ProgramDefinition(Definition):
    """A program made with the Python builders; its printed form stands for the text."""

    def __init__(self, program: TensorProgram, how: Scheduling = DEFAULT) -> None:
        from weft.tensor.printer import print_program

        super().__init__(Source(f"<operator {program.name}>", print_program(program)), None, how)
        self.program = program
        self.programs = {program.name: program}

"""Where an operator comes from: text, or a program made in Python; read only when it must be.

A text that was accepted once leaves a note of its interface in the artifact store, so the
next process can check calls and find machine code without loading the parser.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from weft.ir.errors import LanguageError
from weft.ir.span import Source
from weft.operators.interface import Interface
from weft.operators.scheduling import DEFAULT, Scheduling
from weft.runtime.store import Artifact, default_store
from weft.version import cache_key

if TYPE_CHECKING:
    from weft.operators.signature import Signature
    from weft.runtime.argument import ArgumentInfo
    from weft.tensor.program import TensorProgram


#: An array or a number that every call has in common.
BoundValue: TypeAlias = "ArgumentInfo | int | float | bool"


class Definition:
    """A text in the whiteboard language, which of its definitions is meant, and how it is scheduled.

    ``dynamic`` names the sizes that one compilation serves all values of.
    """

    #: Values that every call has in common, see `bind`.
    bound: Mapping[str, BoundValue] = MappingProxyType({})
    #: Whether the interface is what was kept of the text, which was not read.
    _is_kept = False

    def __init__(
        self, source: Source, entry: str | None, how: Scheduling = DEFAULT, dynamic: tuple[str, ...] = ()
    ) -> None:
        self.source = source
        self.entry = entry
        self.how = how
        self.dynamic = dynamic
        #: the kinds of remarks that were told at calls
        self.told: set[str] = set()

    @cached_property
    def key(self) -> str:
        parts = (self.source.name, self.source.text, self.entry or "", self.how.key, *self.dynamic)
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
        kept = default_store().get(self.key)
        if kept is not None:
            with contextlib.suppress(Exception):
                interface = Interface.from_json(kept.metadata, self.source)
                self._is_kept = True
                return interface
        return self._read_interface()

    def _read_interface(self) -> Interface:
        from weft.operators.describe import interface_of

        interface = interface_of(self.program)
        default_store().put(self.key, Artifact(interface.to_json()))
        return interface

    def is_misread(self) -> bool:
        """Whether what was kept of the text is not what it says, which is put right. Asked before an error is told."""
        kept, is_kept = self.interface, self._is_kept
        self._is_kept = False
        if is_kept:
            self.interface = self._read_interface()
        return kept != self.interface

    @property
    def whole_interface(self) -> Interface:
        """The interface with bound parameters too."""
        return self.interface

    @property
    def device(self) -> str:
        """Where a call without arrays runs: with the bound ones."""
        return "cpu"

    def complete(self, signature: Signature) -> Signature:
        """The signature of a call with the bound values added."""
        return signature

    def sibling(self, entry: str) -> Definition:
        """Another definition of the same text."""
        other = Definition(self.source, entry, self.how, self.dynamic)
        other.programs = self.programs
        return other

    def scheduled(self, how: Scheduling) -> Definition:
        """The same definition, scheduled as ``how`` says."""
        other = Definition(self.source, self.entry, how, self.dynamic)
        other.told = self.told
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

    def __init__(self, program: TensorProgram, how: Scheduling = DEFAULT, dynamic: tuple[str, ...] = ()) -> None:
        from weft.tensor.printer import print_program

        super().__init__(Source(f"<operator {program.name}>", print_program(program)), None, how, dynamic)
        self.program = program
        self.programs = {program.name: program}

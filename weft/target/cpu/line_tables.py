"""Lines of a user's source for machine code, so that debuggers and profilers show them.

A statement's instructions get the statement's place; where a pass made a statement without one, the place of what is
around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft.ir.span import Span

#: Below are the numbers of what the emitters refer to themselves.
_FIRST = 1000


class LineTable:
    """LLVM's debug information of one module; its functions are all called ``name`` there."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers: dict[str, int] = {}

    def function(self, lines: Sequence[str], marks: Sequence[tuple[int, Span]]) -> tuple[str, list[str]]:
        """What a function's head and lines get; ``marks``: from which line on code belongs to which place."""
        if not marks:
            return "", list(lines)
        file = self._file(marks[0][1])
        scope = self._distinct(
            f'!DISubprogram(name: "{self._name}", scope: {file}, file: {file}, line: {marks[0][1].line}, '
            f"type: {self._node('!DISubroutineType(types: !{})')}, unit: {self._unit(file)}, "
            "spFlags: DISPFlagDefinition | DISPFlagOptimized)"
        )
        starts = dict(marks)  # of several that begin at a line the last
        place, placed = self._place(marks[0][1], scope, file), []
        for number, line in enumerate(lines):
            if number in starts:
                place = self._place(starts[number], scope, file)
            placed.append(f"{line}, !dbg {place}" if line.startswith("  ") else line)
        return f" !dbg {scope}", placed

    def footer(self) -> list[str]:
        """The nodes that the lines refer to."""
        if not self._numbers:
            return []
        flags = [self._node('!{i32 2, !"Debug Info Version", i32 3}'), self._node('!{i32 7, !"Dwarf Version", i32 4}')]
        units = [f"!{n}" for text, n in self._numbers.items() if "!DICompileUnit" in text]
        named = [f"!llvm.dbg.cu = !{{{', '.join(units)}}}", f"!llvm.module.flags = !{{{', '.join(flags)}}}"]
        return [*named, *(f"!{n} = {text.partition(' #')[0]}" for text, n in self._numbers.items())]

    def _node(self, text: str) -> str:
        return f"!{self._numbers.setdefault(text, _FIRST + len(self._numbers))}"

    def _distinct(self, text: str) -> str:
        """A node of its own: what tells it from one of the same text is left out when it is written."""
        return self._node(f"distinct {text} #{len(self._numbers)}")

    def _file(self, span: Span) -> str:
        path = Path(span.source.name)
        return self._node(f'!DIFile(filename: "{path.name}", directory: "{path.absolute().parent}")')

    def _unit(self, file: str) -> str:
        return self._node(
            f'distinct !DICompileUnit(language: DW_LANG_C_plus_plus_14, file: {file}, producer: "Weft", '
            "isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)"
        )

    def _place(self, span: Span, scope: str, file: str) -> str:
        own = self._file(span)
        if own != file:
            scope = self._node(f"!DILexicalBlockFile(scope: {scope}, file: {own}, discriminator: 0)")
        return self._node(f"!DILocation(line: {span.line}, column: {span.column}, scope: {scope})")

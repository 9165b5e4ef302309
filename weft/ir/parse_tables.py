"""Grammars of the languages, and the tables that lark makes of them: the one module that loads lark to parse.

Working out parse tables from a grammar takes lark longer than loading them, so they are kept beside the grammar
(``whiteboard.lark``, ``whiteboard.json``); where such a file was made by another lark or from another grammar, it is
not used. After a change of a grammar: ``python -m weft.ir.parse_tables weft/*/*.lark``.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Grammar:
    """The grammar in file ``path``."""

    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def tables(self) -> Path:
        return self.path.with_suffix(".json")

    def parser(self, transformer: Any = None) -> Any:
        """lark's parser; what it reads becomes what ``transformer`` makes of it, or a tree with positions."""
        from lark import Lark

        text = self.text
        tables = self.load_tables(text)
        options = {"transformer": transformer, "propagate_positions": transformer is None}
        return Lark(text, parser="lalr", **options) if tables is None else Lark._load_from_dict(*tables, **options)

    def load_tables(self, text: str) -> tuple[Any, Any] | None:
        """The stored tables, if they are those of ``text``."""
        try:
            stored = json.loads(self.tables.read_text(encoding="utf-8"))
            if stored["stamp"] != _stamp(text):
                return None
            data, memo = stored["data"], stored["memo"]
            parser = data["parser"]["parser"]
            # JSON knows only strings as keys; lark counts its states and its memo.
            parser["states"] = {int(state): actions for state, actions in parser["states"].items()}
            for actions in parser["states"].values():
                for token in list(actions):
                    actions[int(token)] = actions.pop(token)
            parser["tokens"] = {int(number): token for number, token in parser["tokens"].items()}
            return data, {int(key): value for key, value in memo.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def make_tables(self) -> str:
        """The text of the file of tables, for this grammar and this lark."""
        from lark import Lark
        from lark.grammar import Rule
        from lark.lexer import TerminalDef

        text = self.text
        data, memo = Lark(text, parser="lalr").memo_serialize([TerminalDef, Rule])
        data["options"]["transformer"] = None
        stored = {"stamp": _stamp(text), "data": data, "memo": memo}
        return json.dumps(stored, separators=(",", ":"), sort_keys=True) + "\n"


def _stamp(text: str) -> str:
    """What the tables depend on."""
    import lark

    return f"lark {lark.__version__} {hashlib.sha256(text.encode()).hexdigest()}"


if __name__ == "__main__":
    for each in map(Grammar, map(Path, sys.argv[1:])):
        each.tables.write_text(each.make_tables(), encoding="utf-8")

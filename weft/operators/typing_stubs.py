"""Stubs of what is made from tables, so that type checkers and editors know it: functions, the operator library.

After a change: ``python -m weft.operators.typing_stubs``.
"""

from __future__ import annotations

from pathlib import Path

from weft.ir.intrinsics import INTRINSICS
from weft.lang.functions import MEANINGS
from weft.ops.library import aliases, names

_ROOT = Path(__file__).resolve().parents[1]
_HEAD = '"""Made by `weft.operators.typing_stubs`."""\n\n'


def stubs() -> dict[Path, str]:
    """The text of each stub."""
    return {
        _ROOT / "tensor" / "python_functions.pyi": _functions(),
        _ROOT / "ops" / "__init__.pyi": _library(),
    }


def _functions() -> str:
    lines = [f"{_HEAD}from weft.tensor.value import Operand, Value\n"]
    for name, intrinsic in sorted(INTRINSICS.items()):
        arguments = ", ".join(f"{x}: Operand" for x in "xyzw"[: intrinsic.arity])
        meaning = MEANINGS[name][:1].upper() + MEANINGS[name][1:]
        lines.append(f'def {name}({arguments}, /) -> Value:\n    """{meaning}."""\n')
    listed = "".join(f'    "{name}",\n' for name in sorted(INTRINSICS))
    return "\n".join([*lines, f"__all__ = [\n{listed}]\n"])


def _library() -> str:
    known = sorted({*names(), *aliases()})
    lines = [
        f"{_HEAD}from collections.abc import Callable\nfrom typing import Any\n",
        "from weft.operators.operator import Operator",
        "from weft.ops.library import aliases as aliases",
        "from weft.ops.library import names as names",
        "from weft.ops.library import program as program",
        "from weft.ops.library import source as source\n",
        "make_operator: Callable[[str, str], Any] | None\n",
        'def get(name: str, dtype: str = "float32") -> Operator:\n'
        '    """The operator ``name`` for elements of ``dtype``."""\n',
        *(f"{name}: Operator" for name in known),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")

"""The host's half of a unit: clang's LLVM text, in which the device's variables are the device's own.

clang gives the host a shadow of each variable, to be a name in calls of the runtime API. On a CPU host and device have
one memory, so the shadow is replaced by the variable itself, and managed variables need nothing further.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from weft.from_cuda.device_text import rename


def share_variables(text: str, variables: Mapping[str, str]) -> str:
    """``text`` in which ``variables`` of the device, by what the linker calls them, are those."""
    names = {}
    for name, symbol in variables.items():
        if re.search(rf"^@{re.escape(name)} = external ", text, flags=re.MULTILINE):
            names[f"@{name}"] = symbol
            continue
        shadow = re.compile(rf"^@{re.escape(name)} = internal (?:[\w.]+ )*(?:global|constant) (.*)$", re.MULTILINE)
        found = shadow.search(text)
        if found is None or found.group(1).startswith("%struct.texture"):
            continue
        kind = re.sub(r" (?:undef|zeroinitializer|poison)(?=,|$)", "", found.group(1))
        text = f"{text[: found.start()]}@{name} = external global {kind}{text[found.end() :]}"
        names[f"@{name}"] = symbol
    return rename(text, names)


def target_lines(text: str) -> str:
    """The lines that say for which processor ``text`` is."""
    return "\n".join(re.findall(r"^target .*$", text, flags=re.MULTILINE))

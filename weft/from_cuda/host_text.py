"""The host's half of a unit: clang's LLVM text, in which the device's variables are the device's own.

clang gives the host a shadow of each variable, to be a name in calls of the runtime API. On a CPU host and device have
one memory, so the shadow is replaced by the variable itself, and managed variables need nothing further.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from weft.from_cuda.device_text import rename, type_after


def share_variables(text: str, variables: Mapping[str, str]) -> str:
    """``text`` in which ``variables`` of the device, by what the linker calls them, are those."""
    names = {}
    for name, symbol in variables.items():
        if re.search(rf"^@{re.escape(name)} = external ", text, flags=re.MULTILINE):
            names[f"@{name}"] = symbol
            continue
        shadow = rf"^@{re.escape(name)} = internal (?:[\w.]+ )*(?:global|constant) (.*)$"
        found = re.search(shadow, text, flags=re.MULTILINE)
        kind = type_after("", found.group(1)) if found else ""
        # One with a value is the host's own, as of a function for both that has a static variable.
        behind = re.match(r" (?:undef|poison)(,.*)?$", found.group(1)[len(kind) :]) if found else None
        if found is None or behind is None or kind.startswith("%struct.texture"):
            continue
        text = f"{text[: found.start()]}@{name} = external global {kind}{behind.group(1) or ''}{text[found.end() :]}"
        names[f"@{name}"] = symbol
    return rename(text, names)


def target_lines(text: str) -> str:
    """The lines that say for which processor ``text`` is."""
    return "\n".join(re.findall(r"^target .*$", text, flags=re.MULTILINE))

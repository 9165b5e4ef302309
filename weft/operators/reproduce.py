"""A fault of Weft's own, written down as one file that shows it again."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from weft.ir.deep import usual_recursion
from weft.ir.errors import Error, InternalError, TargetError
from weft.runtime.store import default_store
from weft.version import __version__

if TYPE_CHECKING:
    from weft.operators.definition import Definition
    from weft.operators.signature import Layout, Signature


#: Errors of a system that has no more files, memory or room.
_LACKS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC)


@contextlib.contextmanager
def faults_reproduced(
    definition: Definition, signature: Signature | None, checks: bool, target: str = "cpu"
) -> Iterator[None]:
    """What goes wrong inside that is not the user's doing becomes an `InternalError` with a script."""
    try:
        with usual_recursion():
            yield
    except InternalError as error:
        raise internal_error(error, definition, signature, checks, target) from error
    except Error:
        raise
    except (MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _LACKS:
            raise internal_error(error, definition, signature, checks, target) from error
        raise TargetError(
            "the system does not give what compiling takes",
            why=str(error) or "there is no memory left",
            help="look at the limits of this process (`ulimit -a`) and at what else it holds",
        ) from error
    except Exception as error:
        raise internal_error(error, definition, signature, checks, target) from error


def internal_error(
    error: Exception, definition: Definition, signature: Signature | None, checks: bool, target: str = "cpu"
) -> InternalError:
    """``error`` as an InternalError that names a script reproducing it."""
    path = write_reproduction(error, definition, signature, checks, target)
    report = InternalError(
        "Weft failed on a program it should handle",
        why=f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}",
        help=f"please report it with {path}, which reproduces it" if path else "please report it",
    )
    report.reproduction = path
    return report


#: Files of this process by what is in them: a fault that is met again needs no other.
_written: dict[str, str] = {}
#: Files that are kept of all processes.
_MOST = 20
_PREFIX = "weft-reproduction-"


def write_reproduction(
    error: Exception, definition: Definition, signature: Signature | None, checks: bool, target: str = "cpu"
) -> str | None:
    """Writes the script to a file of its own, which only its user can read; None where that is not possible."""
    import tempfile  # only faults need it, and it takes milliseconds to load

    text = reproduction_script(error, definition, signature, checks, target)
    if os.path.exists(_written.get(text, "")):
        return _written[text]
    try:
        handle, path = tempfile.mkstemp(prefix=_PREFIX, suffix=".py", dir=_folder_for_one_more())
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError:
        return None
    _written[text] = path
    return path


def last_faults() -> list[Path]:
    """Files of the last faults that are kept, the newest first."""
    kept = default_store().directory
    found = [] if kept is None else [*(kept / "faults").glob(f"{_PREFIX}*.py")]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def _folder_for_one_more() -> Path | None:
    """Beside what is kept of code; None for the system's folder where nothing is kept."""
    kept = default_store().directory
    if kept is None:
        return None
    with contextlib.suppress(OSError):  # another process may remove them too
        for old in last_faults()[_MOST - 1 :]:
            old.unlink()
    (kept / "faults").mkdir(mode=0o700, exist_ok=True)
    return kept / "faults"


def reproduction_script(
    error: Exception, definition: Definition, signature: Signature | None, checks: bool, target: str = "cpu"
) -> str:
    import traceback

    trace = "".join(traceback.format_exception(error)).rstrip().replace("\n", "\n# ")
    checked = "on" if checks else "off"
    options = [f"entry={definition.entry!r}", f"checks={checked!r}", f"dynamic={definition.dynamic!r}"]
    options += [f"target={definition.how.target!r}"] if definition.how.target else []
    lines = [
        f"# Weft {__version__} failed on this program:",
        f"# {trace}",
        "import numpy as np",
        "",
        "import weft",
        "",
        f"text = {definition.source.text!r}",
        f"op = weft.define(text, {', '.join(options)})",
        f"op = op.with_schedule({definition.how.how!r}, numerics={definition.how.numerics!r})",
        "",
        "",
        "def make(dtype, shape, strides):  # an array of this layout; its values do not matter",
        "    reach = 1 + sum((n - 1) * abs(s) for n, s in zip(shape, strides)) if 0 not in shape else 0",
        "    memory = np.ones(reach, weft.numpy_dtype(dtype))",
        "    start = sum((n - 1) * -s for n, s in zip(shape, strides) if s < 0) if 0 not in shape else 0",
        "    strides = [s * memory.itemsize for s in strides]",
        "    return np.lib.stride_tricks.as_strided(memory[start:], shape, strides)",
        "",
        "",
    ]
    if signature is None:
        return "\n".join([*lines, f'print(op.show("loops", target={target!r}))', ""])
    signature = definition.complete(signature)
    named = [f"{name}={_make(layout)}" for name, layout in signature.tensors]
    named += [f"{name}={value}" for name, value in signature.constants]
    named += [f"{p.name}={p.dtype == 'bool' or 1}" for p in definition.whole_interface.params if p.role == "scalar"]
    if target == "cuda":
        return "\n".join([*lines, f'print(op.show("ptx", {", ".join(named)}))', ""])
    if signature.outputs:
        named.append(f"out=({', '.join(_make(layout) for _, layout in signature.outputs)},)")
    return "\n".join([*lines, f"op({', '.join(named)})", ""])


def _make(layout: Layout) -> str:
    return f"make({layout.dtype!r}, {layout.shape}, {layout.strides})"

"""A fault of Weft's own, written down as one file that shows it again."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from weft.ir.deep import usual_recursion
from weft.ir.errors import Error, InternalError, TargetError
from weft.version import __version__, cache_key

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


def write_reproduction(
    error: Exception, definition: Definition, signature: Signature | None, checks: bool, target: str = "cpu"
) -> str | None:
    """Writes the script to the temporary directory; None where that is not possible."""
    import tempfile  # only faults need it, and it takes milliseconds to load

    text = reproduction_script(error, definition, signature, checks, target)
    try:
        path = Path(tempfile.gettempdir()) / f"weft-reproduction-{cache_key(text)[:12]}.py"
        path.write_text(text, encoding="utf-8")
    except OSError:
        return None
    return str(path)


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

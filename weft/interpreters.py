"""Other Pythons that this one starts: they find modules where it does, but nothing in the folder that a user is in.

``python -c`` and ``python -m`` put the current folder before all others, so that they run the `queue.py` of a folder of
downloads. Those that are started here find Python's own modules first and installed ones next. Folders that were put
into the path for the program that runs here (its own, the current one) come last.
"""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
from pathlib import Path

#: Flags of this process that others have too, by their names in `sys.flags`.
_INHERITED = {"ignore_environment": "-E", "no_user_site": "-s", "no_site": "-S"}


def python_command(code: str, *arguments: str) -> list[str]:
    """The command that runs ``code`` in another interpreter, with ``arguments`` in `sys.argv`."""
    flags = [flag for name, flag in _INHERITED.items() if getattr(sys.flags, name)]
    if sys.version_info >= (3, 11):
        flags.append("-P")  # from 3.13 on, modules are imported before the code runs
    path_first = f"import sys; sys.path[:] = {module_folders()!r}"  # nothing is read from a folder to import `sys`
    return [sys.executable, *flags, "-c", f"{path_first}\n{code}", *arguments]


def python_environment() -> dict[str, str]:
    """The environment for `python_command`, which says itself where modules are."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def module_folders() -> list[str]:
    """Where another interpreter looks for modules."""
    own = _folders_of_python()
    program = _folders_of_program()
    folders = [folder for folder in sys.path if isinstance(folder, str) and os.path.isabs(folder)]
    places = {folder: os.path.realpath(folder) for folder in folders}
    ranked = sorted(folders, key=lambda folder: 0 if places[folder] in own else 2 if places[folder] in program else 1)
    return list(dict.fromkeys([*ranked, str(Path(__file__).resolve().parent.parent)]))


def _folders_of_python() -> set[str]:
    libraries = [Path(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib")]
    packed = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    own = [folder for one in libraries for folder in (one, one / "lib-dynload", one.parent / packed)]
    return {os.path.realpath(folder) for folder in own}


def _folders_of_program() -> set[str]:
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    found = {os.path.realpath(os.path.dirname(script))} if script else set()
    with contextlib.suppress(OSError):  # the current one may have been removed
        found.add(os.path.realpath(os.getcwd()))
    return found

"""Programs that `weft cuda run` has built, kept as long as no file they were made of has changed."""

from __future__ import annotations

import importlib
import os
import re
import threading
from pathlib import Path

from weft.from_cuda.clang import find_clang
from weft.from_cuda.nvcc_options import BuildOptions
from weft.runtime.store import Artifact, default_store
from weft.version import cache_key


def build_or_take(options: BuildOptions, folder: Path) -> Path:
    """The program of ``options`` in ``folder``: built there, or as it was built before."""
    names = [str(f.resolve()) for f in options.files]
    how = (*options.compile, "-l", *options.link, *(["watched"] * options.watched))
    key = cache_key("cuda program", os.getcwd(), *find_clang(), *names, *how)
    store = default_store()
    kept = store.get(key)
    options.output = folder / options.files[0].stem if options.files else folder / "a.out"
    if kept is not None and all(_state(Path(name)) == state for name, state in kept.metadata["files"].items()):
        options.output.write_bytes(kept.blobs["program"])
        options.output.chmod(0o755)
        return options.output
    from weft.from_cuda.program import build_program

    # Its kernels will need what reads and compiles them: a third of a second that clang takes anyway.
    threading.Thread(target=importlib.import_module, args=["weft.from_cuda.grid_code"], daemon=True).start()
    (program,) = build_program(options, ahead=False, dependencies=folder)
    files = {str(f.resolve()) for f in options.files}
    for listed in folder.glob("*.d"):
        files |= set(_dependencies(listed.read_text(errors="replace")))
    states = {name: _state(Path(name)) for name in sorted(files) if not name.startswith(str(folder))}
    store.put(key, Artifact({"kind": "cuda program", "files": states}, {"program": program.read_bytes()}))
    return program


def _state(path: Path) -> list[int]:
    """What changes with a file."""
    try:
        found = path.stat()
    except OSError:
        return []
    return [found.st_mtime_ns, found.st_size]


def _dependencies(rule: str) -> list[str]:
    """The files of a makefile's rule, as compilers write it; where names have spaces these are escaped."""
    names = re.split(r"(?<!\\)\s+", rule.replace("\\\n", " ").partition(":")[2].strip())
    return [str(Path(name.replace("\\ ", " ")).resolve()) for name in names if name]

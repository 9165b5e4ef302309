"""Runs a program that was built and makes the code it asks for: launches get code for exactly their sizes."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from weft.from_cuda.ahead_of_time import remember_launches
from weft.from_cuda.grid_code import compile_grid, pointer_places, read_source, template_use
from weft.from_cuda.toolchain import linker_command, run_tool
from weft.from_cuda.unit import Unit
from weft.ir.errors import Error, UnsupportedError


@dataclass
class Server:
    """What is known of a running program: its units by name, and why kernels run thread by thread."""

    sources: Mapping[str, tuple[Path, Sequence[str]]]
    folder: Path
    units: dict[str, Unit] = field(default_factory=dict)
    uses: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    launches: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    made: int = 0

    def answer(self, question: str) -> str:
        """The answer to a line of a program's."""
        what, unit, kernel, *rest = question.split(" ", 3)
        try:
            read = self._unit(unit, kernel)
            if what == "kernel":
                return f"ok\n{pointer_places(read, kernel)}\n"
            code = compile_grid(read, kernel, rest[0])
        except Exception as error:
            # Whatever went wrong, the kernel runs thread by thread; the reason is told at the end.
            self.refused[kernel] = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
            return "no\n"
        self.launches.setdefault(unit, {}).setdefault(kernel, []).append(rest[0])
        self.made += 1
        object, library = self.folder / f"{self.made}.o", self.folder / f"{self.made}.so"
        object.write_bytes(code.object)
        run_tool([*linker_command(), "-shared", "-nostdlib", str(object), "-o", str(library)])
        return f"ok\n{library}\n{code.entry}\n{code.slots}"

    def _unit(self, name: str, kernel: str) -> Unit:
        """The unit, read again where ``kernel`` comes from a template that was not instantiated yet."""
        file, flags = self.sources[name]
        if name not in self.units:
            self.units[name] = read_source(file, flags)
        if kernel not in self.units[name].kernels:
            use = template_use(kernel)
            if use is not None:
                self.uses.setdefault(name, []).append(use)
                self.units[name] = read_source(file, flags, self.uses[name])
        if kernel not in self.units[name].kernels:
            raise UnsupportedError("the kernel is not among those that were read")
        return self.units[name]

    def serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rw", encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                lines.write(self.answer(line.rstrip("\n")) + "\n")
                lines.flush()


def run_program(
    program: Path,
    arguments: Sequence[str],
    sources: Mapping[str, tuple[Path, Sequence[str]]],
    environment: Mapping[str, str],
    *,
    folder: Path | None = None,
    output: IO[str] | None = None,
    seconds: float | None = None,
) -> tuple[int, Mapping[str, str]]:
    """Runs ``program``, in ``folder``, for ``seconds`` at most; its exit code, and why kernels ran thread by thread."""
    with tempfile.TemporaryDirectory(prefix="weft-cuda-") as made:
        ours, theirs = socket.socketpair()
        server = Server(sources, Path(made))
        thread = threading.Thread(target=server.serve, args=(ours,), daemon=True)
        thread.start()
        with theirs:
            number = theirs.fileno()
            running = subprocess.Popen(
                [str(program), *arguments], pass_fds=(number,), env={**environment, "WEFT_CUDA_SERVER": str(number)},
                cwd=folder, stdout=output, stderr=output,
            )  # fmt: skip
        try:
            code = running.wait(seconds)
        except BaseException:
            running.kill()
            running.wait()
            raise
        for unit, launches in server.launches.items():
            remember_launches(unit, launches)
        return code, server.refused

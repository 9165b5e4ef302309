"""Runs a program that was built and makes the code it asks for: launches get code for exactly their sizes."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from weft.from_cuda.kept_code import KeptCode, Refusal
from weft.from_cuda.kept_launches import remember_launches
from weft.ir.errors import Error


@dataclass
class Server:
    """What is known of a running program: its units by name, and why kernels run thread by thread."""

    sources: Mapping[str, tuple[Path, Sequence[str]]]
    folder: Path
    units: dict[str, KeptCode] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    launches: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    made: int = 0
    #: folders of texts that were refused, which a program that says it is done with them removes itself
    left: list[Path] = field(default_factory=list)

    def answer(self, question: str) -> str:
        """The answer to a line of a program's: ``kernel UNIT SOURCE NAME``, ``launch UNIT SOURCE NAME LAUNCH``, or
        ``compile FOLDER`` for a module of text."""
        if question.startswith("compile "):
            return self.compile(Path(question.removeprefix("compile ")))
        _, unit, source, kernel, *launch = question.split(" ", 4)
        if unit not in self.sources:  # then its kernels are to run thread by thread
            return "no\n"
        if unit not in self.units:
            self.units[unit] = KeptCode(*self.sources[unit], source)
        kept = self.units[unit]
        if launch:
            self.launches.setdefault(unit, {}).setdefault(kernel, []).append(launch[0])
        found = kept.code(kernel, launch[0]) if launch else kept.pointers(kernel)
        if isinstance(found, Refusal):
            self.refused[kernel] = found.reason
            return "no\n"
        if isinstance(found, str):
            return f"ok\n{found}\n"
        self.made += 1
        library = self.folder / f"{self.made}.so"
        library.write_bytes(found.library)
        return f"ok\n{library}\n{found.entry}\n{found.slots}"

    def compile(self, given: Path) -> str:
        from weft.from_cuda.runtime_module import build_module

        self.made += 1
        try:
            module = build_module(given, self.folder / f"module{self.made}")
        except Error as error:
            (given / "log").write_text(f"{error}\n")
            self.left.append(given)
            return "no\n"
        except BaseException:
            self.left.append(given)
            raise
        shutil.rmtree(given, ignore_errors=True)
        self.sources = {**self.sources, module.unit: (module.source, module.flags)}
        return f"ok\n{module.library}\n{module.unit}\n"

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
        finally:
            for folder_left in server.left:
                shutil.rmtree(folder_left, ignore_errors=True)
        for unit, launches in server.launches.items():
            remember_launches(unit, launches)
        return code, server.refused

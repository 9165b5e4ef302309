"""The steps of compiling a whole model: its graph after each rewrite, and each kernel as math and as loops."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from weft.cli.models import read_model
from weft.cli.trace_page import Snapshot
from weft.graph.compiled import Compiled
from weft.graph.explain import explain_compiled
from weft.graph.graph import Graph
from weft.graph.groups.compile_group import Kernel
from weft.graph.text import print_graph
from weft.graph.watch import WATCHER
from weft.ir.printer import print_kernel
from weft.operators.choose_machine import choose_machine
from weft.operators.stages import Build
from weft.tensor.printer import print_program


class _Seen:
    """The steps of a model that is compiled."""

    def __init__(self) -> None:
        self.rewrites: list[tuple[str, Graph, Graph, float]] = []
        self.kernels: list[tuple[Kernel, Build]] = []

    def rewritten(self, name: str, before: Graph, after: Graph, seconds: float) -> None:
        self.rewrites.append((name, before, after, seconds))

    def loaded(self, kernel: Kernel, build: Build) -> None:
        self.kernels.append((kernel, build))


def trace_model(options: argparse.Namespace) -> tuple[str, str, list[Snapshot]]:
    """What the page is about, for which machine, and its steps."""
    net, arrays = read_model(options)
    seen = _Seen()
    token = WATCHER.set(seen)
    try:
        compiled, _ = net.find_compiled((arrays,))
    finally:
        WATCHER.reset(token)
    return str(options.file), choose_machine("cpu").name, [*_rewrites(seen), *_kernels(seen, compiled)]


def _rewrites(seen: _Seen) -> Iterator[Snapshot]:
    for _, before, _, _ in seen.rewrites[:1]:
        yield Snapshot("start", "the model as it was read", print_graph(before))
    for name, _, after, seconds in seen.rewrites:
        yield Snapshot("graph", name, print_graph(after), seconds)


def _kernels(seen: _Seen, compiled: Compiled) -> Iterator[Snapshot]:
    """Each kernel that runs, as math and as loops without what is done once with constants; those alike once."""
    builds = {id(kernel): build for kernel, build in seen.kernels}
    found: dict[tuple[str, str], list[float]] = {}
    for _, kernel in compiled.report.groups:
        start, made = time.perf_counter(), builds[id(kernel)]
        texts = print_program(made.program), print_kernel(made.separated().main)
        found.setdefault(texts, []).append(time.perf_counter() - start)
    for n, ((math, loops), seconds) in enumerate(found.items()):
        times = f", {len(seconds)} times" if len(seconds) > 1 else ""
        yield Snapshot("kernel", f"kernel {n}{times}", math, fresh=True)
        yield Snapshot("schedule", f"kernel {n} as loops", loops, seconds[0], fresh=True)
    yield Snapshot("code", "explain", explain_compiled(compiled), fresh=True)

"""``python -m bench.gpu.compile_times [--set unseen] [--only BERT] [--batch large] [--peers graphs]``: seconds from a
model to its third result, one model after another with all cores: of Weft with nothing cached, of a second process of
Weft that finds what the first kept, and of peers with nothing cached.

Each is a process of its own, forked from one that has imported PyTorch and made the model; eager has run in it, so that
the GPU's libraries are there. What Weft spends is as `weft.explain` says; "tracing" is taking the model apart.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import weft
from bench.gpu.models import MODELS, PEERS, SETS, Row, contender, rows_of
from bench.gpu.processes import CACHES
from bench.models.networks import make_network

#: What every contender imports of PyTorch, or the first to compile would be charged for it.
_IMPORTS = ("torch._dynamo", "torch.export", "torch._functorch.aot_autograd", "torch.fx.experimental.proxy_tensor")
_INDUCTOR = "torch._inductor.compile_fx"
#: Of Weft in a second process.
AGAIN = "again"


def measure(name: str, model: Any, x: Any) -> dict[str, Any]:
    """Seconds from ``model`` to its third result, and of Weft what they were spent on."""
    traced = _count_tracing() if name in ("weft", AGAIN) else {}
    torch.cuda.synchronize()
    start = time.perf_counter()
    run = contender("weft" if name == AGAIN else name, model, x)
    compiled = time.perf_counter()
    for _ in range(3):
        run(x)
    torch.cuda.synchronize()
    end = time.perf_counter()
    found: dict[str, Any] = {"seconds": end - start}
    if traced:
        found["spent"] = {**traced, **_spent(run), "calls": end - compiled}
        found["notes"] = _notes(run)
    return found


def _count_tracing() -> dict[str, float]:
    """Seconds of taking models apart, from now on."""
    from weft.graph.from_torch import backend

    spent, trace = {"tracing": 0.0}, backend.trace

    @functools.wraps(trace)
    def run(*args: Any, **named: Any) -> Any:
        start = time.perf_counter()
        try:
            return trace(*args, **named)
        finally:
            spent["tracing"] += time.perf_counter() - start

    backend.trace = run
    return spent


def _spent(run: Any) -> dict[str, float]:
    spent: dict[str, float] = {}
    for part in run.parts.values():
        for variant in part.model.variants.values():
            if variant.compiled is not None:
                spent |= variant.compiled.report.spent
    return spent


def _notes(run: Any) -> list[str]:
    told = ("launches in order", "eager, because", "faults of Weft")
    return [line for line in weft.explain(run).splitlines() if any(part in line for part in told)]


def _child(row: Row, dtype: str, name: str, model: Any, x: Any, folder: str, pipe: Any) -> None:
    for cache in CACHES:
        os.environ[cache] = folder
    os.environ["WEFT_CACHE"] = "on"
    torch.set_grad_enabled(False)
    if name in PEERS:
        importlib.import_module(_INDUCTOR)
    kind = getattr(torch, dtype)
    model, x = model.to("cuda", kind), x.to("cuda", kind if x.is_floating_point() else None)
    model(x)
    try:
        pipe.send(measure(name, model, x))
    except Exception as problem:  # a contender that cannot do it is told
        pipe.send({"notes": [f"{type(problem).__name__}: {str(problem)[:300]}"]})


def measure_row(row: Row, dtype: str, peers: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What each contender took, Weft twice; the model is made once, by one thread: a fork has no others."""
    model, x = make_network(row.model, row.batch, "cpu", "float32", MODELS)
    if row.tokens:
        x = torch.randint(0, 20000, (row.batch, row.tokens))
    found: dict[str, dict[str, Any]] = {}
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("weft", AGAIN, *peers):
            own = Path(folder) / ("weft" if name == AGAIN else name)
            own.mkdir(mode=0o700, exist_ok=True)
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(row, dtype, name, model, x, str(own), there))
            process.start()
            there.close()
            try:
                found[name] = here.recv()
            except EOFError:
                found[name] = {"notes": ["the process ended"]}
            process.join()
    return found


def text_of(row: Row, found: dict[str, dict[str, Any]]) -> str:
    """A line for a row, and one for each contender's details."""
    ours, lines = found["weft"].get("seconds", float("nan")), []  # type: float, list[str]
    for name, own in found.items():
        seconds = own.get("seconds", float("nan"))
        share = f", weft {ours / seconds:.2f} of it" if name in PEERS else ""
        spent = ", ".join(f"{on} {s:.2f}" for on, s in own.get("spent", {}).items())
        lines.append(f"  {name} {seconds:.2f} s{share}{f' ({spent})' if spent else ''}")
        lines += [f"    {note}" for note in own.get("notes", ())]
    return "\n".join([f"{row.name}:", *lines])


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.compile_times", description=__doc__)
    parser.add_argument("--set", default="developed", choices=SETS)
    parser.add_argument("--only", nargs="*", default=[], help="rows whose names contain one of these")
    parser.add_argument("--batch", choices=("1", "large"), help="only such rows")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--peers", nargs="*", default=["graphs"], choices=PEERS)
    parser.add_argument("--json", type=Path, help="a file for all that was found, written after each row")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module="torch")
    for name in _IMPORTS:
        importlib.import_module(name)
    shares: list[float] = []
    kept: dict[str, Any] = {}
    for row in rows_of(options):
        kept[row.name] = found = measure_row(row, options.dtype, options.peers)
        print(text_of(row, found), flush=True)
        if options.json:
            options.json.write_text(json.dumps(kept, indent=1))
        ours = found["weft"].get("seconds")
        shares += [ours / own["seconds"] for n, own in found.items() if n in PEERS and ours and "seconds" in own]
    if shares:
        print(f"of the peers' time: geomean {statistics.geometric_mean(shares):.2f}, {max(shares):.2f} at most")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

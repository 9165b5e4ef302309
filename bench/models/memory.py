"""``python -m bench.models.memory [--only bert] [--batch 1] [--ways eager weft again mapped]``: memory of models.

Each way in a process of its own: the peak of the process after the model is compiled and called, what it was before
(weights and libraries), what stays when all is done, and the peak of tensors that one call makes: by eager operators
as they are alive at once; with Weft its arena and its results. ``weft`` has a cache of its own that is empty; ``again``
and ``mapped`` (``options={"weights": "mapped"}``) find what it kept.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any

from bench.models.workloads import NAMES

WAYS = ("eager", "weft", "again", "mapped", "inductor")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.models.memory", description=__doc__)
    parser.add_argument("--only", nargs="*", default=["ResNet-50", "MobileNetV2", "BERT", "ViT"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--ways", nargs="*", default=["eager", "weft", "again", "mapped"], choices=WAYS)
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "WAY"), help="measure in this process")
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(measure(*options.one, options.batch)))
        return 0
    print(f"{'':16} {'':9} {'before':>8} {'peak':>8} {'after':>8} {'a call':>8}   MB")
    for name in NAMES:
        if any(part.lower() in name.lower() for part in options.only):
            with tempfile.TemporaryDirectory() as cache:
                for way in options.ways:
                    print(f"{name:16} {way:9} {_apart(name, way, options.batch, cache)}", flush=True)
    return 0


def _apart(name: str, way: str, batch: int, cache: str) -> str:
    command = [sys.executable, "-m", __spec__.name, "--batch", str(batch), "--one", name, way]
    environment = {**os.environ, "WEFT_CACHE": "on", "WEFT_CACHE_DIR": cache}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1]}"
    found = json.loads(done.stdout.splitlines()[-1])
    return " ".join(
        f"{'-' if found[key] is None else round(found[key] / 1e6):>8}" for key in ("before", "peak", "after", "call")
    )


def measure(name: str, way: str, batch: int) -> dict[str, int | None]:
    import torch

    from bench.models.networks import make_network

    model, x = make_network(name, batch, "cpu", "float32")
    before, call = _peak(), None
    if way in ("weft", "again", "mapped"):
        import weft
        from bench.models.peers.weft_itself import compiled_graph

        fast = weft.compile(model, (x,), options={"weights": "mapped"} if way == "mapped" else None)
        executable = compiled_graph(fast).executable
        call = executable.arena.size + sum(t.numel() * t.element_size() for t in _tensors(fast(x)))
    elif way == "inductor":
        fast = torch.compile(model)
    else:
        fast = model
        with Alive() as alive:
            model(x)
        call = alive.most
    for _ in range(3):
        fast(x)
    return {"before": before, "peak": _peak(), "after": _resident(), "call": call}


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def _tensors(value: Any) -> list[Any]:
    import torch

    return [t for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def _dispatch_mode() -> Any:
    import torch

    return torch.utils._python_dispatch.TorchDispatchMode


class Alive(_dispatch_mode()):  # type: ignore[misc]
    """Bytes of tensors that eager operators make and that are there at once, at most."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: dict[int, int] = {}

    def __torch_dispatch__(self, fn: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = fn(*args, **(kwargs or {}))
        given = {t.untyped_storage().data_ptr() for t in _tensors((args, kwargs))}
        for tensor in _tensors(made):
            storage = tensor.untyped_storage()
            address, size = storage.data_ptr(), storage.nbytes()
            if address in self._known:
                self._known[address] += 1
            elif address in given:
                continue  # a view of a weight or of an input
            else:
                self._known[address] = 1
                self.now += size
            weakref.finalize(tensor, self._gone, address, size)
        self.most = max(self.most, self.now)
        return made

    def _gone(self, address: int, size: int) -> None:
        self._known[address] -= 1
        if not self._known[address]:
            del self._known[address]
            self.now -= size


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""``python -m bench.models.sizes [--layers 4] [--count 12] [--special 3] [--threads 1]``: a BERT of random lengths.

What a length costs that was not met before, against a call of it; and how long calls take by kernels for all lengths,
by kernels for just that length, and by eager PyTorch, in turns.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import weft
from bench.models.parts import Logits
from bench.models.torchvision_here import import_torchvision
from weft.graph.from_torch import model as fx_model


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.models.sizes", description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--count", type=int, default=12, help="lengths")
    parser.add_argument("--longest", type=int, default=256)
    parser.add_argument("--batches", type=int, default=1, help="batch sizes are drawn from 1 to this")
    parser.add_argument("--special", type=int, default=3, help="lengths that are compiled for themselves too")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    weft.set_num_threads(options.threads)
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    fx_model.HOT_CALLS = sys.maxsize  # what is timed stays what it is
    measure(bert(options.layers, options.hidden), options)
    return 0


def bert(layers: int, hidden: int) -> Any:
    import_torchvision()
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    sizes = {"hidden_size": hidden, "num_attention_heads": hidden // 64, "intermediate_size": 4 * hidden}
    return Logits(BertModel(BertConfig(num_hidden_layers=layers, **sizes))).eval()


def measure(model: Any, options: argparse.Namespace) -> None:
    draw = random.Random(options.seed)
    shapes = [(draw.randint(1, options.batches), draw.randint(16, options.longest)) for _ in range(options.count + 2)]
    tokens = [torch.randint(0, 20000, shape) for shape in shapes]
    fast = weft.compile(model, (tokens[0],))
    steady = {}
    print(f"{'batch x length':>14} {'first call':>11} {'open':>9} {'special':>9} {'eager':>9}   ms")
    for n, x in enumerate(tokens):
        start = time.perf_counter()
        made = fast(x)
        first = time.perf_counter() - start
        torch.testing.assert_close(made, model(x), rtol=1e-3, atol=1e-4)
        ways = {"open": fast, "eager": model}
        if 2 <= n < 2 + options.special:
            ways["special"] = weft.compile(model, (x,))
        times = in_turns(ways, x, options.turns)
        if n >= 2:  # the first two sizes are compiled for
            steady[n] = first, times
        cells = [f"{times[way] * 1e3:9.2f}" if way in times else " " * 9 for way in ("open", "special", "eager")]
        print(f"{shapes[n][0]:>6} x {shapes[n][1]:<5} {first * 1e3:11.1f} {' '.join(cells)}", flush=True)
    tell(steady)


def in_turns(ways: dict[str, Callable[[Any], Any]], x: Any, turns: int) -> dict[str, float]:
    """The least seconds of each, after one call that is not counted."""
    best = dict.fromkeys(ways, float("inf"))
    for turn in range(turns + 1):
        for name, way in ways.items():
            start = time.perf_counter()
            way(x)
            if turn:
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def tell(steady: dict[int, tuple[float, dict[str, float]]]) -> None:
    if not steady:
        return
    extra = [first - times["open"] for first, times in steady.values()]
    print(f"a size that is new, from the third on: {statistics.median(extra) * 1e3:.0f} ms beyond the call, median; "
          f"{max(extra) * 1e3:.0f} ms at most")  # fmt: skip
    for other in ("special", "eager"):
        ratios = [times[other] / times["open"] for _, times in steady.values() if other in times]
        if ratios:
            print(f"{other} / open: {statistics.geometric_mean(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

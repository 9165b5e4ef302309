"""``python -m bench.gpu [--only softmax ...] [--no-compile] [--graphs] [--write docs/bench-gpu.md]``: needs a GPU and
PyTorch."""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from pathlib import Path

from bench.gpu.attention import attention
from bench.gpu.attention_backward import attention_backward
from bench.gpu.chains import chains
from bench.gpu.convolution_gradients import convolution_gradients
from bench.gpu.convolution_kinds import convolution_kinds
from bench.gpu.convolutions import convolutions
from bench.gpu.measure import Result, copy_bandwidth, measure
from bench.gpu.narrow import narrow
from bench.gpu.products import products
from bench.gpu.report import summary, table
from bench.gpu.scans import scans
from bench.gpu.variable_lengths import variable_lengths
from bench.gpu.workloads import Workload, workloads

PAGE = Path(__file__).parents[2] / "docs" / "bench-gpu.md"
HEAD = """# Weft on a GPU

`python -m bench.gpu --write`, on one {device}, PyTorch {torch}. Medians of repeated event timings after warm-up,
contenders in turns, arguments rotated beyond the second cache; results checked against float64 first.
`of copy` is the bandwidth of bytes that must move, against a copy by `torch.Tensor.copy_`. `first result` is from the
definition to the first result with nothing cached.
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="workloads whose group or name contains one of these")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--graphs", action="store_true", help="launch all by CUDA graphs: host time does not count")
    parser.add_argument("--write", nargs="?", const=str(PAGE), help="write the page of results")
    options = parser.parse_args(arguments)
    import torch

    if not torch.cuda.is_available():
        print("there is no GPU", file=sys.stderr)
        return 2
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    chosen = [
        w
        for w in (
            *workloads(),
            *products(),
            *chains(),
            *convolutions(),
            *convolution_kinds(),
            *convolution_gradients(),
            *narrow(),
            *scans(),
            *attention(),
            *attention_backward(),
            *variable_lengths(),
        )
        if not options.only or any(part in f"{w.group}: {w.name}" for part in options.only)
    ]
    bandwidth = copy_bandwidth(torch)
    results = [r for w in chosen if (r := _measured(torch, w, not options.no_compile, options.graphs)) is not None]
    text = f"{table(results, bandwidth)}\n\n{summary(results, bandwidth)}\n"
    print(text)
    if options.write:
        head = HEAD.format(device=torch.cuda.get_device_name(), torch=torch.__version__)
        Path(options.write).write_text(f"{head}\n{text}", encoding="utf-8")
    return 0


def _measured(torch: object, workload: Workload, compiled: bool, graphs: bool) -> Result | None:
    try:
        result = measure(torch, workload, compiled=compiled, graphs=graphs)
    except Exception:  # the others still count
        print(f"{workload.name} failed:\n{traceback.format_exc(limit=-3)}", file=sys.stderr, flush=True)
        return None
    print(workload.name, {n: round(t, 1) for n, t in result.times.items()}, result.failures or "", flush=True)
    return result


if __name__ == "__main__":
    import os

    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        os.environ["WEFT_CACHE_DIR"] = folder
        sys.exit(main(sys.argv[1:]))

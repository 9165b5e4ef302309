"""What a run of models came to: tables for a page, and one line for the eye."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.field.conductor import OURS
from bench.field.statistics import geometric_mean
from bench.models.conductor import ModelRow
from bench.models.workloads import PUBLISHED_FUSION


@dataclass
class ModelRun:
    """Rows of one or several commands: a row that is measured again takes the place of the old one."""

    machine: str
    versions: dict[str, str] = field(default_factory=dict)
    rows: list[ModelRow] = field(default_factory=list)

    def put(self, row: ModelRow) -> None:
        same = [
            n for n, r in enumerate(self.rows) if (r.model, r.batch, r.threads) == (row.model, row.batch, row.threads)
        ]
        if same:
            old = self.rows[same[0]]  # compiling is measured with --cold alone
            row.cold_s, row.warm_s = row.cold_s or old.cold_s, {**old.warm_s, **row.warm_s}
            self.rows[same[0]] = row
        else:
            self.rows.append(row)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = {**asdict(self), "rows": [r.to_json() for r in self.rows]}
        path.write_text(json.dumps(data, indent=1) + "\n")

    @staticmethod
    def load_from(path: Path) -> ModelRun:
        data = json.loads(path.read_text())
        return ModelRun(**{**data, "rows": [ModelRow.from_json(r) for r in data["rows"]]})


def describe_row(row: ModelRow) -> str:
    head = f"{row.model:<16} batch {row.batch} {row.threads} thread{'s' if row.threads > 1 else ' '}"
    ours = f"weft {row.ms[OURS]:.2f}" if OURS in row.ms else f"weft: {row.missing.get(OURS)}"
    each = "  ".join(f"{n} {ms:.2f}" for n, ms in sorted(row.ms.items(), key=lambda p: p[1]) if n != OURS)
    ratio = f"{row.ratios[row.best].value:5.2f} of {row.best:<12}" if row.best else " " * 21
    gone = "".join(f"  [{n}: {why[:60]}]" for n, why in row.missing.items() if n != OURS)
    return f"{head} {ratio} ms: {ours}  {each}  kernels {row.counts.get('kernels', 0):.0f}{gone}"


def summary(rows: Sequence[ModelRow]) -> list[str]:
    below = sorted((r.ratios[r.best].value, f"{r.model} {r.batch}x{r.threads}") for r in rows if r.best is not None)
    best = [value for value, _ in below]
    mean, least = geometric_mean(best), min(best, default=math.nan)
    lines = [f"geometric mean against the best peer: {mean:.2f} (bar 1.1), least {least:.2f} (bar 0.95)"]
    weak = [f"{name} {value:.2f}" for value, name in below if value < 0.95]
    return lines + ([f"below 0.95 (model, batch x threads): {', '.join(weak)}"] if weak else [])


_HEAD = """# Whole models against the field

`python -m bench.models --write` adds to this page, so rows are of different runs and commits.
Inference in float32; everyone runs the same model with the same
random weights in a process of its own, in turns, the others standing still; results are checked against eager. A
figure is the median over turns, in milliseconds; a ratio is the best peer's time over Weft's, with the 95 % interval
of a bootstrap over turns: more than 1 says that Weft is faster. `inductor` has weights frozen, `openvino` computes in
float32.
"""

_COMPILING = """
## Compiling, memory, fusion

Seconds to a first result, tracing by PyTorch included (its share in brackets): with nothing kept, and in a second
process. Memory is the most that the process had while it was called, weights and PyTorch included. Nodes are the
graph's after constants were folded; beside them the layers that DNNFusion (2021) published before and after fusion.
"""


_WHERE = """
## Where the time goes

GFLOP/s of 3x3 convolutions with ReLU, channels last, four of the same size after one another so that weights are cold;
one thread, by the processor time of the thread, in turns in one process, while others kept both cores busy (load 8 to
14); the median of some 80 calls, and the quickest tenth. "Order": sums go through 64 channels, then the places of the
window. "Ahead": the next panel of weights is fetched while one is computed with. "Strips": rows outside the panels.

| channels, image | before | order | ahead | strips | oneDNN |
|---|---|---|---|---|---|
| 64, 56x56 | 54, 63 | – | – | 70, 81 | 66, 74 |
| 128, 28x28 | 52, 63 | – | – | 64, 88 | 58, 68 |
| 256, 14x14 | 57, 76 | 65, 77 | 70, 88 | as it is | 61, 73 |
| 512, 7x7 | 48, 63 | 57, 69 | 63, 78 | as it is | 57, 66 |
| 512, 14x14, 1x1 | 70, 81 | 69, 81 | 71, 87 | – | 52, 59 |
| 256, 56x56, 1x1 | 56, 64 | – | – | 67, 78 | 61, 77 |

- 512 channels: with the channels outermost every step read 18 pixels that lie 2,048 bytes apart, which are two of the
  first cache's 64 sets. Large pages for weights give 4 % more there (60 to 63; 9.4 MB), nothing elsewhere.
- 64 and 128 channels: with panels outermost an image of 0.5 to 0.9 MB came through the second cache for each panel.
- ResNet-18, one image, one thread, by processor time in turns with onnxruntime in one process (17 calls): 55.1 ms
  against 47.5, quickest 44.4 against 44.3; UNet 103.7 against 87.9. Of ResNet-18's 57.6 ms before strips: first layer
  3.9 (60 GFLOP/s), 64 channels 14.6 (57 to 69), 128 10.8, 256 9.9 (67 to 72), those of stride 2 5.4, 512 11.8 (59),
  the three 1x1 of stride 2 0.8, pooling 0.3, the last layers 0.1. Nothing but convolutions is worth mending.
- ResNet-50 (145.8 ms, before strips): 1x1 of 64 and 256 channels on 56x56 at 41 to 52 GFLOP/s are the slowest; they are
  those that strips serve.
"""

_WEAK = """
## What is weak

- Rows come from several commands, not all at one commit, on two virtual cores that others used too. The same code took
  23 and 42 ms within an hour (ResNet-18, two threads; OpenVINO 22 and 55): ratios near 1 say little. Inductor is not
  there where it was left out for time; of batch 8 little was measured, of transformers only BERT on one thread since
  products with a common input are joined on CPUs too. The newest rows are ResNet-18's and UNet's for
  one image, of a machine that nobody else used (three turns). On two threads ResNet-18 took 37.1 ms there, but 30.6 and
  30.8 in a process by itself right after, and by the code before the last changes 30.6 and 31.2 (one thread: 57.5 and
  60.3): what a turn after another process costs our threads is not looked into.
- The other rows are older than three changes to convolutions and products (sums that go through channels as they lie in
  memory, panels of weights fetched ahead, rows in strips; see "Where the time goes"): nobody had the machine alone
  since. At load 15 to 18 on two cores, and so of little worth: ResNet-18 0.88 of the best peer on one thread and 0.23
  on two, UNet 0.81 and 0.27, ResNet-50 0.83 and 0.19: on two threads what is said of OpenMP below.
- Convolutions: ours are now ahead of oneDNN's on packed weights, but behind onnxruntime's (channels in blocks of 8,
  weights of few channels in the first cache while pixels go by) where another process uses the core's other half.
  Tried: blocks of 16 or 32 channels that stay in the first cache, 0.75 to 1.08 of the speed without, again after sums
  had another order: with channels last the pixels of a block lie apart, which processors do not fetch ahead. That is
  the case for layouts blocked by lanes.
- Until indices of loops that became one for the threads were divided outside the sums, convolutions of few pixels took
  up to 1.9 times as long for each of two threads; all rows but the newest are older.
- Where others use the cores, loops on the threads of PyTorch's OpenMP fall behind: it begins and ends a loop with all
  of them, however late one is. ResNet-18 without library calls, two threads, others at work: 152 ms there, 92 on our
  own pool, onnxruntime 99; alone on the machine 34.9, 37.2 and 31.7.
- Results of library calls lie in new memory: above 4 MB a system like this one makes their pages anew in every call,
  about 4 us each (VGG-16: 12,774 pages a call in eager PyTorch). That is counted when candidates are compared.
- Memory is above eager's: packed weights are kept beside the model's own, where they are not read as they are, and some
  130 MB are compilers (BERT 1,309 MB against 841, VGG-16 1,207 against 971). ResNet-50 (eager 450 MB) had 779 at its
  peak and 641 in a second process, of which 60 were folded weights that library calls kept for nothing; since these go
  when their kernel has packed them: 763 while it is compiled, 616 at the peak of a second process and 580 after. Of
  these 58 are tracing and 97 packed weights, which stay beside the model's own; a cold process has 68 of LLVM's
  library too. While VGG-16 was compiled it was 1,600 MB.
- Not built: Winograd, images padded by whoever writes them, layouts blocked by lanes.
"""


def page(run: ModelRun) -> str:
    peers = [p for p in dict.fromkeys(n for r in run.rows for n in r.ms) if p != OURS]
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    order = sorted(run.rows, key=lambda r: (bool(r.cold_s), r.threads))
    told = list({(r.model, r.batch): r for r in order}.values())
    heads = ("cold", "second process", "Inductor cold", "second", "MB", "eager MB", "nodes", "kernels (different)")
    parts = [_HEAD, f"Measured on {run.machine}. {versions}.", "", *(f"- {line}" for line in summary(run.rows)), ""]
    parts += _table(
        ["model", "batch", "threads", "ratio", "best peer", OURS, *peers], [_speed(r, peers) for r in run.rows]
    )
    parts += [_COMPILING]
    parts += _table(["model", "batch", *heads, "calls", "DNNFusion"], [_compile(r) for r in run.rows if r in told])
    return "\n".join([*parts, _WHERE, _WEAK, *_missing(run.rows)])


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {' | '.join(r)} |" for r in rows)]


def _figure(values: dict[str, float], name: str, digits: int = 1) -> str:
    return f"{values[name]:.{digits}f}" if name in values else "–"


def _speed(row: ModelRow, peers: Sequence[str]) -> list[str]:
    ratio = row.ratios.get(row.best or "")
    said = "–" if ratio is None else f"{ratio.value:.2f} ({ratio.low:.2f}–{ratio.high:.2f})"
    each = [_figure(row.ms, name) for name in (OURS, *peers)]
    return [row.model, str(row.batch), str(row.threads), said, row.best or "–", *each]


def _compile(row: ModelRow) -> list[str]:
    traced = "" if row.tracing_s is None else f" ({row.tracing_s:.1f})"
    times = [_figure(row.cold_s, OURS) + traced, _figure(row.warm_s, OURS)]
    times += [_figure(row.cold_s, "inductor"), _figure(row.warm_s, "inductor")]
    memory = [_figure(row.peak_mb, name, 0) for name in (OURS, "eager")]
    nodes, kernels, different, calls = (
        _figure(row.counts, c, 0) for c in ("operators", "kernels", "different", "calls")
    )
    published = " → ".join(map(str, PUBLISHED_FUSION.get(row.model, ())))
    return [row.model, str(row.batch), *times, *memory, nodes, f"{kernels} ({different})", calls, published]


def _missing(rows: Sequence[ModelRow]) -> list[str]:
    gone = dict.fromkeys(f"- {name}, {r.model} batch {r.batch}: {why}" for r in rows for name, why in r.missing.items())
    return ["## Not measured", "", *gone, ""] if gone else []

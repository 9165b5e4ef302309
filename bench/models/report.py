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

Where `options={"numerics": "winograd"}` asks for it, windows of 3x3 are products of sums of pixels (Winograd's
F(2x2, 3x3), `weft/graph/rewrites/winograd.py`; rows above are without). Microseconds of one layer with batch norm and
ReLU, one thread, a quiet machine (`weft.profile`); as windows our kernels ran at 110 to 115 GFLOP/s, where a core of
this machine does some 117:

| channels, image | windows | sums of pixels | products | image | together |
|---|---|---|---|---|---|
| 64, 56x56 | 2,030 | 130 | 918 | 85 | 1,133 |
| 256, 14x14 | 2,020 | 28 | 926 | 16 | 970 |
| 512, 7x7 | 2,090 | 18 | 1,272 | 14 + 5 | 1,309 |

- Largest error of 64, 256 and 512 channels, two blocks of ResNet, against float64: 5.1e-7, 8.0e-7, 1.1e-6; eager
  8.3e-7, 1.4e-6, 2.5e-6.
- With it, one image, of the better of onnxruntime and OpenVINO on one and two threads, in turns: ResNet-18 1.43 and
  1.41, ResNet-50 1.15 and 0.96, UNet 1.47 and 1.38, VGG-16 1.42 and 1.41.
- It is never taken unasked: weights and pixels are added up before they are multiplied, which is another error than
  that of a sum in another order, and an infinite pixel makes NaN. It is not taken where sums and products together
  are larger than the last cache (VGG-16's layers of 224x224 and 112x112, larger batches): these would want strips of
  an image, one after another.
- 1x1 convolutions and products run at 111 to 115 GFLOP/s. MobileNetV2 (6.8 ms) spends 0.8 ms in its first
  expansion, which writes 4.8 MB that the next layer reads: layers are not computed in one another's tiles.
- **Two threads depend on where the host puts this machine's two cores**, which changes within minutes. Reading what
  the other core wrote is quick (24 GB/s); writing where the other has read is not: each line is taken from it first,
  6.7 GB/s at times, 1.8 at others (own lines: 80). So products whose weights a near cache holds are shared out by
  rows, as pixel by pixel work is, and a thread writes where no other reads (`weft/auto/contraction_strips.py`); large
  weights are shared out by panels, since otherwise each thread reads all of them. A depthwise convolution of 384
  channels on 14x14 between two products: 29 us on two threads, with rows 20 (24 on one thread); where the cores were
  far apart 110, not seen with rows.
- What library calls wait for so is counted when they are compared with our kernels: a call that was quicker by itself
  (24 channels to 144 on 56x56) took 320 to 340 us between our kernels, ours 130.
- In turns with the code before, where the cores were near each other (ms, two threads): MobileNetV2 5.73 to 5.36,
  EfficientNet-B0 7.55 to 7.54, ResNet-50 46.7 to 44.7, torchvision's MobileNetV3 4.01 to 3.84.
"""

_WEAK = """
## What is weak

- Rows come from several commands, days and commits: two threads of ResNet-50, MobileNetV2, EfficientNet-B0, LSTM and
  UNet and batch 8 are newer than the others. Ratios on two threads differ by 15 % between runs (above): MobileNetV2
  0.83 and 0.96 within ten minutes. Inductor and eager were left out for time, and most of batch 8.
- Batch 8, two threads, in turns with products shared out by panels: 0.92 to 0.97 (MobileNetV2, ResNet-50). Strips for
  threads are larger than those that the first cache would want.
- OpenMP, whose threads our loops use in a process that has PyTorch, costs 5 % of models of small kernels (MobileNetV3
  4.4 to 4.1 ms, LSTM 1.9 to 1.8 with our own pool); ours would want the core on which OpenMP's threads still spin
  after a library call (MobileNetV2, with one such call, 5.1 to 7.7).
- Compiling, two threads (`--cold --peers inductor eager`, once, a quiet machine): ResNet-50 6.0 s cold, 0.6 s beyond
  tracing in a second process, Inductor 24.4 s; VGG-16 6.3 s and 0.4 s, Inductor 15.0; UNet 5.6 s and 0.2 s.
- Memory is above eager's (same command): ResNet-50 649 MB against 480, VGG-16 1,117 against 954, UNet 518 against 412.
  Packed weights are kept beside the model's own, those of windows as products 16/9 as large; 58 MB are tracing and
  some 70 LLVM's library.
- Results of library calls lie in new memory: above 4 MB a system like this one makes their pages anew in every call,
  about 4 us each. That is counted when candidates are compared.
- What was measured while a model was compiled is kept: on a busy machine other library calls are chosen. Compile on a
  quiet one (`--cold`).
- Not built: images padded by whoever writes them, layers in one another's tiles. Tried by hand and dropped: layouts
  blocked by lanes (no size 8 % ahead of channels last).
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

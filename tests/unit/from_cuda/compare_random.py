"""``python -m tests.unit.from_cuda.compare_random --count 5000``: random CUDA kernels, whole grids of ours
against clang's threads one by one; with every access watched as well, where nothing may be found.

``--keep FOLDER`` writes sources, inputs and our results; ``--device FOLDER`` compares them with NVRTC's code on a GPU.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.unit.from_cuda.random_kernels import PARAMETERS, PRELUDE, SMALL, Writer

BLOCKS, COUNT = 2, 120
#: Bytes of a kernel's outputs: C, D and E.
OUTPUT = 4 * (COUNT + COUNT + 16)


def inputs(seed: int) -> tuple[Any, Any]:
    numbers = np.random.default_rng(seed)
    return numbers.integers(-1000, 1000, 128).astype(np.int32), numbers.standard_normal(128).astype(np.float32)


def source(seeds: Sequence[int]) -> str:
    """All kernels, as one source."""
    return PRELUDE + "".join(Writer(seed).kernel(f"k{seed}") for seed in seeds)


def _main(seeds: Sequence[int]) -> str:
    """A program that reads inputs from a file, runs all kernels and writes their outputs to another."""
    rows = "".join(f"  {{k{s}, {Writer(s).shape[0]}, {Writer(s).shape[1]}}},\n" for s in seeds)
    return f"""
#include <cstdio>
struct Row {{ void (*kernel)({PARAMETERS}); unsigned x, y; }};
static const Row rows[] = {{
{rows}}};
int main(int, char **names) {{
  FILE *in = fopen(names[1], "rb"), *out = fopen(names[2], "wb");
  char host[1024], result[{OUTPUT}];
  char *given, *made;
  cudaMalloc(&given, sizeof host), cudaMalloc(&made, sizeof result);
  for (const Row &row : rows) {{
    if (fread(host, 1, sizeof host, in) != sizeof host) return 1;
    cudaMemcpy(given, host, sizeof host, cudaMemcpyHostToDevice), cudaMemset(made, 0, sizeof result);
    row.kernel<<<{BLOCKS}, dim3(row.x, row.y)>>>((int *)given, (float *)(given + 512), (int *)made,
      (float *)(made + {4 * COUNT}), (unsigned *)(made + {8 * COUNT}), {COUNT});
    cudaMemcpy(result, made, sizeof result, cudaMemcpyDeviceToHost);
    fwrite(result, 1, sizeof result, out);
  }}
  cudaFree(given), cudaFree(made);
}}
"""


def by_threads(seeds: Sequence[int], folder: Path, *, watched: bool) -> tuple[Any, str]:
    """Outputs of all kernels run thread by thread, a row each, and what watching them found."""
    from weft.from_cuda.check_program import run_watched
    from weft.from_cuda.nvcc_options import read_options
    from weft.from_cuda.program import build_program

    (folder / "random.cu").write_text(source(seeds) + _main(seeds))
    (folder / "inputs").write_bytes(b"".join(x.tobytes() for s in seeds for x in inputs(s)))
    options = read_options([str(folder / "random.cu"), "-ffp-contract=off", "-O1", "-o", str(folder / "random")])
    options.watched = watched
    build_program(options, ahead=False)
    arguments = [str(folder / "inputs"), str(folder / "outputs")]
    found: list[Any] = []
    if watched:
        _, found = run_watched(folder / "random", arguments, os.environ)
    else:
        environment = {**os.environ, "WEFT_CUDA_SERIAL": "1"}
        subprocess.run([str(folder / "random"), *arguments], check=True, env=environment)
    outputs = np.frombuffer((folder / "outputs").read_bytes(), np.uint8).reshape(len(seeds), OUTPUT)
    return outputs, "\n".join(map(str, found))


def by_grids(seeds: Sequence[int]) -> Iterator[Any]:
    """Outputs of each kernel by our code for whole grids, or the error that it gives."""
    from weft.from_cuda.unit import read_unit
    from weft.operators.cuda_kernel import CudaKernel

    unit = read_unit(source(seeds), "random.cu", host_too=False)
    for seed in seeds:
        out = np.zeros(OUTPUT, np.uint8)
        c, d, e = split(out)
        try:
            CudaKernel(unit, f"k{seed}", "strict")((BLOCKS,), Writer(seed).shape, (*inputs(seed), c, d, e, COUNT))
        except Exception as error:
            yield error
        else:
            yield out


def split(out: Any) -> tuple[Any, Any, Any]:
    """C, D and E of a kernel's outputs."""
    return (
        out[: 4 * COUNT].view(np.int32),
        out[4 * COUNT : 8 * COUNT].view(np.float32),
        out[8 * COUNT :].view(np.uint32),
    )


def differ(one: Any, other: Any) -> str:
    """What differs, or nothing."""
    for name, x, y in zip("cde", split(one), split(other)):
        same = np.isclose(x, y, rtol=1e-4, atol=1e-4, equal_nan=True) if name == "d" else x == y
        if not same.all():
            at = int(np.argmin(same))
            return f"{name}[{at}] is {x[at]}, not {y[at]} ({int((~same).sum())} differ)"
    return ""


def differences(
    seeds: Sequence[int], folder: Path, *, watched: bool = False, keep: Path | None = None
) -> dict[int, str]:
    """By seed, what differs between the two ways; what watching found has the seed -1."""
    expected, found = by_threads(seeds, folder, watched=watched)
    told = {-1: found} if found else {}
    made = []
    for seed, right, ours in zip(seeds, expected, by_grids(seeds)):
        why = f"{type(ours).__name__}: {ours}" if isinstance(ours, Exception) else differ(ours, right)
        if why:
            told[seed] = why
        made.append(right if isinstance(ours, Exception) else ours)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{seeds[0]}.cu").write_text(source(seeds))
        np.savez_compressed(keep / f"{seeds[0]}.npz", seeds=np.array(seeds), outputs=np.array(made))
    return told


def on_device(folder: Path) -> dict[int, str]:
    """By seed, what differs between the results that were kept and those of NVRTC's code."""
    import cupy  # type: ignore[import-not-found]

    told = {}
    for kept in sorted(folder.glob("*.npz")):
        data = np.load(kept)
        text = kept.with_suffix(".cu").read_text()
        names = [f"k{s}" for s in data["seeds"]]
        options = ("--std=c++17", "--fmad=false")
        module = cupy.RawModule(code=text, options=options, name_expressions=names)
        for seed, name, right in zip(data["seeds"].tolist(), names, data["outputs"]):
            a, b = map(cupy.asarray, inputs(seed))
            out = cupy.zeros(OUTPUT, cupy.uint8)
            c, d, e = out[: 4 * COUNT], out[4 * COUNT : 8 * COUNT], out[8 * COUNT :]
            module.get_function(name)((BLOCKS,), Writer(seed).shape, (a, b, c, d, e, np.int32(COUNT)))
            why = differ(right, out.get())
            if why:
                told[seed] = why
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=SMALL)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--watched", action="store_true", help="threads one by one are those of `weft cuda check`")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--device", type=Path)
    options = parser.parse_args()
    if options.device is not None:
        told = on_device(options.device)
        print(f"{len(told)} differ from NVRTC's code", *(f"{s}: {why}" for s, why in told.items()), sep="\n")
        return 1 if told else 0
    wrong = 0
    for first in range(options.first, options.first + options.count, options.batch):
        with tempfile.TemporaryDirectory() as folder:
            seeds = range(first, first + options.batch)
            told = differences(seeds, Path(folder), watched=options.watched, keep=options.keep)
        wrong += len(told)
        rows = [f"  {seed}: {why[:600]}" for seed, why in told.items()]
        print(f"{first}: {len(told)} of {options.batch} differ", *rows, sep="\n", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""`weft run model.onnx`: a whole model on arrays from files, or on random ones."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.cli.inputs import parse_size, random_value, read_array, read_pairs
from weft.graph.from_onnx.file import Port
from weft.graph.from_onnx.model import OnnxModel, load_onnx
from weft.ir.errors import ArgumentError
from weft.operators.interface import Parameter

_CALLS = 5


def is_model(path: Path) -> bool:
    return path.suffix.lower() == ".onnx"


def run_model(options: argparse.Namespace) -> list[tuple[str, Any]]:
    """The outputs by name; times are printed."""
    net = load_onnx(options.file)
    arrays = _arguments(net, options)
    start = time.perf_counter()
    made = net.run(None, arrays)
    first = time.perf_counter() - start
    again = min(_seconds(net, arrays) for _ in range(_CALLS))
    print(f"first call {first * 1e3:.1f} ms (with compilation), then {again * 1e3:.3f} ms")
    return list(zip((p.name for p in net.outputs), made))


def _seconds(net: OnnxModel, arrays: dict[str, Any]) -> float:
    start = time.perf_counter()
    net.run(None, arrays)
    return time.perf_counter() - start


def _arguments(net: OnnxModel, options: argparse.Namespace) -> dict[str, Any]:
    """The arrays given, and random ones of the given sizes for the rest."""
    given = {name: read_array(name, text) for name, text in read_pairs(options.arg, "--arg").items()}
    sizes = {name: parse_size(name, text) for name, text in read_pairs(options.size, "--size").items()}
    _check_names("input", given, [p.name for p in net.inputs])
    _check_names("size", sizes, [n for p in net.inputs for n in p.shape or () if isinstance(n, str)])
    for port in net.inputs:
        for size, n in zip(port.shape or (), getattr(given.get(port.name), "shape", ())):
            if isinstance(size, str):
                sizes.setdefault(size, n)
    rng = np.random.default_rng(options.seed)
    return given | {p.name: _random(p, sizes, rng) for p in net.inputs if p.name not in given}


def _check_names(what: str, given: Iterable[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            has = f"it has {', '.join(dict.fromkeys(known))}" if known else "it has none"
            raise ArgumentError(f"the model has no {what} `{name}`", why=has)


def _random(port: Port, sizes: dict[str, int], rng: np.random.Generator) -> Any:
    shape = None if port.shape is None else [sizes.get(n) if isinstance(n, str) else n for n in port.shape]
    if shape is None or None in shape:
        flags = " ".join(f"--size {n}=8" for n in port.shape or () if isinstance(n, str) and n not in sizes)
        raise ArgumentError(
            f"the sizes of input `{port.name}` are not known",
            why=f"it is {port}",
            help=f"pass --arg {port.name}=file.npy" + (f", or {flags}" if flags else ""),
        )
    dims = tuple(n for n in shape if n is not None)
    return random_value(Parameter(port.name, "tensor", str(port.dtype), dims), {}, rng)

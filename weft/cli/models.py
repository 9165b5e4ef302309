"""ONNX models named on the command line: what they run on, arrays from files or random ones."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.cli.inputs import format_seconds, parse_size, random_value, read_array, read_pairs
from weft.graph.from_onnx.file import Port
from weft.graph.from_onnx.model import OnnxModel, load_onnx
from weft.ir.errors import ArgumentError
from weft.ir.numpy_dtypes import to_numpy
from weft.operators.interface import Parameter

_CALLS = 5


def is_model(path: Path) -> bool:
    return path.suffix.lower() == ".onnx"


def read_model(options: argparse.Namespace) -> tuple[OnnxModel, dict[str, Any]]:
    """The model in the file, and what to call it with: the arrays given, random ones for the rest."""
    if options.entry is not None:
        raise ArgumentError(f"{options.file} has no definitions", why="it is one model", help="leave --def out")
    net = load_onnx(options.file)
    return net, _arguments(net, options)


def run_model(options: argparse.Namespace, saved: Mapping[str, str]) -> list[tuple[str, Any]]:
    """The outputs by name; times are printed."""
    net, arrays = read_model(options)
    _check_names(options.file.name, "output", saved, [p.name for p in net.outputs])
    start = time.perf_counter()
    made = net.run(None, arrays)
    first = time.perf_counter() - start
    again = min(_seconds(net, arrays) for _ in range(_CALLS))
    print(f"first call {format_seconds(first)} (with compilation), then {format_seconds(again)}")
    return list(zip((p.name for p in net.outputs), made))


def _seconds(net: OnnxModel, arrays: dict[str, Any]) -> float:
    start = time.perf_counter()
    net.run(None, arrays)
    return time.perf_counter() - start


def _arguments(net: OnnxModel, options: argparse.Namespace) -> dict[str, Any]:
    texts = read_pairs(options.arg, "--arg")
    sizes = {name: parse_size(name, text) for name, text in read_pairs(options.size, "--size").items()}
    ports = {p.name: p for p in (*net.inputs, *net.optional_inputs)}
    _check_names("the model", "input", texts, list(ports))
    _check_names("the model", "size", sizes, [n for p in net.inputs for n in p.shape or () if isinstance(n, str)])
    given = {name: _read(ports[name], text) for name, text in texts.items()}
    for name, array in given.items():
        for size, n in zip(ports[name].shape or (), array.shape):
            if isinstance(size, str) and sizes.setdefault(size, n) != n:
                raise ArgumentError(f"{size} is {sizes[size]}, and `{name}` has {n} elements along it")
    rng = np.random.default_rng(options.seed)
    return given | {p.name: _random(p, sizes, rng) for p in net.inputs if p.name not in given}


def _read(port: Port, text: str) -> Any:
    """The array in a file, or a number where the model takes one."""
    if port.shape == () and port.dtype is not None and not Path(text).exists():
        try:
            return np.array(float(text)).astype(to_numpy(port.dtype))
        except ValueError:
            pass
    array = read_array(port.name, text)
    if port.dtype is not None and array.dtype.kind == "V":  # what numpy's files keep of bfloat16
        kept = to_numpy(port.dtype)
        return array.view(kept) if array.dtype.itemsize == kept.itemsize else array
    return array


def _check_names(who: str, what: str, given: Iterable[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            has = f"it has {', '.join(dict.fromkeys(known))}" if known else "it has none"
            raise ArgumentError(f"{who} has no {what} `{name}`", why=has)


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

"""Files, sizes and arrays named on the command line, and outputs that a call passes in."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.ir.errors import ArgumentError, LanguageError
from weft.operators.define import define
from weft.operators.describe import output_records
from weft.operators.interface import Interface, Parameter
from weft.operators.operator import Operator
from weft.runtime.arrays import numpy_dtype
from weft.tensor.specialize import solve_sizes, specialize

_EXPORTED = "export it with torch.onnx.export to a file named *.onnx, or compile it in Python with weft.compile"
#: What to do with models where a program is wanted, by the ends of their files' names.
_MODELS = {".onnx": "models are for weft run, explain, profile and trace"} | dict.fromkeys(
    (".pt", ".pt2", ".pth", ".safetensors"), _EXPORTED
)
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def add_file(parser: argparse.ArgumentParser, *, models: bool = False) -> None:
    """The program that a command is about, or, with ``models``, an ONNX model."""
    too = ", or an ONNX model (*.onnx)" if models else ""
    parser.add_argument("file", type=Path, help=f"a program in the whiteboard language{too}")
    parser.add_argument("--def", dest="entry", metavar="NAME", help="which definition (default: the last)")


def add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a .npy file, or a number for a scalar; for an output, what it starts from",
    )
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="a size, for inputs that are made at random"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs (default 0)")


def read_source(path: Path) -> str:
    if path.suffix.lower() in _MODELS:
        raise ArgumentError(f"{path} is a model, where a program is wanted", help=_MODELS[path.suffix.lower()])
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"cannot read {path}", why=error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise LanguageError(
            f"{path} is not text",
            why="it is not valid UTF-8",
            help="pass a .weft file, or a model in a file named *.onnx",
        ) from None


def read_operator(options: argparse.Namespace) -> Operator:
    return define(read_source(options.file), name=options.file.name, entry=options.entry)


def format_seconds(seconds: float) -> str:
    """In the unit that leaves a number one can read."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}" if seconds < 1000 * scale else f"{seconds / scale:.0f} {unit}"
    return f"{seconds * 1e6:.3g} us"


def read_pairs(pairs: Sequence[str], flag: str) -> dict[str, str]:
    split = [pair.partition("=") for pair in pairs]
    for name, equals, value in split:
        if not (name and equals and value):
            raise ArgumentError(f"cannot read {flag} {name}{equals}{value}", help=f"write {flag} NAME=VALUE")
    return {name: value for name, _, value in split}


def make_arguments(interface: Interface, options: argparse.Namespace) -> list[Any]:
    """The arguments given, and random ones of the given sizes for the rest."""
    given = read_pairs(options.arg, "--arg")
    sizes = {name: parse_size(name, value) for name, value in read_pairs(options.size, "--size").items()}
    names = [p.name for p in interface.params] + [o.name for o in interface.outputs]
    for name in given:
        if name not in names:
            raise ArgumentError(f"{interface.name} has no parameter `{name}`", why=f"it is {interface}")
    known = {d for p in interface.params for d in p.dims if isinstance(d, str)}
    for name in sizes:
        if name not in known:
            raise ArgumentError(f"{interface.name} has no size `{name}`", why=f"it is {interface}")
    loaded = {p.name: _read_value(p, given[p.name]) for p in interface.params if p.name in given}
    for p in interface.params:
        for dim, size in zip(p.dims, getattr(loaded.get(p.name), "shape", ())):
            if isinstance(dim, str):
                sizes.setdefault(dim, size)
    _require_sizes(interface, loaded, sizes)
    rng = np.random.default_rng(options.seed)
    return [loaded[p.name] if p.name in loaded else random_value(p, sizes, rng) for p in interface.params]


def sizes_given(options: argparse.Namespace) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """Values of sizes and integer parameters, and the shapes of arrays, that ``--size`` and ``--arg`` name."""
    values = {name: parse_size(name, value) for name, value in read_pairs(options.size, "--size").items()}
    shapes: dict[str, tuple[int, ...]] = {}
    for name, text in read_pairs(options.arg, "--arg").items():
        if text.lstrip("-").isdigit():
            values[name] = int(text)
        elif text.endswith(".npy"):
            shapes[name] = read_array(name, text).shape
    return values, shapes


def parse_size(name: str, value: str) -> int:
    if not value.isdigit():
        raise ArgumentError(f"--size {name}={value} is not a whole number", help=f"write --size {name}=64")
    return int(value)


def _read_value(param: Parameter, text: str) -> Any:
    if param.role != "tensor":
        return _read_number(param, text)
    return read_array(param.name, text)


def read_array(name: str, text: str) -> np.ndarray[Any, Any]:
    """The array in the file ``text``, given for ``name``."""
    try:
        value = np.load(text, allow_pickle=False)
    except OSError as error:
        raise ArgumentError(f"cannot read {text} for `{name}`", why=error.strerror or str(error)) from None
    except Exception:  # np.load lets whatever the damaged header provokes through
        value = None
    if not isinstance(value, np.ndarray):
        raise ArgumentError(
            f"cannot read {text} for `{name}`",
            why="it is not a whole .npy file of numbers",
            help="save it with numpy.save",
        )
    return value


def _read_number(param: Parameter, text: str) -> int | float | bool:
    if param.dtype == "bool":
        if text.lower() not in _TRUTH:
            raise ArgumentError(f"--arg {param.name}={text} is not true or false", why=f"it is {param}")
        return _TRUTH[text.lower()]
    try:
        return int(text) if param.dtype.startswith(("int", "uint")) else float(text)
    except ValueError:
        raise ArgumentError(f"--arg {param.name}={text} is not a number", why=f"it is {param}") from None


def _require_sizes(interface: Interface, loaded: dict[str, Any], sizes: dict[str, int]) -> None:
    open_params = [p for p in interface.params if p.name not in loaded]
    missing = {d: None for p in open_params for d in p.dims if isinstance(d, str) and d not in sizes}
    if missing:
        flags = " ".join(f"--size {name}=64" for name in missing)
        raise ArgumentError(
            f"sizes {', '.join(missing)} of {interface.name} are not known",
            why=f"it is {interface}",
            help=f"add {flags}, or arrays with --arg NAME=file.npy",
        )


def random_value(param: Parameter, sizes: dict[str, int], rng: np.random.Generator) -> Any:
    integral = param.dtype == "bool" or param.dtype.startswith(("int", "uint"))
    if param.role != "tensor":
        return param.dtype == "bool" or (1 if integral else float(rng.uniform(0.5, 1.5)))
    shape = tuple(sizes[d] if isinstance(d, str) else d for d in param.dims)
    dtype = numpy_dtype(param.dtype)
    try:
        if integral:
            return rng.integers(0, 2, shape).astype(dtype)  # small, so that lookups stay in range
        return rng.standard_normal(shape).astype(dtype)
    except (MemoryError, ValueError, OverflowError):
        raise ArgumentError(
            f"cannot make a random `{param.name}` of shape {shape}",
            why="it does not fit in memory",
            help="give smaller sizes",
        ) from None


def make_outputs(op: Operator, options: argparse.Namespace, arguments: Sequence[Any]) -> tuple[Any, ...] | None:
    """What to pass as ``out=``: the arrays given, random ones where an old value is read, fresh ones otherwise.

    None where no output is given and none is read.
    """
    interface = op.interface
    given = read_pairs(options.arg, "--arg")
    loaded = {o.name: read_array(o.name, given[o.name]) for o in interface.outputs if o.name in given}
    needed = {o.name for o in interface.outputs if o.needed}
    if not loaded and not needed:
        return None
    values = dict(zip((p.name for p in interface.params), arguments))
    constants = {p.name: int(values[p.name]) for p in interface.params if p.role == "constant"}
    shapes = {p.name: values[p.name].shape for p in interface.params if p.role == "tensor"}
    shapes |= {name: array.shape for name, array in loaded.items()}
    special = specialize(op.program, solve_sizes(op.program, shapes, constants))
    rng = np.random.default_rng([options.seed, 1])  # other numbers than the inputs have
    return tuple(
        loaded[r["name"]] if r["name"] in loaded else _fresh(r, r["name"] in needed, rng)
        for r in output_records(special)
    )


def _fresh(record: dict[str, Any], random: bool, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    shape = tuple(record["shape"])
    if random:
        value: np.ndarray[Any, Any] = random_value(Parameter(record["name"], "tensor", record["dtype"], shape), {}, rng)
        return value
    return np.full(shape, float(record["fill"] or 0), numpy_dtype(record["dtype"]))

"""Outputs that a call on the command line passes in."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.cli.inputs import random_value, read_array, read_pairs
from weft.operators.describe import output_records
from weft.operators.interface import Parameter
from weft.operators.operator import Operator
from weft.runtime.arrays import numpy_dtype
from weft.tensor.specialize import solve_sizes, specialize


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

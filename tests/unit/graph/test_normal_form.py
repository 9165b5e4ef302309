"""Which functions are one that a library has: those of the same normal form, however they are written."""

from __future__ import annotations

import math
from typing import Any

import pytest

from weft.graph.formulas import pointwise as p
from weft.graph.rewrites.library_epilogues import _recognize
from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import Load
from weft.tensor.python_api import cast, maximum, minimum, select
from weft.tensor.value import Value, call

READ = {role: Value(Load(Buffer(role, dt.float32, ()), ())) for role in ("sum", "bias", "other")}
X = READ["sum"] + READ["bias"]
ROLES = {(name, ()): name for name in ("sum", "bias")}


def found(value: Value) -> str | None:
    return _recognize(value.expr, ROLES)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("none", READ["bias"] * 1.0 + READ["sum"]), ("none", (X * 4.0 - X) / 3.0),
        ("relu", maximum(0.0, X)), ("relu", maximum(X * 0.25, 0.0) * 4.0),
        ("relu", cast("float32", maximum(cast("bfloat16", X), cast("bfloat16", 0.0)))),
        ("relu6", minimum(maximum(X, 0.0), 6.0)), ("relu6", maximum(minimum(X, 6.0), 0.0)),
        ("relu6", p.clamp(X * 0.5, 0.0, 3.0) * 2.0),
        ("sigmoid", 1.0 / (call("exp", -X) + 1.0)), ("silu", X / (1.0 + call("exp", -X))),
        ("hardswish", X * p.hard_sigmoid(X)), ("hardswish", p.clamp(X + 3.0, 0.0, 6.0) * X * (1 / 6)),
        ("tanh", -call("tanh", -X)),
        ("gelu", (call("erf", X / math.sqrt(2)) + 1.0) * X / 2.0),
        ("gelu", X * 0.5 * (1.0 - call("erf", X * -0.70710677))),
        ("gelu_tanh", 0.5 * X * (1.0 + call("tanh", 0.7978845608 * (X + 0.044715 * call("pow", X, 3.0))))),
        ("gelu_tanh", 0.5 * X * (1.0 + call("tanh", X * 0.7978845608 * (1.0 + 0.044715 * X * X)))),
    ],
)  # fmt: skip
def test_one_function_in_several_writings(name: str, value: Value) -> None:
    assert found(value) == name


@pytest.mark.parametrize(
    "value",
    [
        p.clamp(X, 0.0, 20.0), p.clamp(X, -1e-6, 6.0), p.leaky_relu(X, 1e-6), X * 1.001, READ["sum"],
        READ["sum"] * 2.0 + READ["bias"], maximum(READ["sum"], 0.0) + READ["bias"], X * call("sigmoid", X * 1.702),
        X * call("sigmoid", READ["sum"]), select(X > 50.0, -X, X), (X + 2e7) - 2e7, call("rint", X),
        maximum(minimum(X, 0.0), 6.0), 0.5 * X * (1.0 + call("erf", X * 0.7070)), maximum(X, 0.0) * maximum(X, 0.0),
        cast("float32", cast("int32", X)), p.clamp(X + 3.0, 0.0, 6.0) * READ["sum"] / 6.0, 1.0 / (call("exp", X) + 1.0),
    ],
)  # fmt: skip
def test_functions_that_no_library_has(value: Any) -> None:
    assert found(value) is None

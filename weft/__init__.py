"""Weft: tensor math in, fast and explained machine code out.

>>> import weft
>>> mm = weft.define("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
>>> C = mm(A, B)
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from weft import operators as _operators
from weft import ops
from weft.ir.errors import (
    ArgumentError,
    Error,
    InternalError,
    LanguageError,
    ProgramError,
    ScheduleError,
    ShapeError,
    TargetError,
    UnsupportedError,
    Warning,
)
from weft.version import __version__

if TYPE_CHECKING:
    from weft import cuda as cuda
    from weft import onnx as onnx
    from weft.analysis.analyze import analyze as analyze
    from weft.graph.explain import explain as explain
    from weft.graph.from_onnx.model import load_onnx as load_onnx
    from weft.graph.from_torch.backend import compile as compile
    from weft.graph.from_torch.changes import refresh as refresh
    from weft.graph.profile import profile as profile
    from weft.operators.define import define as define
    from weft.operators.define import load as load
    from weft.operators.define import operator as operator
    from weft.operators.equal import equal as equal
    from weft.operators.intrinsic import intrinsic as intrinsic
    from weft.operators.loop_kernel import kernel as kernel
    from weft.operators.operator import Operator as Operator
    from weft.operators.sanitize import sanitize as sanitize
    from weft.operators.schedule import schedule as schedule
    from weft.runtime.arrays import numpy_dtype as numpy_dtype
    from weft.runtime.threads import get_num_threads as get_num_threads
    from weft.runtime.threads import set_num_threads as set_num_threads
    from weft.tensor.python_api import *  # noqa: F403
    from weft.tensor.python_functions import *  # noqa: F403

#: Names found on first use: importing weft loads neither numpy, the builders nor the library.
_LATER = {
    "Operator": "weft.operators.operator",
    "analyze": "weft.analysis.analyze",
    "define": "weft.operators.define",
    "numpy_dtype": "weft.runtime.arrays",
    "operator": "weft.operators.define",
    "equal": "weft.operators.equal",
    "compile": "weft.graph.from_torch.backend",
    "explain": "weft.graph.explain",
    "refresh": "weft.graph.from_torch.changes",
    "profile": "weft.graph.profile",
    "get_num_threads": "weft.runtime.threads",
    "intrinsic": "weft.operators.intrinsic",
    "kernel": "weft.operators.loop_kernel",
    "load": "weft.operators.define",
    "load_onnx": "weft.graph.from_onnx.model",
    "sanitize": "weft.operators.sanitize",
    "schedule": "weft.operators.schedule",
    "set_num_threads": "weft.runtime.threads",
}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name not in _LATER and importlib.util.find_spec(f"weft.{name}") is not None:
        return importlib.import_module(f"weft.{name}")
    module = importlib.import_module(_LATER.get(name, "weft.tensor.python_api"))
    if name not in _LATER and name not in module.__all__:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    value = globals()[name] = getattr(module, name)
    return value


def _make_operator(text: str, file: str) -> Any:
    from weft.operators.define import define

    return define(text, name=file)


ops.make_operator = _make_operator


def _tune_operator(*args: Any, **options: Any) -> Any:
    from weft.tune.tune import tune_operator

    return tune_operator(*args, **options)


_operators.tune_operator = _tune_operator


def __dir__() -> list[str]:
    api = importlib.import_module("weft.tensor.python_api")
    return sorted({*__all__, *api.__all__})


__all__ = [
    "ArgumentError",
    "Error",
    "InternalError",
    "LanguageError",
    "Operator",
    "ProgramError",
    "ScheduleError",
    "ShapeError",
    "TargetError",
    "UnsupportedError",
    "Warning",
    "__version__",
    "analyze",
    "compile",
    "cuda",
    "define",
    "equal",
    "explain",
    "profile",
    "get_num_threads",
    "intrinsic",
    "kernel",
    "load",
    "load_onnx",
    "numpy_dtype",
    "onnx",
    "operator",
    "ops",
    "refresh",
    "sanitize",
    "schedule",
    "set_num_threads",
]

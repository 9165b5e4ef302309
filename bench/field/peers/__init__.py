"""How others compute the workloads: a file each, with one common way to ask.

`PEERS` says who there is and what each needs installed. A peer's module has ``version()`` and
``prepare(workload, inputs, threads)``, which gives `Prepared` calls or raises `Cannot` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from bench.field.workloads import Workload

Array = np.ndarray[Any, Any]
Call = Callable[[], object]


class Cannot(Exception):
    """Why a peer does not take part in a workload."""


@dataclass
class Prepared:
    """Calls ready to be timed: ``fresh`` ones return new arrays, ``filling`` ones write to arrays that stay."""

    calls: dict[str, Call]
    results: Callable[[], tuple[Array, ...]]
    #: seconds from definition to first result, and others by name
    seconds: dict[str, float] = field(default_factory=dict)


class PeerModule(Protocol):
    def version(self) -> str: ...

    def prepare(self, workload: Workload, inputs: Mapping[str, Array], threads: int) -> Prepared: ...


@dataclass(frozen=True)
class Peer:
    """Who takes part: the module here, what it imports, and what to install where that is missing."""

    name: str
    module: str
    imports: tuple[str, ...]
    packages: tuple[str, ...]


PEERS = {
    peer.name: peer
    for peer in (
        Peer("weft", "weft_itself", ("weft", "llvmlite", "lark"), ()),
        Peer("torch", "torch_eager", ("torch",), ("torch", "numpy")),
        Peer("torch.compile", "torch_compiled", ("torch",), ("torch", "numpy", "setuptools")),
        Peer("onnxruntime", "onnxruntime_session", ("onnxruntime", "onnx"), ("onnxruntime", "onnx")),
        Peer("openvino", "openvino_model", ("openvino", "onnx"), ("openvino", "onnx")),
        Peer("halide", "halide_autoscheduled", ("halide",), ("halide",)),
        Peer("jax", "jax_jit", ("jax",), ("jax",)),
        Peer("numba", "numba_loops", ("numba",), ("numba",)),
        Peer("tvm", "tvm_untuned", ("tvm", "onnx"), ("apache-tvm", "onnx")),
    )
}

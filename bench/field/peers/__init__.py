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
    #: what else is worth telling, such as how many kernels there are
    facts: dict[str, float] = field(default_factory=dict)


class PeerModule(Protocol):
    def version(self) -> str: ...

    def prepare(self, workload: Workload, inputs: Mapping[str, Array], threads: int) -> Prepared: ...


@dataclass(frozen=True)
class Peer:
    """Who takes part: its module, what that imports, and what to install where it is missing.

    ``registry`` is the module that knows the workloads: its ``find_workload(family, sizes)`` gives one.
    """

    name: str
    module: str
    imports: tuple[str, ...]
    packages: tuple[str, ...]
    environment: str = ""
    registry: str = "bench.field.workloads"
    #: seconds it may take to prepare; code that is not tuned may take minutes for a single call
    patience_s: float = 60.0


def _peer(
    name: str, module: str, imports: tuple[str, ...], packages: tuple[str, ...], patience_s: float = 60.0
) -> Peer:
    return Peer(name, f"bench.field.peers.{module}", imports, packages, environment=name, patience_s=patience_s)


PEERS = {
    peer.name: peer
    for peer in (
        _peer("weft", "weft_itself", ("weft", "llvmlite", "lark"), ()),
        _peer("torch", "torch_eager", ("torch",), ("torch", "numpy")),
        _peer("torch.compile", "torch_compiled", ("torch",), ("torch", "numpy", "setuptools")),
        _peer("onnxruntime", "onnxruntime_session", ("onnxruntime", "onnx"), ("onnxruntime", "onnx")),
        _peer("openvino", "openvino_model", ("openvino", "onnx"), ("openvino", "onnx")),
        _peer("halide", "halide_autoscheduled", ("halide",), ("halide",)),
        _peer("jax", "jax_jit", ("jax",), ("jax",)),
        _peer("numba", "numba_loops", ("numba",), ("numba",)),
        _peer("tvm", "tvm_untuned", ("tvm", "onnx"), ("apache-tvm", "onnx"), patience_s=8.0),
    )
}

"""Kernels the tests of schedules work on, and the comparison every accepted step must pass."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.stmt import Kernel
from weft.ir.verify import verify
from weft.schedules.schedule import Schedule
from weft.tensor.lower import lower
from weft.tensor.normalize import normalize
from weft.tensor.specialize import specialize

MATMUL = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
CHAIN = "def chain(float(N) X) -> (Z) { Y(i) = X(i) * 2\n Z(i) = Y(i) + 1 }"
BLUR = "def blur(float(N) X) -> (Z) { Y(i) = X(i) * 2 where i in 0:N\n Z(i) = Y(i) + Y(i+1) where i in 0:N-1 }"
SCAN = "def scan(float(N) X) -> (S) { S(i) = X(i) + (i > 0 ? S(i-1) : 0.0) where i in 0:N }"


def kernel_of(text: str, **sizes: int) -> Kernel:
    """The kernel of a definition; sizes that are not given stay symbolic."""
    program = weft.define(text).program
    return lower(normalize(specialize(program, sizes) if sizes else program))


def schedule_of(text: str, **sizes: int) -> Schedule:
    return Schedule(kernel_of(text, **sizes))


def run(kernel: Kernel, *inputs: Any) -> list[np.ndarray[Any, Any]]:
    """The outputs the interpreter computes; shapes must be numbers."""
    outputs = []
    for b in kernel.buffers:
        if b.name in kernel.outputs:
            outputs.append(np.zeros(tuple(int(e.value) for e in b.shape), b.dtype.name))  # type: ignore[attr-defined]
    interpret(kernel, [*inputs, *outputs], uninitialized=kernel.outputs)
    return outputs


def assert_unchanged(s: Schedule, original: Kernel, *inputs: Any) -> None:
    """The scheduled program is valid and computes, bit for bit, what the original does."""
    verify(s.kernel)
    for actual, expected in zip(run(s.kernel, *inputs), run(original, *inputs)):
        np.testing.assert_array_equal(actual, expected)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


__all__ = [
    "BLUR", "CHAIN", "MATMUL", "SCAN", "assert_unchanged", "floats", "kernel_of", "parse_kernel", "run", "schedule_of",
]  # fmt: skip

"""The recurrences of ``examples/recurrences``, scheduled automatically, against numpy in float64."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scheduled_for_gpu import H200

import weft
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.ir.numpy_dtypes import to_numpy
from weft.lang.parse import parse_programs
from weft.schedules.schedule import Schedule
from weft.tensor.lower import lower
from weft.tensor.program import TensorProgram
from weft.tensor.specialize import solve_sizes, specialize

sys.path.append(str(Path(__file__).parents[1] / "target"))  # how CUDA text is run on the host

from cuda_on_host import HostRunner, needs_compiler

Array = np.ndarray[Any, Any]
TEXT = (Path(__file__).parents[3] / "examples" / "recurrences" / "recurrences.weft").read_text(encoding="utf-8")


def draw(*shapes: tuple[int, ...], scale: float = 1.0) -> list[Array]:
    rng = np.random.default_rng(sum(map(sum, shapes)))
    return [(scale * rng.standard_normal(s)).astype(np.float32) for s in shapes]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def lstm(x: Array, h: Array, c: Array, w: Array, u: Array, a: Array) -> tuple[Array, ...]:
    steps = [h]
    for row in x:
        i, f, g, o = np.moveaxis(np.einsum("bi,gji->bgj", row, w) + np.einsum("bk,gjk->bgj", h, u) + a, 1, 0)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        steps.append(h)
    return np.stack(steps), c


def gru(x: Array, h: Array, w: Array, u: Array, a: Array, d: Array) -> tuple[Array, ...]:
    steps = [h]
    for row in x:
        p = np.moveaxis(np.einsum("bi,gji->bgj", row, w) + a, 1, 0)
        g = np.moveaxis(np.einsum("bk,gjk->bgj", h, u) + d, 1, 0)
        r, z = sigmoid(p[0] + g[0]), sigmoid(p[1] + g[1])
        h = (1 - z) * np.tanh(p[2] + r * g[2]) + z * h
        steps.append(h)
    return (np.stack(steps),)


def viterbi(e: Array, a: Array) -> tuple[Array, ...]:
    v, back = e[0], []
    for row in e[1:]:
        back.append((v[:, None] + a).argmax(0))
        v = (v[:, None] + a).max(0) + row
    path = [int(v.argmax())]
    for row in reversed(back):
        path.insert(0, int(row[path[0]]))
    return (np.array(path),)


def selective_scan(x: Array, delta: Array, a: Array, k: Array, q: Array, skip: Array) -> tuple[Array, ...]:
    s = m = np.zeros((*x.shape[1:], a.shape[1]))
    rows = []
    for t in range(len(x)):
        decay = np.exp(delta[t][..., None] * a)
        s = decay * s + (delta[t] * x[t])[..., None] * k[t][:, None]
        m = decay * m + delta[t][..., None] * np.abs(k[t])[:, None]
        out, norm = (s * q[t][:, None]).sum(-1), (m * np.abs(q[t])[:, None]).sum(-1)
        rows.append(out / (1 + norm) + skip * x[t])
    return (np.stack(rows),)


def lstm_args(t: int, b: int, i: int, j: int) -> list[Array]:
    return draw((t, b, i), (b, j), (b, j), (4, j, i), (4, j, j), (4, j), scale=0.4)


def gru_args(t: int, b: int, i: int, j: int) -> list[Array]:
    return draw((t, b, i), (b, j), (3, j, i), (3, j, j), (3, j), (3, j), scale=0.4)


def scan_args(t: int, b: int, d: int, n: int) -> list[Array]:
    x, delta, a, k, q, skip = draw((t, b, d), (t, b, d), (d, n), (t, b, n), (t, b, n), (d,))
    return [x, np.abs(delta) * 0.1, -np.abs(a), k, q, skip]


CASES = {
    "lstm": (lstm, [lstm_args(5, 32, 64, 64), lstm_args(3, 1, 5, 17), lstm_args(4, 7, 33, 48), lstm_args(0, 2, 3, 4)]),
    "gru": (gru, [gru_args(5, 32, 64, 64), gru_args(3, 1, 5, 17), gru_args(4, 7, 33, 48)]),
    "viterbi": (viterbi, [draw((9, 40), (40, 40)), draw((1, 3), (3, 3)), draw((30, 7), (7, 7))]),
    "selective_scan": (selective_scan, [scan_args(6, 2, 48, 16), scan_args(4, 3, 5, 7)]),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name: str, threads: int) -> None:
    reference, cases = CASES[name]
    weft.set_num_threads(threads)
    op = weft.define(TEXT, entry=name)
    for args in cases:
        found = op(*args)
        wanted = reference(*(a.astype(np.float64) for a in args))
        for got, want in zip(found if isinstance(found, tuple) else (found,), wanted):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=f"{name} {[a.shape for a in args]}")


def test_the_products_of_a_step_run_on_threads_from_weights_that_are_packed_once() -> None:
    weft.set_num_threads(2)
    text = weft.define(TEXT, entry="lstm").explain(*lstm_args(64, 32, 256, 256))
    assert "G: `U` copied once" in text
    assert any("G:" in line and "on 2 threads" in line for line in text.splitlines())


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_on_a_gpu_a_step_is_a_few_launches(name: str) -> None:
    """The CUDA text, built for the host; the host counts the steps."""
    reference, cases = CASES[name]
    args = cases[-1] if name != "lstm" else cases[2]
    program = specialized(name, args)
    schedule = Schedule(lower(program), numerics="fast")
    auto_schedule_gpu(schedule, H200)
    runner = HostRunner(schedule.kernel, H200, fast=True, aligned=16)
    assert any(launch.steps for launch in runner.program.launches)
    outputs = [np.zeros([int(s.value) for s in b.shape], to_numpy(b.dtype)) for b in program.outputs]
    assert runner(*args, *outputs) == 0
    for got, want in zip(outputs, reference(*(a.astype(np.float64) for a in args))):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def specialized(name: str, args: list[Array]) -> TensorProgram:
    program = parse_programs(TEXT)[name]
    return specialize(program, solve_sizes(program, {b.name: a.shape for b, a in zip(program.inputs, args)}))


def test_on_a_gpu_no_steps_need_no_products() -> None:
    _, cases = CASES["lstm"]
    assert "__global__" in weft.define(TEXT, entry="lstm").show("cuda", *cases[-1])

"""The recurrences of ``examples/recurrences``, scheduled automatically, against numpy in float64."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scheduled_for_gpu import H200

import weft
from weft.auto.gpu import scheduler
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.auto.scheduler import auto_schedule
from weft.ir.interpret import interpret
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.printer import print_kernel
from weft.ir.stmt import Barrier
from weft.ir.visit import walk
from weft.lang.parse import parse_programs
from weft.schedules.schedule import Schedule
from weft.target.cpu.host import NAMED
from weft.target.cuda.lower import compile_kernel, lower_kernel
from weft.target.cuda.machine import GpuMachine
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
    steps = weft.define(TEXT, entry="lstm").show("loops", *lstm_args(64, 32, 256, 256)).partition("  for t_1 in")[2]
    assert steps.index("parallel ") < steps.index("block G(")


#: An LSTM that says all it does in its steps, and gives the last of them alone.
PLAIN = """def f(float(T,B,I) X, float(B,J) H0, float(B,J) C0, float(4,J,I) W, float(4,J,J) U, float(4,J) A) -> (Y) {
    H(0,b,j) = H0(b,j)
    C(0,b,j) = C0(b,j)
    for t in 0:T {
        G(b,g,j) +=! H(t,b,k) * U(g,j,k)
        P(b,g,j) +=! X(t,b,i) * W(g,j,i)
        S(b,g,j) = G(b,g,j) + P(b,g,j) + A(g,j)
        C(t+1,b,j) = sigmoid(S(b,1,j)) * C(t,b,j) + sigmoid(S(b,0,j)) * tanh(S(b,2,j))
        H(t+1,b,j) = sigmoid(S(b,3,j)) * tanh(C(t+1,b,j))
    }
    Y(b,j) = H(T,b,j)
}"""


@pytest.mark.parametrize("threads", [1, 2])
def test_an_lstm_written_step_by_step(threads: int) -> None:
    """Its products of inputs are one product, and of its states two steps are kept."""
    weft.set_num_threads(threads)
    op, args = weft.define(PLAIN), lstm_args(40, 1, 96, 96)
    np.testing.assert_allclose(op(*args), lstm(*args)[0][-1], rtol=1e-4, atol=1e-4)
    text = op.explain(*args)
    assert "P: computed for all steps of `t_1` at once; no step waits for it" in text
    assert "H: 2 of 41 slices kept at a time" in text
    assert "C: 2 of 41 slices kept at a time" in text


def test_gates_share_the_loops_of_their_product() -> None:
    """Threads start once for each step: nothing but the products of inputs and packing is parallel besides."""
    weft.set_num_threads(2)
    op, args = weft.define(TEXT, entry="lstm"), lstm_args(64, 32, 128, 128)
    text = op.explain(*args)
    assert "H_1: computed together with `G`, `C_1`" in text
    steps = op.show("loops", *args).partition("  for t_1 in")[2]
    assert steps.count("parallel ") == 1
    alone = op.explain(*lstm_args(64, 1, 256, 256))
    assert "G: not computed together with `H_1`; each element of an operand is used once in a step" in alone


#: An LSTM whose states are kept apart from those of the step before, as `weft.graph` has them.
APART = """def f(float(T,B,4,J) P, float(B,J) H0, float(B,J) C0, float(4,J,J) U) -> (Y, Z) {
    H(0,b,j) = H0(b,j)
    C(0,b,j) = C0(b,j)
    for t in 0:T {
        G(b,g,j) +=! H(t,b,k) * U(g,j,k)
        S(b,g,j) = G(b,g,j) + P(t,b,g,j)
        D(b,j) = sigmoid(S(b,1,j)) * C(t,b,j) + sigmoid(S(b,0,j)) * tanh(S(b,2,j))
        H(t+1,b,j) = sigmoid(S(b,3,j)) * tanh(D(b,j))
        C(t+1,b,j) = D(b,j)
    }
    Y(t,b,j) = H(t+1,b,j)
    Z(b,j) = C(T,b,j)
}"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("batch", "units"), [(8, 256), (2, 200)])
def test_states_apart_from_those_of_the_step_before(batch: int, units: int, threads: int) -> None:
    """Threads start once for each step, and each makes all of its units; where panels of units would not be whole
    vectors, gates and units are one axis instead (on two threads other plans are as fast)."""
    weft.set_num_threads(threads)
    p, h, c, u = draw((20, batch, 4, units), (batch, units), (batch, units), (4, units, units), scale=0.2)
    op, args = weft.define(APART), [p, h, c, u]
    nothing, no_weights = np.zeros((1, batch, 1), np.float32), np.zeros((4, units, 1), np.float32)
    rows, cell = [], c
    for row in p:
        (_, h), cell = lstm(nothing, h, cell, no_weights, u, row)
        rows.append(h)
    for got, want in zip(op(*args), (np.stack(rows), cell)):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    s = weft.schedule(op, *args, numerics="fast")
    made = {f"{d.subject}: {d.what}" for d in auto_schedule(s, NAMED["x86-64-avx512"], threads).decisions}
    steps = print_kernel(s.kernel).partition("  for t in")[2]
    if threads == 1 and units % 16:
        assert "G: `vg` and `vj` are one axis" in made
    if threads > 1 and not units % 16:
        assert "C_1: computed together with `G`, `D`, `H_1`" in made
        assert steps.index("parallel ") < steps.index("block G(")
        assert steps.partition("block C_1(")[0].count("parallel ") == 1


def test_weights_a_little_larger_than_a_cache_are_gone_through_to_and_fro() -> None:
    """Pieces of them change their places in every other step, nothing inside one does."""
    large = weft.schedule(weft.define(APART), *lstm_apart(256), numerics="fast")
    decisions = auto_schedule(large, NAMED["x86-64-avx512"], 1, frozenset({"U"})).decisions
    turned = [d.subject for d in decisions if d.topic == "order"]
    loops = {line.split()[1] for line in print_kernel(large.kernel).splitlines() if "backward if t % 2 == 1" in line}
    assert loops
    assert ", ".join(turned).split(", ") == [step.args[0] for step in large.trace.steps if step.name == "alternate"]
    assert all(loop.startswith(("g", "j")) for loop in loops)
    small = weft.schedule(weft.define(APART), *lstm_apart(16), numerics="fast")
    auto_schedule(small, NAMED["x86-64-avx512"], 1, frozenset({"U"}))
    assert "backward" not in print_kernel(small.kernel)


def lstm_apart(units: int) -> list[Array]:
    return draw((8, 1, 4, units), (1, units), (1, units), (4, units, units), scale=0.2)


#: Small enough for the interpreter; gates in one thread, uneven depths, batches of one.
SMALL = {
    "lstm": [lstm_args(3, 4, 6, 8), lstm_args(2, 3, 5, 17), lstm_args(2, 1, 3, 12)],
    "gru": [gru_args(3, 2, 6, 12), gru_args(2, 3, 4, 10)],
    "viterbi": [draw((5, 9), (9, 9))],
    "selective_scan": [scan_args(3, 2, 5, 4)],
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sms", [132, 1])
def test_on_a_gpu_all_steps_are_one_launch_where_its_blocks_run_at_once(name: str, sms: int) -> None:
    """Scheduled, and as the grid of threads that CUDA text is made from."""
    machine = replace(H200, sms=sms)
    for args in SMALL[name] if sms > 1 else SMALL[name][:1]:
        program, schedule = scheduled(name, args, machine)
        joined = lower_kernel(schedule.kernel, machine, fast=True)
        assert any(isinstance(n, Barrier) and n.scope == "grid" for n in walk(joined))
        for kernel in (schedule.kernel, joined):
            outputs = [np.zeros([int(s.value) for s in b.shape], to_numpy(b.dtype)) for b in program.outputs]
            interpret(kernel, [*args, *outputs])
            for got, want in zip(outputs, CASES[name][0](*(a.astype(np.float64) for a in args))):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_on_a_gpu_a_step_is_a_few_launches_where_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CUDA text, built for the host; the host counts the steps."""
    monkeypatch.setattr(scheduler, "STEPS", [step for step in scheduler.STEPS if step.name != "persist_steps"])
    args = SMALL[name][:2][-1]
    program, schedule = scheduled(name, args, H200)
    runner = HostRunner(schedule.kernel, H200, fast=True, aligned=16)
    assert any(launch.steps for launch in runner.program.launches)
    outputs = [np.zeros([int(s.value) for s in b.shape], to_numpy(b.dtype)) for b in program.outputs]
    assert runner(*args, *outputs) == 0
    for got, want in zip(outputs, CASES[name][0](*(a.astype(np.float64) for a in args))):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "args"), [("lstm", lstm_args(64, 32, 128, 128)), ("gru", gru_args(64, 7, 100, 100))])
def test_on_a_gpu_the_gates_of_a_unit_are_in_one_thread_and_weights_stay(name: str, args: list[Array]) -> None:
    """One launch for all steps, which fills the weights' shared memory before the first of them."""
    _, schedule = scheduled(name, args, H200)
    program = compile_kernel(schedule.kernel, H200, fast=True)
    (steps,) = [launch for launch in program.launches if launch.cooperative]
    assert not any(launch.steps for launch in program.launches)
    text = program.source[program.source.index(f"\n{steps.name}(") :]
    weights, loop = text.index("U_pack[" if "U_pack[" in text else "U_pack ="), text.index("for (int t_1 = 0")
    assert weights < loop < text.index("grid_barrier();")
    assert "U[" not in text[loop:]
    assert "U +" not in text[loop:]


def scheduled(name: str, args: list[Array], machine: GpuMachine) -> tuple[TensorProgram, Schedule]:
    program = specialized(name, args)
    schedule = Schedule(lower(program), numerics="fast")
    auto_schedule_gpu(schedule, machine)
    return program, schedule


def specialized(name: str, args: list[Array]) -> TensorProgram:
    program = parse_programs(TEXT)[name]
    return specialize(program, solve_sizes(program, {b.name: a.shape for b, a in zip(program.inputs, args)}))


def test_on_a_gpu_no_steps_need_no_products() -> None:
    _, cases = CASES["lstm"]
    assert "__global__" in weft.define(TEXT, entry="lstm").show("cuda", *cases[-1])

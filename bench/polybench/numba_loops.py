"""The loops compiled by numba, in parallel where they are independent as they stand."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numba

from bench.field.peers import Array, Prepared
from bench.field.workloads import Workload
from bench.polybench import python_loops
from bench.polybench.programs import Program


def version() -> str:
    return str(numba.__version__)


def prepare(workload: Workload, inputs: Mapping[str, Array], threads: int) -> Prepared:
    assert isinstance(workload, Program)
    numba.set_num_threads(threads)
    kernel = getattr(python_loops, workload.family.definition)
    results = workload.make_results(inputs)
    steps = [workload.sizes["T"]] if "T" in workload.sizes else []
    given = [*steps, *workload.read_only(inputs), *results.values()]
    start = time.perf_counter()
    kernel(*given)
    took = time.perf_counter() - start

    def run() -> None:
        workload.restart(inputs, results)
        kernel(*given)

    def after() -> tuple[Array, ...]:
        run()
        return tuple(results.values())

    return Prepared({"filling": run}, after, {"cold": took})

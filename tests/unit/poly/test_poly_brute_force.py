"""Every verdict against full enumeration of random nests, and every witness shown to conflict."""

from __future__ import annotations

import os
import random

import pytest
from brute_force import Instance, conflict, enumerate_instances, is_parallel, keeps_order, value
from random_nests import SIZE, random_neighbours, random_nest

from weft.ir.expr import Binary
from weft.ir.nesting import find_path
from weft.ir.printer import print_kernel
from weft.ir.stmt import Block, For, Kernel, Seq
from weft.ir.visit import substitute, walk
from weft.poly.check_neighbours import check_fission, check_fuse_loops
from weft.poly.check_parallel import check_parallel
from weft.poly.check_reorder import check_reorder
from weft.poly.verdict import Verdict

CHUNKS = 8
SEEDS = int(os.environ.get("WEFT_RANDOM_NESTS", "40"))
#: Sizes tried where N is symbolic: enough for the offsets and coefficients the nests have.
SIZES = (0, 1, 2, 3, 4)


def runs(kernel: Kernel, verdict: Verdict) -> list[dict[str, int]]:
    """Sizes to enumerate: a refusal names one at which it happens, which may be larger."""
    if all(p.name != "N" for p in kernel.params):
        return [{}]
    named = [] if verdict.witness is None else [{"N": 0, **verdict.witness.sizes}]
    return [*({"N": n} for n in SIZES), *named]


def loops_around(kernel: Kernel, loop: For) -> list[For]:
    return [s for s in (find_path(kernel.body, loop) or [])[:-1] if isinstance(s, For)]


def is_nonlinear(kernel: Kernel) -> bool:
    """Whether sizes are multiplied or divided by: then a refusal may be for want of a proof."""
    return any(isinstance(n, Binary) and n.op in ("*", "//", "%") and n.right == SIZE for n in walk(kernel.body))


def judge(seed: int, kernel: Kernel, verdict: Verdict, truth: bool, numerics: str, *, concurrent: bool) -> None:
    certain = verdict.witness is not None and verdict.witness.certain
    message = f"seed {seed}: {verdict}\n{print_kernel(kernel)}"
    if verdict.ok or not is_nonlinear(kernel):
        assert verdict.ok == truth, message
    if not verdict.ok and (certain or not is_nonlinear(kernel)):
        check_witness(kernel, verdict, numerics, concurrent=concurrent)


def check_witness(kernel: Kernel, verdict: Verdict, numerics: str, *, concurrent: bool) -> None:
    witness = verdict.witness
    assert witness is not None, verdict.reason
    assert witness.certain
    instances = enumerate_instances(kernel, {"N": 0, **witness.sizes})
    first = [i for i in instances if i.loops == witness.first]
    second = [i for i in instances if i.loops == witness.second]
    assert any(conflict(a, b, numerics, concurrent=concurrent) for a in first for b in second), verdict.reason
    name, _, rest = witness.element.partition("[")
    element = tuple(int(x) for x in rest.rstrip("]").split(",")) if rest else ()
    assert all(touched(i, name, element) for i in (first, second)), verdict.reason


def touched(instances: list[Instance], name: str, element: tuple[int, ...]) -> bool:
    return any(t.cell[0] == name and t.cell[2] == element for i in instances for t in i.touches)


def seeds_of(chunk: int, first_seed: int) -> range:
    return range(first_seed + chunk * SEEDS, first_seed + (chunk + 1) * SEEDS)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_parallel(chunk: int, first_seed: int) -> None:
    for seed in seeds_of(chunk, first_seed):
        kernel = random_nest(seed, perfect=False)
        numerics = ("strict", "fast")[seed % 2]
        for loop in [s for s in walk(kernel.body) if isinstance(s, For)]:
            outer = [o.var.name for o in loops_around(kernel, loop)]
            verdict = check_parallel(kernel, loop.var.name, "parallel", numerics)
            traces = [enumerate_instances(kernel, s) for s in runs(kernel, verdict)]
            truth = all(is_parallel(t, loop.var.name, outer, numerics) for t in traces)
            judge(seed, kernel, verdict, truth, numerics, concurrent=True)


def movable(order: list[For]) -> bool:
    for place, loop in enumerate(order):
        inside = {o.var.name for o in order[place:]}
        used = {getattr(n, "name", None) for e in (loop.lo, loop.hi) for n in walk(e)}
        if inside & used:
            return False
    return True


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_reorder(chunk: int, first_seed: int) -> None:
    for seed in seeds_of(chunk, first_seed):
        kernel = random_nest(seed + 10**6, perfect=True)
        rng = random.Random(seed)
        numerics = ("strict", "fast")[seed % 2]
        loops = [s for s in walk(kernel.body) if isinstance(s, For)]
        if len(loops) < 2:
            continue
        chain = loops[rng.randrange(len(loops) - 1) :]
        order = rng.sample(chain, len(chain))
        outer = [o.var.name for o in loops if o not in chain]
        verdict = check_reorder(kernel, chain, order, numerics)
        if not movable(order):
            assert not verdict.ok
            continue
        traces = [enumerate_instances(kernel, s) for s in runs(kernel, verdict)]
        truth = all(keeps_order(t, chain, order, outer, numerics) for t in traces)
        judge(seed, kernel, verdict, truth, numerics, concurrent=any(s.kind == "parallel" for s in order))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_fuse_loops(chunk: int, first_seed: int) -> None:
    for seed in seeds_of(chunk, first_seed):
        kernel = random_neighbours(seed)
        numerics = ("strict", "fast")[seed % 2]
        x, y = (next(s for s in walk(kernel.body) if isinstance(s, For) and s.var.name == n) for n in "xy")
        outer = [o.var.name for o in loops_around(kernel, x)]
        shift = value(x.lo, {}) - value(y.lo, {})
        verdict = check_fuse_loops(kernel, x, y, numerics)
        truth = True
        for sizes in runs(kernel, verdict):
            trace = enumerate_instances(kernel, sizes)
            for a in (i for i in trace if "x" in i.loops):
                for b in (i for i in trace if "y" in i.loops):
                    together = all(a.loops[o] == b.loops[o] for o in outer)
                    if together and b.loops["y"] + shift < a.loops["x"] and conflict(a, b, numerics, concurrent=False):
                        truth = False
        judge(seed, kernel, verdict, truth, numerics, concurrent=False)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_fission(chunk: int, first_seed: int) -> None:
    """The merged form of two neighbours, split again."""
    for seed in seeds_of(chunk, first_seed):
        kernel = random_neighbours(seed + 10**6)
        numerics = ("strict", "fast")[seed % 2]
        x, y = (next(s for s in walk(kernel.body) if isinstance(s, For) and s.var.name == n) for n in "xy")
        name = x.var
        halves = [Block(n, (), (), (), None, s.body) for n, s in (("one", x), ("two", y))]
        body = Seq((halves[0], substitute(halves[1], {y.var: name})))
        outer = loops_around(kernel, x)
        split = For(name, x.lo, x.hi, "serial", body)
        whole: For = split
        for o in reversed(outer):
            whole = For(o.var, o.lo, o.hi, o.kind, whole)
        kernel = Kernel(kernel.name, kernel.params, kernel.outputs, whole)
        verdict = check_fission(kernel, split, body.body, 0, numerics)
        early = {id(s) for s in walk(body.body[0])}
        truth = True
        for sizes in runs(kernel, verdict):
            trace = enumerate_instances(kernel, sizes)
            for a in (i for i in trace if id(i.stmt) in early):
                for b in (i for i in trace if id(i.stmt) not in early):
                    together = all(a.loops[o.var.name] == b.loops[o.var.name] for o in outer)
                    if together and b.loops["x"] < a.loops["x"] and conflict(a, b, numerics, concurrent=False):
                        truth = False
        judge(seed, kernel, verdict, truth, numerics, concurrent=False)


def test_nests_are_varied() -> None:
    """A generator that made only legal or only illegal nests would show nothing."""
    verdicts = []
    for seed in range(100):
        kernel = random_nest(seed, perfect=False)
        loop = next(s for s in walk(kernel.body) if isinstance(s, For))
        verdicts.append(check_parallel(kernel, loop.var.name).ok)
    assert 15 < sum(verdicts) < 85

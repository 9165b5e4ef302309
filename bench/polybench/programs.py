"""The programs: arguments, results and sizes. A result named like an argument is that argument, updated in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

import numpy as np

from bench.field.workloads import Argument, Array, Family, Sizes, Workload, extent, parse_arguments, parse_sizes

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Program(Workload):
    """A program at its sizes; ``results`` are written, those that are arguments too start from them."""

    results: tuple[Argument, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.family.name} {' '.join(f'{n}={v}' for n, v in self.sizes.items())}"

    @property
    def in_place(self) -> bool:
        return bool({a.name for a in self.family.arguments} & {r.name for r in self.results})

    def loops_text(self) -> str:
        """The loop program, sizes filled in; of those that update in place."""
        text = (FOLDER / "loops" / f"{self.family.definition}.loops").read_text(encoding="utf-8")
        return Template(text).substitute({n: str(v) for n, v in self.sizes.items()})

    def read_only(self, inputs: Mapping[str, Array]) -> list[Array]:
        written = {r.name for r in self.results}
        return [value for name, value in inputs.items() if name not in written]

    def make_results(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        shapes = {r.name: tuple(extent(d, self.sizes) for d in r.dims or ()) for r in self.results}
        made = {name: np.zeros(shape, self.family.dtype) for name, shape in shapes.items()}
        self.restart(inputs, made)
        return made

    def restart(self, inputs: Mapping[str, Array], results: Mapping[str, Array]) -> None:
        """Puts what is updated in place back to where it starts; every peer does so before each call."""
        for name, result in results.items():
            if name in inputs:
                np.copyto(result, inputs[name])

    def inputs(self, seed: int = 0) -> dict[str, Array]:
        """Positive numbers; square matrices that are divided by have a heavy diagonal."""
        made = super().inputs(seed)
        for name in _DIVIDED.get(self.family.definition, ()):
            np.fill_diagonal(made[name], made[name].shape[0])
        return made

    def reference(self, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
        """What the C compiler's plain code computes."""
        from bench.polybench.gcc_loops import compile_program

        results = self.make_results(inputs)
        compile_program(self)(*self.read_only(inputs), *results.values())
        return tuple(results.values())


#: Matrices with elements that are divided by.
_DIVIDED = {"lu": ("A",), "trisolv": ("L",)}

#: Name, definition, arguments, results, sizes.
_PROGRAMS = (
    ("gemm", "gemm", "A(I,K)+ B(K,J)+ C(I,J)+", "O(I,J)", "I=512 J=576 K=640"),
    ("2mm", "mm2", "A(I,K)+ B(K,J)+ C(J,L)+ D(I,L)+", "O(I,L)", "I=384 J=416 K=448 L=480"),
    ("3mm", "mm3", "A(I,K)+ B(K,J)+ C(J,M)+ D(M,L)+", "G(I,L)", "I=320 J=352 K=384 L=416 M=448"),
    ("atax", "atax", "A(M,N)+ x(N)+", "y(N)", "M=1900 N=2100"),
    ("bicg", "bicg", "A(N,M)+ p(M)+ r(N)+", "s(M) q(N)", "M=1900 N=2100"),
    ("mvt", "mvt", "A(N,N)+ a(N)+ b(N)+ y1(N)+ y2(N)+", "x1(N) x2(N)", "N=2000"),
    ("gemver", "gemver", "A(N,N)+ u1(N)+ v1(N)+ u2(N)+ v2(N)+ y(N)+ z(N)+", "B(N,N) x(N) w(N)", "N=2000"),
    ("gesummv", "gesummv", "A(N,N)+ B(N,N)+ x(N)+", "y(N)", "N=1300"),
    ("syrk", "syrk", "A(N,M)+ C(N,N)+", "O(N,N)", "M=400 N=480"),
    ("doitgen", "doitgen", "A(R,Q,P)+ C(P,S)+", "O(R,Q,S)", "R=60 Q=60 P=128 S=128"),
    ("covariance", "covariance", "X(N,M)+", "O(M,M)", "M=400 N=520"),
    ("jacobi-1d", "jacobi_1d", "A(N)+ B(N)+", "A(N) B(N)", "N=20000 T=100"),
    ("jacobi-2d", "jacobi_2d", "A(N,N)+ B(N,N)+", "A(N,N) B(N,N)", "N=700 T=30"),
    ("seidel-2d", "seidel_2d", "A(N,N)+", "A(N,N)", "N=300 T=30"),
    ("heat-3d", "heat_3d", "A(N,N,N)+ B(N,N,N)+", "A(N,N,N) B(N,N,N)", "N=80 T=20"),
    ("fdtd-2d", "fdtd_2d", "X(N,M)+ Y(N,M)+ H(N,M)+", "X(N,M) Y(N,M) H(N,M)", "N=500 M=600 T=30"),
    ("lu", "lu", "A(N,N)+", "A(N,N)", "N=500"),
    ("trisolv", "trisolv", "L(N,N)+ x(N)+", "x(N)", "N=2000"),
    ("floyd-warshall", "floyd_warshall", "D(N,N)+", "D(N,N)", "N=360"),
)

FAMILIES = {
    name: Family(name, "polybench", definition, parse_arguments(arguments), "", dtype="float64")
    for name, definition, arguments, _, _ in _PROGRAMS
}
_RESULTS = {name: parse_arguments(results) for name, _, _, results, _ in _PROGRAMS}


def find_workload(family: str, sizes: Sizes) -> Program:
    return Program(FAMILIES[family], sizes, _RESULTS[family])


def standard_programs() -> list[Program]:
    return [find_workload(name, parse_sizes(sizes)) for name, _, _, _, sizes in _PROGRAMS]

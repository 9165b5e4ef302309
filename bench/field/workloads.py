"""What is compared: families of work, and the sizes at which each is measured.

A family names a definition (in the library of operators, or in ``programs.weft`` here) and its arguments in order:
``A(M,K)`` is a float32 array, ``G(M)+`` one of positive elements, ``I(B,L)<E`` an int32 one with elements below
``E``, a bare name a whole number.
Peers know families, never sizes. ``randomly_resized`` gives the same families at sizes nobody chose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Argument:
    """A parameter of a family; ``dims`` is None for a whole number, ``below`` names the bound of an index."""

    name: str
    dims: tuple[str, ...] | None
    below: str | None = None
    positive: bool = False


@dataclass(frozen=True)
class Family:
    """One kind of work; ``constants`` are the arguments that stay the same from call to call, as weights do."""

    name: str
    group: str
    definition: str
    arguments: tuple[Argument, ...]
    label: str
    constants: tuple[str, ...] = ()
    #: sizes that random shapes leave alone: kernels, strides, what ties sizes together
    kept: tuple[str, ...] = ()
    #: inputs on a coarse grid, so that sums are exact and positions of extremes can be compared
    exact: bool = False
    dtype: str = "float32"

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.arguments if a.dims is None)


@dataclass(frozen=True)
class Workload:
    family: Family
    sizes: Sizes

    @property
    def name(self) -> str:
        return f"{self.family.name} {self.family.label.format(**self.sizes)}".strip()

    def inputs(self, seed: int = 0) -> dict[str, Array]:
        """The arrays by name, the same in every process."""
        rng = np.random.default_rng(seed)
        return {a.name: self._array(a, rng) for a in self.family.arguments if a.dims is not None}

    def reference(self, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
        """What is right, in float64; torch computes it."""
        from bench.field.torch_math import reference

        return reference(self, inputs)

    def numbers(self) -> dict[str, int]:
        return {name: self.sizes[name] for name in self.family.numbers}

    def _array(self, argument: Argument, rng: np.random.Generator) -> Array:
        shape = tuple(extent(d, self.sizes) for d in argument.dims or ())
        if argument.below is not None:
            return aligned(rng.integers(0, self.sizes[argument.below], shape, np.int32))
        if argument.positive:
            return aligned(rng.uniform(0.1, 1.0, shape).astype(self.family.dtype))
        values = rng.standard_normal(shape).astype(self.family.dtype)
        return aligned(np.round(values * 32) / 32 if self.family.exact else values)


def aligned(values: Array) -> Array:
    """A copy that starts at a cache line, so that no peer has the better memory."""
    room = np.empty(values.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def extent(text: str, sizes: Sizes) -> int:
    """A sum of sizes and numbers: ``H-KH+1``."""
    total = 0
    for sign, term in re.findall(r"([+-]?)(\w+)", text):
        value = int(term) if term.isdecimal() else sizes[term]
        total += -value if sign == "-" else value
    return total


def parse_arguments(text: str) -> tuple[Argument, ...]:
    found = re.findall(r"(\w+)(?:\(([^)]*)\)(\+?)(?:<(\w+))?)?", text)
    return tuple(
        Argument(name, tuple(dims.split(",")) if dims else None, below or None, bool(plus))
        for name, dims, plus, below in found
    )


def _family(
    name: str,
    group: str,
    definition: str,
    arguments: str,
    label: str,
    constants: str = "",
    kept: str = "",
    **flags: bool,
) -> Family:
    return Family(
        name,
        group,
        definition,
        parse_arguments(arguments),
        label,
        tuple(constants.split()),
        tuple(kept.split()),
        **flags,
    )


_MATRICES, _CONVOLUTIONS, _ROWS, _MEMORY = "matrix products", "convolutions", "rows and norms", "sums and moves"
_ATTENTION, _COMPREHENSIONS, _UNHEARD = "attention", "tensor comprehensions", "operators no library has"
_IMAGE = "I(N,C,H,W) Kernel(F,C,KH,KW)"
_RESNEXT = "I(N,G,C,H,W) Kernel(G,F,C,KH,KW) P"
_MLP3 = "X(B,M) W1(N,M) B1(N) W2(O,N) B2(O) W3(P,O) B3(P)"
_WAVENET = "X(B,R,T) WF(C,R,2) BF(C) WG(C,R,2) BG(C) WR(R,C) BR(R) WS(S,C) BS(S) D"
_QKV = "Q(B,H,S,D) K(B,H,S,D) V(B,H,S,D)"
_HEADS = "{B}x{H}x{S}x{D}"

FAMILIES = {
    family.name: family
    for family in (
        _family("matmul", _MATRICES, "matmul", "A(M,K) B(K,N)", "{M}x{K}x{N}"),
        _family("A^T B", _MATRICES, "matmul_of_transposed", "A(K,M) B(K,N)", "{M}x{K}x{N}"),
        _family("batched matmul", _MATRICES, "batched_matmul", "X(B,M,K) Y(B,K,N)", "{B}x{M}x{K}x{N}"),
        _family("linear+GELU", _MATRICES, "linear_gelu", "X(M,K) W(N,K) b(N)", "{M}x{K}x{N}", "W b"),
        _family("conv", _CONVOLUTIONS, "conv2d_layer", f"{_IMAGE} P S D", "{KH}x{KW} /{S} d{D} {C}->{F} @{H}x{W}",
                "Kernel", "N KH KW P S D"),
        _family("depthwise conv", _CONVOLUTIONS, "conv2d_depthwise_padded", "I(N,C,H,W) Kernel(C,KH,KW) P",
                "{KH}x{KW} {C} @{H}x{W}", "Kernel", "N KH KW P"),
        _family("grouped conv", _CONVOLUTIONS, "conv2d_grouped_padded", _RESNEXT, "{KH}x{KW} {G}x{C}->{F} @{H}x{W}",
                "Kernel", "N KH KW P C F"),
        _family("conv1d", _CONVOLUTIONS, "conv1d", "I(N,C,L) W(F,C,K)", "{K} {C}->{F} {N}x{L}", "W", "K"),
        _family("conv grad input", _CONVOLUTIONS, "conv2d_grad_input", "GO(N,F,H-KH+1,W-KW+1) Kernel(F,C,KH,KW)",
                "{KH}x{KW} {C}->{F} @{H}x{W}", "", "N KH KW"),
        _family("conv grad weight", _CONVOLUTIONS, "conv2d_grad_weight", "GO(N,F,H-KH+1,W-KW+1) I(N,C,H,W)",
                "{KH}x{KW} {C}->{F} @{H}x{W}", "", "N KH KW"),
        _family("conv+bias+ReLU+maxpool", _CONVOLUTIONS, "conv_relu_pool", f"{_IMAGE} b(F) P",
                "{KH}x{KW} {C}->{F} @{H}x{W}", "Kernel b", "N KH KW P"),
        _family("max pool", _CONVOLUTIONS, "max_pool2d", "I(N,C,H,W) K S", "{K}x{K}/{S} {N}x{C} @{H}x{W}", "", "K S"),
        _family("avg pool", _CONVOLUTIONS, "avg_pool2d", "I(N,C,H,W) K S", "{K}x{K}/{S} {N}x{C} @{H}x{W}", "", "K S"),
        _family("softmax", _ROWS, "softmax", "X(M,N)", "{M}x{N}"),
        _family("log softmax", _ROWS, "log_softmax", "X(M,N)", "{M}x{N}"),
        _family("layer norm", _ROWS, "layer_norm", "X(M,N) Gain(N) Shift(N)", "{M}x{N}"),
        _family("RMS norm", _ROWS, "rms_norm", "X(M,N) Gain(N)", "{M}x{N}"),
        _family("batch norm", _ROWS, "batch_norm", "I(N,C,H,W) Gain(C) Shift(C)", "{N}x{C} @{H}x{W}"),
        _family("group norm", _ROWS, "group_norm", "I(N,G,C,H,W) Gain(G,C) Shift(G,C)", "{N}x{G}x{C} @{H}x{W}"),
        _family("bias+GELU", _ROWS, "bias_gelu", "X(M,N) b(N)", "{M}x{N}"),
        _family("RMS norm+SwiGLU", _ROWS, "rms_norm_swiglu", "X(M,K) Gain(K) Gate(N,K) Up(N,K)", "{M}x{K}x{N}",
                "Gain Gate Up"),
        _family("attention", _ATTENTION, "attention", _QKV, _HEADS, "", "B"),
        _family("causal attention", _ATTENTION, "causal_attention", _QKV, _HEADS, "", "B"),
        _family("sums of rows", _MEMORY, "sum_rows", "A(M,N)", "{M}x{N}"),
        _family("sums of columns", _MEMORY, "sum_columns", "A(M,N)", "{M}x{N}"),
        _family("sum of all", _MEMORY, "sum_all", "A(M,N)", "{M}x{N}"),
        _family("transpose", _MEMORY, "transpose", "A(M,N)", "{M}x{N}"),
        _family("blur 3x3", _MEMORY, "blur", "A(H,W)", "{H}x{W}"),
        _family("tmm", _COMPREHENSIONS, "transposed_matmul", "A(M,K) B(N,K)", "{M}x{K}x{N}"),
        _family("tbmm", _COMPREHENSIONS, "transposed_batched_matmul", "X(B,M,K) Y(B,N,K)", "{B}x{M}x{K}x{N}"),
        _family("Kronecker 3", _COMPREHENSIONS, "kru3", "W0(D0,N0) W1(D1,N1) W2(D2,N2) X(M,N0,N1,N2)",
                "{M}x{N0}x{N1}x{N2}->{D0}x{D1}x{D2}", "W0 W1 W2"),
        _family("MLP1", _COMPREHENSIONS, "mlp1", "X(M,K) W(N,K) b(N)", "{M}x{K}x{N}", "W b"),
        _family("MLP3", _COMPREHENSIONS, "mlp3", _MLP3, "{B}x{M}x{N}x{O}x{P}", "W1 B1 W2 B2 W3 B3", "P"),
        _family("C3", _COMPREHENSIONS, "c3", "I(B,WX) W(WY,WX)", "{B}x{WX}x{WY}", "W"),
        _family("1LUT", _COMPREHENSIONS, "lut1", "LUT(E,D) I(B,L)<E", "{E}x{D} {B}x{L}"),
        _family("2LUT", _COMPREHENSIONS, "lut2", "LUT1(E1,D) I1(B,L1)<E1 LUT2(E2,D) I2(B,L2)<E2",
                "{E1}+{E2}x{D} {B}x{L1}"),
        _family("WaveNet", _COMPREHENSIONS, "wavenet", _WAVENET, "{B}x{R}x{C}x{S} {T} d{D}",
                "WF BF WG BG WR BR WS BS", "B D"),
        _family("L1 distance", _UNHEARD, "l1_distance", "X(M,K) Y(N,K)", "{M}x{N}x{K}"),
        _family("max-plus", _UNHEARD, "max_plus", "A(M,K) B(K,N)", "{M}x{K}x{N}"),
        _family("min distance", _UNHEARD, "min_distance", "X(M,K) Y(N,K)", "{M}x{N}x{K}"),
        _family("argmin distance", _UNHEARD, "argmin_distance", "X(M,K) Y(N,K)", "{M}x{N}x{K}", exact=True),
        _family("bilateral", _UNHEARD, "bilateral", "I(H,W) G(KH,KW)+ R", "{KH}x{KW} {H}x{W}", "", "KH KW R"),
    )
}  # fmt: skip

#: Each line: a family, and the sizes of one workload or several.
_SIZES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("matmul", ("M=512 K=512 N=512", "M=1024 K=1024 N=1024", "M=2048 K=2048 N=2048", "M=32 K=768 N=3072",
                "M=1 K=4096 N=4096", "M=1000 K=999 N=777")),
    ("A^T B", ("M=1024 K=1024 N=1024",)),
    ("batched matmul", ("B=12 M=128 K=64 N=128",)),
    ("linear+GELU", ("M=128 K=768 N=3072",)),
    ("conv", ("N=1 C=64 F=64 H=56 W=56 KH=3 KW=3 P=1 S=1 D=1", "N=1 C=128 F=128 H=28 W=28 KH=3 KW=3 P=1 S=1 D=1",
              "N=1 C=256 F=256 H=14 W=14 KH=3 KW=3 P=1 S=1 D=1", "N=1 C=512 F=512 H=7 W=7 KH=3 KW=3 P=1 S=1 D=1",
              "N=1 C=3 F=64 H=224 W=224 KH=7 KW=7 P=3 S=2 D=1", "N=1 C=256 F=64 H=56 W=56 KH=1 KW=1 P=0 S=1 D=1",
              "N=1 C=128 F=128 H=56 W=56 KH=3 KW=3 P=1 S=2 D=1", "N=1 C=64 F=64 H=56 W=56 KH=3 KW=3 P=2 S=1 D=2")),
    ("depthwise conv", ("N=1 C=32 H=112 W=112 KH=3 KW=3 P=1",)),
    ("grouped conv", ("N=1 G=32 C=4 F=4 H=56 W=56 KH=3 KW=3 P=1",)),
    ("conv1d", ("N=8 C=64 F=64 L=1024 K=5",)),
    ("conv grad input", ("N=1 C=128 F=128 H=28 W=28 KH=3 KW=3",)),
    ("conv grad weight", ("N=1 C=128 F=128 H=28 W=28 KH=3 KW=3",)),
    ("conv+bias+ReLU+maxpool", ("N=1 C=64 F=64 H=56 W=56 KH=3 KW=3 P=1",)),
    ("max pool", ("N=4 C=64 H=112 W=112 K=3 S=2",)),
    ("avg pool", ("N=4 C=64 H=112 W=112 K=2 S=2",)),
    ("softmax", ("M=4096 N=1024",)),
    ("log softmax", ("M=4096 N=1024",)),
    ("layer norm", ("M=4096 N=1024",)),
    ("RMS norm", ("M=4096 N=1024",)),
    ("batch norm", ("N=16 C=64 H=56 W=56",)),
    ("group norm", ("N=8 G=32 C=8 H=28 W=28",)),
    ("bias+GELU", ("M=4096 N=1024",)),
    ("RMS norm+SwiGLU", ("M=128 K=512 N=1376",)),
    ("attention", ("B=1 H=12 S=512 D=64",)),
    ("causal attention", ("B=1 H=12 S=512 D=64",)),
    ("sums of rows", ("M=4096 N=1024",)),
    ("sums of columns", ("M=4096 N=1024",)),
    ("sum of all", ("M=4096 N=1024",)),
    ("transpose", ("M=4096 N=4096",)),
    ("blur 3x3", ("H=2048 W=3072",)),
    ("tmm", ("M=128 K=1024 N=1024",)),
    ("tbmm", ("B=500 M=72 K=26 N=72",)),
    ("Kronecker 3", ("M=256 N0=16 N1=16 N2=16 D0=32 D1=32 D2=32",)),
    ("MLP1", ("M=128 K=2000 N=128",)),
    ("MLP3", ("B=128 M=128 N=64 O=32 P=2",)),
    ("C3", ("B=128 WX=1000 WY=1024",)),
    ("1LUT", ("E=100000 D=64 B=128 L=50",)),
    ("2LUT", ("E1=100000 E2=100000 D=64 B=128 L1=50 L2=50",)),
    ("WaveNet", ("B=1 R=32 C=32 S=256 T=4000 D=32",)),
    ("L1 distance", ("M=512 N=512 K=128",)),
    ("max-plus", ("M=256 K=256 N=256",)),
    ("min distance", ("M=1024 N=512 K=64",)),
    ("argmin distance", ("M=1024 N=512 K=64",)),
    ("bilateral", ("H=512 W=768 KH=5 KW=5 R=2",)),
)  # fmt: skip


def find_workload(family: str, sizes: Sizes) -> Workload:
    return Workload(FAMILIES[family], sizes)


def parse_sizes(text: str) -> dict[str, int]:
    pairs = (term.split("=") for term in text.split())
    return {name: int(value) for name, value in pairs}


def standard_workloads() -> Iterator[Workload]:
    """The sizes everybody measures."""
    for family, several in _SIZES:
        for text in several:
            yield Workload(FAMILIES[family], parse_sizes(text))


def randomly_resized(workloads: Sequence[Workload], seed: int) -> Iterator[Workload]:
    """The same families with every free size drawn anew, from half to one and a half of what it was; ones stay."""
    rng = np.random.default_rng(seed)
    for workload in workloads:
        kept = workload.family.kept
        yield Workload(
            workload.family,
            {
                n: v if n in kept or v == 1 else max(2, round(v * rng.uniform(0.5, 1.5)))
                for n, v in workload.sizes.items()
            },
        )

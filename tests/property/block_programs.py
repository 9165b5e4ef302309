"""Random products of quantized matrices, as the text of a definition with arguments and what float64 gives: scales of
blocks of the depth of one operand or both, written as two sums or as one, and weights of 4 bits that are unpacked."""

from __future__ import annotations

import numpy as np
from matrix_programs import Array, MatrixProgram

import weft

#: Types of operands and of the sums of a block.
SUMS = {"float8_e4m3fn": "float32", "float8_e5m2": "float32", "int8": "int32", "bfloat16": "float32"}
#: What codes of 4 bits stand for, and the formula of it.
CODE = "k % 2 == 0 ? W(n,k/2) % 16 : W(n,k/2) / 16"
SIZES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
CODES = {
    f"float32(int32({CODE}) - 8)": np.arange(16) - 8.0,
    f"as_float4_e2m1fn({CODE})": np.concatenate([SIZES, -SIZES]),
}
#: Scales as they are stored, what they are as floats, and how they are drawn.
SCALES = {
    "float32": ("{}", lambda q: (q / 97).astype(np.float32)),
    "float8_e4m3fn": ("float32({})", lambda q: (q / 97).astype(weft.numpy_dtype("float8_e4m3fn"))),
    "uint8": ("as_float8_e8m0fnu({})", lambda q: q.astype(np.uint8)),
}


def draw_blocks(seed: int, *, small: bool = False) -> MatrixProgram:
    rng = np.random.default_rng(seed)
    return _draw_packed(rng, small) if rng.random() < 0.4 else _draw_scaled(rng, small)


def _sizes(rng: np.random.Generator, small: bool) -> tuple[int, int]:
    """Rows and columns."""
    most = 12 if small else 80
    m = int(rng.integers(1, 17)) if rng.random() < 0.3 else int(rng.integers(1, most)) * int(rng.choice([1, 8, 16]))
    return m, int(rng.integers(2, most)) * int(rng.choice([1, 8, 16]))


def _draw_scaled(rng: np.random.Generator, small: bool) -> MatrixProgram:
    """Squares share a scale, or parts of rows; scales lie along rows, or along blocks."""
    dtype, (m, n) = str(rng.choice(list(SUMS), p=[0.5, 0.1, 0.25, 0.15])), _sizes(rng, small)
    block, blocks = int(rng.choice([32, 64, 128, 128, 256])), int(rng.integers(2, 4 if small else 12))
    down, across = (int(rng.choice([1, 1, 32, 128])) for _ in "mn")
    shapes = [(-(-m // down), blocks), (-(-n // across), blocks)]
    p, q = (rng.random(shape, np.float32) + 0.5 for shape in shapes)
    x, w = (_drawn(rng, (rows, blocks * block), dtype) for rows in (m, n))
    wide = [a.astype(np.float64) * np.repeat(np.repeat(s, step, 0)[: len(a)], block, 1)
            for a, s, step in ((x, p, down), (w, q, across))]  # fmt: skip
    turned = rng.random() < 0.4
    cast, is_flat = SUMS[dtype], dtype != "int8" and rng.random() < 0.5
    k = f"k/{block}" if is_flat else "g"
    rows, columns = (i if step == 1 else f"{i}/{step}" for i, step in (("m", down), ("n", across)))
    scales = f"p({rows},{k}) * q({f'{k},{columns}' if turned else f'{columns},{k}'})"
    types = f"float32(P,G) p, float32({'G,Q' if turned else 'Q,G'}) q"
    if is_flat:
        text = f"""def f({dtype}(M,K) X, {dtype}(N,K) W, {types}) -> (float32(M,N) C) {{
            C(m,n) +=! {cast}(X(m,k)) * {cast}(W(n,k)) * {scales} where m in 0:M, n in 0:N }}"""
    else:
        text = f"""def f({dtype}(M,G,K) X, {dtype}(N,G,K) W, {types}) -> (bfloat16(M,N) C) {{
            D(m,n,g) +=! {cast}(X(m,g,k)) * {cast}(W(n,g,k))
            S(m,n) +=! float32(D(m,n,g)) * {scales} where m in 0:M, n in 0:N
            C(m,n) = bfloat16(S(m,n)) }}"""
        x, w = (a.reshape(len(a), blocks, block) for a in (x, w))
    given = [x, w, p, np.ascontiguousarray(q.T) if turned else q]
    return MatrixProgram(text, "fast", given, [wide[0] @ wide[1].T], 2e-3 if is_flat else 6e-3)


def _draw_packed(rng: np.random.Generator, small: bool) -> MatrixProgram:
    """Weights of 4 bits, two in a byte, with a scale for some of a row."""
    (m, n), dtype = _sizes(rng, small), str(rng.choice(["bfloat16", "float16"]))
    block, scale = int(rng.choice([16, 32, 64, 128])), str(rng.choice(list(SCALES)))
    deep = 128 * int(rng.integers(2, 5 if small else 24))
    value, numbers = list(CODES.items())[int(rng.integers(2))]
    read, made = SCALES[scale]
    q = made(rng.integers(120, 134, (n, deep // block)))
    x, w = _drawn(rng, (m, deep), dtype), rng.integers(0, 256, (n, deep // 2), np.uint8)
    text = f"""def f({dtype}(M,K) X, uint8(N,H) W, {scale}(N,G) q) -> (float32(M,N) C) {{
        D(n,k) = {dtype}({value} * {read.format(f"q(n,k/{block})")}) where k in 0:K
        C(m,n) +=! float32(X(m,k)) * float32(D(n,k)) }}"""
    scales = np.exp2(q.astype(np.float64) - 127) if scale == "uint8" else q.astype(np.float64)
    codes = np.stack([w % 16, w // 16], -1).reshape(n, deep)
    whole = (numbers[codes].astype(np.float32) * np.repeat(scales, block, 1).astype(np.float32)).astype(x.dtype)
    wanted = x.astype(np.float64) @ whole.astype(np.float64).T
    return MatrixProgram(text, "fast", [x, w, q], [wanted], 1e-4)


def _drawn(rng: np.random.Generator, shape: tuple[int, int], dtype: str) -> Array:
    if dtype == "int8":
        return rng.integers(-128, 128, shape, np.int8)
    return rng.standard_normal(shape).astype(weft.numpy_dtype(dtype))

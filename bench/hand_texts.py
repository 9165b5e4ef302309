"""Loop programs as an expert would schedule them by hand, as text: what the code generator makes of the final form.

Each function gives the text of a kernel for given sizes; `kernels_by_hand.py` compiles and times them.
"""

from __future__ import annotations

LANES = 64


def fold(buffer: str, lanes: int, combine: str = "{} + {}") -> str:
    """``buffer``'s upper half onto its lower one until element 0 holds all."""
    steps = []
    while lanes > 1:
        lanes //= 2
        lower, upper = (f"{buffer}[ramp({n}, 1, {lanes})]" if lanes > 1 else f"{buffer}[{n}]" for n in (0, lanes))
        steps.append(f"{lower} = {combine.format(lower, upper)}")
    return "\n".join(steps)


def matmul(m: int, n: int, k: int, rows: int = 14, columns: int = 32, depth: int = 256, width: int = 512) -> str:
    """Packed panels of B in the second cache, a row panel of A in the first, a tile of C in registers."""
    row, column = f"io * {rows} + i", f"jc * {width} + jp * {columns} + l"
    return f"""kernel matmul(A: float32[{m}, {k}], B: float32[{k}, {n}], out C: float32[{m}, {n}]) {{
  parallel jc in 0:{n // width} {{
    alloc Bp: float32[{width // columns}, {depth}, {columns}]
    alloc Ap: float32[{rows}, {depth}]
    for kc in 0:{k // depth} {{
      for jp in 0:{width // columns} {{ for kp in 0:{depth} {{
        vector l in 0:{columns} {{ Bp[jp, kp, l] = B[kc * {depth} + kp, {column}] }} }} }}
      for io in 0:{-(-m // rows)} {{
        for i in 0:{rows} {{ if {row} < {m} {{
          for kv in 0:{depth // 32} {{ vector l in 0:32 {{
            Ap[i, kv * 32 + l] = A[{row}, kc * {depth} + kv * 32 + l] }} }} }} }}
        for jp in 0:{width // columns} {{
          alloc acc: float32[{rows}, {columns}] in register
          if kc > 0 {{ unroll i in 0:{rows} {{ if {row} < {m} {{
            vector l in 0:{columns} {{ acc[i, l] = C[{row}, {column}] }} }} }} }}
          else {{ unroll i in 0:{rows} {{ vector l in 0:{columns} {{ acc[i, l] = 0.0 }} }} }}
          for k in 0:{depth} {{ unroll i in 0:{rows} {{ vector l in 0:{columns} {{
            acc[i, l] = acc[i, l] + Ap[i, k] * Bp[jp, k, l] }} }} }}
          unroll i in 0:{rows} {{ if {row} < {m} {{ vector l in 0:{columns} {{ C[{row}, {column}] = acc[i, l] }} }} }}
        }} }} }} }} }}"""


def convolution(channels: int, size: int, pixels: int = 14) -> str:
    """3x3 on blocks of 16 channels, 32 outputs of some pixels in registers; the image comes padded."""
    blocks, outs = channels // 16, channels // 32
    return f"""kernel conv(I: float32[{blocks}, {size + 2}, {size + 2}, 16], W: float32[{outs}, {blocks}, 3, 3, 16, 32],
                           out O: float32[{outs}, {size}, {size}, 32]) {{
  parallel o in 0:{outs} {{ for y in 0:{size} {{ for xo in 0:{size // pixels} {{
    alloc acc: float32[{pixels}, 32] in register
    unroll x in 0:{pixels} {{ vector l in 0:32 {{ acc[x, l] = 0.0 }} }}
    for c in 0:{blocks} {{ for r in 0:3 {{ for s in 0:3 {{ for ci in 0:16 {{
      unroll x in 0:{pixels} {{ vector l in 0:32 {{
        acc[x, l] = acc[x, l] + I[c, y + r, xo * {pixels} + x + s, ci] * W[o, c, r, s, ci, l] }} }} }} }} }} }}
    unroll x in 0:{pixels} {{ vector l in 0:32 {{ O[o, y, xo * {pixels} + x, l] = acc[x, l] }} }} }} }} }} }}"""


def softmax(rows: int, columns: int) -> str:
    at = f"j * {LANES} + l"
    return f"""kernel softmax(A: float32[{rows}, {columns}], out B: float32[{rows}, {columns}]) {{
  call stream(&B[0, 0])
  parallel i in 0:{rows} {{
    alloc most: float32[{LANES}] in register
    alloc total: float32[{LANES}] in register
    alloc row: float32[{columns}]
    vector l in 0:{LANES} {{ most[l] = A[i, l] }}
    for j in 1:{columns // LANES} {{ vector l in 0:{LANES} {{ most[l] = max(most[l], A[i, {at}]) }} }}
    {fold("most", LANES, "max({}, {})")}
    vector l in 0:{LANES} {{ total[l] = 0.0 }}
    let big: float32 = most[0]
    for j in 0:{columns // LANES} {{ vector l in 0:{LANES} {{
      let e: float32 = exp(A[i, {at}] - big)
      row[{at}] = e
      total[l] = total[l] + e }} }}
    {fold("total", LANES)}
    let scale: float32 = 1.0 / total[0]
    for j in 0:{columns // LANES} {{ vector l in 0:{LANES} {{ B[i, {at}] = row[{at}] * scale }} }} }} }}"""


def layer_norm(rows: int, columns: int) -> str:
    at = f"j * {LANES} + l"
    each = f"for j in 0:{columns // LANES} {{ vector l in 0:{LANES}"
    return f"""kernel layer_norm(A: float32[{rows}, {columns}], G: float32[{columns}], H: float32[{columns}],
                                 out B: float32[{rows}, {columns}]) {{
  call stream(&B[0, 0])
  parallel i in 0:{rows} {{
    alloc sum: float32[{LANES}] in register
    alloc square: float32[{LANES}] in register
    vector l in 0:{LANES} {{ sum[l] = 0.0  square[l] = 0.0 }}
    {each} {{ sum[l] = sum[l] + A[i, {at}] }} }}
    {fold("sum", LANES)}
    let mean: float32 = sum[0] / {columns}.0
    {each} {{ let d: float32 = A[i, {at}] - mean  square[l] = square[l] + d * d }} }}
    {fold("square", LANES)}
    let scale: float32 = 1.0 / sqrt(square[0] / {columns}.0 + 0.00001)
    {each} {{ B[i, {at}] = (A[i, {at}] - mean) * scale * G[{at}] + H[{at}] }} }} }} }}"""


def bias_gelu(rows: int, columns: int) -> str:
    return f"""kernel gelu(A: float32[{rows}, {columns}], b: float32[{columns}], out B: float32[{rows}, {columns}]) {{
  parallel i in 0:{rows} {{ for j in 0:{columns // 32} {{ vector l in 0:32 {{
    let x: float32 = A[i, j * 32 + l] + b[j * 32 + l]
    B[i, j * 32 + l] = 0.5 * x * (1.0 + erf(x * 0.70710678)) }} }} }} }}"""


def row_sums(rows: int, columns: int) -> str:
    return f"""kernel row_sums(A: float32[{rows}, {columns}], out B: float32[{rows}]) {{
  parallel i in 0:{rows} {{
    alloc sum: float32[128] in register
    vector l in 0:128 {{ sum[l] = 0.0 }}
    for j in 0:{columns // 128} {{ vector l in 0:128 {{ sum[l] = sum[l] + A[i, j * 128 + l] }} }}
    {fold("sum", 128)}
    B[i] = sum[0] }} }}"""


def column_sums(rows: int, columns: int, parts: int = 32) -> str:
    return f"""kernel column_sums(A: float32[{rows}, {columns}], out B: float32[{columns}]) {{
  alloc P: float32[{parts}, {columns}]
  parallel p in 0:{parts} {{ for j in 0:{columns // 128} {{
    alloc sum: float32[128] in register
    vector l in 0:128 {{ sum[l] = 0.0 }}
    for i in 0:{rows // parts} {{ vector l in 0:128 {{
      sum[l] = sum[l] + A[p * {rows // parts} + i, j * 128 + l] }} }}
    vector l in 0:128 {{ P[p, j * 128 + l] = sum[l] }} }} }}
  for j in 0:{columns // 64} {{
    alloc total: float32[64] in register
    vector l in 0:64 {{ total[l] = 0.0 }}
    for p in 0:{parts} {{ vector l in 0:64 {{ total[l] = total[l] + P[p, j * 64 + l] }} }}
    vector l in 0:64 {{ B[j * 64 + l] = total[l] }} }} }}"""


def transpose(n: int, block: int = 64) -> str:
    row, column = f"ib * {block} + io * 16 + l", f"jb * {block} + jo * 16 + j"
    return f"""kernel transpose(A: float32[{n}, {n}], out B: float32[{n}, {n}]) {{
  call stream(&B[0, 0])
  parallel ib in 0:{n // block} {{ for jb in 0:{n // block} {{
    for io in 0:{block // 16} {{ for jo in 0:{block // 16} {{
      unroll j in 0:16 {{ vector l in 0:16 {{ B[{column}, {row}] = A[{row}, {column}] }} }} }} }} }} }} }}"""


def blur(height: int, width: int, strip: int = 32) -> str:
    """Rows of the first stage are kept while the second one needs them."""
    source, place = f"yo * {strip} + y", "xo * 32 + l"
    third = "0.33333334"
    return f"""kernel blur(A: float32[{height + 2}, {width + 2}], out B: float32[{height}, {width}]) {{
  call stream(&B[0, 0])
  parallel yo in 0:{height // strip} {{
    alloc X: float32[{strip + 2}, {width}]
    for y in 0:{strip + 2} {{ for xo in 0:{width // 32} {{ vector l in 0:32 {{
      X[y, {place}] = (A[{source}, {place}] + A[{source}, {place} + 1] + A[{source}, {place} + 2]) * {third} }} }} }}
    for y in 0:{strip} {{ for xo in 0:{width // 32} {{ vector l in 0:32 {{
      B[{source}, {place}] = (X[y, {place}] + X[y + 1, {place}] + X[y + 2, {place}]) * {third} }} }} }} }} }}"""

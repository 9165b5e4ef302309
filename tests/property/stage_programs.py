"""Programs of several stages, as people write them, on random small sizes: something for `compute_at` to move.

Each is whiteboard text whose sizes are drawn; see `random_programs` for what *exact* means.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from hypothesis import strategies as st
from random_programs import RandomProgram, lay_out

#: Where every operation rounds in one way, whatever the order of its terms may be under fast numerics.
EXACT = """
def blur(float(H,W) A) -> (B) { T(y,x) = A(y,x) + A(y,x+1) * 0.5
  B(y,x) = T(y,x) + T(y+1,x) - T(y+2,x) }
def three(float(H,W) A) -> (B) { S(y,x) = A(y,x) * 2.0
  T(y,x) = S(y,x) + S(y+1,x)
  B(y,x) = T(y,x) + T(y,x+2) + S(y,x) }
def edges(float(H,W) A) -> (B) { T(y,x) = A(y,x) + 1.0
  B(y,x) = T(y-1,x) + T(y+1,x) where y in 0:H, T outside edge }
def zeros(float(H,W) A) -> (B) { T(y,x) = A(y,x) + 1.0
  B(y,x) = T(y-1,x-1) + T(y+1,x) where y in 0:H, x in 0:W, T outside zero }
def wrapped(int32(H,W) A) -> (B) { T(y,x) = A(y,x) + 1
  B(y,x) = T(y-1,x) - T(y,x+1) where y in 0:H, x in 0:W, T outside wrap }
def down(float(H,W) A) -> (B) { T(y,x) = A(y,x) - 1.0
  B(y,x) = T(2*y,x) + T(2*y+1,x) where y in 0:H/2 }
def relu(float(H,K) A, float(K,W) C, float(W) b) -> (B) { T(m,n) +=! A(m,k) * C(k,n)
  B(m,n) = max(T(m,n) + b(n), 0.0) }
def conv(float(2,H,W) X, float(3,2,3,3) F, float(3) b) -> (B) { C(f,y,x) +=! X(c,y+r,x+s) * F(f,c,r,s)
  T(f,y,x) = C(f,y,x) + b(f)
  B(f,y,x) = max(T(f,y,x), 0.0) }
def padded(float(H,W) A, float(3,3) F) -> (B) { P(y,x) = A(y-1,x-1) where y in 0:H+2, x in 0:W+2, A outside zero
  B(y,x) +=! P(y+r,x+s) * F(r,s) }
def four(float(H,W) A) -> (B) { R(y,x) = A(y,x) * 2.0
  S(y,x) = R(y,x) + R(y+1,x)
  T(y,x) = S(y,x) + S(y+1,x)
  B(y,x) = T(y,x) + T(y+1,x) + R(y,x) }
def pools(int32(H,W) A) -> (B, T) { S(y,x) = A(y,x) * 2
  T(y,x) +=! S(y+k,x) where k in 0:2
  B(y,x) = T(y,x) - T(y+1,x) }
def part(float(H,W) A) -> (B) { T(y+1,x) = A(y,x) + 1.0
  B(y,x) = (A(y,x) < 1e30 ? T(y,x) : 2.0) + A(y,x) where y in 0:H }
def twice(float(H,W) A) -> (B) { T(y,x) = A(y,x) + 1.0
  T(y,x) = T(y,x) * A(y,x)
  B(y,x) = T(y,x) + T(y+1,x) }
def scan(float(H,W) A) -> (B) { T(y,x) = A(y,x) + 1.0
  T(y,x) = T(y-1,x) + A(y,x) where y in 1:H
  B(y,x) = T(y,x) * 2.0 }
def inplace(float(H,W) A) -> (B) { B(y,x) = A(y,x) + 1.0
  T(y,x) = B(y,x) * 2.0
  B(y,x) = T(y,x) + A(y,x) }
def rows(double(H,W) A) -> (B) { T(y) +=! A(y,x)
  B(y) = T(y) + T(y+1) }
def reverse(float(H,W) A) -> (B) { T(y,x) = A(y,x) + 1.0
  B(y,x) = T(H-1-y,x) + 0.5 where y in 0:H }
def chain(float(H,K) A, float(K,W) C, float(W,H) D) -> (B) { T(m,n) +=! A(m,k) * C(k,n)
  B(m,p) +=! T(m,n) * D(n,p) }
def quads(uint8(H,4) A, int8(16,4) C) -> (B) { T(m,n) +=! int32(A(m,k)) * int32(C(n,k))
  B(m,n) = T(m,n) + 1 }
def quads_on(uint8(H,4) A, int8(16,4) C) -> (B) { B(m,n) = 1 where m in 0:H, n in 0:16
  B(m,n) += int32(A(m,k)) * int32(C(n,k)) }
def turned(float(H,W) A) -> (B) { T(x,y) = A(y,x)
  B(x,y) = T(x,y) * 2.0 }
def best(float(H,W) A) -> (I, M) { M(y) max=! A(y,x)
  I(y) argmax=! A(y,x) }
"""
SMOOTH = """
def softmax(float(H,W) A) -> (B) { M(n) max=! A(n,d)
  E(n,d) = exp(A(n,d) - M(n))
  S(n) +=! E(n,d)
  B(n,d) = E(n,d) / S(n) }
def attend(float(H,K) Q, float(W,K) C, float(W,K) V) -> (B) { S(q,t) +=! Q(q,d) * C(t,d)
  M(q) max=! S(q,t)
  E(q,t) = exp(S(q,t) - M(q))
  D(q) +=! E(q,t)
  O(q,d) +=! E(q,t) * V(t,d)
  B(q,d) = O(q,d) / D(q) }
def norm(float(H,W) A, float(W) g) -> (B) { S(y) +=! A(y,x)
  V(y) +=! (A(y,x) - S(y) / W) * (A(y,x) - S(y) / W)
  B(y,x) = (A(y,x) - S(y) / W) / sqrt(V(y) / W + 1e-2) * g(x) }
def gelu(float16(H,W) A, float16(W) b) -> (B) { T(y,x) = A(y,x) + b(x)
  B(y,x) = 0.5 * T(y,x) * (1.0 + erf(T(y,x) * 0.7)) }
"""
SIZES = st.sampled_from([3, 4, 5, 7, 8, 9, 16])


def read_texts(text: str) -> list[str]:
    return ["def " + part.strip() for part in re.split(r"^def ", text, flags=re.MULTILINE) if part.strip()]


@st.composite
def stage_programs(draw: Any) -> RandomProgram:
    exact = draw(st.integers(0, 3)) > 0
    text = draw(st.sampled_from(read_texts(EXACT if exact else SMOOTH)))
    extents = {"H": draw(SIZES), "W": draw(SIZES), "K": draw(st.sampled_from([1, 2, 3, 5]))}
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    arguments = {}
    for dtype, dims, name in re.findall(r"(\w+)\(([\w,]+)\) (\w+)", text.split("->")[0].partition("(")[2]):
        shape = tuple(int(d) if d.isdigit() else extents[d] for d in dims.split(","))
        numpy_type = {"float": "float32", "double": "float64"}.get(dtype, dtype)
        values = rng.integers(0, 9, shape) if "int" in dtype else rng.standard_normal(shape)
        arguments[name] = lay_out(draw, values.astype(numpy_type))
    return RandomProgram(text, exact, arguments)

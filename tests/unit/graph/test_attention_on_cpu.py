"""Attention on a CPU, of random shapes: heads joined in rows, masks that are known, given, or hide a part of a row."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

import weft
from tests.retrace import retrace
from weft.graph.from_torch.translate import translate
from weft.graph.graph import Fragment

torch = pytest.importorskip("torch")
KINDS = ("none", "causal", "lower", "lower bool", "all", "given", "given bool", "by column")


class Attention(torch.nn.Module):  # type: ignore[name-defined,misc]
    """Rows in which heads lie side by side, in and out; the mask is made inside, or given."""

    def __init__(self, heads: int, shared: int, kind: str) -> None:
        super().__init__()
        self.heads, self.shared, self.kind = heads, shared, kind

    def forward(self, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        def parts(x: Any, heads: int) -> Any:
            return x.unflatten(2, (heads, -1)).transpose(1, 2)

        fewer = self.heads // self.shared
        key, value = (parts(x, fewer).repeat_interleave(self.shared, 1) for x in (k, v))
        made = torch.nn.functional.scaled_dot_product_attention(
            parts(q, self.heads), key, value, attn_mask=self._mask(q, k, mask), is_causal=self.kind == "causal"
        )
        return made.transpose(1, 2).reshape(q.shape)

    def _mask(self, q: Any, k: Any, given: Any) -> Any:
        rows, columns = q.shape[1], k.shape[1]
        if self.kind.startswith("lower"):
            seen = torch.ones(rows, columns, dtype=torch.bool).tril()
            return (
                seen
                if self.kind == "lower bool"
                else torch.zeros(rows, columns, dtype=q.dtype).masked_fill(~seen, -math.inf)
            )
        return torch.zeros(rows, columns, dtype=q.dtype) if self.kind == "all" else given


def given_mask(kind: str, batch: int, rows: int, columns: int) -> Any:
    if kind == "given":
        return torch.randn(batch, 1, rows, columns)
    if kind == "given bool":
        seen = torch.rand(batch, 1, rows, columns) < 0.6
        seen[..., 0] = True
        return seen
    if kind == "by column":
        return torch.where(torch.arange(columns) < max(1, columns - 2), 0.0, -1e30).repeat(batch, 1, 1, 1)
    return None


@pytest.mark.parametrize("seed", range(24))
def test_as_in_float64(seed: int) -> None:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    kind = KINDS[seed % len(KINDS)]
    batch, fewer, shared = rng.choice([1, 1, 2, 3]), rng.choice([1, 2, 3]), rng.choice([1, 1, 2])
    rows, width = rng.choice([1, 2, 7, 16, 33, 65, 97]), rng.choice([1, 4, 8, 16, 20, 40])
    square = kind in ("causal", "lower", "lower bool")
    columns = rows if square else rng.choice([1, 5, 17, 64, 70])
    heads = fewer * shared
    model = Attention(heads, shared, kind).eval()
    q, k, v = (torch.randn(batch, n, h * width) for n, h in ((rows, heads), (columns, fewer), (columns, fewer)))
    mask = given_mask(kind, batch, rows, columns)
    inputs = [q, k, v] if mask is None else [q, k, v, mask]
    wide = model(*(x if x.dtype == torch.bool else x.double() for x in inputs))
    with torch.no_grad():
        made = weft.compile(model, tuple(inputs))(*inputs)
    assert made.shape == q.shape
    torch.testing.assert_close(made.double(), wide, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kind", ["causal", "lower", "lower bool"])
def test_nothing_is_computed_beyond_the_diagonal(kind: str) -> None:
    model, x = Attention(2, 1, kind).eval(), torch.randn(1, 9, 8)
    with torch.no_grad():
        graph = translate(retrace(lambda q: (model(q, q, q),), [x]), [x], {})
    made = [n.program for n in graph.nodes if isinstance(n, Fragment) and n.program.name == "causal_attention"]
    assert len(made) == 1
    assert len(made[0].inputs) == 3


def test_a_mask_that_hides_nothing_is_none() -> None:
    model, x = Attention(2, 1, "all").eval(), torch.randn(1, 9, 8)
    with torch.no_grad():
        graph = translate(retrace(lambda q: (model(q, q, q),), [x]), [x], {})
    made = [n.program for n in graph.nodes if isinstance(n, Fragment) and n.program.name == "attention"]
    assert [len(program.inputs) for program in made] == [3]


def test_heads_joined_in_rows_are_computed_with_their_scores() -> None:
    op = weft.define(
        """
        def joined(float(H,S,T) A, float(H,T,8) V) -> (float(S,24) O) {
            Y(h,s,e) +=! A(h,s,t) * V(h,t,e)
            O(s,f) = Y(f / 8, s, f % 8) * 2
        }
        """
    )
    said = op.explain(A=(3, 40, 50), V=(3, 50, 8))
    assert "groups of 8 along dimension 1 are an axis" in said


class WrittenOut(torch.nn.Module):  # type: ignore[name-defined,misc]
    """Attention as a dozen operators, with a bias of positions, of windows whose heads are in the batch."""

    def __init__(self, heads: int, columns: int) -> None:
        super().__init__()
        self.heads, self.bias = heads, torch.nn.Parameter(torch.randn(1, heads, columns, columns))

    def forward(self, x: Any) -> Any:
        windows, rows, width = x.shape
        q, k, v = x.reshape(windows, rows, 3, self.heads, width // 3 // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q * 0.3) @ k.transpose(-2, -1) + self.bias
        return (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(windows, rows, width // 3)


@pytest.mark.parametrize(("windows", "rows", "heads"), [(1, 7, 2), (4, 49, 3), (3, 17, 1)])
def test_attention_that_is_written_out_is_one_kernel(windows: int, rows: int, heads: int) -> None:
    torch.manual_seed(0)
    model, x = WrittenOut(heads, rows).eval(), torch.randn(windows, rows, 3 * heads * 16)
    with torch.no_grad():
        fast = weft.compile(model, (x,))
        torch.testing.assert_close(fast(x).double(), model.double()(x.double()), rtol=2e-5, atol=2e-5)
    assert "attention" in weft.explain(fast)
    assert "softmax" not in weft.explain(fast)


class Turned(torch.nn.Module):  # type: ignore[name-defined,misc]
    """Attention as three operators, keys given turned, values of another width."""

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        return (torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("width", "features"), [(256, 256), (192, 128), (36, 36), (7, 7), (7, 12), (1, 3), (130, 1)])
def test_written_out_attention_of_any_width_is_one_formula(width: int, features: int, dtype: Any) -> None:
    """Limits of a GPU's library are none of a CPU's: its scores stay in the caches near a core."""
    torch.manual_seed(width)
    model = Turned().eval()
    q, k, v = (torch.randn(2, 3, n, f, dtype=dtype) for n, f in ((9, width), (13, width), (13, features)))
    with torch.no_grad():
        fast = weft.compile(model, (q, k, v))
        wide, tolerance = model(q.double(), k.double(), v.double()), 2e-5 if dtype == torch.float32 else 2e-2
        torch.testing.assert_close(fast(q, k, v).double(), wide, rtol=tolerance, atol=tolerance)
    assert "attention" in weft.explain(fast)
    assert "softmax" not in weft.explain(fast)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("is_bool", [True, False])
def test_rows_whose_columns_are_all_masked_are_zeros(dtype: Any, is_constant: bool, is_bool: bool) -> None:
    """As PyTorch's operator has them; written out, softmax makes them NaN."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 17, 8, dtype=dtype) for _ in range(3))
    seen = torch.rand(17, 17) > 0.3
    seen[[4, 9]] = False
    mask = seen if is_bool else torch.zeros(17, 17, dtype=dtype).masked_fill(~seen, float("-inf"))

    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, q: Any, k: Any, v: Any, *given: Any) -> Any:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=given[0] if given else mask)

    args = (q, k, v) if is_constant else (q, k, v, mask)
    with torch.no_grad():
        right, made = Model()(*args), weft.compile(Model(), args)(*args)
    assert torch.equal(right[:, :, [4, 9]], torch.zeros_like(right[:, :, [4, 9]]))
    assert torch.allclose(made, right, atol=1e-5 if dtype is torch.float32 else 2e-2)

"""Attention that a model writes out is found by its formulas; what only looks like it stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tests.unit.graph.fake_cuda import FakeArrays
from tests.unit.graph.test_cuda_executable import compile_for

Fake = Callable[..., FakeArrays]
WHOLE = "aten.scaled_dot_product_attention.default"
BIAS, MASK = torch.randn(1, 2, 7, 7).bfloat16(), torch.randn(1, 3, 1, 7, 7).bfloat16()


def windows(x: torch.Tensor) -> torch.Tensor:
    """As Swin has it: heads of one product, a bias of positions, a mask of windows on a fifth axis."""
    q, k, v = x.reshape(3, 7, 3, 2, 8).permute(2, 0, 3, 1, 4)
    scores = (q * 0.35) @ k.transpose(-2, -1) + BIAS
    scores = (scores.view(1, 3, 2, 7, 7) + MASK).view(3, 2, 7, 7)
    return (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(21, 16)


def in_float32(x: torch.Tensor) -> torch.Tensor:
    """Weights of a wider type, scores divided, heads in the batch."""
    q, k, v = x.reshape(21, 3, 16).permute(1, 0, 2).reshape(3, 3, 7, 16)
    weights = torch.softmax(torch.bmm(q, k.transpose(1, 2)) / 4, -1, dtype=torch.float32)
    return torch.bmm(weights.to(x.dtype), v)


def weights_are_shown(x: torch.Tensor) -> Any:
    q, k, v = x.reshape(3, 7, 3, 2, 8).permute(2, 0, 3, 1, 4)
    weights = torch.softmax(q @ k.transpose(-2, -1), -1)
    return weights, weights @ v


def other_axis(x: torch.Tensor) -> torch.Tensor:
    q, k, v = x.reshape(3, 7, 3, 2, 8).permute(2, 0, 3, 1, 4)
    return torch.softmax(q @ k.transpose(-2, -1), -2) @ v


def squared(x: torch.Tensor) -> torch.Tensor:
    q, k, v = x.reshape(3, 7, 3, 2, 8).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-2, -1)
    return torch.softmax(scores * scores, -1) @ v


@pytest.mark.parametrize(
    ("model", "is_found"),
    [(windows, True), (in_float32, True), (weights_are_shown, False), (other_axis, False), (squared, False)],
)
def test_attention_is_found(fake_cuda: Fake, model: Callable[[Any], Any], is_found: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(21, 48).bfloat16()
    compiled, call = compile_for(fake_cuda(WHOLE), model, x)
    assert [c.call.target for c in compiled.report.calls] == [WHOLE] * is_found
    if is_found:
        assert [g.kind for g, _ in compiled.report.groups].count("contraction") == 0
    for _ in range(3):
        made, right = call(x), model(x.float() if model is not in_float32 else x)
        for ours, theirs in zip(made, right if isinstance(right, tuple) else (right,)):
            assert float((ours.float() - theirs.float()).norm() / theirs.float().norm()) < 2e-2


@pytest.mark.parametrize(("width", "features"), [(12, 12), (16, 8), (136, 136)])
def test_widths_that_the_library_does_not_take_stay(fake_cuda: Fake, width: int, features: int) -> None:
    def other_widths(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ q.transpose(-2, -1), -1) @ v

    q, v = torch.randn(1, 2, 7, width).bfloat16() / 8, torch.randn(1, 2, 7, features).bfloat16()
    compiled, call = compile_for(fake_cuda(WHOLE), other_widths, q, v)
    assert not [c for c in compiled.report.calls if c.call.target == WHOLE]
    assert float((call(q, v)[0].float() - other_widths(q.float(), v.float())).abs().max()) < 5e-2


def test_masks_are_folded_and_have_even_rows(fake_cuda: Fake) -> None:
    compiled, _ = compile_for(fake_cuda(WHOLE), windows, torch.randn(21, 48).bfloat16())
    (call,) = compiled.report.calls
    mask = compiled.executable.graph.edges[call.call.args[3].name]
    assert (mask.shape, mask.strides) == ((3, 2, 7, 7), (112, 56, 8, 1))
    assert mask.name in compiled.executable.graph.constants


def test_rows_that_are_masked_whole_stay_finite(fake_cuda: Fake) -> None:
    """Their mask is the least float32, as autocast leaves it, which is minus infinity in bfloat16."""
    mask = torch.zeros(1, 1, 7, 7)
    mask[..., 2, :] = torch.finfo(torch.float32).min
    mask[..., 3, 4:] = float("-inf")

    def masked(x: torch.Tensor) -> torch.Tensor:
        q, k, v = x.reshape(3, 7, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return torch.softmax(q @ k.transpose(-2, -1) + mask, -1).to(x.dtype) @ v

    x = torch.randn(21, 48).bfloat16()
    compiled, call = compile_for(fake_cuda(WHOLE), masked, x)
    assert [c.call.target for c in compiled.report.calls] == [WHOLE]
    assert torch.allclose(call(x)[0].float(), masked(x).float(), atol=3e-2)


def test_convolutions_are_no_products_of_matrices(fake_cuda: Fake) -> None:
    """They have two factors of four axes too."""
    x, weight = torch.randn(2, 3, 8, 8).bfloat16(), torch.randn(4, 3, 3, 3).bfloat16()
    compiled, call = compile_for(fake_cuda(), lambda x: torch.softmax(torch.conv2d(x, weight), -1), x)
    assert not compiled.report.calls
    assert float((call(x)[0].float() - torch.softmax(torch.conv2d(x.float(), weight.float()), -1)).abs().max()) < 2e-2

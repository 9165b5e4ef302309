"""A small transformer encoder compiled whole: python examples/models/encoder.py"""

from __future__ import annotations

import torch
from torch import nn

import weft


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts.unbind(0))
        x = self.first(x + self.out(mixed.transpose(1, 2).reshape(batch, length, width)))
        return self.second(x + self.down(nn.functional.gelu(self.up(x))))


if __name__ == "__main__":
    model = nn.Sequential(*(Layer(64, 4) for _ in range(3))).eval()
    x = torch.randn(2, 16, 64)
    with torch.no_grad():
        fast = weft.compile(model, (x,))
        print("largest difference from eager:", float((fast(x) - model(x)).abs().max()))
    print(weft.explain(fast))

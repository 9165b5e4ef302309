"""Two-dimensional convolutions of plain (batch, channel, height, width) images, zeros around them included.

Weights are packed once, by `pack_weights`, to blocks of 32 output channels side by side: these become the lanes of
vectors, and each element of the image is broadcast to them. Run it to see that the result is right:
``python examples/schedules/convolution.py``.
"""

from __future__ import annotations

import functools

import numpy as np

import weft

#: Output channels side by side, and how many elements of a row are computed at once with them: 28 vectors of sums.
CHANNELS, PIXELS = 32, 14
#: Depthwise there is nothing to broadcast: rows that are computed at once, and elements of a vector.
ROWS, LANES = 8, 16

_PADDED = """
def conv2d_blocked(float(N,C,H,W) I, float(FO,C,KH,KW,FI) Kernel, int P, int S) -> (O) {
    Pad(n,c,h,w) = I(n,c,h - P,w - P) where h in 0:H + 2*P, w in 0:W + 2*P, I outside zero
    O(n,fo,fi,h,w) +=! Pad(n,c,S*h + kh,S*w + kw) * Kernel(fo,c,kh,kw,fi)
}"""
_PLAIN = """
def conv2d_blocked(float(N,C,H,W) I, float(FO,C,KH,KW,FI) Kernel, int P, int S) -> (O) {
    O(n,fo,fi,h,w) +=! I(n,c,S*h + kh,S*w + kw) * Kernel(fo,c,kh,kw,fi)
}"""
_DEPTHWISE = """
def conv2d_depthwise_padded(float(N,C,H,W) I, float(C,KH,KW) Kernel, int P) -> (O) {
    Pad(n,c,h,w) = I(n,c,h - P,w - P) where h in 0:H + 2*P, w in 0:W + 2*P, I outside zero
    O(n,c,h,w) +=! Pad(n,c,h + kh,w + kw) * Kernel(c,kh,kw)
}"""


@functools.cache
def definition(text: str) -> weft.Operator:
    return weft.define(text)


def pack_weights(kernel: np.ndarray) -> np.ndarray:
    """(F, C, KH, KW) as (F / 32, C, KH, KW, 32); F is a multiple of 32."""
    f, c, kh, kw = kernel.shape
    return np.ascontiguousarray(kernel.reshape(f // CHANNELS, CHANNELS, c, kh, kw).transpose(0, 2, 3, 4, 1))


def tile_of(extent: int, most: int) -> int:
    """The tile size up to ``most`` that leaves least over; of those 8, which turns in registers, or the largest."""
    return min(range(max(1, most // 2), most + 1), key=lambda size: (-(-extent // size) * size, size != 8, -size))


def schedule_conv2d(
    image: tuple[int, int, int, int], packed: tuple[int, int, int, int, int], pad: int, stride: int = 1
) -> weft.Operator:
    """A convolution with ``pad`` zeros around the image, for weights from `pack_weights`.

    The result is (batch, F / 32, 32, height, width): the plain order, with the channels counted in two digits.
    """
    op = definition(_PADDED if pad else _PLAIN)
    s = weft.schedule(op, I=image, Kernel=packed, P=pad, S=stride, numerics="fast")
    n, fo, fi, h, w, c, kh, kw = s.loops("O")
    width = (image[3] + 2 * pad - packed[3]) // stride + 1
    pixels = tile_of(width, PIXELS)
    rows = PIXELS // pixels  # of a narrow image several at a time
    wo, wi = s.split(w, pixels)
    ho, hi = s.split(h, rows)
    s.reorder(n, fo, ho, wo, c, kh, kw, hi, wi, fi)
    s.vectorize(fi)
    s.unroll(hi)
    s.unroll(wi)
    if rows * pixels <= PIXELS // 2 + 1:  # registers are left for more than one column of the kernel
        s.unroll(kw)
    _, sums = s.cache_write("O", scope="register", at=wo)
    s.pack(sums, "i j l m k")  # channels last: lanes of a register are neighbours
    s.parallel(s.fuse(n, fo, ho))
    if pad:
        pn, pc, *_ = s.loops("Pad")
        s.parallel(s.fuse(pn, pc))
    return s.build()


def schedule_depthwise(image: tuple[int, int, int, int], kernel: tuple[int, int, int], pad: int) -> weft.Operator:
    """One kernel a channel; a channel with the zeros around it stays in the cache."""
    s = weft.schedule(definition(_DEPTHWISE), I=image, Kernel=kernel, P=pad, numerics="fast")
    n, c, h, w, kh, kw = s.loops("O")
    height = image[2] + 2 * pad - kernel[1] + 1
    ho, hi = s.split(h, tile_of(height, ROWS))
    wo, wi = s.split(w, LANES)
    s.reorder(n, c, ho, wo, kh, kw, hi, wi)
    s.cache_write("O", scope="register", at=wo)
    s.compute_at("Pad", c)
    s.vectorize(wi)
    for loop in (kh, kw, hi):
        s.unroll(loop)
    s.parallel(s.fuse(n, c))
    return s.build()


def main() -> None:
    rng = np.random.default_rng(0)
    image = rng.standard_normal((1, 16, 14, 14), np.float32)
    kernel = rng.standard_normal((64, 16, 3, 3), np.float32)
    packed = pack_weights(kernel)
    conv = schedule_conv2d(image.shape, packed.shape, pad=1)
    expected = weft.ops.conv2d_padded(image, kernel, 1)
    np.testing.assert_allclose(conv(image, packed, 1, 1).reshape(expected.shape), expected, rtol=1e-4, atol=1e-3)
    print("agrees with weft.ops.conv2d_padded")


if __name__ == "__main__":
    main()

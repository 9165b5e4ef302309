"""The sizes that `bench.schedules` measures and `bench.compile_time` compiles."""

from __future__ import annotations

#: Rows, depth, columns of matrix products.
SIZES = (
    (256,) * 3,
    (512,) * 3,
    (1024,) * 3,
    (2048,) * 3,
    (32, 768, 3072),
    (32, 3072, 768),
    (1, 4096, 4096),
    (1000, 999, 777),
)

#: Channels in, width and height, channels out, kernel, zeros around, step.
CONVOLUTIONS = (
    (64, 56, 64, 3, 1, 1),
    (128, 28, 128, 3, 1, 1),
    (256, 14, 256, 3, 1, 1),
    (512, 7, 512, 3, 1, 1),
    (3, 224, 64, 7, 3, 2),
    (256, 56, 64, 1, 0, 1),
)

"""How a refused step is called in its error message: one line a primitive."""

from __future__ import annotations

#: ``{0}``, ``{1}`` ... are the positional arguments, joined where they are lists.
REFUSALS: dict[str, str] = {
    "split": "cannot split loop `{0}`",
    "tile": "cannot tile loops `{0}` and `{1}`",
    "fuse": "cannot fuse loops {*}",
    "reorder": "cannot reorder loops {*}",
    "unroll": "cannot unroll loop `{0}`",
    "vectorize": "cannot vectorize loop `{0}`",
    "parallel": "cannot run loop `{0}` in parallel",
    "bind": "cannot bind loop `{0}` to {1}s",
    "serial": "cannot run loop `{0}` in order",
    "peel": "cannot peel loop `{0}`",
    "shift": "cannot shift loop `{0}`",
    "skew": "cannot skew loop `{0}`",
    "widen": "cannot widen loop `{0}` over `{1}`",
    "fission": "cannot split the body of loop `{0}`",
    "fuse_loops": "cannot merge loops `{0}` and `{1}`",
    "cut": "cannot cut loop `{0}` at {1}",
    "trim": "cannot shorten loop `{0}`",
    "wrap": "cannot put a loop around `{0}`",
    "persist": "cannot make one launch of those in loop `{0}`",
    "swap": "cannot exchange `{0}` and `{1}`",
    "tensorize": "cannot tensorize loop `{0}` as `{1}`",
    "specialize": "cannot specialize on `{1}`",
    "compute_at": "cannot compute `{0}` at loop `{1}`",
    "compute_root": "cannot compute `{0}` outside all loops",
    "compute_inline": "cannot write `{0}` into its readers",
    "precompute": "cannot compute a part of block `{0}` beforehand",
    "reverse_compute_at": "cannot compute `{0}` at loop `{1}`",
    "store_at": "cannot move the storage of `{0}`",
    "fold_storage": "cannot fold dimension {1} of `{0}` by {2}",
    "set_scope": "cannot keep `{0}` in {1} memory",
    "cache_read": "cannot read `{0}` from a copy",
    "surround": "cannot read `{0}` from a copy with zeros around it",
    "cache_write": "cannot keep what is written to `{0}` in storage of its own",
    "pack": "cannot lay out `{0}` as {1}",
    "atomic": "cannot do each update of block `{0}` in one step",
    "decompose_reduction": "cannot initialize block `{0}` on its own",
    "prefetch": "cannot prefetch `{0}`",
    "stream": "cannot store to `{0}` past the caches",
    "double_buffer": "cannot fill `{0}` ahead",
    "pipeline": "cannot fill ahead {*}",
    "pad": "cannot run block `{0}` beyond the edge",
    "pad_rows": "cannot move the rows of `{0}` apart",
    "rfactor": "cannot make partial results over loop `{0}`",
}


def refusal(name: str, args: tuple[object, ...]) -> str:
    """The first line of the error that refuses the step ``name``."""
    template = REFUSALS.get(name, f"cannot {name} `{{0}}`" if args else f"cannot {name}")
    return template.replace("{*}", ", ".join(f"`{a}`" for a in args)).format(*args).rstrip()

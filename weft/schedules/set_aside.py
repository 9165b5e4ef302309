"""``set_aside``: what a block computes in storage of its own, and a formula that copies it to where it was.

::

    for i, k: C[i] += x               for i, k: C_aside[i] += x
                              =>      for i: C[i] = C_aside[i]

Schedules that keep sums in registers end with a formula of them; a sum that is a result itself, or that others read
as it is, has one then. Values are the same to the bit.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Load, Var, idx
from weft.ir.nesting import replace_in, sequence
from weft.ir.stmt import Alloc, Block, For, Iter, Kernel, Stmt, Store
from weft.ir.visit import fresh_name, replace_buffers
from weft.poly.verdict import OK, Verdict
from weft.schedules.infer_stage import Stage
from weft.schedules.make_blocks import declared_anew
from weft.schedules.part_sum import whole_stage
from weft.schedules.rewrite import Rewrite, primitive, taken_names
from weft.schedules.trace import Numerics


def check_set_aside(kernel: Kernel, block: str, *, numerics: Numerics) -> Verdict:
    """The block must compute all of a buffer alone, outside all loops."""
    stage = whole_stage(kernel, block)
    return stage if isinstance(stage, Verdict) else OK


@primitive(check_set_aside, "cannot compute `{0}` in storage of its own")
def set_aside(kernel: Kernel, block: str) -> Rewrite:
    """Makes the block that copies, and the storage."""
    stage = whole_stage(kernel, block)
    assert isinstance(stage, Stage), "the check answers this first"
    (root,), taken, old = stage.roots, taken_names(kernel), stage.buffer
    aside = replace(old, name=fresh_name(f"{old.name}_aside", taken), strides=None)
    name = fresh_name(f"{block}_result", taken)
    loops = [Var(fresh_name(f"{e.name}_result", taken)) for e in stage.members[0].indices if isinstance(e, Var)]
    iters = tuple(Iter(Var(fresh_name(f"v{x.name}", taken)), idx(0), n, "spatial", x) for x, n in zip(loops, old.shape))
    own = tuple(i.var for i in iters)
    copy: Stmt = declared_anew(Block(name, iters, (), (), None, Store(old, own, Load(aside, own))))
    for loop, size in reversed([*zip(loops, old.shape)]):
        copy = For(loop, idx(0), size, "serial", copy)
    both = sequence([replace_buffers(root, {old: aside}), copy])
    return Rewrite(replace(kernel, body=Alloc(aside, replace_in(kernel.body, root, both))), (name, aside.name))

"""``recompute``: a temporary computed a second time, in storage of its own, for some of those that read it.

::

    for i: X[i] = f(i)              for i: X[i] = f(i)
    for i: A[i] = X[i] + 1    =>    for i: X_again[i] = f(i)
    for i: B[i] = X[i] * 2          for i: A[i] = X[i] + 1
                                    for i: B[i] = X_again[i] * 2

This is rematerialization. Each of them may then have what it needs where it is, such as tiles of one product in the
nests of others that go through it along different axes. Both copies are the same to the bit: the second is made right
after the first, from the same inputs, and nobody else writes either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.ir.buffer import Buffer
from weft.ir.nesting import path_to, replace_in, sequence
from weft.ir.stmt import Alloc, Block, For, Kernel, Stmt
from weft.ir.visit import Node, fresh_name, mentions, replace_buffers, rewrite
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import blocks_inside, find_alloc, find_block
from weft.schedules.infer_stage import Stage, infer_stage
from weft.schedules.rewrite import Rewrite, fresh_copy, primitive, replace_stmt, taken_names
from weft.schedules.trace import Numerics


def check_recompute(kernel: Kernel, block: str, *readers: str, numerics: Numerics) -> Verdict:
    """The block must compute a temporary alone, outside all loops, and the others must read it."""
    stage = infer_stage(kernel, block)
    if isinstance(stage, Verdict):
        return stage
    name = stage.buffer.name
    if len(stage.roots) != 1 or any(isinstance(s, For) for s in path_to(kernel, stage.roots[0])[:-1]):
        return refuse(f"`{name}` is not computed by one nest outside all loops")
    if not readers:
        return refuse("blocks that are to read what is computed again are missing")
    for reader in readers:
        found = find_block(kernel, reader)
        if reader in stage.names or name not in mentions(found).loaded:
            return refuse(f"block `{reader}` does not read `{name}`")
    return OK


@primitive(check_recompute, "cannot compute `{0}` again")
def recompute(kernel: Kernel, block: str, *readers: str) -> Rewrite:
    """Makes the second block, and its storage, which ``readers`` read instead."""
    stage = infer_stage(kernel, block)
    assert isinstance(stage, Stage), "the check answers this first"
    taken = taken_names(kernel)
    again = replace(stage.buffer, name=fresh_name(f"{stage.buffer.name}_again", taken))
    (root,) = stage.roots
    copy = replace_buffers(fresh_copy(root, taken - {again.name}, "_again"), {stage.buffer: again})
    alloc = find_alloc(kernel, stage.buffer.name)
    both = replace_in(alloc.body, root, sequence([root, copy]))
    body = Alloc(again, _reading(both, readers, stage.buffer, again), span=alloc.span)
    return Rewrite(replace_stmt(kernel, alloc, replace(alloc, body=body)), (blocks_inside(copy)[-1].name, again.name))


def _reading(body: Stmt, readers: Sequence[str], old: Buffer, new: Buffer) -> Stmt:
    def visit(n: Node) -> Node | None:
        return replace_buffers(n, {old: new}) if isinstance(n, Block) and n.name in readers else None

    return rewrite(body, visit)

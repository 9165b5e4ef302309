"""A stage: a temporary and all the blocks that compute it, which move together.

`infer_stage` finds it, or says why the blocks are no such unit: every element must be computed on its
own, from inputs alone, by blocks that declare which instances there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.ir.affine import linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Const, Expr, Var
from weft.ir.nesting import inner_statements, path_to, statements, strip
from weft.ir.simplify import simplify
from weft.ir.stmt import Assert, Atomic, Block, For, If, Kernel, Let, Seq, Stmt, Store
from weft.ir.visit import children, free_vars, loads, mentions, stores
from weft.poly.leaves import Leaf, leaves
from weft.poly.verdict import Verdict, refuse
from weft.schedules.find import blocks_inside, find_block
from weft.schedules.instances import stands_still
from weft.schedules.rewrite import remembered


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One block of a stage; ``root`` is the largest statement around it that holds nothing but the stage."""

    block: Block
    root: Stmt
    #: The element it writes, in terms of the block's iterators.
    indices: tuple[Expr, ...]

    @property
    def target(self) -> Buffer:
        return stores(self.block.body)[0].buffer

    @property
    def reads_itself(self) -> bool:
        return any(load.buffer.name == self.target.name for load in loads(self.block.body))

    @property
    def pinned(self) -> dict[str, tuple[int, int]]:
        """The spatial iterators that a subscript gives directly: its dimension, and what it adds."""
        counts: dict[str, tuple[int, int]] = {}
        spatial = {i.var for i in self.block.iters if i.kind == "spatial"}
        for dim, e in enumerate(self.indices):
            linear = linear_form(e)
            if len(linear.terms) == 1:
                ((atom, factor),) = linear.terms.items()
                if factor == 1 and atom in spatial and isinstance(atom, Var):
                    counts.setdefault(atom.name, (dim, linear.constant))
        return counts

    @property
    def repeated(self) -> list[str]:
        """The iterators of which several values may concern one element: their order counts."""
        moving = [i.var.name for i in self.block.iters if not stands_still(i)]
        return [name for name in moving if name not in self.pinned]

    @property
    def updates(self) -> bool:
        """Whether an element's value depends on how often and in which order instances run."""
        return self.reads_itself or bool(self.repeated)

    @property
    def overwrites(self) -> bool:
        """Whether it sets its elements whatever was there."""
        if self.block.init is not None:
            return True
        return isinstance(strip(self.block.body), Store) and not self.reads_itself


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    buffer: Buffer
    members: tuple[Member, ...]
    #: Whether it computes an output: all elements, each once, and nothing moves but the loops.
    is_output: bool = False

    @property
    def names(self) -> frozenset[str]:
        return frozenset(m.block.name for m in self.members)

    @property
    def roots(self) -> tuple[Stmt, ...]:
        """The statements to take out, each once, in program order."""
        return tuple({id(m.root): m.root for m in self.members}.values())

    @property
    def inputs(self) -> frozenset[str]:
        """The buffers it reads, other than its own."""
        read = {load.buffer.name for m in self.members for load in loads(m.block)}
        return frozenset(read - {self.buffer.name})

    def readers(self, kernel: Kernel) -> list[Leaf]:
        """The statements outside the stage that read it."""
        name = self.buffer.name
        others = (leaf for leaf in leaves(kernel) if leaf.block not in self.names)
        return [leaf for leaf in others if any(a.reads and a.buffer.name == name for a in leaf.accesses)]


def infer_stage(kernel: Kernel, name: str, *, outputs: bool = False) -> Stage | Verdict:
    """The stage that block ``name`` belongs to, or why there is none; of ``outputs`` only those that are also read."""
    block = find_block(kernel, name)
    written = {s.buffer.name: s.buffer for s in stores(block)}
    if len(written) != 1:
        listed = " and ".join(f"`{n}`" for n in written) or "nothing"
        return refuse(f"block `{name}` writes {listed}; it must write one buffer")
    (buffer,) = written.values()
    stage = stage_of(kernel, buffer)
    if buffer.name not in kernel.outputs:
        return stage
    if not outputs or (isinstance(stage, Stage) and not stage.readers(kernel)):
        return refuse(f"`{buffer.name}` is an output: all of it must be in memory when the program ends")
    return stage


@remembered
def stage_of(kernel: Kernel, buffer: Buffer) -> Stage | Verdict:
    """The stage that computes the temporary ``buffer``, or why there is none."""
    blocks = [b for b in blocks_inside(kernel) if any(s.buffer.name == buffer.name for s in stores(b))]
    problem = next((p for b in blocks if (p := block_problem(b, buffer)) is not None), None)
    held = {id(s) for b in blocks for s in stores(b)}
    if not blocks or any(s.buffer.name == buffer.name and id(s) not in held for s in stores(kernel.body)):
        problem = problem or f"`{buffer.name}` is written outside blocks"
    if buffer.name in mentions(kernel.body).reached:
        problem = problem or f"a call reaches into the memory of `{buffer.name}`"
    if problem is not None:
        return refuse(problem)
    names = {b.name for b in blocks}
    members = tuple(Member(b, root_of(kernel, b, names), stores(b.body)[0].indices) for b in blocks)
    if not members[0].overwrites:
        return refuse(f"block `{members[0].block.name}` adds to what is in `{buffer.name}` before")
    return Stage(buffer, members, buffer.name in kernel.outputs)


def block_problem(block: Block, buffer: Buffer, *, may_read_steps: bool = False) -> str | None:
    """Why the block does not compute each element of ``buffer`` on its own, or None; ``may_read_steps``: from elements
    of other steps of a recurrence it may."""
    parts = [p for p in (block.init, block.body) if p is not None]
    for s in (s for p in parts for s in statements(p)):
        if isinstance(s, Assert):
            return f"block `{block.name}` checks its data; where a check happens must not change"
        if not isinstance(s, (Seq, If, Let, Store)) or isinstance(s, Atomic):
            return f"block `{block.name}` is more than a plain computation of `{buffer.name}`"
    if not stores(block.body):
        return f"block `{block.name}` does nothing but start `{buffer.name}`"
    written = [s for p in parts for s in stores(p)]
    others = sorted({f"`{s.buffer.name}`" for s in written if s.buffer.name != buffer.name})
    if others:
        return f"block `{block.name}` also writes {', '.join(others)}"
    own = written[0].indices
    if any(s.indices != own for s in written):
        return f"block `{block.name}` writes several elements of `{buffer.name}` at once"
    if any(loads(i) for i in own):
        return f"block `{block.name}` scatters: data decide which element of `{buffer.name}` it writes"
    read = [load for p in parts for load in loads(p) if load.buffer.name == buffer.name and load.indices != own]
    if any(not may_read_steps or not _are_other_steps(block, load.indices, own) for load in read):
        return f"an element of `{buffer.name}` is computed from other elements of `{buffer.name}`"
    return None


def _are_other_steps(block: Block, read: tuple[Expr, ...], written: tuple[Expr, ...]) -> bool:
    """Whether the elements differ in a subscript that is one value throughout: no instance writes what is read."""
    ones = {i.var for i in block.iters if stands_still(i)}
    return any(
        isinstance(gap := simplify(w - r), Const) and gap.value != 0 and set(free_vars(w).values()) <= ones
        for r, w in zip(read, written)
    )


def root_of(kernel: Kernel, block: Block, names: set[str]) -> Stmt:
    """The largest loop or test around ``block`` that holds no other work than blocks called ``names``."""
    root: Stmt = block
    for s in reversed(path_to(kernel, block)[:-1]):
        if not isinstance(s, (For, If, Seq)) or not _holds_only(s, names):
            break
        root = s
    return root


def _holds_only(s: Stmt, names: set[str]) -> bool:
    if isinstance(s, Block):
        return s.name in names
    if not isinstance(s, (For, If, Seq)) or any(loads(e) for e in children(s) if isinstance(e, Expr)):
        return False
    return all(_holds_only(inner, names) for inner in inner_statements(s))

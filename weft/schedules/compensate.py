"""``compensate``: signed bytes of a sum of products moved to unsigned ones, and the excess taken off: compensation.

::

    for m, n, k: C[m, n] += A[m, k] * B[k, n]      for k, n:    B_moved[k, n] = B[k, n] + 128
                                                   for m, k:    C_excess[m] += A[m, k]
                                                   for m, n, k: C_sum[m, n] += A[m, k] * B_moved[k, n]
                                                   for m, n:    C[m, n] = C_sum[m, n] - 128 * C_excess[m]

Instructions for products of bytes take one signed and one unsigned side. Integers wrap, so results are the same to the
bit. Where ``B`` is constant, so is what it is moved to, and a row's excess is one more column of the product.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.ir.buffer import Buffer
from weft.ir.dtype import int8, int32, uint8
from weft.ir.expr import Binary, Cast, Const, Expr, Load, Var, const, idx
from weft.ir.nesting import sequence
from weft.ir.stmt import Alloc, Block, For, Iter, IterKind, Kernel, Stmt, Store
from weft.ir.visit import free_vars, fresh_name, substitute
from weft.poly.leaves import update_of
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_block, find_buffer
from weft.schedules.infer_stage import Stage
from weft.schedules.make_blocks import declared_anew
from weft.schedules.part_sum import whole_stage
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, taken_names
from weft.schedules.trace import Numerics
from weft.schedules.unscale import finish_apart

#: What makes the least signed byte zero.
MOVED_BY = 128


@dataclass(frozen=True, slots=True)
class Product:
    """What a step of the sum adds: ``other`` times the element that is ``read``."""

    read: Load
    other: Expr


def check_compensate(kernel: Kernel, block: str, buffer: str, *, numerics: Numerics) -> Verdict:
    """The block must add up products with signed bytes of the buffer, alone and outside all loops, in an integer."""
    moved = find_buffer(kernel, buffer)
    if moved.dtype != int8 or not all(isinstance(size, Const) for size in moved.shape):
        return refuse(f"`{buffer}` is no array of int8 whose sizes are known")
    stage = whole_stage(kernel, block)
    if isinstance(stage, Verdict):
        return stage
    if not stage.buffer.dtype.is_integer:
        return refuse(f"`{stage.buffer.name}` is no sum of integers, which wrap: others are rounded")
    if find_product(find_block(kernel, block), buffer) is None:
        return refuse(f"block `{block}` does not add up products with single elements of `{buffer}`")
    return OK


def find_product(block: Block, buffer: str) -> Product | None:
    """The product with an element of ``buffer``, widened to the type of the sum, that each step of ``block`` adds."""
    update = update_of(block.body) if isinstance(block.body, Store) else None
    if update is None or update[0] != "+" or not isinstance(update[1], Binary) or update[1].op != "*":
        return None
    for factor, other in ((update[1].right, update[1].left), (update[1].left, update[1].right)):
        read = factor.operand if isinstance(factor, Cast) else None
        if isinstance(read, Load) and read.buffer.name == buffer:
            return Product(read, other)
    return None


@primitive(check_compensate, "cannot move the elements of `{1}` to unsigned ones in block `{0}`")
def compensate(kernel: Kernel, block: str, buffer: str) -> Rewrite:
    """Makes the storage that elements are moved to, and the block that takes off the excess."""
    stage, taken = whole_stage(kernel, block), taken_names(kernel)
    assert isinstance(stage, Stage), "the check answers this first"
    (root,), (member,), node = stage.roots, stage.members, find_block(kernel, block)
    product = find_product(node, buffer)
    assert product is not None, "the check answers this first"
    moved = Buffer(fresh_name(f"{buffer}_moved", taken), uint8, product.read.buffer.shape)
    excess, summing = _excess(node, product, stage.buffer, fresh_name(f"{stage.buffer.name}_excess", taken), taken)
    total = Load(stage.buffer, member.indices)
    step = Binary("*", product.other, Cast(stage.buffer.dtype, replace(product.read, buffer=moved)))
    assert isinstance(node.body, Store)
    made = declared_anew(replace(node, body=replace(node.body, value=Binary("+", total, step))))
    less = Binary("*", const(MOVED_BY, stage.buffer.dtype), excess)
    finished, end = finish_apart(root, node, made, taken, lambda sums: Binary("-", sums, less))
    first = [_moving(product.read.buffer, moved, taken), summing]
    body = Alloc(moved, Alloc(excess.buffer, sequence([*first, finished])))
    return Rewrite(replace_stmt(kernel, root, body), (end, moved.name))


def _moving(old: Buffer, new: Buffer, taken: set[str]) -> Stmt:
    """All elements of ``old`` as those of ``new``."""
    variables = [Var(fresh_name(f"{new.name}_{d}", taken)) for d in range(old.rank)]
    iters = [_iterator(x, size, "spatial", taken) for x, size in zip(variables, old.shape)]
    where = tuple(i.var for i in iters)
    wide = Cast(int32, Load(old, where))
    body = Store(new, where, Cast(new.dtype, Binary("+", wide, const(MOVED_BY, int32))))
    return _nest(Block(new.name, tuple(iters), (), (), None, body))


def _excess(node: Block, product: Product, sums: Buffer, name: str, taken: set[str]) -> tuple[Load, Stmt]:
    """The sums of the other factor, as they are read in ``node``, and the nest that makes them."""
    used = free_vars(product.other)
    own = [i for i in node.iters if i.kind == "reduce" or i.var.name in used]
    anew = {i.var: _iterator(Var(fresh_name(f"{i.var.name}_excess", taken)), i.hi, i.kind, taken) for i in own}
    kept = [i for i in own if i.kind == "spatial"]
    buffer = Buffer(name, sums.dtype, tuple(i.hi for i in kept))
    where = tuple(anew[i.var].var for i in kept)
    values: dict[Var, Expr] = {old: new.var for old, new in anew.items()}
    body = Store(buffer, where, Binary("+", Load(buffer, where), substitute(product.other, values)))
    init = Store(buffer, where, const(0, sums.dtype))
    nest = _nest(Block(name, tuple(anew.values()), (), (), init, body))
    return Load(buffer, tuple(i.var for i in kept)), nest


def _iterator(loop: Var, size: Expr, kind: IterKind, taken: set[str]) -> Iter:
    return Iter(Var(fresh_name(f"v{loop.name}", taken)), idx(0), size, kind, loop)


def _nest(block: Block) -> Stmt:
    """``block`` in loops through its iterators."""
    stmt: Stmt = declared_anew(block)
    for i in reversed(block.iters):
        assert isinstance(i.binding, Var)
        stmt = For(i.binding, i.lo, i.hi, "serial", stmt)
    return stmt

"""``unfold``: several iterators that products are summed over as one; of a convolution, the lowered matrix (im2col).

::

    for h, f, p, c                                            for h, k in 0:12
      S[h, f] += (inside ? X[h + p - 1, c] : 0) * V[f, p, c]    S_X[h, k] = inside ? X[h + k // 4 - 1, k % 4] : 0
                                                          =>  for f, k in 0:12
                                                                S_V[f, k] = V[f, k // 4, k % 4]
                                                              for h, f, k in 0:12
                                                                S[h, f] += S_X[h, k] * S_V[f, k]

Factors become matrices, each made by a block of its own: stored, or written into what reads them (`compute_inline`).
The last of the iterators may run further, over zeros, so that elements come by fours, say: products of zeros are +0,
and a sum that started at +0 is never -0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Cast, Compare, Const, Expr, Load, Select, Var, const, idx
from weft.ir.inequality import all_of
from weft.ir.nesting import around, path_to, sequence
from weft.ir.numerics import is_fast
from weft.ir.stmt import Alloc, Block, For, Iter, Kernel, Seq, Stmt, Store
from weft.ir.visit import free_vars, fresh_name, loads, rewrite, substitute
from weft.poly.verdict import Verdict, refuse
from weft.schedules.find import find_block
from weft.schedules.infer_stage import root_of
from weft.schedules.loop_facts import check_number, check_valid
from weft.schedules.make_blocks import declared_anew
from weft.schedules.rewrite import Rewrite, primitive, remembered, replace_stmt, taken_names
from weft.schedules.trace import Numerics


@dataclass(frozen=True, slots=True)
class _Factor:
    """``whole``, which reads ``load`` where ``condition`` holds and is zero elsewhere."""

    whole: Expr
    load: Load
    condition: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """The nest of a block, the iterators that become one, and the factors that use them."""

    block: Block
    root: Stmt
    loops: tuple[For, ...]
    merged: tuple[Iter, ...]
    factors: tuple[_Factor, ...]


def check_unfold(kernel: Kernel, block: str, *iters: str, multiple: int = 1, numerics: Numerics) -> Verdict:
    """The block must sum products of elements over these iterators, each in a loop of its own."""
    number = check_number("multiple", multiple, 1)
    if not number.ok:
        return number
    found = _find(kernel, block, iters)
    if isinstance(found, str):
        return refuse(found)
    if not is_fast(numerics) and found.factors[0].load.dtype.is_float:
        return replace(refuse(f"the sums of `{block}` would be in another order"), offers=('numerics="fast"',))
    return check_valid(unfold(kernel, block, *iters, multiple=multiple).kernel)


@primitive(check_unfold, "cannot unfold block `{0}`")
def unfold(kernel: Kernel, block: str, *iters: str, multiple: int = 1) -> Rewrite:
    """Makes the loop along all of ``iters``, then block and storage of each factor."""
    found, taken = _find(kernel, block, iters), taken_names(kernel)
    assert isinstance(found, _Found), "the check answers this first"
    gone = [i.binding.name for i in found.merged if isinstance(i.binding, Var)]
    name = fresh_name("_".join(gone), taken)
    along = Var(fresh_name(f"v{name}", taken | {name}))
    sizes = [_size(i) for i in found.merged]
    sizes[-1] += -sizes[-1] % multiple
    values = dict(zip((i.var for i in found.merged), _digits(along, sizes)))
    taken |= {name, along.name}
    made, reads, nests = list[Buffer](), dict[Expr, Expr](), list[Stmt]()
    for factor in found.factors:
        buffer, nest, read = _matrix(found, factor, along, values, prod(sizes), taken)
        made.append(buffer)
        nests.append(nest)
        reads[factor.whole] = read
    body = rewrite(found.block.body, lambda n: reads.get(n) if isinstance(n, Expr) else None)
    kept = tuple(i for i in found.block.iters if i not in found.merged)
    whole = Iter(along, idx(0), idx(prod(sizes)), "reduce", Var(name))
    summed = declared_anew(replace(found.block, iters=(*kept, whole), body=body))
    others = [x for x in found.loops if x.var.name not in gone]
    loop = For(Var(name), idx(0), idx(prod(sizes)), "serial", Seq(()), span=found.block.span)
    fates = dict.fromkeys(gone, f"was unfolded into {name}")
    names = (name, *(n for b in made for n in (b.name, b.name)))
    return Rewrite(_placed(kernel, found, made, [*nests, around([*others, loop], summed)]), names, fates)


def _placed(kernel: Kernel, found: _Found, made: list[Buffer], nests: list[Stmt]) -> Kernel:
    """Storage lasts as long as what follows the block, which may be moved into its nest."""
    above = path_to(kernel, found.root)[:-1]
    parent = above[-1] if above and isinstance(above[-1], Seq) else None
    siblings = parent.body if isinstance(parent, Seq) else (found.root,)
    here = next(n for n, s in enumerate(siblings) if s is found.root)
    rest = sequence([*nests, *siblings[here + 1 :]])
    for buffer in reversed(made):
        rest = Alloc(buffer, rest, span=found.block.span)
    return replace_stmt(kernel, parent or found.root, sequence([*siblings[:here], rest]))


def _matrix(
    found: _Found, factor: _Factor, along: Var, values: Mapping[Var, Expr], count: int, taken: set[str]
) -> tuple[Buffer, Stmt, Expr]:
    """Storage for all elements of a factor, the nest that fills it, and what is read of it in place of the factor."""
    used = free_vars(factor.whole).keys()
    own = [i for i in found.block.iters if i.var.name in used and i not in found.merged]
    is_last = any(i.var.name in free_vars(factor.load.indices[-1]) for i in found.merged)
    order = [*(i.var for i in own), along] if is_last else [along, *(i.var for i in own)]
    extents = {i.var: i.hi for i in own} | {along: idx(count)}
    is_longer = count > prod(map(_size, found.merged))
    name = fresh_name(f"{found.block.name}_{factor.load.buffer.name}", taken)
    taken.add(name)
    buffer = Buffer(name, factor.load.dtype, tuple(extents[v] for v in order))
    iters, loops = list[Iter](), list[For]()
    for v in order:
        loop = Var(fresh_name(v.name.removeprefix("v"), taken))
        taken.add(loop.name)
        iters.append(Iter(v, idx(0), extents[v], "spatial", loop))
        loops.append(For(loop, idx(0), extents[v], "serial", Seq(()), span=found.block.span))
    body = Store(buffer, tuple(order), _value(found, factor, values, is_longer), span=found.block.span)
    block = declared_anew(Block(name, tuple(iters), (), (), None, body, span=found.block.span))
    read: Expr = Load(buffer, tuple(order), span=factor.whole.span)
    read = read if factor.whole.dtype == buffer.dtype else Cast(factor.whole.dtype, read)
    return buffer, around(loops, block), read


def _value(found: _Found, factor: _Factor, values: Mapping[Var, Expr], is_longer: bool) -> Expr:
    """An element of a factor's matrix: zero also where the last of the iterators runs further than it did."""
    last = found.merged[-1]
    tests = [] if factor.condition is None else [factor.condition]
    if is_longer:
        tests.append(Compare("<", last.var, last.hi))
    value: Expr = factor.load
    if tests:
        value = Select(all_of(tests), value, const(0, factor.load.dtype))
    return substitute(value, dict(values))


def _digits(along: Var, sizes: list[int]) -> list[Expr]:
    """``along`` taken apart, the last digit running fastest."""
    found = list[Expr]()
    for n, size in enumerate(sizes):
        unit = prod(sizes[n + 1 :])
        digit: Expr = along if unit == 1 else Binary("//", along, idx(unit))
        found.append(digit if n == 0 else Binary("%", digit, idx(size)))
    return found


def _size(i: Iter) -> int:
    assert isinstance(i.hi, Const)
    return int(i.hi.value)


@remembered
def _find(kernel: Kernel, name: str, iters: tuple[str, ...]) -> _Found | str:
    """What is unfolded, or why it cannot be."""
    block = find_block(kernel, name)
    known = {i.var.name: i for i in block.iters}
    wrong = [n for n in iters if n not in known or known[n].kind != "reduce"]
    if wrong or len(set(iters)) != len(iters) or not iters:
        summed = ", ".join(f"`{i.var.name}`" for i in block.iters if i.kind == "reduce") or "none"
        return f"it takes different iterators that `{name}` sums over, which are: {summed}"
    root = root_of(kernel, block, {name})
    nest = path_to(root, block)[:-1]
    loops = tuple(s for s in nest if isinstance(s, For) and s.kind == "serial")
    ranges: dict[Expr, tuple[Expr, Expr]] = {x.var: (x.lo, x.hi) for x in loops}
    whole = all(
        isinstance(i.hi, Const) and ranges.get(i.binding) == (i.lo, i.hi) == (idx(0), i.hi) for i in block.iters
    )
    if len(loops) != len(nest) or len(loops) != len(block.iters) or not whole:
        return f"not every iterator of `{name}` runs in a loop of its own from 0 up to a number"
    merged = tuple(known[n] for n in iters)
    factors = _factors(block, {i.var.name for i in merged})
    if factors is None:
        return f"what `{name}` adds up is no product of two elements that use these iterators and nothing else does"
    return _Found(block, root, loops, merged, factors)


def _factors(block: Block, merged: set[str]) -> tuple[_Factor, ...] | None:
    """The factors of what is added up; None where it is no product, or the iterators are used elsewhere, too."""
    store = block.body
    if not isinstance(store, Store) or not isinstance(store.value, Binary) or store.value.op != "+":
        return None
    sides = (store.value.left, store.value.right)
    target = next((e for e in sides if isinstance(e, Load) and e.buffer == store.buffer), None)
    added = next((e for e in sides if e is not target), None)
    if target is None or not isinstance(added, Binary) or added.op != "*":
        return None
    found = tuple(f for f in map(_factor, (added.left, added.right)) if f is not None)
    using = tuple(f for f in found if merged & free_vars(f.whole).keys())
    alone = all(f.load.buffer != store.buffer and len(loads(f.whole)) == 1 for f in found)
    return using if len(found) == 2 and len(using) == 2 and alone else None


def _factor(e: Expr) -> _Factor | None:
    """``e`` as an element, widened or not, or zero where a test does not hold."""
    inner = e.operand if isinstance(e, Cast) else e
    if isinstance(inner, Load):
        return _Factor(e, inner, None)
    if not isinstance(inner, Select) or not isinstance(inner.otherwise, Const) or inner.otherwise.value != 0:
        return None
    if isinstance(e, Cast) and isinstance(inner.then, Cast):  # the first of two may round
        return None
    load = inner.then.operand if isinstance(inner.then, Cast) else inner.then
    return _Factor(e, load, inner.condition) if isinstance(load, Load) else None

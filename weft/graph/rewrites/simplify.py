"""The rewrites, one after another, each where the processor says that it pays."""

from __future__ import annotations

from collections.abc import Callable

from weft.graph.graph import Graph
from weft.graph.rewrites.choose_layouts import choose_layouts
from weft.graph.rewrites.costs import Costs
from weft.graph.rewrites.fold_scales import fold_scales
from weft.graph.rewrites.join_products import join_products, pad_products
from weft.graph.rewrites.merge_equal import merge_equal
from weft.graph.rewrites.move_reshapes import move_reshapes
from weft.graph.rewrites.pixel_products import pixel_products
from weft.graph.rewrites.row_order import row_order
from weft.graph.rewrites.whole_attention import whole_attention
from weft.graph.run.arrays import Arrays
from weft.ir.numerics import is_fast


def simplify(graph: Graph, arrays: Arrays, fold: Callable[[Graph], Graph]) -> Graph:
    """``graph`` with the same meaning; ``fold`` computes what is constant."""
    costs, graph = Costs(arrays), fold(graph)
    if not is_fast(graph.numerics):  # the order of sums and loops is part of the meaning
        return merge_equal(move_reshapes(graph))
    graph = row_order(fold(fold_scales(fold(whole_attention(graph, costs)))), costs)
    graph = move_reshapes(graph)
    if arrays.processor.folds_narrow:
        graph = fold(fold_scales(graph, narrow=True))
    graph = fold(join_products(merge_equal(pixel_products(graph, costs)), costs))
    return choose_layouts(fold(pad_products(graph, costs)), costs)

"""The rewrites, one after another, each where the processor says that it pays.

A fault in one costs that rewrite: the graph from before it is kept, with a warning, and `explain` tells it.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Iterator

from weft.graph.graph import Graph, check_graph
from weft.graph.rewrites.choose_layouts import choose_layouts
from weft.graph.rewrites.copy_parts import copy_parts
from weft.graph.rewrites.costs import Costs
from weft.graph.rewrites.fold_scales import fold_scales
from weft.graph.rewrites.join_products import join_products, pad_products
from weft.graph.rewrites.merge_equal import merge_equal
from weft.graph.rewrites.move_reshapes import move_reshapes
from weft.graph.rewrites.pixel_products import pixel_products
from weft.graph.rewrites.row_order import row_order
from weft.graph.rewrites.whole_attention import whole_attention
from weft.graph.rewrites.winograd import winograd
from weft.graph.run.arrays import Arrays
from weft.graph.watch import WATCHER
from weft.ir.faults import refused
from weft.ir.numerics import is_fast

Rewrite = Callable[[Graph], Graph]


def simplify(graph: Graph, arrays: Arrays, fold: Rewrite) -> Graph:
    """``graph`` with the same meaning; ``fold`` computes what is constant."""
    for name, rewrite in _rewrites(graph, arrays, fold):
        graph = tried(name, rewrite, graph)
    return with_copied_parts(graph, arrays)


def with_copied_parts(graph: Graph, arrays: Arrays) -> Graph:
    """``graph`` with copies of what cannot be written where it is joined."""
    return tried("copy_parts", copy_parts, graph) if arrays.processor.writes_in_joins else graph


def _rewrites(graph: Graph, arrays: Arrays, fold: Rewrite) -> Iterator[tuple[str, Rewrite]]:
    costs, folding = Costs(arrays), ("fold_constants", fold)
    yield folding
    if not is_fast(graph.numerics):  # the order of sums and loops is part of the meaning
        yield "move_reshapes", move_reshapes
        yield "merge_equal", merge_equal
        return
    yield "whole_attention", lambda g: whole_attention(g, costs)
    yield folding
    yield "fold_scales", fold_scales
    yield folding
    yield "row_order", lambda g: row_order(g, costs)
    yield "move_reshapes", move_reshapes
    if arrays.processor.folds_narrow(graph):
        yield "fold_scales", functools.partial(fold_scales, narrow=True)
        yield folding
    yield "pixel_products", lambda g: pixel_products(g, costs)
    if graph.numerics == "winograd" and arrays.processor.has_winograd:
        yield "winograd", lambda g: winograd(g, costs)
        yield folding
    yield "merge_equal", merge_equal
    yield "join_products", lambda g: join_products(g, costs)
    yield folding
    yield "pad_products", lambda g: pad_products(g, costs)
    yield folding
    yield "choose_layouts", lambda g: choose_layouts(g, costs)


def tried(name: str, rewrite: Rewrite, graph: Graph) -> Graph:
    """``graph`` rewritten, or as it is where that fails or gives what is no graph."""
    start, watcher = time.perf_counter(), WATCHER.get()
    try:
        rewritten = rewrite(graph)
        made = rewritten if rewritten is graph else check_graph(rewritten)
        if watcher is not None:
            watcher.rewritten(name, graph, made, time.perf_counter() - start)
        return made
    except Exception as error:
        warnings.warn(f"weft: {graph.name} is compiled without {name}: {refused(error)}", stacklevel=2)
        return graph

"""Random graphs: machine code gives what the evaluator says, and text reads back."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from weft.graph.compile_graph import compile_graph
from weft.graph.evaluate import evaluate
from weft.graph.text import parse_graph, print_graph

sys.path.insert(0, str(Path(__file__).parent))
from random_graphs import random_graph


@pytest.mark.parametrize("number", range(12))
def test_random_graphs_run_as_the_evaluator_says(number: int, first_seed: int) -> None:
    graph, args = random_graph(first_seed + number)
    meant = evaluate(graph, args, wide=True)
    for ours, value in zip(compile_graph(graph).executable.run(args), meant):
        scale = max(1.0, float(np.abs(value).max()))
        np.testing.assert_allclose(ours, value, rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.parametrize("number", range(40))
def test_random_graphs_read_back(number: int, first_seed: int) -> None:
    graph, args = random_graph(first_seed + 100 + number)
    text = print_graph(graph)
    again = parse_graph(text, graph.constants)
    assert print_graph(again) == text
    for ours, theirs in zip(evaluate(again, args), evaluate(graph, args)):
        np.testing.assert_array_equal(ours, theirs)

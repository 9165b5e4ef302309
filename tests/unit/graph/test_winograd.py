"""Convolutions of 3x3 windows as products of sums of pixels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.graph.conftest import *  # noqa: F403
from weft.graph.builder import GraphBuilder
from weft.graph.evaluate import evaluate
from weft.graph.formulas import windows
from weft.graph.graph import Graph
from weft.graph.rewrites.costs import Costs
from weft.graph.rewrites.winograd import winograd

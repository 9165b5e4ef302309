"""Random formulas: equality by normal form against counting."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter

from algebra_programs import FREE, Draw, expand

from weft.algebra.compare import Comparison
from weft.algebra.functions import Functions
from weft.algebra.linear import UndecidedError

PAIRS = int(os.environ.get("WEFT_ALGEBRA_PAIRS", "300"))
SEED = int(os.environ.get("WEFT_ALGEBRA_SEED", "1"))


def test_random_pairs_against_counting() -> None:
    """By hand: ``WEFT_ALGEBRA_PAIRS=10000 WEFT_ALGEBRA_SEED=… pytest -s tests/property/test_algebra.py``."""
    draw, told = Draw(random.Random(SEED)), Counter[str]()
    done = 0
    while done < PAIRS:
        first, second = draw.pair()
        if len(first) > 12 or len(second) > 24 or any(len(t.bound) > 3 for t in first):
            continue
        done += 1
        truth = expand(first) == expand(second)
        try:
            point = Comparison(Functions()).differ(first, second, tuple(FREE))
        except UndecidedError as e:
            told[str(e)] += 1
            continue
        told["equal" if truth else "apart"] += 1
        assert (point is None) == truth, (first, second, point)
        if point is not None:
            sides = [expand(s).get((point.index, tuple(sorted(point.reads))), 0) for s in (first, second)]
            assert sides[0] != sides[1], (first, second, point)
    print(dict(told), file=sys.stderr)
    undecided = PAIRS - told["equal"] - told["apart"]
    assert undecided <= 0.02 * PAIRS, told

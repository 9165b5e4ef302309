"""Random recurrences: a product of each step with some gates, what is done with its sums, and states of two kinds."""

from __future__ import annotations

import random
from typing import Any

import numpy as np


def random_recurrence(seed: int) -> tuple[str, list[Any]]:
    """The text of a definition ``f`` and arguments for it."""
    rng = random.Random(seed)
    steps, batch = rng.randint(1, 3), rng.choice([1, 2, 3, 4])
    hidden, gates = rng.choice([3, 4, 8, 10]), rng.randint(1, 4)
    sizes = {"t": steps, "b": batch, "j": hidden, "g": gates, "k": hidden}
    order = rng.choice(["gjk", "kgj", "gkj", "jgk"])
    named = "".join({"g": str(gates), "j": "J", "k": "J"}[i] + "," for i in order)[:-1]
    state = rng.random() < 0.6
    lines = ["H(0,b,j) = S(b,j)", *(["C(b,j) = S(b,j) * 0.5"] if state else [])]
    lines += ["for t in 0:T {", f"G(b,g,j) +=! H(t,b,k) * U({','.join(order)})"]
    known = ["X(t,b,j)", "H(t,b,j)", *(f"G(b,{g},j)" for g in range(gates)), *(["C(b,j)"] if state else [])]
    if rng.random() < 0.5:  # a stage that is computed for all gates, and read at some of them
        lines.append("P(b,g,j) = tanh(G(b,g,j) + X(t,b,j))")
        known += [f"P(b,{g},j)" for g in range(gates)]
    if state:
        lines.append(f"C(b,j) = {_formula(rng, known)}")
    if rng.random() < 0.4:
        lines.append(f"M(b,j) = {_formula(rng, known)}")
        known.append("M(b,j)")
    lines += [f"H(t+1,b,j) = {_formula(rng, known)}", "}"]
    head = f"def f(float(T,B,J) X, float(B,J) S, float({named}) U) -> (H{', C' if state else ''})"
    numbers = np.random.default_rng(seed)
    shapes = [(steps, batch, hidden), (batch, hidden), tuple(sizes[i] for i in order)]
    return head + " {\n" + "\n".join(lines) + "\n}", [numbers.standard_normal(s).astype(np.float32) for s in shapes]


def _formula(rng: random.Random, known: list[str]) -> str:
    terms = [f"{rng.choice(['tanh', 'sigmoid', ''])}({rng.choice(known)})" for _ in range(rng.randint(1, 4))]
    return "tanh(" + "".join(f"{term} {rng.choice('+-*')} " for term in terms) + f"{rng.choice(known)})"

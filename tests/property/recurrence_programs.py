"""Random recurrences: a product of each step with some gates, what is done with its sums, and states of two kinds.

Some have products that need no step, and some of the states' steps only the last."""

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
    if rng.random() < 0.6:  # a product that waits for no step, of inputs or of what a step makes of them
        made = rng.choice([["Q(b,j) +=! X(t,b,k) * U(%s)"], ["Y(b,k) = tanh(X(t,b,k))", "Q(b,j) +=! Y(b,k) * U(%s)"]])
        place = lines.index("for t in 0:T {") + rng.choice([1, 2])
        lines[place:place] = [line % ",".join(order).replace("g", "0") if "%" in line else line for line in made]
        known.append("Q(b,j)")
    lines += [f"H(t+1,b,j) = {_formula(rng, known)}", "}"]
    last = rng.random() < 0.4  # then of the other steps only the one before is read
    lines += ["L(b,j) = H(T,b,j)"] if last else []
    results = ["L" if last else "H", *(["C"] if state else [])]
    head = f"def f(float(T,B,J) X, float(B,J) S, float({named}) U) -> ({', '.join(results)})"
    numbers = np.random.default_rng(seed)
    shapes = [(steps, batch, hidden), (batch, hidden), tuple(sizes[i] for i in order)]
    return head + " {\n" + "\n".join(lines) + "\n}", [numbers.standard_normal(s).astype(np.float32) for s in shapes]


def _formula(rng: random.Random, known: list[str]) -> str:
    terms = [f"{rng.choice(['tanh', 'sigmoid', ''])}({rng.choice(known)})" for _ in range(rng.randint(1, 4))]
    return "tanh(" + "".join(f"{term} {rng.choice('+-*')} " for term in terms) + f"{rng.choice(known)})"

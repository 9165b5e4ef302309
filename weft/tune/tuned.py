"""What tuning found, in words and numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf

from weft.tune.job import Outcome


@dataclass
class Tuned:
    """``trace`` is what calls use from now on; ``ended`` counts how candidates ended, ``best_after`` has the least time
    over that of the automatic schedule after each of them."""

    name: str
    automatic: str
    trace: str
    strategy: str = ""
    seed: int = 0
    automatic_seconds: float = 0.0
    best_seconds: float = 0.0
    ratio: float = 1.0
    ended: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reasons: list[str] = field(default_factory=list)
    best_after: list[float] = field(default_factory=list)
    took: float = 0.0
    interrupted: bool = False
    unconfirmed: bool = False

    @property
    def is_faster(self) -> bool:
        return self.trace != self.automatic

    @property
    def speedup(self) -> float:
        """Of the automatic schedule, as it was measured at the end."""
        return 1 / self.ratio

    @property
    def trials(self) -> int:
        return sum(self.ended.values())

    def count(self, outcome: Outcome, ratio: float) -> None:
        self.ended[outcome.ended] += 1
        before = self.best_after[-1] if self.best_after else 1.0
        self.best_after.append(ratio if outcome.ended == "won" else min(before, inf))
        if outcome.ended in ("wrong", "crashed", "hung", "memory", "outside", "failed"):
            self.reasons.append(f"{outcome.ended}: {outcome.why}")

    def __str__(self) -> str:
        what = f"{self.name}: {self.speedup:.2f} times as fast as the automatic schedule"
        if not self.is_faster:
            what = f"{self.name}: nothing found that is faster than the automatic schedule"
        ended = ", ".join(f"{count} {how}" for how, count in self.ended.most_common())
        lines = [what, f"  {self.trials} candidates in {self.took:.1f} s by {self.strategy}, seed {self.seed}: {ended}"]
        lines += [f"  {self.automatic_seconds * 1e6:.4g} us automatic, {self.best_seconds * 1e6:.4g} us best"]
        lines += ["  the one that led was not faster when it was measured again"] * self.unconfirmed
        lines += ["  interrupted; what was found is kept"] * self.interrupted
        lines += [f"  not tried: {count} {why}" for why, count in self.refused.most_common(3)]
        lines += [f"  {reason}" for reason in self.reasons[:5]]
        return "\n".join(lines)

"""Whether a product and the windows that are read of its result are one kernel or two: expected, then measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from weft.graph.graph import Fragment
from weft.graph.groups.compile_group import Prepared
from weft.graph.groups.group_code import GroupCode
from weft.graph.groups.partition import Group, WindowEdge
from weft.graph.groups.storage import Storage
from weft.graph.groups.take_turns import take_turns
from weft.graph.groups.window_edges import WindowPair, find_pairs
from weft.graph.run.processor import Processor
from weft.ir.faults import refused
from weft.runtime.store import Artifact, default_store
from weft.version import cache_key

#: The share of the time of two kernels that one must stay below. Measured alone, kernels find near what in a model all
#: others have pushed out: the first two of EfficientNet-B0 take 250 us alone, 290 in it. That is what one kernel saves.
WORTH_JOINING = 1.05
#: The same of times that the model expects, beyond which nothing is measured.
WORTH_MEASURING = 1.15
#: What is in between must be more than this share of the second cache.
SHARE_BETWEEN = 1 / 8


@dataclass(frozen=True)
class _Ways:
    """A pair as two kernels and as one."""

    edge: WindowEdge
    apart: tuple[Prepared, Prepared]
    joined: Prepared


@dataclass(frozen=True)
class WindowChooser:
    """``storage`` has all pairs apart, ``with_windows`` gives one with some joined; ``prepare`` is of one of both."""

    storage: Storage
    with_windows: Callable[[frozenset[WindowEdge]], Storage]
    prepare: Callable[[Storage, Group], Prepared]
    code: GroupCode

    @property
    def processor(self) -> Processor:
        return self.code.processor

    def choose(self) -> frozenset[WindowEdge]:
        """The windows that are better read in the kernel that makes what they are of."""
        pairs = find_pairs(self.storage, self.processor.near_bytes * SHARE_BETWEEN)
        if not pairs:
            return frozenset()
        trial = self.with_windows(frozenset(pair.edge for pair in pairs))
        ways = list(self._ways(pairs, trial))
        unknown = [w for w in ways if self._kept(w) is None]
        self.code.prepare([p for w in unknown for p in (*w.apart, w.joined)])
        return frozenset(w.edge for w in ways if self._is_better(w, trial))

    def _ways(self, pairs: list[WindowPair], trial: Storage) -> Iterator[_Ways]:
        """Those that there can be code of; sizes that code leaves open are for what was chosen with them given."""
        for pair in pairs:
            node = next(n for n in trial.graph.nodes if n.name == pair.edge[1])
            group = trial.partition.item_of(node) if isinstance(node, Fragment) else None
            if not isinstance(group, Group) or not group.has_windows:
                continue
            try:
                apart = self.prepare(self.storage, pair.first), self.prepare(self.storage, pair.second)
                joined = self.prepare(trial, group)
            except Exception as error:
                refused(error)
                continue
            if not any(p.sizes for p in (*apart, joined)):
                yield _Ways(pair.edge, apart, joined)

    def _is_better(self, ways: _Ways, trial: Storage) -> bool:
        kept = self._kept(ways)
        if kept is None:
            kept = self._find_out(ways, trial)
            default_store().put(self._key(ways), Artifact({"joined": kept}))
        return kept

    def _find_out(self, ways: _Ways, trial: Storage) -> bool:
        """By measuring, where the time model does not expect it to be much slower."""
        try:
            if self.code.expected(ways.joined) >= WORTH_MEASURING * sum(map(self.code.expected, ways.apart)):
                return False
            places = [(self.storage, p) for p in ways.apart] + [(trial, ways.joined)]
            kernels = [(at, self.code.load(p)) for at, p in places]
            samplers = [self.processor.measure_kernel(at.graph, at, kernel) for at, kernel in kernels]
        except Exception as error:  # no schedule: two kernels it is
            refused(error)
            return False
        first, second, joined = take_turns(samplers, self.processor.turns)
        return joined <= WORTH_JOINING * (first + second)

    def _kept(self, ways: _Ways) -> bool | None:
        """As this process or one before decided."""
        kept = default_store().get(self._key(ways))
        return bool(kept.metadata["joined"]) if kept is not None and "joined" in kept.metadata else None

    def _key(self, ways: _Ways) -> str:
        return cache_key("windows", *ways.joined.key, self.processor.key)

"""A program under way: variables, memory, and the faults seen so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.ir.buffer import Buffer
from weft.ir.expr import Expr, Load
from weft.ir.span import Span
from weft.ir.stmt import Store
from weft.sanitizer.findings import Finding, Kind, Party
from weft.sanitizer.lanes import Array, Lanes, iteration_of, one
from weft.sanitizer.memory import Memory, Site
from weft.sanitizer.run_expr import evaluate

_ACTS = {"read": "reads it", "write": "writes it", "atomic": "updates it"}


class Run:
    """Everything that a statement changes."""

    def __init__(self, depth: int, watched: frozenset[str], warps: bool) -> None:
        self.root = Lanes(None, np.zeros(1, np.int64))
        self.depth = depth
        self.watched = watched
        self.warps = warps
        self.variables: dict[str, tuple[Lanes, Array]] = {}
        self.memories: dict[str, Memory] = {}
        #: The serial loops around, innermost last: the lanes that run each, and which of them have left it.
        self.loops: list[tuple[Lanes, Array]] = []
        self.findings: dict[tuple[object, ...], Finding] = {}
        self.span: Span | None = None
        self.clock = 0
        self.threads = 0
        self.widest = 1
        self._forks = 0
        self._sites: dict[int, Site] = {}
        self._by_number: list[Site] = []
        self._nodes: list[object] = []  # keeps nodes alive: sites are found by identity

    def new_forks(self, count: int) -> Array:
        self._forks += count
        return np.arange(self._forks - count, self._forks)

    # Memory

    def allocate(self, buffer: Buffer, lanes: Lanes) -> Memory:
        shape = tuple(int(evaluate(e, lanes, self).max()) for e in buffer.shape)
        strides = None
        if buffer.strides is not None:
            strides = tuple(int(evaluate(e, lanes, self).max()) for e in buffer.strides)
        memory = Memory(buffer, lanes, shape, strides=strides)
        if buffer.name in self.watched:
            memory.watch(self.depth)
        self.memories[buffer.name] = memory
        return memory

    def load(self, e: Load, lanes: Lanes) -> Array:
        memory, site = self.memories[e.buffer.name], self.site(e, e.buffer, "read", e.span)
        part, flat = self.locate(memory, e.indices, lanes, site)
        values = np.zeros((), memory.data.dtype)
        if part is not None:
            self.note(memory, part, flat, site)
            self.check_written(memory, part, flat, site)
            values = np.asarray(memory.data[flat])
        if part is lanes:
            return values
        result = np.zeros(lanes.count, memory.data.dtype)
        if part is not None:
            result[part.place_in(lanes)] = values
        return result

    def store(self, s: Store, lanes: Lanes, value: Array) -> None:
        memory, site = self.memories[s.buffer.name], self.site(s, s.buffer, "write", s.span)
        part, flat = self.locate(memory, s.indices, lanes, site)
        if part is None:
            return
        self.note(memory, part, flat, site)
        memory.data[flat] = part.bring(value, lanes) if flat.ndim else one(part.bring(value, lanes), -1)
        if memory.written is not None:
            memory.written[flat] = True

    def locate(self, memory: Memory, indices: Sequence[Expr], lanes: Lanes, site: Site) -> tuple[Lanes | None, Array]:
        """The lanes whose subscripts are in range, and the position each means; the others are reported."""
        values = [evaluate(i, lanes, self) for i in indices]
        inside: Array = np.asarray(True)
        for value, size in zip(values, memory.shape):
            inside = inside & (value >= 0) & (value < size)
        if not inside.all():
            self._report_outside(memory, values, inside, lanes, site)
            chosen = np.nonzero(np.broadcast_to(inside, (lanes.count,)))[0]
            if not len(chosen):
                return None, inside
            subset = lanes.part(chosen)
            values = [subset.bring(v, lanes) for v in values]
        else:
            subset = lanes
        flat: Array = np.asarray(memory.start, np.int64)
        for value, step in zip(values, memory.steps):
            flat = flat + value * step
        if memory.home.count > 1:
            place = subset.place_in(memory.home)
            flat = flat + (np.arange(subset.count) if place is None else place) * memory.size
        return subset, np.asarray(flat)

    def note(self, memory: Memory, lanes: Lanes, flat: Array, site: Site) -> None:
        """Looks for an earlier access that nothing orders against this one, and remembers this one."""
        shadow = memory.shadow
        if shadow is None:
            return
        elements = np.broadcast_to(flat, (lanes.count,))
        outside = len(memory.home.levels)
        keys = lanes.keys(outside, self.clock)
        site.levels = tuple(x.level for x in lanes.levels if x.level is not None)
        for met in shadow.meetings(site.action, elements, keys):
            first = int(met.lanes[0])
            other = self._by_number[met.site]
            before = self._other_party(lanes, first, outside + met.level, met.key & 0xFFFFFFFF, other)
            at = int(elements[first])
            self._report_race(memory, at, before, self._party(lanes, first, site), len(met.lanes), (site, other))
        if site.action == "write":
            apart, others = shadow.doubles(elements)
            if len(apart):
                me, other_party = (self._party(lanes, int(p[0]), site) for p in (apart, others))
                at = int(elements[apart[0]])
                self._report_race(memory, at, me, other_party, len(apart), (site, site))
        shadow.record(site.action, elements, keys, site.number)

    # What is told

    def site(self, node: object, buffer: Buffer, action: str, span: Span | None) -> Site:
        kept = self._sites.get(id(node))
        if kept is None:
            kept = self._sites[id(node)] = Site(len(self._by_number), buffer, action, span or self.span)
            self._by_number.append(kept)
            self._nodes.append(node)
        return kept

    def report(self, key: tuple[object, ...], finding: Finding) -> None:
        """Adds a finding; one more of a kind and place already known only counts."""
        kept = self.findings.get(key)
        if kept is None:
            self.findings[key] = finding
        else:
            kept.count += finding.count

    def report_at(
        self,
        kind: Kind,
        what: str,
        lanes: Lanes,
        bad: Array,
        place: Site | Span | None,
        help: str | None = None,
    ) -> None:
        """A fault of the lanes at the positions ``bad``; of an access, those like it are counted together."""
        span = place.span if isinstance(place, Site) else place
        key = (kind, place.number) if isinstance(place, Site) else (kind, what, span)
        party = Party("is the first", lanes.describe(int(bad[0]), self.variables), span)
        self.report(key, Finding(kind, what, (party,), help, len(bad)))

    def _party(self, lanes: Lanes, lane: int, site: Site) -> Party:
        return Party(_ACTS[site.action], lanes.describe(lane, self.variables), site.span)

    def _other_party(self, lanes: Lanes, lane: int, level: int, number: int, site: Site) -> Party:
        """An earlier access: by the same iteration of the loops outside ``level``, and another of that one."""
        outer = lanes.describe(lane, self.variables, level)
        own = [iteration_of(x, number) for x in site.levels[level : level + 1] if x.names]
        return Party(_ACTS[site.action], ", ".join([t for t in (outer, *own) if t]), site.span)

    def _report_race(
        self, memory: Memory, at: int, first: Party, second: Party, count: int, sites: tuple[Site, Site]
    ) -> None:
        help = None
        if memory.buffer.scope == "shared":
            help = "put a barrier between the two"
        elif sites[0].action == "write" and sites[1].action == "write":
            help = "let one thread write each element, or use an atomic"
        what = f"nothing orders two accesses of `{memory.element(at)}`"
        key = ("race", *sorted(s.number for s in sites))
        self.report(key, Finding("race", what, (first, second), help, count))

    def _report_outside(self, memory: Memory, values: Sequence[Array], inside: Array, lanes: Lanes, site: Site) -> None:
        bad = np.nonzero(~np.broadcast_to(inside, (lanes.count,)))[0]
        indices = [int(one(v, int(bad[0]))) for v in values]
        name = memory.buffer.name
        verb = {"read": "read", "write": "written", "atomic": "updated"}[site.action]
        what = f"`{name}[{', '.join(map(str, indices))}]` is {verb}, but `{name}` is {list(memory.shape)}"
        self.report_at("out of bounds", what, lanes, bad, site)

    def check_written(self, memory: Memory, lanes: Lanes, flat: Array, site: Site) -> None:
        if memory.written is None or (fresh := memory.written[flat]).all():
            return
        bad = np.nonzero(~np.broadcast_to(fresh, (lanes.count,)))[0]
        what = f"`{memory.element(int(one(flat, int(bad[0]))))}` is read, and nothing has written it"
        help = "shared memory starts with whatever was there" if memory.buffer.scope == "shared" else None
        self.report_at("uninitialized", what, lanes, bad, site, help)

    def outputs(self, names: Sequence[str]) -> Mapping[str, Array]:
        return {name: self.memories[name].data.reshape(self.memories[name].shape) for name in names}

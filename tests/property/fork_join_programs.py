"""Random fork-join GPU programs: blocks with storage of their own, thread nests of several shapes, one after another.

Every element is written before it is read; a nest writes elements by subscripts that no two of its threads share, so
that most programs are free of races; the interpreter sorts out the others.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

#: Threads of a block, as one loop or as several.
SHAPES: dict[int, list[tuple[int, ...]]] = {
    8: [(8,), (2, 4), (4, 2), (2, 2, 2)],
    12: [(12,), (3, 4), (2, 6)],
    64: [(64,), (2, 32), (8, 8), (4, 4, 4)],
    40: [(40,), (5, 8)],
}
BLOCKS = 2


@dataclass
class Writer:
    random: random.Random
    total: int
    shapes: list[tuple[int, ...]]
    buffers: dict[str, tuple[int, ...]] = field(default_factory=dict)
    scopes: dict[str, str] = field(default_factory=dict)
    names: int = 0
    #: Variables of the block, which change.
    variables: list[str] = field(default_factory=list)

    def fresh(self, base: str) -> str:
        self.names += 1
        return f"{base}{self.names}"

    def pick(self, options: list[object]) -> object:
        return self.random.choice(options)

    # Expressions

    def number(self, loops: list[tuple[str, int]]) -> tuple[str, int]:
        """The number of an iteration of ``loops``, and how many there are."""
        text, count = "0", 1
        for name, extent in loops:
            text, count = (name, extent) if count == 1 else (f"({text}) * {extent} + {name}", count * extent)
        return text, count

    def subscript(self, buffer: str, number: str, count: int) -> list[str]:
        """The element of ``buffer`` with a number below ``count``, which its size divides or exceeds."""
        shape = self.buffers[buffer]
        found: list[str] = []
        for size in reversed(shape):
            below = count <= size
            found.insert(0, number if below else f"({number}) % {size}")
            number, count = ("0", 1) if below else (f"({number}) // {size}", -(-count // size))
        return found

    def element(self, buffer: str, loops: list[tuple[str, int]], *, wander: bool) -> str:
        """An element of ``buffer`` for each iteration; ``wander``ing ones may be those of other iterations."""
        size = self.size(buffer)
        number, count = self.number(loops)
        if wander and loops and self.random.random() < 0.5:
            way = self.random.randrange(3)
            shift = self.random.randrange(1, size) if size > 1 else 0
            number = (f"({number}) + {shift}", f"{size - 1} - (({number}) % {size})", f"({number}) * 3")[way]
            number, count = f"({number}) % {size}", size
        elif count > size:
            number, count = f"({number}) % {size}", size
        return f"{buffer}[{', '.join(self.subscript(buffer, number, count))}]"

    def size(self, buffer: str) -> int:
        count = 1
        for n in self.buffers[buffer]:
            count *= n
        return count

    def value(self, loops: list[tuple[str, int]], ready: list[str]) -> str:
        parts = [f"int32({self.number(loops)[0]})" if loops else f"{self.random.randrange(9)}_i32"]
        for _ in range(self.random.randrange(1, 3)):
            if ready:
                parts.append(self.element(self.random.choice(ready), loops, wander=True))
        parts += [name for name in self.variables if self.random.random() < 0.5]
        return f" {self.random.choice('+-')} ".join(parts)

    # Statements

    def nest(self, shape: tuple[int, ...], body: list[str], names: list[str]) -> list[str]:
        for name, extent in reversed(list(zip(names, shape))):
            body = [f"thread {name} in 0:{extent} {{", *("  " + line for line in body), "}"]
        return body

    def loop(self, name: str, extent: int, body: list[str]) -> list[str]:
        kind = self.random.choice(["for", "for", "unroll"])
        return [f"{kind} {name} in 0:{extent} {{", *("  " + line for line in body), "}"]

    def threads(self, shape: tuple[int, ...]) -> list[tuple[str, int]]:
        return [(self.fresh("t"), n) for n in shape]

    def fill(self, buffer: str, ready: list[str]) -> list[str]:
        """All elements of ``buffer`` written, by a nest or by the block."""
        size = self.size(buffer)
        if self.random.random() < 0.15 or size < 4:
            loop = [(self.fresh("i"), size)]
            line = f"{self.element(buffer, loop, wander=False)} = {self.value(loop, ready)}"
            return [f"for {loop[0][0]} in 0:{size} {{", f"  {line}", "}"]
        shape = self.random.choice([s for s in self.shapes if self.count(s) <= self.total])
        threads = self.threads(shape)
        times = -(-size // self.count(shape))
        loops = (
            [(self.fresh("c"), times), *threads] if self.random.random() < 0.5 else [*threads, (self.fresh("c"), times)]
        )
        chunk = next(loop for loop in loops if loop[0].startswith("c"))
        number, count = self.number(loops)
        where = ", ".join(self.subscript(buffer, f"({number}) % {size}" if count > size else number, min(count, size)))
        line = f"{buffer}[{where}] = {self.value(loops, ready)}"
        body = [line] if count == size else [f"if {number} < {size} {{", f"  {line}", "}"]
        return self.nest(shape, self.loop(chunk[0], times, body), [name for name, _ in threads])

    def count(self, shape: tuple[int, ...]) -> int:
        total = 1
        for n in shape:
            total *= n
        return total

    def update(self, ready: list[str]) -> list[str]:
        """Some elements of a buffer changed by a nest, perhaps only of some threads."""
        buffer = self.random.choice(ready)
        shape = self.random.choice(self.shapes)
        if self.count(shape) > self.size(buffer):
            return self.fill(buffer, [b for b in ready if b != buffer])
        threads = self.threads(shape)
        others = [b for b in ready if b != buffer]
        place = self.element(buffer, threads, wander=False)
        line = f"{place} = {place} + {self.value(threads, others)}"
        body = [line]
        if self.random.random() < 0.3:
            test = self.random.choice([f"{threads[-1][0]} < {threads[-1][1] - 1}", f"{threads[0][0]} == 0"])
            body = [f"if {test} {{", f"  {line}", "}"]
        return self.nest(shape, body, [name for name, _ in threads])

    def reduce(self, ready: list[str]) -> list[str]:
        """A reduction over a buffer, by the block or by some of its threads."""
        source, target = self.random.choice(ready), self.random.choice(ready)
        if source == target:
            return self.update(ready)
        op = self.random.choice(["max({}, {})", "min({}, {})", "{} + {}"])
        shape = self.buffers[source]
        rows = list(shape[:-1]) if self.random.random() < 0.7 else []
        if self.count(tuple(rows)) > self.size(target):
            rows = []
        outer = [(self.fresh("r"), n) for n in rows]
        inner = [(self.fresh("j"), n) for n in shape[len(rows) :]]
        place = self.element(target, outer, wander=False)
        value = f"{source}[{', '.join(name for name, _ in (*outer, *inner))}]"
        body = [f"{place} = {op.format(place, value)}"]
        for name, n in reversed(inner):
            body = [f"for {name} in 0:{n} {{", *("  " + line for line in body), "}"]
        return self.nest(tuple(rows), body, [name for name, _ in outer]) if rows else body

    def uneven(self, ready: list[str]) -> list[str]:
        """A thread loop with statements of its own around another thread loop."""
        shape = self.random.choice([s for s in self.shapes if len(s) > 1])
        outer, inner = self.threads(shape[:1]), self.threads(shape[1:])
        own = self.fresh("own")
        source = self.random.choice(ready)
        target = self.random.choice([b for b in ready if b != source] or ready)
        if target == source or self.count(shape) > self.size(target):
            return self.update(ready)
        self.buffers[own] = shape[1:]
        names = [n for n, _ in inner]
        line = f"{own}[{', '.join(names)}] = {self.value([*outer, *inner], [source])}"
        first = self.nest(shape[1:], [line], names)
        place = self.element(target, [*outer, *inner], wander=False)
        second = self.nest(shape[1:], [f"{place} = {self.element(own, inner, wander=True)}"], names)
        del self.buffers[own]
        body = [f"alloc {own}: int32[{', '.join(map(str, shape[1:]))}]", *first, *second]
        return self.nest(shape[:1], body, [n for n, _ in outer])

    def partial(self, ready: list[str]) -> list[str]:
        """Each thread reduces some elements, then the threads together: rows, or all of them."""
        source, target = self.random.choice(ready), self.random.choice(ready)
        shape = self.random.choice(self.shapes)
        rows = self.random.randrange(len(shape))
        if source == target or self.count(shape[:rows]) > self.size(target):
            return self.update(ready)
        part, threads, chunk = self.fresh("part"), self.threads(shape), self.fresh("c")
        op, zero = self.random.choice([("max({}, {})", "-99_i32"), ("min({}, {})", "99_i32"), ("{} + {}", "0_i32")])
        names = [name for name, _ in threads]
        own = f"{part}[{', '.join(names)}]"
        value = self.element(source, [(chunk, 2), *threads], wander=True)
        lines = [f"{own} = {zero}", *self.loop(chunk, 2, [f"{own} = {op.format(own, value)}"])]
        first = self.nest(shape, lines, names)
        outer = self.threads(shape[:rows])
        inner = [(self.fresh("j"), n) for n in shape[rows:]]
        place = self.element(target, outer, wander=False)
        every = f"{part}[{', '.join(name for name, _ in (*outer, *inner))}]"
        body = [f"{place} = {op.format(place, every)}"]
        for name, n in reversed(inner):
            body = [f"for {name} in 0:{n} {{", *("  " + line for line in body), "}"]
        if outer and self.random.random() < 0.3:
            body = [f"if {outer[0][0]} < {max(1, outer[0][1] - 1)} {{", *("  " + line for line in body), "}"]
        start = [f"{place} = {zero}"] if self.random.random() < 0.6 else []
        second = self.nest(shape[:rows], [*start, *body], [name for name, _ in outer]) if outer else [*start, *body]
        return [
            "seq {",
            f"  alloc {part}: int32[{', '.join(map(str, shape))}]",
            *("  " + t for t in (*first, *second)),
            "}",
        ]

    def shifted(self, ready: list[str]) -> list[str]:
        """Threads that count from elsewhere, to an end that the block or a loop says, with an array of their own."""
        target = self.random.choice(ready)
        if len(self.buffers[target]) != 1 or self.size(target) < 4:
            return self.update(ready)
        name, own, k = self.fresh("t"), self.fresh("own"), self.fresh("k")
        most = min(self.size(target), self.total)
        end = self.random.choice([f"{most}", f"{most} - b", f"min({most}, {k} + 2)"])
        value = self.element(self.random.choice(ready), [(k, 2)], wander=False)
        scope = self.random.choice(["", " in local", " in register"])
        body = [
            f"alloc {own}: int32[2]{scope}",
            f"{own}[0] = {target}[{name}]",
            f"{own}[1] = int32({name})" if target in value else f"{own}[1] = {value}",
            f"{target}[{name}] = {own}[0] + {own}[1]",
        ]
        return [f"for {k} in 0:2 {{", f"  thread {name} in 1:{end} {{", *("    " + line for line in body), "  }", "}"]

    def counted(self, ready: list[str]) -> list[str]:
        """Threads add to elements that they share, or the block counts in a variable while threads work."""
        target = self.random.choice(ready)
        others = [b for b in ready if b != target]
        threads = self.threads(self.random.choice(self.shapes))
        names = [name for name, _ in threads]
        if self.random.random() < 0.5:
            place = self.element(target, threads, wander=True)
            return self.nest(tuple(n for _, n in threads), [f"atomic {place} += {self.value(threads, others)}"], names)
        count = self.fresh("n")
        self.variables.append(count)
        inner = [*self.update(ready), f"{count} = {count} + 1_i32", *self.update(ready)]
        self.variables.remove(count)
        return ["seq {", f"  let {count}: int32 = 0_i32", f"  while {count} < 2_i32 {{",
                *("    " + line for line in inner), "  }", "}"]  # fmt: skip

    def statement(self, ready: list[str], depth: int) -> list[str]:
        roll = self.random.random()
        if roll < 0.2 and depth < 2:
            name = self.fresh("k")
            body = [line for _ in range(self.random.randrange(1, 3)) for line in self.statement(ready, depth + 1)]
            return [f"for {name} in 0:{self.random.randrange(2, 4)} {{", *("  " + line for line in body), "}"]
        if roll < 0.28 and depth < 2:
            body = self.statement(ready, depth + 1)
            return [f"if A[b] < {self.random.randrange(5)}_i32 {{", *("  " + line for line in body), "}"]
        kinds = [
            self.update,
            self.update,
            self.reduce,
            self.partial,
            self.partial,
            self.uneven,
            self.shifted,
            self.counted,
        ]
        if roll > 0.85:
            return self.fill(self.random.choice(ready), list(ready))
        return self.random.choice(kinds)(ready)


def fork_join_program(seed: int) -> str:
    """The text of a program with input ``A`` and output ``B``."""
    rng = random.Random(seed)
    total = rng.choice(list(SHAPES))
    writer = Writer(rng, total, [*SHAPES[total], *([(rng.choice([2, 4]),)] if rng.random() < 0.4 else [])])
    shapes = [(total,), (total * 2,), rng.choice(SHAPES[total]), (rng.choice(SHAPES[total])[0],), (1,), (3,)]
    for _ in range(rng.randrange(2, 5)):
        writer.buffers[writer.fresh("s")] = rng.choice(shapes)
    names = list(writer.buffers)
    lines: list[str] = []
    for name in names:
        scope = " in shared" if rng.random() < 0.25 else ""
        lines.append(f"alloc {name}: int32[{', '.join(map(str, writer.buffers[name]))}]{scope}")
    for place, name in enumerate(names):
        lines += writer.fill(name, names[:place])
    for _ in range(rng.randrange(1, 6)):
        lines += writer.statement(names, 0)
    offset = 0
    for name in names:
        size = writer.size(name)
        loop = [(writer.fresh("o"), size)]
        line = f"B[b, {offset} + {loop[0][0]}] = {writer.element(name, loop, wander=False)}"
        kind = "thread" if size <= total else "for"
        lines += [f"{kind} {loop[0][0]} in 0:{size} {{", f"  {line}", "}"]
        offset += size
    body = "\n".join("    " + line for line in lines)
    head = f"kernel p(A: int32[{BLOCKS}], out B: int32[{BLOCKS}, {offset}])"
    return f"{head} {{\n  block b in 0:{BLOCKS} {{\n{body}\n  }}\n}}\n"

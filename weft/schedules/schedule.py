"""`Schedule`: a loop program and the rewrites applied to it, each proved not to change the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.ir.at_the_call import methods_told_at_the_call
from weft.ir.errors import Error, ScheduleError, did_you_mean
from weft.ir.numerics import NUMERICS
from weft.ir.shown import as_html
from weft.ir.stmt import Kernel
from weft.schedules.data_methods import DataMethods
from weft.schedules.find import all_allocs, blocks_inside, find_block, loops_around
from weft.schedules.finished import find_finished
from weft.schedules.handles import AnyBlock, AnyLoop, BlockRef, BufferRef, Loop
from weft.schedules.loop_methods import LoopMethods
from weft.schedules.outline import outline
from weft.schedules.rewrite import PRIMITIVES
from weft.schedules.state import Machine, located
from weft.schedules.trace import Step, Trace, parse_trace


@methods_told_at_the_call
class Schedule(LoopMethods, DataMethods):
    """A program under way.

    >>> s = Schedule(kernel)
    >>> m, n, k = s.loops("C")
    >>> mo, mi = s.split(m, 14)
    >>> s.reorder(mo, n, k, mi)
    >>> print(s)                      # the loop nest now; s.kernel is the whole program
    >>> print(s.trace)                # the steps so far; s2.apply(s.trace) does them again
    """

    #: Loops that are to stay as they are: the steps of recurrences, for a scheduler of the nests in them.
    settled: frozenset[str] = frozenset()

    def _repr_html_(self) -> str:
        return as_html(str(self))

    def __str__(self) -> str:
        return outline(self.kernel)

    def blocks(self) -> list[BlockRef]:
        """Every block, in program order."""
        return [self.handle(BlockRef, b.name) for b in blocks_inside(self.kernel)]

    def buffers(self) -> list[BufferRef]:
        """Parameters, then temporaries."""
        names = [b.name for b in self.kernel.buffers] + [a.buffer.name for a in all_allocs(self.kernel)]
        return [self.handle(BufferRef, name) for name in names]

    def loops(self, block: AnyBlock) -> list[Loop]:
        """The loops around ``block``, outermost first, without those of ``settled``."""
        name = self.name(block)
        try:
            block_node = find_block(self.kernel, name)
        except ScheduleError as error:
            raise located(error) from None
        around = [loop.var.name for loop in loops_around(self.kernel, block_node)]
        return [self.handle(Loop, loop) for loop in around if loop not in self.settled]

    def loop(self, name: AnyLoop) -> Loop:
        """The loop of that name."""
        return self.handle(Loop, self.name(name))

    def apply(self, trace: Trace | str) -> None:
        """Does every step of ``trace``, each checked on this program; all of them or, with an error, none."""
        steps = parse_trace(trace) if isinstance(trace, str) else trace
        if not isinstance(steps, Trace):
            raise located(ScheduleError(f"{trace!r} is not a trace", help="pass the trace of a schedule, or its text"))
        if NUMERICS.index(steps.numerics) > NUMERICS.index(self.numerics):
            liberty = "add in another order" if self.numerics == "strict" else "round what is multiplied"
            raise located(
                ScheduleError(
                    f"the trace was made for {steps.numerics} numerics",
                    why=f'it may {liberty}, which numerics="{self.numerics}" forbids',
                    help=f'schedule with numerics="{steps.numerics}"',
                )
            )
        known = None if self.trace.steps else find_finished(self, steps)
        if known is not None:
            self.kernel, self.trace = known.kernel, known.trace
            self._fates, self._born = dict(known._fates), dict(known._born)
            return
        twin = self.copy()
        for _ in twin.replayed(steps):
            pass
        self.__dict__.update(twin.__dict__)

    def replayed(self, trace: Trace) -> Iterator[Step]:
        """Does the steps of ``trace`` one by one, each given back when it is done."""
        names: dict[str, str] = {}
        before = self.kernel
        for position, step in enumerate(trace):
            try:
                self._replay(step, names)
            except ScheduleError as error:
                raise misfit(trace, position, error, before) from None
            yield step

    def _replay(self, step: Step, names: dict[str, str]) -> None:
        """One step; ``names`` maps what its trace calls things to what they are called here."""
        if step.name not in PRIMITIVES:
            raise ScheduleError(f"there is no primitive `{step.name}`", help=did_you_mean(step.name, PRIMITIVES))
        here = step.renamed(names)
        try:
            getattr(self, step.name)(*here.args, **dict(here.kwargs))
        except Error:
            raise
        except TypeError as error:
            raise ScheduleError(
                f"`{step.name}` does not take these arguments", why=str(error).rpartition(".")[2]
            ) from None
        # Fewer may be made here than there: a loop for the rest, say, where nothing is left over.
        names.update(zip(step.made, self.trace.steps[-1].made))


def replay(
    kernel: Kernel, trace: Trace, machine: Machine | None = None, sizes: Mapping[str, int] | None = None
) -> Kernel:
    """``kernel`` scheduled by ``trace``."""
    schedule = Schedule(kernel, numerics=trace.numerics, machine=machine, sizes=sizes)
    schedule.apply(trace)
    return schedule.kernel


def misfit(trace: Trace, position: int, error: ScheduleError, kernel: Kernel) -> ScheduleError:
    """The error for a trace whose step ``position`` cannot be done on ``kernel``."""
    why = error.what if error.why is None else f"{error.what}: {error.why}"
    return ScheduleError(
        f"step {position + 1} of the trace does not fit kernel `{kernel.name}`",
        span=trace.span(position),
        why=why,
        help=error.help,
        notes=error.notes,
    )

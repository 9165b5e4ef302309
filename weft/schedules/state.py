"""What a schedule is between two steps: the program now, the trace so far, and what became of old names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from weft.ir.errors import ScheduleError
from weft.ir.numerics import CHOICES, NUMERICS
from weft.ir.stmt import Kernel, Stmt
from weft.ir.verify import verify
from weft.ir.visit import fact
from weft.poly.verdict import Verdict
from weft.schedules.alternate import check_alternates
from weft.schedules.find import listed
from weft.schedules.focus import find_focus
from weft.schedules.handles import BlockRef, BufferRef, Handle, Loop
from weft.schedules.pipeline import check_runs_ahead
from weft.schedules.rewrite import PRIMITIVES, Primitive, Rewrite, unique_names
from weft.schedules.tensorize import check_tensorized
from weft.schedules.trace import Form, Numerics, Step, Trace, parse_trace
from weft.tensor.caller import caller_span

P = ParamSpec("P")
H = TypeVar("H", bound=Handle)
S = TypeVar("S", bound="ScheduleState")

#: An alternative that is a step on this schedule, perhaps to be done first or under freer numerics.
_OFFER = re.compile(r's\.(?P<step>\w+\(.*\))( first)?(?P<fast> with numerics="fast")?')


class Machine(Protocol):
    """What primitives ask about the machine a schedule is for."""

    @property
    def caches(self) -> Mapping[str, int]: ...

    def lanes(self, bits: int) -> int: ...


class ScheduleState:
    """A program under way; the primitives are methods of the classes that build on this one.

    ``sizes`` are the values of symbolic sizes that are numbers in ``kernel``, for conditions that name them; ``form``
    says which form of its program ``kernel`` is.
    """

    def __init__(
        self,
        kernel: Kernel,
        *,
        numerics: Numerics = "strict",
        machine: Machine | None = None,
        sizes: Mapping[str, int] | None = None,
        form: Form = "written",
    ) -> None:
        if numerics not in NUMERICS:
            raise ScheduleError(f"numerics={numerics!r} is not known", help=f"use {CHOICES}")
        verify(kernel)
        self.kernel = self.start = unique_names(kernel)
        self.machine = machine
        self.sizes = dict(sizes or {})
        self.trace = Trace((), numerics, form)
        self._fates: dict[str, str] = {}
        self._born: dict[str, int] = {}
        self._trying = False

    def copy(self: S) -> S:
        """A schedule in the same state that goes its own way from here."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, _fates=dict(self._fates), _born=dict(self._born))
        return twin

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Steps that are taken together or not at all, and quickly refused: the error gives the reason alone.

        >>> try:
        ...     with s.attempt():
        ...         s.vectorize(n, 16)
        ...         s.parallel(m)
        ... except ScheduleError:
        ...     ...                       # neither is done; nothing else was tried to offer it instead
        """
        before = dict(self.__dict__, _fates=dict(self._fates), _born=dict(self._born))
        self._trying = True
        try:
            yield
        except ScheduleError:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        self._trying = before["_trying"]

    @contextmanager
    def focus(self, block: Handle | str) -> Iterator[None]:
        """Steps on loops of the nest of ``block`` that look at it alone, as if the nests beside it were not there.

        The program that comes out, and the trace, are those of the same steps without it, which take more time. Where
        one is refused, none is taken.
        """
        found = find_focus(self.kernel, self.name(block))
        if found is None:
            yield
            return
        before = dict(self.__dict__, _fates=dict(self._fates), _born=dict(self._born))
        self.kernel = found.alone
        try:
            yield
            self.kernel = found.put_back(self.kernel)
            if self.kernel is not found.whole:
                _refuse_broken(self.trace.steps[-1], self.kernel, self.numerics)
        except BaseException as error:
            self.__dict__.update(before)
            if isinstance(error, ScheduleError) and not self._trying:
                raise located(error) from None
            raise

    @property
    def numerics(self) -> Numerics:
        return self.trace.numerics

    def run(
        self, rewrite: Callable[Concatenate[Kernel, P], Rewrite], *args: P.args, **kwargs: P.kwargs
    ) -> tuple[str, ...]:
        """One step by the primitive ``rewrite``; gives the names it made.

        Arguments are plain: names (see `name`), numbers, texts.
        """
        return self.take(Step(rewrite.__name__, args, tuple(kwargs.items())), PRIMITIVES[rewrite.__name__])

    def take(self, step: Step, primitive: Primitive) -> tuple[str, ...]:
        """Asks the check of ``primitive``, does its rewrite, and writes it down as ``step``."""
        kwargs = dict(step.kwargs)
        try:
            verdict = primitive.check(self.kernel, *step.args, numerics=self.numerics, **kwargs)
            if not verdict.ok:
                raise refused(step, verdict, () if self._trying else self._accepted(verdict.alternatives))
            done = primitive.rewrite(self.kernel, *step.args, **kwargs)
            _refuse_broken(step, done.kernel, self.numerics)
        except ScheduleError as error:
            if self._trying:
                raise
            raise located(error) from None
        self._record(step, done)
        return done.made

    def _accepted(self, offers: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the steps a refusal offers that are legal here, found by trying."""
        return tuple(offer for offer in offers if self._accepts(offer))

    def _accepts(self, offer: str) -> bool:
        match = _OFFER.fullmatch(offer)
        if match is None or "..." in offer:
            return True  # advice, not a step
        twin = self.copy()
        twin._trying = True
        twin.trace = replace(self.trace, numerics="fast" if match["fast"] else self.numerics)
        (step,) = parse_trace(match["step"])
        try:
            getattr(twin, step.name)(*step.args, **dict(step.kwargs))
        except ScheduleError:
            return False
        return True

    def _record(self, step: Step, done: Rewrite) -> None:
        before, after = bound_here(self.kernel), bound_here(done.kernel)
        self.kernel = done.kernel
        self.trace = self.trace.then(Step(step.name, step.args, step.kwargs, done.made))
        number = len(self.trace)
        lost, new = before - after, after - before
        if lost:
            self._fates |= dict.fromkeys(lost, f"is gone since step {number}, {step}")
        self._fates |= done.fates
        for name in new.union(done.made) & after:
            self._born[name] = number
        for name in new.union(done.fates) & after:
            self._fates.pop(name, None)

    def name(self, handle: Handle | str) -> str:
        """The name a handle stands for; one whose loop, block or buffer is gone is an error that says so."""
        if isinstance(handle, str):
            if handle in self._fates:
                raise located(gone("", handle, self._fates[handle]))
            return handle
        if not isinstance(handle, Handle):
            raise located(ScheduleError(f"{handle!r} is neither a handle nor a name"))
        what = {Loop: "loop ", BlockRef: "block ", BufferRef: "buffer "}.get(type(handle), "")
        if handle.name in self._fates:
            raise located(gone(what, handle.name, self._fates[handle.name]))
        if self._born.get(handle.name, 0) != handle.step:
            raise located(gone(what, handle.name, "is gone; a later step made another of that name"))
        return handle.name

    def names(self, handles: tuple[Handle | str, ...]) -> tuple[str, ...]:
        return tuple(map(self.name, handles))

    def handle(self, kind: type[H], name: str) -> H:
        """The handle of something there now."""
        return kind(name, self._born.get(name, 0))


def _refuse_broken(step: Step, kernel: Kernel, numerics: Numerics) -> None:
    """An error where ``step``, which made ``kernel``, left something not what an earlier step said it is."""
    for check_kept in (check_tensorized, check_runs_ahead, partial(check_alternates, numerics=numerics)):
        verdict = check_kept(kernel)
        if not verdict.ok:
            raise refused(step, verdict, verdict.alternatives)


def bound_here(kernel: Kernel) -> frozenset[str]:
    """The names of loops, blocks and buffers."""
    return _bound_in(kernel.body).union([p.name for p in kernel.params])


@fact
def _bound_in(body: Stmt) -> frozenset[str]:
    here = listed(body)
    loops, buffers = [loop.var.name for loop in here.loops], [a.buffer.name for a in here.allocs]
    return frozenset([*loops, *buffers, *(b.name for b in here.blocks)])


def gone(what: str, name: str, fate: str) -> ScheduleError:
    return ScheduleError(f"{what}`{name}` is no longer there", why=f"`{name}` {fate}")


def refused(step: Step, verdict: Verdict, offers: tuple[str, ...]) -> ScheduleError:
    legal = ", ".join(offers)
    error = ScheduleError(
        PRIMITIVES[step.name].refuse(step.args), why=verdict.reason, notes=[("legal", legal)] if legal else ()
    )
    error.witness, error.kind = verdict.witness, verdict.kind
    return error


def located(error: ScheduleError) -> ScheduleError:
    """``error`` with the user's line of Python, where it does not say where it is yet."""
    if error.span is not None:
        return error
    placed = ScheduleError(error.what, span=caller_span(), why=error.why, help=error.help, notes=error.notes)
    placed.witness, placed.kind = error.witness, error.kind
    return placed

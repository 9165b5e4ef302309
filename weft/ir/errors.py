"""Every error a user of Weft can meet, and how its message is laid out.

What Python has an error for is one of that kind too: wrong arguments are a `ValueError` and a `TypeError`.

A message says where, what, why, and what would work::

    error: unknown range of index variable `j`
      mm.weft:3       C(i,j) = A(i)
                        ^
      why:   no access with a known size mentions `j`
      help:  add `where j in 0:N`
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.ir.span import Span


class Error(Exception):
    """The base of all errors Weft raises on purpose.

    ``what`` is one line; ``why`` and ``help`` are sentences; ``notes`` are further
    ``label: text`` lines (``legal: s.parallel("i")``) shown in the order given.
    """

    def __init__(
        self,
        what: str,
        *,
        span: Span | None = None,
        why: str | None = None,
        help: str | None = None,
        notes: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.what = what
        self.span = span
        self.why = why
        self.help = help
        self.notes = tuple(notes)
        super().__init__(self.render())

    def render(self) -> str:
        """The full message."""
        return _render(f"error: {self.what}", self.span, [("why", self.why), ("help", self.help), *self.notes])

    def __str__(self) -> str:
        return self.render()

    def _render_traceback_(self) -> list[str]:
        """What IPython shows."""
        from weft.ir.at_the_call import lines_for_notebooks

        return lines_for_notebooks(self)


class LanguageError(Error, ValueError):
    """The source text is not a program: syntax, names, types, ranges."""


class ShapeError(Error, ValueError):
    """Sizes, ranks, strides or indices do not fit: at definition or at the call."""


class IndexOutOfRange(ShapeError, IndexError):
    """An index that data give lies outside the dimension that is looked up."""


class ArgumentError(Error, ValueError, TypeError):
    """An argument of a call is of the wrong type, device, layout or count."""


class ScheduleError(Error):
    """A schedule rewrite would change the result; ``witness`` is the pair of iterations that shows it, if any.

    ``kind`` says of what kind the reason is (see `weft.poly.verdict.Kind`).
    """

    witness: object | None = None
    kind: str = "structure"


class UnsupportedError(Error):
    """Legal, but not available; lists everything that is missing at once."""


class TargetError(Error):
    """The machine or its toolchain cannot do what was asked."""


class ProgramError(Error):
    """A loop program did something it must not: the interpreter's and the verifier's findings."""


class OutOfBounds(ProgramError, IndexError):
    """An index outside its dimension, found while interpreting."""


class UninitializedRead(ProgramError):
    """A read of memory that nothing has written, found while interpreting."""


class DataRace(ProgramError):
    """Two concurrent iterations touch one element, one of them writing, with nothing to order them."""


class DivergentBarrier(ProgramError):
    """A barrier that some threads wait at and others never reach."""


class InternalError(Error):
    """A fault of Weft itself; ``reproduction`` names the file that shows it again."""

    reproduction: str | None = None


class Warning(UserWarning):
    """A program that is run as it stands and was perhaps not meant so; `weft.ir.remark.REMARKS` has every ``name``.

    Off by name: ``# allow NAME`` in the text, or ``warnings.filterwarnings("ignore", ".*NAME", weft.Warning)``.
    """

    def __init__(self, name: str, what: str, span: Span | None, why: str, help: str) -> None:
        self.name = name
        self.what = what
        self.span = span
        self.why = why
        self.help = help
        notes = [("why", why), ("help", help), ("off", f"`# allow {name}` on this line")]
        super().__init__(_render(f"{what} [{name}]", span, notes))


def _render(head: str, span: Span | None, notes: Iterable[tuple[str, str | None]]) -> str:
    lines = [head, *(render_span(span) if span is not None else ())]
    lines += [f"  {label + ':':<7}{text}" for label, text in notes if text]
    return printable("\n".join(lines))


def printable(text: str) -> str:
    """``text``, in which names of others may be, without what a terminal takes for orders."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


#: Longer source lines are shown in part, around the caret.
_SHOWN = 160


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """A question that offers the names in ``candidates`` closest to ``name``; None where none is close."""
    import difflib  # only mistakes need it

    close = difflib.get_close_matches(name, list(candidates), n=3)
    return "did you mean " + " or ".join(f"`{c}`" for c in close) + "?" if close else None


def render_span(span: Span) -> list[str]:
    """The source line with a caret under the stretch that ``span`` names."""
    text = span.source.line(span.line)
    if not text.strip():
        return [f"  {span}"]
    start = len(text) - len(text.lstrip())
    if len(text) - start > _SHOWN:
        start = max(start, min(span.column - 1 - _SHOWN // 4, len(text) - _SHOWN))
    shown = "".join(c if c.isprintable() else " " for c in text[start : start + _SHOWN].rstrip())
    lead = f"  {span!s:<14}  "
    offset = max(0, span.column - 1 - start)
    width = max(1, min(span.end, len(text) + 1, start + _SHOWN + 1) - span.column)
    return [lead + shown, " " * (len(lead) + offset) + "^" * width]

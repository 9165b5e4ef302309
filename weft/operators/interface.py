"""What a caller sees of an operator: enough to check a call without reading the program.

An interface is plain data that goes to JSON and back, so that a warm start from the
artifact store needs no parser. The records are named tuples here and in the modules a call goes
through: importing weft makes them, and a frozen dataclass takes most of a millisecond to make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from weft.ir.remark import Remark
from weft.ir.span import Source, Span

Role = Literal["tensor", "scalar", "constant"]
#: Where something stands in the source: line, column, end of a `Span`.
Place: TypeAlias = "tuple[int, int, int]"


def place_of(span: Span | None) -> Place | None:
    return None if span is None else (span.line, span.column, span.end)


class Parameter(NamedTuple):
    """A parameter of a call; ``dims`` holds size names and numbers, ``place`` is where it is declared."""

    name: str
    role: Role
    dtype: str
    dims: tuple[str | int, ...] = ()
    place: Place | None = None

    def __str__(self) -> str:
        dims = f"({','.join(map(str, self.dims))})" if self.role == "tensor" else ""
        return f"{self.dtype}{dims} {self.name}"


class Output(NamedTuple):
    """An output; ``needed`` where a call must pass it in, because its old value is read."""

    name: str
    dtype: str
    needed: bool = False
    place: Place | None = None


class Interface(NamedTuple):
    name: str
    params: tuple[Parameter, ...]
    outputs: tuple[Output, ...]
    source: Source | None = None
    #: what the program says that is perhaps not meant, whatever the sizes are
    remarks: tuple[Remark, ...] = ()

    def __str__(self) -> str:
        params = ", ".join(map(str, self.params))
        return f"{self.name}({params}) -> ({', '.join(o.name for o in self.outputs)})"

    def span(self, place: Place | None) -> Span | None:
        if self.source is None or place is None:
            return None
        return Span(self.source, *place)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "params": [p._asdict() for p in self.params],
            "outputs": [o._asdict() for o in self.outputs],
            "remarks": remarks_to_json(self.remarks),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any], source: Source | None) -> Interface:
        params = tuple(Parameter(**_tupled(p)) for p in data["params"])
        outputs = tuple(Output(**_tupled(o)) for o in data["outputs"])
        bare = Interface(data["name"], params, outputs, source)
        return bare._replace(remarks=bare.remarks_from_json(data["remarks"]))

    def remarks_from_json(self, data: Iterable[Any]) -> tuple[Remark, ...]:
        records = map(_tupled, data)
        return tuple(Remark(**{**r, "span": self.span(r["span"])}) for r in records)


def remarks_to_json(remarks: Iterable[Remark]) -> list[dict[str, Any]]:
    return [{**r._asdict(), "span": place_of(r.span)} for r in remarks]


def _tupled(record: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists where these have tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in record.items()}

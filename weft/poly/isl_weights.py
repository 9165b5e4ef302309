"""Weighted sets compared in isl's process: whether weights add up to zero everywhere, or a point where they do not."""

from __future__ import annotations

from typing import Any

#: Points of a piece that are tried where its weight is no number.
_TRIES = 30


def compare_weights(question: dict[str, Any]) -> dict[str, Any]:
    """``weights`` are texts of piecewise polynomials over one space; ``as_sets``: of sets, compared with ``left``."""
    if question.get("as_sets"):
        return _compare_sets(question)
    total = _added(question["weights"])
    modulus = question.get("modulus")
    pieces: list[Any] = []
    total.foreach_piece(lambda where, weight: pieces.append((where, weight)))
    for where, weight in pieces:
        if modulus and _is_number(weight) and _is_multiple(weight.get_constant_val(), modulus):
            continue
        point = _where_not_zero(total, where)
        if point is not None:
            return {"point": _coordinates(point), "weight": str(total.eval(point))}
    return {"point": None}


def weigh(question: dict[str, Any]) -> dict[str, Any]:
    """The weight at a point, which is told as one more set."""
    import islpy

    point = islpy.Set(question["point"]).sample_point()
    return {"weight": str(_added(question["weights"]).eval(point))}


def _added(texts: list[str]) -> Any:
    """The sum, by halves: a long one grows slowly."""
    import islpy

    parts = [islpy.PwQPolynomial(t) for t in texts]
    while len(parts) > 1:
        parts = [a.add(b) for a, b in zip(parts[::2], parts[1::2])] + parts[len(parts) & ~1 :]
    return parts[0]


def _compare_sets(question: dict[str, Any]) -> dict[str, Any]:
    import islpy

    sides = []
    for side in ("left", "weights"):
        total = islpy.Set(question["empty"])
        for text in question[side]:
            total = total.union(islpy.Set(text))
        sides.append(total)
    apart = sides[0].subtract(sides[1]).union(sides[1].subtract(sides[0]))
    return {"point": None if apart.is_empty() else _coordinates(apart.sample_point())}


def _is_number(weight: Any) -> bool:
    terms: list[Any] = []
    weight.foreach_term(terms.append)
    import islpy

    kinds = (islpy.dim_type.param, islpy.dim_type.set, islpy.dim_type.div)
    return all(t.get_exp(k, n) == 0 for t in terms for k in kinds for n in range(t.dim(k)))


def _is_multiple(value: Any, modulus: int) -> bool:
    return bool(value.is_int()) and int(value.to_python()) % modulus == 0


def _where_not_zero(total: Any, where: Any) -> Any:
    """A point of ``where`` at which the weight is not zero."""
    import islpy

    for _ in range(_TRIES):
        if where.is_empty():
            return None
        point = where.sample_point()
        if not total.eval(point).is_zero():
            return point
        where = where.subtract(islpy.Set.from_point(point))
    raise ValueError("no point found")


def _coordinates(point: Any) -> dict[str, list[int]]:
    import islpy

    space = point.get_space()
    kinds = {"sizes": islpy.dim_type.param, "at": islpy.dim_type.set}
    return {
        name: [int(point.get_coordinate_val(kind, n).to_python()) for n in range(space.dim(kind))]
        for name, kind in kinds.items()
    }

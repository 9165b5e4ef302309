"""The process isl runs in: reads questions, one a line, answers each with a line.

A question is the text of a set (the answer is a point of it, or None for an empty one), a program to schedule as
`isl_schedule` describes it (the answer is a tree of bands), or weighted sets to compare (`isl_weights`).
"""

from __future__ import annotations

import json
import sys
from typing import Any

from weft.poly.isl_weights import compare_weights, weigh

#: Constraints of a dependence beyond which all are told as distances alone.
_MANY = 20
#: Whether components are scheduled as a whole, and whether all are kept apart.
_FUSION = {"clusters": (False, False), "most": (True, False), "none": (False, True)}


def serve() -> None:
    """Answers questions until the asking process is gone."""
    import islpy  # noqa: F401  (a missing package ends the process before it says it is ready)

    replies, sys.stdout = sys.stdout, sys.stderr  # islpy prints warnings
    print(json.dumps("ready"), file=replies, flush=True)
    for line in sys.stdin:
        try:
            question = json.loads(line)
            reply: Any = answer(question) if isinstance(question, str) else _compute(question)
        except Exception:
            reply = None
        print(json.dumps(reply), file=replies, flush=True)


def _compute(question: dict[str, Any]) -> dict[str, Any]:
    if "weights" not in question:
        return compute_schedule(question)
    return weigh(question) if "point" in question else compare_weights(question)


def answer(text: str) -> dict[str, list[int] | None]:
    """The coordinates of a point of the set, or None for an empty one."""
    import islpy

    whole_set = islpy.Set(text)
    if whole_set.is_empty():
        return {"point": None}
    point = whole_set.sample_point()
    space = point.get_space().dim(islpy.dim_type.set)
    values = [point.get_coordinate_val(islpy.dim_type.set, i).to_python() for i in range(space)]
    return {"point": [int(v) for v in values]}


def compute_schedule(question: dict[str, Any]) -> dict[str, Any]:
    """The schedule tree of the program that ``question`` describes."""
    import islpy

    context = islpy.Context()
    whole, serialize = _FUSION[question["fusion"]]
    context.set_schedule_whole_component(whole)
    context.set_schedule_serialize_sccs(serialize)
    context.set_schedule_maximize_band_depth(True)
    context.set_schedule_outer_coincidence(question["parallel"] == "outer")
    domain = islpy.UnionSet.read_from_str(context, question["domain"])
    must, apart = _dependences(question, context, domain)
    must, apart = _simpler(must), _simpler(apart)
    near = apart.union(_shared_reads(question, context, domain))
    constraints = (
        islpy.ScheduleConstraints.on_domain(domain)
        .set_context(islpy.Set.read_from_str(context, question["context"]))
        .set_validity(must)
        .set_proximity(near)
    )
    if question["parallel"]:
        constraints = constraints.set_coincidence(apart)
    return {"tree": _tree(constraints.compute_schedule().get_root())}


def _dependences(question: dict[str, Any], context: Any, domain: Any) -> tuple[Any, Any]:
    """Pairs of instances that must stay in order, and those that must not run at once.

    The second are more: updates by one operator may run in any order, but not at once.
    """
    import islpy

    def read(key: str) -> Any:
        return islpy.UnionMap.read_from_str(context, question[key]).intersect_domain(domain)

    sizes = islpy.Set.read_from_str(context, question["context"])
    reads, writes, order = read("reads"), read("writes"), read("order")
    before = order.lex_lt_union_map(order).intersect_params(sizes)
    updates = [islpy.UnionMap.read_from_str(context, t).intersect_domain(domain) for t in question["updates"]]
    must = _meet(writes, reads.union(writes)).union(_meet(reads, writes))
    others = reads.union(writes)
    for update in updates:
        must = must.union(_meet(update, others)).union(_meet(others, update))
        others = others.union(update)
    apart = must
    for update in updates:
        apart = apart.union(_meet(update, update))
    return must.intersect(before).coalesce(), apart.intersect(before).coalesce()


def _simpler(dependences: Any) -> Any:
    """Dependences as distances between bounds, in every loop, and nothing more, where some have many constraints.

    The time isl takes grows fast with constraints. What is left out here, that instances lie within ranges and that
    there are pairs further apart than the nearest, seldom changes its answer, and whoever follows that checks it.
    """
    parts: list[Any] = []
    dependences.foreach_map(lambda m: parts.extend(m.get_basic_maps()))
    if all(stmt.n_constraint() <= _MANY for stmt in parts):
        return dependences
    total = dependences.subtract(dependences)
    for stmt in parts:
        total = total.union(_nearest(stmt.to_map()).to_union_map())
    return total


def _nearest(relation: Any) -> Any:
    """All pairs that are as far apart in each loop as some pair of the relation is; no further than they have to be."""
    import islpy

    kinds = islpy.dim_type
    count = relation.dim(kinds.in_)
    if count != relation.dim(kinds.out):
        return relation
    apart = relation.reset_tuple_id(kinds.in_).reset_tuple_id(kinds.out).deltas()
    box = islpy.Map.universe(relation.get_space())
    for n in range(count):
        least, most = _constant(apart.dim_min(n)), _constant(apart.dim_max(n))
        if least is not None and most is None:
            most = least
        for value, sign in ((least, 1), (most, -1)):
            if value is not None:
                space = islpy.LocalSpace.from_space(box.get_space())
                inside = islpy.Constraint.alloc_inequality(space).set_constant_val(value.mul(-sign))
                inside = inside.set_coefficient_val(kinds.out, n, sign).set_coefficient_val(kinds.in_, n, -sign)
                box = box.add_constraint(inside)
    return box


def _constant(bound: Any) -> Any:
    """The number a bound is, or None where it depends on sizes."""
    pieces: list[Any] = []
    bound.foreach_piece(lambda _, form: pieces.append(form))
    return pieces[0].get_constant_val() if len(pieces) == 1 and pieces[0].is_cst() else None


def _shared_reads(question: dict[str, Any], context: Any, domain: Any) -> Any:
    """Instances of different statements that read one element: better near each other, in any order."""
    import islpy

    reads = islpy.UnionMap.read_from_str(context, question["streams"]).intersect_domain(domain)
    order = islpy.UnionMap.read_from_str(context, question["texts"]).intersect_domain(domain)
    return _meet(reads, reads).intersect(order.lex_lt_union_map(order))


def _meet(a: Any, b: Any) -> Any:
    """Instances of ``a`` and of ``b`` that touch one element."""
    return a.apply_range(b.reverse())


def _tree(node: Any) -> Any:
    import islpy

    kinds = islpy.schedule_node_type
    kind = node.get_type()
    if kind == kinds.band:
        return _band(node)
    if kind in (kinds.sequence, kinds.set):
        parts = [_filter(node.child(n)) for n in range(node.n_children())]
        return {"parts": parts, "ordered": kind == kinds.sequence}
    return _tree(node.child(0)) if node.n_children() else None


def _filter(node: Any) -> tuple[list[str], Any]:
    names: list[str] = []
    node.filter_get_filter().foreach_set(lambda s: names.append(s.get_tuple_name()))
    return names, _tree(node.child(0))


def _band(node: Any) -> dict[str, Any]:
    count = node.band_n_member()
    partial = node.band_get_partial_schedule()
    rows: dict[str, list[Any]] = {}
    for n in range(count):
        partial.get_union_pw_aff(n).foreach_pw_aff(lambda p: rows.setdefault(_name(p), []).append(_row(p)))
    return {
        "rows": rows,
        "coincident": [bool(node.band_member_get_coincident(n)) for n in range(count)],
        "permutable": bool(node.band_get_permutable()),
        "inside": _tree(node.child(0)),
    }


def _name(piecewise: Any) -> str:
    return str(piecewise.domain().get_tuple_name())


def _row(piecewise: Any) -> list[int] | None:
    """Coefficients of the statement's loops and the constant; None for other forms."""
    import islpy

    pieces: list[Any] = []
    piecewise.foreach_piece(lambda _, form: pieces.append(form))
    if len(pieces) != 1:
        return None
    form = pieces[0]
    kinds = islpy.dim_type
    loops = [form.get_coefficient_val(kinds.in_, n) for n in range(form.dim(kinds.in_))]
    others = [form.get_coefficient_val(kind, n) for kind in (kinds.param, kinds.div) for n in range(form.dim(kind))]
    values = [*loops, form.get_constant_val()]
    if any(not v.is_zero() for v in others) or not all(v.is_int() for v in values):
        return None
    return [int(v.to_python()) for v in values]


if __name__ == "__main__":
    serve()

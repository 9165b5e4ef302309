"""What types call records that are made from templates: with their arguments, some of which may be defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.from_cuda.unit import Node

_AROUND_LITERALS = ("TemplateArgument", "ConstantExpr", "ImplicitCastExpr", "ParenExpr")
_LITERALS = ("IntegerLiteral", "CXXBoolLiteralExpr")
_TEMPLATE_PARAMETERS = frozenset({"TemplateTypeParmDecl", "NonTypeTemplateParmDecl", "TemplateTemplateParmDecl"})


def record_name(n: Node) -> str:
    """As types name it: with its arguments where it is made from a template, without defaults at the end."""
    return record_names(n)[0]


def record_names(n: Node) -> list[str]:
    """The record without arguments that may be defaults, and with some or all of these: as they were written."""
    if n.kind != "ClassTemplateSpecializationDecl":
        return [n.name]
    given = _arguments(n)
    parameters = [p for p in (n.parent.inner if n.parent else ()) if p.kind in _TEMPLATE_PARAMETERS]
    least = len(given)
    if len(parameters) == len(given):
        named = dict(zip((p.name for p in parameters), given))
        while least and _is_default(parameters[least - 1], given[least - 1], named):
            least -= 1
    return [f"{n.name}<{', '.join(given[:count])}>" for count in range(least, len(given) + 1)]


def _is_default(parameter: Node, argument: str, named: Mapping[str, str]) -> bool:
    """Whether ``argument`` may be the default of a template's parameter: what is computed is taken for it."""
    if "defaultArg" not in parameter.raw:
        return False
    default = next((i for i in parameter.inner if i.kind == "TemplateArgument"), None)
    if default is None:
        return True
    if "type" in default.raw:
        return default.type == argument or named.get(default.type) == argument or "<" in default.type
    values = [i.raw["value"] for i in default.walk() if i.kind in _LITERALS and "value" in i.raw]
    is_plain = len(values) == 1 and all(i.kind in (*_LITERALS, *_AROUND_LITERALS) for i in default.walk())
    return not is_plain or _number(str(values[0])) == _number(argument)


def _number(value: str) -> str:
    """A template's argument as clang's arguments have it, where its defaults have words."""
    return {"false": "0", "true": "1"}.get(value.lower(), value)


def _arguments(n: Node) -> list[str]:
    """What a record made from a template was made with."""
    return [_argument(a) for a in n.inner if a.kind == "TemplateArgument"]


def _argument(a: Node) -> str:
    if "type" in a.raw:
        return a.type
    value = a.raw.get("value")
    if value is not None and _is_truth(a):  # one bit, that counts as minus one
        return "true" if int(value) else "false"
    return str(value) if value is not None else next((n.name for n in a.inner if n.name), "?")


def _is_truth(a: Node) -> bool:
    """Whether a template's argument is a bool, as types write it."""
    owner = a.parent.parent if a.parent is not None else None
    if owner is None or owner.kind not in ("ClassTemplateDecl", "FunctionTemplateDecl"):
        return False
    parameters = [p for p in owner.inner if p.kind in _TEMPLATE_PARAMETERS]
    given = [i for i in a.parent.inner if i.kind == "TemplateArgument"] if a.parent is not None else []
    at = next(n for n, i in enumerate(given) if i is a)
    if at >= len(parameters):
        return False
    type = parameters[at].raw.get("type", {}).get("qualType")
    types = {p.name: g.type for p, g in zip(parameters, given) if "type" in g.raw}
    return bool(types.get(type, type) == "bool")  # of `template <class T, T value>` it is another argument

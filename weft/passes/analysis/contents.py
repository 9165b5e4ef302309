"""What a program contains, found once for each statement and kept with it: whether there is work for a pass."""

from __future__ import annotations

from weft.ir.expr import Binary, Broadcast, Call, Cast, Const, Ramp, Reduce, Select, Shuffle, Var
from weft.ir.stmt import Alloc, Assert, Atomic, Barrier, Block, Evaluate, For, If, Let, Stmt, Tensorized
from weft.ir.visit import children, fact, walk

_NAMES = (
    "serial loops", "parallel loops", "vector loops", "unroll loops", "block loops", "thread loops",
    "blocks", "hardware intrinsics", "barriers", "tests", "lets", "asserts", "calls", "atomics",
    "allocations", "shared storage", "register storage",
    "reductions", "choices", "vectors", "float divisions", "what runs ahead", "turns",
)  # fmt: skip
#: A bit for each.
CONTENTS: dict[str, int] = {name: 1 << place for place, name in enumerate(_NAMES)}

_STATEMENTS: dict[type, int] = {
    Block: CONTENTS["blocks"],
    Tensorized: CONTENTS["hardware intrinsics"],
    Barrier: CONTENTS["barriers"],
    If: CONTENTS["tests"],
    Let: CONTENTS["lets"],
    Atomic: CONTENTS["atomics"],
    Assert: CONTENTS["asserts"],
    Evaluate: CONTENTS["hardware intrinsics"],
}
_LOOPS = {name.removesuffix(" loops"): bit for name, bit in CONTENTS.items() if name.endswith(" loops")}
_ALLOCATIONS = {scope: CONTENTS["allocations"] | CONTENTS[f"{scope} storage"] for scope in ("shared", "register")}
_EXPRESSIONS: dict[type, int] = {
    Reduce: CONTENTS["reductions"],
    Select: CONTENTS["choices"],
    Call: CONTENTS["calls"],
    **dict.fromkeys((Ramp, Broadcast, Shuffle), CONTENTS["vectors"]),
}
_OPERATORS = {**dict.fromkeys(("min", "max", "%"), CONTENTS["choices"]), "/": CONTENTS["float divisions"]}
#: Expressions that say their type; others have as many lanes as what they are made of.
_TYPED = frozenset({Var, Const, Call, Cast})


@fact
def contents(s: Stmt) -> int:
    """The bits of all that is in ``s``."""
    kept = _STATEMENTS.get(type(s), 0)
    if isinstance(s, For):
        kept = _LOOPS[s.kind] | (0 if s.ahead is None else CONTENTS["what runs ahead"])
        kept |= 0 if s.backward is None else CONTENTS["turns"]
    elif isinstance(s, Alloc):
        kept = _ALLOCATIONS.get(s.buffer.scope, CONTENTS["allocations"])
    for child in children(s):
        kept |= contents(child) if isinstance(child, Stmt) else _in_expression(child)
    return kept


def _in_expression(node: object) -> int:
    found = 0
    for n in walk(node):  # type: ignore[arg-type]
        kind = type(n)
        if kind is Binary:
            found |= _OPERATORS.get(n.op, 0)  # type: ignore[union-attr]
        elif kind in _TYPED:
            found |= CONTENTS["vectors"] if n.type.lanes > 1 else 0  # type: ignore[union-attr]
        found |= _EXPRESSIONS.get(kind, 0)
    return found

"""PTX instructions as C++, by name: each is given the rest of its name, its operands, and what these are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from weft.from_cuda.ptx_scope import C_TYPES, Scope, Unknown

Instruction = Callable[[list[str], list[str], Scope], str]


def _kind(parts: Sequence[str]) -> str:
    """The type that an instruction is of: the last part that is one."""
    return next(p for p in reversed(parts) if p in C_TYPES)


def _formula(pattern: str, count: int, only: str = "") -> Instruction:
    """An instruction whose result is an expression of its ``count`` operands; {t} is its type."""

    def make(parts: list[str], operands: list[str], scope: Scope) -> str:
        kind = _kind(parts)
        if len(operands) != count + 1 or (only and kind not in only.split()):
            raise Unknown
        values = [scope.value(o, kind) for o in operands[1:]]
        return scope.assign(operands[0], kind, pattern.format(*values, t=C_TYPES[kind]))

    return make


def _fused(parts: list[str], operands: list[str], scope: Scope) -> str:
    return _formula("fmaf({0}, {1}, {2})" if _kind(parts) == "f32" else "fma({0}, {1}, {2})", 3, "f32 f64")(
        parts, operands, scope
    )


def _unary(single: str, double: str) -> Instruction:
    def make(parts: list[str], operands: list[str], scope: Scope) -> str:
        return _formula(single if _kind(parts) == "f32" else double, 1, "f32 f64")(parts, operands, scope)

    return make


def _product(parts: list[str], operands: list[str], scope: Scope) -> str:
    """mul and mad: the low half, the high half, or all of a product."""
    kind = _kind(parts)
    wide = {"u32": "u64", "s32": "s64", "u16": "u32", "s16": "s32"}
    a, b = (scope.value(o, kind) for o in operands[1:3])
    result = kind
    if "wide" in parts:
        result = wide[kind]
        product = f"({C_TYPES[result]}){a} * ({C_TYPES[result]}){b}"
    elif "hi" in parts:
        product = {"u32": f"__umulhi({a}, {b})", "s32": f"__mulhi({a}, {b})"}[kind]
    else:
        product = f"{a} * {b}"
    further = f" + {scope.value(operands[3], result)}" if len(operands) == 4 else ""
    return scope.assign(operands[0], result, f"({product}{further})")


def _move(parts: list[str], operands: list[str], scope: Scope) -> str:
    kind, (to, source) = _kind(parts), operands
    if source.startswith("{"):
        low, high = (scope.value(n.strip(), "u32") for n in source.strip("{}").split(","))
        return scope.assign(to, "u64", f"((unsigned long long){high} << 32 | {low})")
    if to.startswith("{"):
        low, high = (n.strip() for n in to.strip("{}").split(","))
        value = scope.value(source, "u64")
        return scope.assign(low, "u32", f"((unsigned){value})") + scope.assign(
            high, "u32", f"((unsigned)({value} >> 32))"
        )
    return scope.assign(to, kind, scope.value(source, kind))


_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">",
             "hs": ">="}  # fmt: skip


def _compare(parts: list[str], operands: list[str], scope: Scope) -> str:
    kind = _kind(parts)
    a, b = (scope.value(o, kind) for o in operands[1:])
    return scope.assign(operands[0], "pred", f"({a} {_COMPARED[parts[0]]} {b})")


def _select(parts: list[str], operands: list[str], scope: Scope) -> str:
    kind = _kind(parts)
    a, b, p = scope.value(operands[1], kind), scope.value(operands[2], kind), scope.value(operands[3], "pred")
    return scope.assign(operands[0], kind, f"({p} ? {a} : {b})")


_ROUNDED = {"rni": "rint", "rmi": "floor", "rpi": "ceil", "rzi": "trunc"}


def _convert(parts: list[str], operands: list[str], scope: Scope) -> str:
    if parts[-2:] == ["tf32", "f32"]:
        return scope.assign(operands[0], "f32", f"weft_ptx_tf32({scope.value(operands[1], 'f32')})")
    if parts[-2:] == ["f16x2", "f32"] and "rn" in parts:
        high, low = (scope.value(o, "f32") for o in operands[1:3])
        return scope.assign(operands[0], "u32", f"weft_ptx_halves({low}, {high})")
    to, source = [p for p in parts if p in C_TYPES]
    modes = [p for p in parts if p not in (to, source, "ftz")]
    value = scope.value(operands[1], source)
    if source.startswith("f") and modes and modes[0] in _ROUNDED:
        value = f"{_ROUNDED[modes[0]]}{'f' if source == 'f32' else ''}({value})"
    elif modes not in ([], ["rn"]):
        raise Unknown
    return scope.assign(operands[0], to, f"(({C_TYPES[to]}){value})")


def _extract(parts: list[str], operands: list[str], scope: Scope) -> str:
    kind = _kind(parts)
    function = {"u32": "weft_ptx_bfe", "b32": "weft_ptx_bfe", "s32": "weft_ptx_bfe_signed"}[kind]
    a = scope.value(operands[1], kind)
    at, length = (scope.value(o, "u32") for o in operands[2:])
    return scope.assign(operands[0], kind, f"{function}({a}, {at}, {length})")


def _shift(parts: list[str], operands: list[str], scope: Scope) -> str:
    """shl and shr: by the width or more gives zero, or the sign."""
    kind = _kind(parts)
    bits, a, by = int(kind[1:]), scope.value(operands[1], kind), scope.value(operands[2], "u32")
    if parts[0] == "left":
        made = f"({by} > {bits - 1}u ? 0 : {a} << {by})"
    elif kind.startswith("s"):
        made = f"({a} >> ({by} > {bits - 1}u ? {bits - 1}u : {by}))"
    else:
        made = f"({by} > {bits - 1}u ? 0 : {a} >> {by})"
    return scope.assign(operands[0], kind, made)


def _funnel(parts: list[str], operands: list[str], scope: Scope) -> str:
    low, high, by = (scope.value(o, "u32") for o in operands[1:])
    by = f"({by} & 31u)" if "wrap" in parts else f"({by} > 32u ? 32u : {by})"
    function = {"l": "weft_ptx_shift_left", "r": "weft_ptx_shift_right"}[parts[0]]
    return scope.assign(operands[0], "u32", f"{function}({low}, {high}, {by})")


_SHUFFLES = {"idx": ("__shfl_sync", "31"), "up": ("__shfl_up_sync", "0"), "down": ("__shfl_down_sync", "31"),
             "bfly": ("__shfl_xor_sync", "31")}  # fmt: skip


def _shuffle(parts: list[str], operands: list[str], scope: Scope) -> str:
    """shfl.sync over whole warps, without the predicate that says whether the other lane was there."""
    function, clamp = _SHUFFLES[parts[1]]
    if parts[0] != "sync" or "|" in operands[0] or str(int(operands[3], 0)) != clamp:
        raise Unknown
    value, lane, mask = (scope.value(operands[n], "u32") for n in (1, 2, 4))
    return scope.assign(operands[0], "u32", f"{function}({mask}, {value}, {lane})")


def _vote(parts: list[str], operands: list[str], scope: Scope) -> str:
    way = next(p for p in parts if p in ("ballot", "any", "all"))
    p, mask = scope.value(operands[1].lstrip("!"), "pred"), scope.value(operands[2], "u32")
    p = f"!{p}" if operands[1].startswith("!") else p
    return scope.assign(operands[0], "u32" if way == "ballot" else "pred", f"__{way}_sync({mask}, {p})")


def _names(operand: str) -> list[str]:
    return [n.strip() for n in operand.strip("{} ").split(",")]


def _load(parts: list[str], operands: list[str], scope: Scope) -> str:
    kind = _kind(parts)
    at = scope.address(operands[1], kind)
    read = f"*(volatile {C_TYPES[kind]} *)({at} + {{}})" if "volatile" in parts else f"{at}[{{}}]"
    return " ".join(scope.assign(name, kind, read.format(k)) for k, name in enumerate(_names(operands[0])))


def _store(parts: list[str], operands: list[str], scope: Scope) -> str:
    kind = _kind(parts)
    at = scope.address(operands[0], kind)
    to = f"*(volatile {C_TYPES[kind]} *)({at} + {{}})" if "volatile" in parts else f"{at}[{{}}]"
    return " ".join(f"{to.format(k)} = {scope.value(name, kind)};" for k, name in enumerate(_names(operands[1])))


_ATOMICS = {"add": "atomicAdd", "min": "atomicMin", "max": "atomicMax", "and": "atomicAnd", "or": "atomicOr",
            "xor": "atomicXor", "exch": "atomicExch", "cas": "atomicCAS"}  # fmt: skip


def _atomic(parts: list[str], operands: list[str], scope: Scope, *, gives: bool) -> str:
    kind = _kind(parts)
    where, *values = operands[1:] if gives else operands
    way = next(_ATOMICS[p] for p in parts if p in _ATOMICS)
    call = f"{way}({', '.join([scope.address(where, kind), *(scope.value(v, kind) for v in values)])})"
    return scope.assign(operands[0], kind, call) if gives else f"{call};"


def _barrier(parts: list[str], operands: list[str], scope: Scope) -> str:
    if parts[:2] == ["warp", "sync"]:
        return f"__syncwarp({scope.value(operands[0], 'u32')});"
    if parts[0] not in ("sync", "cta") or operands not in ([], ["0"]):
        raise Unknown
    return "__syncthreads();"


def _fence(parts: list[str], operands: list[str], scope: Scope) -> str:
    way = next(w for p, w in (("cta", "_block"), ("sys", "_system"), ("gl", ""), ("gpu", "")) if p in parts)
    return f"__threadfence{way}();"


_FACTORS = {"f16": "weft_halves", "bf16": "weft_brain_halves", "tf32": "weft_short_floats", "s8": "weft_signed_bytes",
            "u8": "weft_unsigned_bytes"}  # fmt: skip
_SHAPES = {("m16n8k8", 2), ("m16n8k16", 2), ("m16n8k4", 1), ("m16n8k8", 1), ("m16n8k16", 4), ("m16n8k32", 4)}
_VALUES_OF = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4}


def _product_of_matrices(parts: list[str], operands: list[str], scope: Scope) -> str:
    """mma.sync: the warp's lanes hold the parts of four matrices."""
    shape = next(p for p in parts if p.startswith("m") and "k" in p)
    to, left, right, added = parts[parts.index("col") + 1 :][:4]
    d, a, b, c = (_names(o) for o in operands)
    if shape == "m8n8k4" and to == "f64":
        text = f"double weft_d[2] = {{{scope.value(c[0], to)}, {scope.value(c[1], to)}}}; "
        text += f"weft_ptx_mma_double(weft_d, {scope.value(a[0], to)}, {scope.value(b[0], to)}); "
        return f"{{ {text}{scope.assign(d[0], to, 'weft_d[0]')} {scope.assign(d[1], to, 'weft_d[1]')} }}"
    if (shape, _VALUES_OF[left]) not in _SHAPES or _VALUES_OF[left] != _VALUES_OF[right] or "row" not in parts:
        raise Unknown
    if {to, added} not in ({"f32"}, {"s32"}, {"f16"}):
        raise Unknown
    names = {"weft_a": a, "weft_b": b}
    text = "".join(f"unsigned {n}[] = {{{', '.join(scope.value(o, 'u32') for o in v)}}}; " for n, v in names.items())
    if to == "f16":
        starts = [f"weft_ptx_half_at({scope.value(o, 'u32')}, {k})" for o in c for k in (0, 1)]
        ends = [
            scope.assign(o, "u32", f"weft_ptx_halves(weft_d[{2 * k}], weft_d[{2 * k + 1}])") for k, o in enumerate(d)
        ]
    else:
        starts = [scope.value(o, to) for o in c]
        ends = [scope.assign(o, to, f"weft_d[{k}]") for k, o in enumerate(d)]
    sum = "int" if to == "s32" else "float"
    depth = int(shape.partition("k")[2])
    text += f"{sum} weft_d[4] = {{{', '.join(starts)}}}; "
    text += f"weft_ptx_mma<{_FACTORS[left]}, {_FACTORS[right]}, {depth}>(weft_d, weft_a, weft_b); {' '.join(ends)}"
    return f"{{ {text} }}"


def _load_matrix(parts: list[str], operands: list[str], scope: Scope) -> str:
    """ldmatrix: 8 x 8 numbers of 16 bits, one to four times."""
    if "m8n8" not in parts or "b16" not in parts:
        raise Unknown
    found = re.fullmatch(r"\[\s*(%?\w+)\s*(?:\+\s*(-?\d+))?\s*\]", operands[1])
    if found is None:
        raise Unknown
    way = "column" if "trans" in parts else "row"
    row = f"unsigned weft_row = {scope.value(found[1], 'u32')} + {found[2] or 0}; "
    values = (f"weft_ptx_matrix_{way}(weft_row, {k})" for k in range(4))
    ends = (scope.assign(name, "u32", value) for name, value in zip(_names(operands[0]), values))
    return f"{{ {row}{' '.join(ends)} }}"


def _copy(parts: list[str], operands: list[str], scope: Scope) -> str:
    """cp.async, and what waits for it."""
    if parts[1] in ("commit_group", "wait_group", "wait_all"):
        return ";"
    if parts[1] not in ("ca", "cg"):
        raise Unknown
    to, source = (scope.address(o, "u32") for o in operands[:2])
    size = scope.value(operands[2], "u32")
    has_hint = any("cache_hint" in p for p in parts)
    given = scope.value(operands[3], "u32") if len(operands) > (4 if has_hint else 3) else size
    return f"weft_ptx_copy({to}, {source}, {size}, {given});"


def _to_shared(parts: list[str], operands: list[str], scope: Scope) -> str:
    """cvta: a pointer is itself, but for addresses within shared memory."""
    if "shared" not in parts:
        return _move(parts, operands, scope)
    if parts[0] != "to":
        value = f"(unsigned long long)weft_ptx_shared_at((unsigned){scope.value(operands[1], 'u64')})"
        return scope.assign(operands[0], "u64", value)
    return scope.assign(operands[0], "u64", f"__cvta_generic_to_shared((const void *){scope.place(operands[1])})")


def _nothing(parts: list[str], operands: list[str], scope: Scope) -> str:
    return ";"


def _left(parts: list[str], operands: list[str], scope: Scope) -> str:
    return _shift(["left", *parts], operands, scope)


def _right(parts: list[str], operands: list[str], scope: Scope) -> str:
    return _shift(["right", *parts], operands, scope)


#: By name; the rest of an instruction says of which type, and how.
INSTRUCTIONS: dict[str, Instruction] = {
    "mov": _move, "add": _formula("({0} + {1})", 2), "sub": _formula("({0} - {1})", 2), "mul": _product,
    "mad": _product, "div": _formula("({0} / {1})", 2), "rem": _formula("({0} % {1})", 2), "fma": _fused,
    "neg": _formula("({t})(-{0})", 1), "abs": _formula("({0} < 0 ? ({t})(-{0}) : {0})", 1),
    "min": _formula("min({0}, {1})", 2), "max": _formula("max({0}, {1})", 2),
    "and": _formula("({0} & {1})", 2, "b32 b64 b16"), "or": _formula("({0} | {1})", 2, "b32 b64 b16"),
    "xor": _formula("({0} ^ {1})", 2, "b32 b64 b16"), "not": _formula("(~{0})", 1, "b32 b64 b16"),
    "shl": _left, "shr": _right, "shf": _funnel, "bfe": _extract,
    "bfi": _formula("weft_ptx_bfi({0}, {1}, {2}, {3})", 4, "b32"),
    "lop3": _formula("weft_ptx_lop3({0}, {1}, {2}, {3})", 4, "b32"),
    "prmt": _formula("weft_ptx_prmt({0}, {1}, {2})", 3, "b32"), "brev": _formula("__brev({0})", 1, "b32"),
    "clz": _formula("(unsigned)__clz((int){0})", 1, "b32"), "popc": _formula("(unsigned)__popc({0})", 1, "b32"),
    "dp4a": _formula("__dp4a({0}, {1}, {2})", 3, "s32 u32"),
    "ex2": _unary("exp2f({0})", "exp2({0})"), "lg2": _unary("log2f({0})", "log2({0})"),
    "sin": _unary("sinf({0})", "sin({0})"), "cos": _unary("cosf({0})", "cos({0})"),
    "rcp": _unary("(1.0f / {0})", "(1.0 / {0})"), "sqrt": _unary("sqrtf({0})", "sqrt({0})"),
    "rsqrt": _unary("rsqrtf({0})", "rsqrt({0})"), "tanh": _unary("tanhf({0})", "tanh({0})"),
    "setp": _compare, "selp": _select, "cvt": _convert, "cvta": _to_shared, "shfl": _shuffle, "vote": _vote,
    "activemask": _formula("__activemask()", 0), "ld": _load, "ldu": _load, "st": _store,
    "atom": lambda p, o, s: _atomic(p, o, s, gives=True), "red": lambda p, o, s: _atomic(p, o, s, gives=False),
    "bar": _barrier, "barrier": _barrier, "membar": _fence, "fence": _fence, "prefetch": _nothing,
    "prefetchu": _nothing, "nanosleep": _nothing, "cp": _copy, "mma": _product_of_matrices, "ldmatrix": _load_matrix,
}  # fmt: skip

"""Inline PTX (`asm("...")`) as the C++ that it means: a set of common instructions; others stay as they are and are
refused later, by name.

Registers are operands by number, so that every value's type is known by its constraint; a statement becomes one block,
on the same lines of the source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b\s*(?:(?:volatile|__volatile__)\s*)?\(")
_STRING = re.compile(r'\s*"((?:[^"\\\n]|\\.)*)"')
_OPERAND = re.compile(r'^\s*(?:\[\w+\]\s*)?"([=+]?)([rlfdhn])"\s*\((.*)\)\s*$', re.DOTALL)
_REGISTERS = re.compile(r"^\.reg\s*\.(\w+)\s+(.*)$", re.DOTALL)
_C_TYPES = {
    "u8": "unsigned char", "s8": "signed char", "b8": "unsigned char", "u16": "unsigned short", "s16": "short",
    "b16": "unsigned short", "u32": "unsigned", "s32": "int", "b32": "unsigned", "u64": "unsigned long long",
    "s64": "long long", "b64": "unsigned long long", "f32": "float", "f64": "double", "pred": "bool",
}  # fmt: skip
#: Types by a constraint's letter.
_LETTERS = {"r": "u32", "l": "u64", "f": "f32", "d": "f64", "h": "u16", "n": "u32"}
_AS_BITS = {("f32", "u32"): "__float_as_uint", ("u32", "f32"): "__uint_as_float",
            ("f64", "u64"): "__double_as_longlong", ("u64", "f64"): "__longlong_as_double"}  # fmt: skip
_LANE = "weft_ptx_lane()"
_SPECIAL = {
    "laneid": _LANE, "warpid": "(weft_ptx_rank() / 32u)", "warpsize": "32u", "WARP_SZ": "32u",
    "lanemask_eq": f"(1u << {_LANE})", "lanemask_lt": f"((1u << {_LANE}) - 1u)",
    "lanemask_le": f"((2u << {_LANE}) - 1u)", "lanemask_gt": f"~((2u << {_LANE}) - 1u)",
    "lanemask_ge": f"~((1u << {_LANE}) - 1u)", "clock": "((unsigned)clock64())", "clock64": "clock64()",
    **{f"{ptx}.{d}": f"{cuda}.{d}" for d in "xyz" for ptx, cuda in
       (("tid", "threadIdx"), ("ntid", "blockDim"), ("ctaid", "blockIdx"), ("nctaid", "gridDim"))},
}  # fmt: skip


class _Unknown(Exception):
    """An instruction that is not translated."""


def translate_ptx(text: str) -> str:
    """``text`` with the PTX that is known as C++; lines keep their numbers."""
    if "asm" not in text:
        return text
    out, at = [], 0
    for found in _ASM.finditer(text):
        if found.start() < at:
            continue
        parsed = _read(text, found.end())
        if parsed is None:
            continue
        end, strings, lists = parsed
        try:
            made = _statement(strings, lists)
        except _Unknown:
            continue
        semicolon = re.compile(r"\s*;").match(text, end)
        whole = text[found.start() : semicolon.end() if semicolon else end]
        written = f"{{ {made} }}" if semicolon else f"do {{ {made} }} while (0)"
        out += [text[at : found.start()], written, _line_ends(whole)]
        at = found.start() + len(whole)
    return "".join([*out, text[at:]])


def _line_ends(text: str) -> str:
    """The ends of lines in ``text``, in a macro with the sign that it goes on."""
    return "".join("\\\n" if m.group().startswith("\\") else "\n" for m in re.finditer(r"\\?\n", text))


def _read(text: str, at: int) -> tuple[int, str, list[list[str]]] | None:
    """What is between the brackets of an asm: where it ends, its instructions, and its lists of operands."""
    strings = []
    while found := _STRING.match(text, at):
        strings.append(found[1])
        at = found.end()
        while follows := re.compile(r"\s*\\?\n").match(text, at):
            at = follows.end()
    lists: list[list[str]] = []
    part, depth, in_string = "", 1, False
    while at < len(text):
        letter = text[at]
        in_string ^= letter == '"' and text[at - 1] != "\\"
        depth += 0 if in_string else (letter in "([{") - (letter in ")]}")
        if depth == 0 or (depth == 1 and not in_string and letter in ":,"):
            if lists:
                lists[-1].append(part)
            elif part.strip("\\ \n\t"):
                return None
            if depth == 0:
                return at + 1, "".join(strings), [[p for p in names if p.strip("\\ \n\t")] for names in lists]
            if letter == ":":
                if text[at + 1 : at + 2] == ":":
                    lists.append([])
                    at += 1
                lists.append([])
            part = ""
        else:
            part += letter
        at += 1
    return None


@dataclass
class _Scope:
    """What operands are: by number, and registers that the instructions declare."""

    operands: list[tuple[str, str]]
    registers: dict[str, str] = field(default_factory=dict)

    def type_of(self, name: str) -> str | None:
        if re.fullmatch(r"%\d+", name):
            number = int(name[1:])
            if number >= len(self.operands):
                raise _Unknown
            return self.operands[number][0]
        return self.registers.get(name)

    def place(self, name: str) -> str:
        if name in self.registers:
            return _local(name)
        if self.type_of(name) is None:
            raise _Unknown
        return self.operands[int(name[1:])][1]

    def value(self, name: str, kind: str) -> str:
        """An operand as a value of ``kind``."""
        special = name.lstrip("%")
        if name.startswith("%") and special in _SPECIAL:
            return f"(({_C_TYPES[kind]}){_SPECIAL[special]})"
        own = self.type_of(name)
        if own is None:
            return _constant(name, kind)
        return _converted(self.place(name), own, kind)

    def address(self, text: str, kind: str) -> str:
        """What is in square brackets, as a pointer to ``kind``."""
        found = re.fullmatch(r"\[\s*(%?\w+)\s*(?:\+\s*(-?\d+))?\s*\]", text)
        if found is None or self.type_of(found[1]) not in ("u64", "b64", "s64"):
            raise _Unknown  # 32 bits are an address within shared memory, which has none here
        where = self.place(found[1])
        return f"(({_C_TYPES[kind]} *){f'((char *){where} + {found[2]})' if found[2] else where})"

    def assign(self, name: str, kind: str, value: str) -> str:
        if name == "_":
            return f"(void)({value});"
        own = self.type_of(name)
        if own is None:
            raise _Unknown
        return f"{self.place(name)} = {_converted(value, kind, own)};"


def _constant(text: str, kind: str) -> str:
    """A number that is written out: floats may be their bits."""
    if bits := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text):
        return f"__uint_as_float(0x{bits[1]}u)"
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", text) or (kind[0] == "f" and re.fullmatch(r"-?\d+\.\d*", text)):
        return f"(({_C_TYPES[kind]}){text.rstrip('U')})"
    raise _Unknown


def _local(name: str) -> str:
    return "weft_" + name.lstrip("%").replace("$", "_")


def _plain(kind: str) -> str:
    """A type by its size: whole numbers are not told apart."""
    return kind if kind.startswith("f") or kind == "pred" else f"u{kind[1:]}"


def _converted(value: str, own: str, kind: str) -> str:
    """A value of type ``own`` as one of ``kind``: the same bits, more or fewer of them."""
    if _plain(own) == _plain(kind) or not ({own[0], kind[0]} & {"f"}):
        return value if own == kind and own[0] == "f" else f"(({_C_TYPES[kind]})({value}))"
    way = _AS_BITS.get((_plain(own), _plain(kind)))
    if way is None:
        raise _Unknown
    return f"(({_C_TYPES[kind]}){way}({value}))"


def _statement(strings: str, lists: Sequence[Sequence[str]]) -> str:
    operands = []
    for text in [*(lists[0] if lists else ()), *(lists[1] if len(lists) > 1 else ())]:
        found = _OPERAND.match(text.replace("\\\n", " "))
        if found is None:
            raise _Unknown
        operands.append((_LETTERS[found[2]], f"({' '.join(found[3].split())})"))
    scope = _Scope(operands)
    body = strings.replace("\\n", " ").replace("\\t", " ").replace("%%", "%")
    body = re.sub(r"//[^;]*$|/\*.*?\*/", "", body)
    made = [_instruction(part.strip(), scope) for part in body.split(";")]
    return " ".join(m for m in made if m)


def _instruction(text: str, scope: _Scope) -> str:
    """One instruction; brackets around several open and close a scope, which is the statement's own."""
    while text and (text[0] in "{}" and not re.match(r"\{[^}]*\}", text)):
        text = text[1:].strip()
    if not text or text == "{}":
        return ""
    if declared := _REGISTERS.match(text):
        return _declare(declared[1], declared[2], scope)
    guard = ""
    if guarded := re.match(r"@(!?)(%?\w+)\s+(.*)$", text, re.DOTALL):
        guard = f"if ({guarded[1]}{scope.value(guarded[2], 'pred')}) "
        text = guarded[3]
    name, _, rest = text.partition(" ")
    operands = [o.strip() for o in re.split(r",(?![^{\[]*[}\]])", rest)] if rest.strip() else []
    parts = name.split(".")
    known = INSTRUCTIONS.get(parts[0])
    if known is None:
        raise _Unknown
    try:
        made = known(parts[1:], operands, scope)
    except (IndexError, KeyError, ValueError):
        raise _Unknown from None
    return f"{guard}{{ {made} }}" if guard else made


def _declare(kind: str, names: str, scope: _Scope) -> str:
    made = []
    for name in (n.strip() for n in names.split(",")):
        if "<" in name or kind not in _C_TYPES:
            raise _Unknown
        scope.registers[name] = kind
        made.append(f"{_C_TYPES[kind]} {_local(name)};")
    return " ".join(made)


Instruction = Callable[[list[str], list[str], _Scope], str]


def _kind(parts: Sequence[str]) -> str:
    """The type that an instruction is of: the last part that is one."""
    return next(p for p in reversed(parts) if p in _C_TYPES)


def _formula(pattern: str, count: int, only: str = "") -> Instruction:
    """An instruction whose result is an expression of its ``count`` operands; {t} is its type."""

    def make(parts: list[str], operands: list[str], scope: _Scope) -> str:
        kind = _kind(parts)
        if len(operands) != count + 1 or (only and kind not in only.split()):
            raise _Unknown
        values = [scope.value(o, kind) for o in operands[1:]]
        return scope.assign(operands[0], kind, pattern.format(*values, t=_C_TYPES[kind]))

    return make


def _fused(parts: list[str], operands: list[str], scope: _Scope) -> str:
    return _formula("fmaf({0}, {1}, {2})" if _kind(parts) == "f32" else "fma({0}, {1}, {2})", 3, "f32 f64")(
        parts, operands, scope
    )


def _unary(single: str, double: str) -> Instruction:
    def make(parts: list[str], operands: list[str], scope: _Scope) -> str:
        return _formula(single if _kind(parts) == "f32" else double, 1, "f32 f64")(parts, operands, scope)

    return make


def _product(parts: list[str], operands: list[str], scope: _Scope) -> str:
    """mul and mad: the low half, the high half, or all of a product."""
    kind = _kind(parts)
    wide = {"u32": "u64", "s32": "s64", "u16": "u32", "s16": "s32"}
    a, b = (scope.value(o, kind) for o in operands[1:3])
    result = kind
    if "wide" in parts:
        result = wide[kind]
        product = f"({_C_TYPES[result]}){a} * ({_C_TYPES[result]}){b}"
    elif "hi" in parts:
        product = {"u32": f"__umulhi({a}, {b})", "s32": f"__mulhi({a}, {b})"}[kind]
    else:
        product = f"{a} * {b}"
    further = f" + {scope.value(operands[3], result)}" if len(operands) == 4 else ""
    return scope.assign(operands[0], result, f"({product}{further})")


def _move(parts: list[str], operands: list[str], scope: _Scope) -> str:
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


def _compare(parts: list[str], operands: list[str], scope: _Scope) -> str:
    kind = _kind(parts)
    a, b = (scope.value(o, kind) for o in operands[1:])
    return scope.assign(operands[0], "pred", f"({a} {_COMPARED[parts[0]]} {b})")


def _select(parts: list[str], operands: list[str], scope: _Scope) -> str:
    kind = _kind(parts)
    a, b, p = scope.value(operands[1], kind), scope.value(operands[2], kind), scope.value(operands[3], "pred")
    return scope.assign(operands[0], kind, f"({p} ? {a} : {b})")


_ROUNDED = {"rni": "rint", "rmi": "floor", "rpi": "ceil", "rzi": "trunc"}


def _convert(parts: list[str], operands: list[str], scope: _Scope) -> str:
    to, source = [p for p in parts if p in _C_TYPES]
    modes = [p for p in parts if p not in (to, source, "ftz")]
    value = scope.value(operands[1], source)
    if source.startswith("f") and modes and modes[0] in _ROUNDED:
        value = f"{_ROUNDED[modes[0]]}{'f' if source == 'f32' else ''}({value})"
    elif modes not in ([], ["rn"]):
        raise _Unknown
    return scope.assign(operands[0], to, f"(({_C_TYPES[to]}){value})")


def _extract(parts: list[str], operands: list[str], scope: _Scope) -> str:
    kind = _kind(parts)
    function = {"u32": "weft_ptx_bfe", "b32": "weft_ptx_bfe", "s32": "weft_ptx_bfe_signed"}[kind]
    a = scope.value(operands[1], kind)
    at, length = (scope.value(o, "u32") for o in operands[2:])
    return scope.assign(operands[0], kind, f"{function}({a}, {at}, {length})")


def _shift(parts: list[str], operands: list[str], scope: _Scope) -> str:
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


def _funnel(parts: list[str], operands: list[str], scope: _Scope) -> str:
    low, high, by = (scope.value(o, "u32") for o in operands[1:])
    by = f"({by} & 31u)" if "wrap" in parts else f"({by} > 32u ? 32u : {by})"
    function = {"l": "weft_ptx_shift_left", "r": "weft_ptx_shift_right"}[parts[0]]
    return scope.assign(operands[0], "u32", f"{function}({low}, {high}, {by})")


_SHUFFLES = {"idx": ("__shfl_sync", "31"), "up": ("__shfl_up_sync", "0"), "down": ("__shfl_down_sync", "31"),
             "bfly": ("__shfl_xor_sync", "31")}  # fmt: skip


def _shuffle(parts: list[str], operands: list[str], scope: _Scope) -> str:
    """shfl.sync over whole warps, without the predicate that says whether the other lane was there."""
    function, clamp = _SHUFFLES[parts[1]]
    if parts[0] != "sync" or "|" in operands[0] or str(int(operands[3], 0)) != clamp:
        raise _Unknown
    value, lane, mask = (scope.value(operands[n], "u32") for n in (1, 2, 4))
    return scope.assign(operands[0], "u32", f"{function}({mask}, {value}, {lane})")


def _vote(parts: list[str], operands: list[str], scope: _Scope) -> str:
    way = next(p for p in parts if p in ("ballot", "any", "all"))
    p, mask = scope.value(operands[1].lstrip("!"), "pred"), scope.value(operands[2], "u32")
    p = f"!{p}" if operands[1].startswith("!") else p
    return scope.assign(operands[0], "u32" if way == "ballot" else "pred", f"__{way}_sync({mask}, {p})")


def _names(operand: str) -> list[str]:
    return [n.strip() for n in operand.strip("{} ").split(",")]


def _load(parts: list[str], operands: list[str], scope: _Scope) -> str:
    kind = _kind(parts)
    at = scope.address(operands[1], kind)
    read = f"*(volatile {_C_TYPES[kind]} *)({at} + {{}})" if "volatile" in parts else f"{at}[{{}}]"
    return " ".join(scope.assign(name, kind, read.format(k)) for k, name in enumerate(_names(operands[0])))


def _store(parts: list[str], operands: list[str], scope: _Scope) -> str:
    kind = _kind(parts)
    at = scope.address(operands[0], kind)
    to = f"*(volatile {_C_TYPES[kind]} *)({at} + {{}})" if "volatile" in parts else f"{at}[{{}}]"
    return " ".join(f"{to.format(k)} = {scope.value(name, kind)};" for k, name in enumerate(_names(operands[1])))


_ATOMICS = {"add": "atomicAdd", "min": "atomicMin", "max": "atomicMax", "and": "atomicAnd", "or": "atomicOr",
            "xor": "atomicXor", "exch": "atomicExch", "cas": "atomicCAS"}  # fmt: skip


def _atomic(parts: list[str], operands: list[str], scope: _Scope, *, gives: bool) -> str:
    kind = _kind(parts)
    where, *values = operands[1:] if gives else operands
    way = next(_ATOMICS[p] for p in parts if p in _ATOMICS)
    call = f"{way}({', '.join([scope.address(where, kind), *(scope.value(v, kind) for v in values)])})"
    return scope.assign(operands[0], kind, call) if gives else f"{call};"


def _barrier(parts: list[str], operands: list[str], scope: _Scope) -> str:
    if parts[:2] == ["warp", "sync"]:
        return f"__syncwarp({scope.value(operands[0], 'u32')});"
    if parts[0] not in ("sync", "cta") or operands not in ([], ["0"]):
        raise _Unknown
    return "__syncthreads();"


def _fence(parts: list[str], operands: list[str], scope: _Scope) -> str:
    way = next(w for p, w in (("cta", "_block"), ("sys", "_system"), ("gl", ""), ("gpu", "")) if p in parts)
    return f"__threadfence{way}();"


def _nothing(parts: list[str], operands: list[str], scope: _Scope) -> str:
    return ";"


def _left(parts: list[str], operands: list[str], scope: _Scope) -> str:
    return _shift(["left", *parts], operands, scope)


def _right(parts: list[str], operands: list[str], scope: _Scope) -> str:
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
    "ex2": _unary("exp2f({0})", "exp2({0})"), "lg2": _unary("log2f({0})", "log2({0})"),
    "sin": _unary("sinf({0})", "sin({0})"), "cos": _unary("cosf({0})", "cos({0})"),
    "rcp": _unary("(1.0f / {0})", "(1.0 / {0})"), "sqrt": _unary("sqrtf({0})", "sqrt({0})"),
    "rsqrt": _unary("rsqrtf({0})", "rsqrt({0})"), "tanh": _unary("tanhf({0})", "tanh({0})"),
    "setp": _compare, "selp": _select, "cvt": _convert, "cvta": _move, "shfl": _shuffle, "vote": _vote,
    "activemask": _formula("__activemask()", 0), "ld": _load, "ldu": _load, "st": _store,
    "atom": lambda p, o, s: _atomic(p, o, s, gives=True), "red": lambda p, o, s: _atomic(p, o, s, gives=False),
    "bar": _barrier, "barrier": _barrier, "membar": _fence, "fence": _fence, "prefetch": _nothing,
    "prefetchu": _nothing, "nanosleep": _nothing,
}  # fmt: skip

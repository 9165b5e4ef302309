"""Random matrix work, as the text of a definition with arguments and what float64 gives: products, layers (two of them
one after the other), attentions and their gradients.

Sizes, layouts, types, batches, formulas of sums and of scores are drawn, masks written in several ways; ``small`` sizes
are a few tiles, for where a GPU's programs run on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class MatrixProgram:
    """Results may differ from those ``wanted`` by ``tolerance`` times their norm."""

    text: str
    numerics: str
    arguments: Sequence[Array]
    wanted: Sequence[Array]
    tolerance: float


#: Types of operands: how they are widened, the type of sums and of results, and how far off these may be.
TYPES = {
    "bfloat16": ("{}", "", "bfloat16", 6e-3),
    "float16": ("float32({})", "", "float16", 2e-3),
    "float8_e4m3fn": ("float32({})", "", "float32", 2e-3),
    "float8_e5m2": ("float32({})", "", "bfloat16", 6e-3),
    "int8": ("int32({})", "float32", "float32", 1e-5),
    "float32": ("{}", "", "float32", 1e-5),
}
#: Types of columns that rows of others are multiplied with, too.
BESIDE = {"float8_e4m3fn": "float8_e5m2", "float8_e5m2": "float8_e4m3fn", "int8": "uint8"}
#: What is done with the sum ``s`` of a product: formula, and the same in NumPy. ``b`` belongs to a column, ``p`` to a
#: row, ``r`` to each; ``u`` is the sum of a second product of the same rows.
Formula = Callable[..., Array]
DONE: dict[str, tuple[str, Formula]] = {
    "": ("{s}", lambda s, b, p, r, u: s),
    "bias": ("{s} + {b}", lambda s, b, p, r, u: s + b),
    "bias, ReLU": ("max({s} + {b}, 0.0)", lambda s, b, p, r, u: np.maximum(s + b, 0)),
    "scales": ("{s} * {p} * {b}", lambda s, b, p, r, u: s * p * b),
    "residual": ("0.125 * {s} + {r}", lambda s, b, p, r, u: 0.125 * s + r),
    "SiLU": ("{s} * sigmoid({s})", lambda s, b, p, r, u: s * sigmoid(s)),
    "gated": ("{s} * sigmoid({s}) * {u}", lambda s, b, p, r, u: s * sigmoid(s) * u),
}


def sigmoid(x: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def draw_product(seed: int, *, small: bool = False) -> MatrixProgram:
    """Batches of none, one or both operands, axes of each in any order that keeps a plain one innermost."""
    rng = np.random.default_rng(seed)
    sizes = dict(zip("mnk", _product_sizes(rng, small)))
    dtype = str(rng.choice(list(TYPES), p=[0.4, 0.2, 0.1, 0.05, 0.1, 0.15]))
    batch = str(rng.choice(["", "x"], p=[0.75, 0.25]))
    sizes["x"] = int(rng.integers(1, 3 if small else 7))
    left, right, at = _axes(rng, batch, "mk"), _axes(rng, str(rng.choice(["", batch])), "nk"), f"{batch}mn"
    if rng.random() < 0.15:
        at = at.replace("mn", "nm")
    done = str(rng.choice(list(DONE)))
    cast, sums, result, tolerance = TYPES[dtype]
    operands = {
        name: axes for name, axes in (("A", left), ("B", right), ("V", right)) if name != "V" or done == "gated"
    }
    more = {name: axes for name, axes in (("D", "n"), ("P", f"{batch}m"), ("R", at)) if name in _named(DONE[done][0])}
    other = BESIDE.get(dtype, dtype) if rng.random() < 0.3 else dtype
    types = {name: dtype if name == "A" else other for name in operands}
    text = _product_text(operands, more, at, types, (cast, sums, result), done)
    given = {name: _normal(rng, axes, sizes, types[name]) for name, axes in operands.items()}
    beside = {name: _normal(rng, axes, sizes, result) for name, axes in more.items()}
    wide = {name: x.astype(np.float64) for name, x in (given | beside).items()}
    products = [np.einsum(f"{left},{right}->{at}", wide["A"], wide[w], optimize=True) for w in operands if w != "A"]
    placed = [_placed(wide.get(name), axes, at) for name, axes in (("D", "n"), ("P", f"{batch}m"), ("R", at))]
    wanted = DONE[done][1](products[0], *placed, products[-1])
    numerics = str(rng.choice(["fast", "strict"])) if dtype in ("float32", "int8") else "fast"
    return MatrixProgram(text, numerics, [*given.values(), *beside.values()], [wanted], tolerance)


def _product_sizes(rng: np.random.Generator, small: bool) -> tuple[int, int, int]:
    kind = rng.random()
    if small:
        m, n, k = (int(rng.integers(1, 9)) * int(rng.choice([1, 3, 8, 16])) for _ in range(3))
        return (int(rng.integers(1, 17)), 8 * n, 64 * int(rng.integers(1, 5))) if kind < 0.2 else (m, n, k)
    if kind < 0.2:  # few rows of many columns and steps, as decoding has them
        return int(rng.integers(1, 17)), 32 * int(rng.integers(8, 100)), 64 * int(rng.integers(4, 40))
    m, n, k = (int(rng.integers(1, 60)) * int(rng.choice([1, 2, 8, 8, 16])) for _ in range(3))
    return (m, n, 16 * int(rng.integers(1, 5))) if kind < 0.3 else (m, n, k)


def _axes(rng: np.random.Generator, batch: str, plain: str) -> str:
    """The two axes of a matrix in one order or the other, a batch before or between."""
    first, last = plain if rng.random() < 0.6 else plain[::-1]
    return f"{first}{batch}{last}" if rng.random() < 0.2 else f"{batch}{first}{last}"


def _named(formula: str) -> set[str]:
    return {name for name, mark in (("D", "{b}"), ("P", "{p}"), ("R", "{r}")) if mark in formula}


def _product_text(
    operands: dict[str, str],
    more: dict[str, str],
    at: str,
    types: dict[str, str],
    made: tuple[str, str, str],
    done: str,
) -> str:
    cast, sums, result = made
    inputs = [f"{types[name]}({_list(axes.upper())}) {name}" for name, axes in operands.items()]
    inputs += [f"{result}({_list(axes.upper())}) {name}" for name, axes in more.items()]
    read = {name: cast.format(f"{name}({_list(axes)})") for name, axes in operands.items()}
    lines = [f"S({_list(at)}) +=! {read['A']} * {read['B']}"]
    lines += [f"U({_list(at)}) +=! {read['A']} * {read['V']}"] if "V" in read else []
    values = {"s": f"S({_list(at)})", "u": f"U({_list(at)})"}
    values = {name: f"{sums}({value})" if sums else value for name, value in values.items()}
    beside = {mark: f"{name}({_list(more.get(name, ''))})" for name, mark in (("D", "b"), ("P", "p"), ("R", "r"))}
    lines += [f"C({_list(at)}) = {result}({DONE[done][0].format(**values, **beside)})"]
    body = "\n    ".join(lines)
    return f"def f({', '.join(inputs)}) -> ({result}({_list(at.upper())}) C) {{\n    {body}\n}}"


def _list(axes: str) -> str:
    return ",".join(axes)


def _normal(rng: np.random.Generator, axes: str, sizes: dict[str, int], dtype: str) -> Array:
    shape = [sizes[a] for a in axes]
    if dtype in ("int8", "uint8"):
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape, dtype)
    return rng.standard_normal(shape).astype(weft.numpy_dtype(dtype))


def _placed(x: Array | None, axes: str, at: str) -> Array | float:
    """``x`` with an axis for each of ``at``."""
    if x is None:
        return 0.0
    order = sorted(axes, key=at.index)
    return np.transpose(x, [axes.index(a) for a in order]).reshape(
        [x.shape[axes.index(a)] if a in axes else 1 for a in at]
    )


#: How scores ``x`` of query ``s`` and key ``t`` are changed, and the same in NumPy; ``o`` keys come before the first
#: query's own, ``w`` is the width of a window. Masks are written as one may: what is kept, or what is not.
SCORES: dict[str, tuple[str, Callable[..., Array]]] = {
    "plain": ("{x}", lambda x, s, t, o, w: x),
    "ALiBi": ("{x} + (t - s) * 0.0625", lambda x, s, t, o, w: x + (t - s) * 0.0625),
    "soft cap": ("20.0 * tanh({x} * 0.05)", lambda x, s, t, o, w: 20 * np.tanh(x / 20)),
    "causal": ("s + {o} >= t ? {x} : -1e999", lambda x, s, t, o, w: np.where(s + o >= t, x, -np.inf)),
    "after": ("t > s + {o} ? -1e999 : {x}", lambda x, s, t, o, w: np.where(s + o >= t, x, -np.inf)),
    "window": (
        "s + {o} >= t && s + {o} - t < {w} ? {x} : -1e999",
        lambda x, s, t, o, w: np.where((s + o >= t) & (s + o - t < w), x, -np.inf),
    ),
    "outside a window": (
        "s + {o} < t || s + {o} - t >= {w} ? -1e999 : {x}",
        lambda x, s, t, o, w: np.where((s + o >= t) & (s + o - t < w), x, -np.inf),
    ),
    "a square left out": (
        "s < {w} && t < {w} && s != t ? -1e999 : {x}",
        lambda x, s, t, o, w: np.where((s < w) & (t < w) & (s != t), -np.inf, x),
    ),
    "causal, cap, ALiBi": (
        "s + {o} >= t ? 20.0 * tanh({x} * 0.05) + (t - s) * 0.125 : -1e999",
        lambda x, s, t, o, w: np.where(s + o >= t, 20 * np.tanh(x / 20) + (t - s) * 0.125, -np.inf),
    ),
}
ATTENTION = """def f({type}({q}) Q, {type}({k}) K, {type}({v}) V) -> ({type}({o}) O) {{
    P(b,h,s,t) +=! float32(Q({qi})) * float32(K({ki}))
    X(b,h,s,t) = {formula}
    M(b,h,s) max=! X(b,h,s,t)
    W(b,h,s,t) = exp(X(b,h,s,t) - M(b,h,s))
    L(b,h,s) +=! W(b,h,s,t)
{rest}
}}"""
#: The weights divided by their sum after the second product, or before it.
AFTER = "    U(b,h,s,e) +=! W(b,h,s,t) * float32(V({vi}))\n    O({oi}) = {type}(U(b,h,s,e) / L(b,h,s))"
BEFORE = """    Z(b,h,s,t) = W(b,h,s,t) / L(b,h,s)
    U(b,h,s,e) +=! Z(b,h,s,t) * float32(V({vi}))
    O({oi}) = {type}(U(b,h,s,e))"""


def draw_attention(seed: int, *, small: bool = False) -> MatrixProgram:
    """Heads before or after positions, groups of heads, keys before the queries, any widths and formulas of scores."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(["bfloat16", "float16"]))
    each, groups = int(rng.choice([1, 1, 2, 4])), int(rng.integers(1, 4))
    queries = int(rng.integers(1, 40)) * int(rng.choice([1, 8, 16]))
    before = 0 if rng.random() < 0.6 else int(rng.integers(0, 300))
    d, e = (int(rng.choice([64, 64, 128, 128, 32, 40, 80, 96, 192])) for _ in range(2))
    if small:
        each, groups, queries, before = each % 3, 1, 64 + queries % 11, before % 30
        d, e = (int(rng.choice([64, 32, 40])) for _ in range(2))
    sizes = {
        "b": 1 if small else int(rng.integers(1, 3)),
        "h": each * groups,
        "g": groups,
        "s": queries,
        "t": queries + before,
    }
    sizes |= {"d": d, "e": d if rng.random() < 0.7 else e}
    heads_first = rng.random() < 0.7
    axes = {name: text if heads_first else text[0] + text[2] + text[1] + text[3]
            for name, text in (("q", "bhsd"), ("k", "bgtd"), ("v", "bgte"), ("o", "bhse"))}  # fmt: skip
    score, formula = str(rng.choice(list(SCORES))), f"P(b,h,s,t) * {d**-0.5:.8f}"
    window = int(rng.integers(1, 200))
    given = [_normal(rng, axes[name], sizes, dtype) for name in "qkv"]
    names = {f"{name}i": _list(text).replace("g", f"h/{each}") for name, text in axes.items()}
    shapes = {name: _list(text.upper()) for name, text in axes.items()}
    named = {**names, **shapes, "type": dtype}
    rest = (AFTER if rng.random() < 0.75 else BEFORE).format(**named)
    changed = SCORES[score][0].format(x=formula, o=before, w=window)
    text = ATTENTION.format(**named, formula=changed, rest=rest)
    wanted = _attention(given, axes, each, lambda x, s, t: SCORES[score][1](x, s, t, before, window))
    return MatrixProgram(text, "fast", given, [wanted], 6e-3 if dtype == "bfloat16" else 2e-3)


def _attention(given: Sequence[Array], axes: dict[str, str], each: int, change: Callable[..., Array]) -> Array:
    q, k, v = (x.astype(np.float64) for x in given)
    wide = [np.repeat(x, each, axes[name].index("g")) for x, name in ((k, "k"), (v, "v"))]
    of_keys, of_values = (axes[name].replace("g", "h") for name in "kv")
    x = np.einsum(f"{axes['q']},{of_keys}->bhst", q, wide[0], optimize=True) * q.shape[-1] ** -0.5
    x = change(x, np.arange(x.shape[2])[:, None], np.arange(x.shape[3])[None])
    w = np.exp(x - x.max(-1, keepdims=True))
    result: Array = np.einsum(f"bhst,{of_values}->{axes['o']}", w / w.sum(-1, keepdims=True), wide[1], optimize=True)
    return result


#: Attention's gradients; those of keys that heads share are sums over these, at once or one after the other.
GRADIENT = """def f({type}({q}) Q, {type}({k}) K, {type}({v}) V, {type}({o}) O, {type}({o}) N, float32(B,H,S) L)
        -> ({type}({q}) dQ, {type}({k}) dK, {type}({v}) dV) {{
    X(b,h,s,t) +=! float32(Q({qi})) * float32(K({ki}))
    P(b,h,s,t) = {keep}exp(X(b,h,s,t) * {scale} - L(b,h,s)){otherwise}
    R(b,h,s) +=! float32(N({oi})) * float32(O({oi}))
    Y(b,h,s,t) +=! float32(N({oi})) * float32(V({vi}))
    Z(b,h,s,t) = P(b,h,s,t) * (Y(b,h,s,t) - R(b,h,s))
{sums}
    UQ({qi}) +=! Z(b,h,s,t) * float32(K({ki}))
    dQ({qi}) = {type}(UQ({qi}) * {scale})
    dK({kg}) = {type}(UK({kg}) * {scale})
    dV({vg}) = {type}(UV({vg}))
}}"""
#: Over rows and heads at once, or over rows for each head first.
AT_ONCE = """    UV({vg}) +=! P(b,{hg},s,t) * float32(N({og})){where}
    UK({kg}) +=! Z(b,{hg},s,t) * float32(Q({qg})){where}"""
ONE_BY_ONE = """    EV({vh}) +=! P(b,h,s,t) * float32(N({oi}))
    EK({kh}) +=! Z(b,h,s,t) * float32(Q({qi}))
    UV({vg}) +=! EV({ve}){where}
    UK({kg}) +=! EK({ke}){where}"""


def draw_gradient(seed: int, *, small: bool = False) -> MatrixProgram:
    """Gradients of queries, keys and values from results, their gradient and logarithms of sums of exponentials."""
    rng = np.random.default_rng(seed)
    dtype, causal = str(rng.choice(["bfloat16", "float16"])), bool(rng.integers(2))
    each, groups = int(rng.choice([1, 2, 4])), int(rng.integers(1, 4))
    sizes = {"b": int(rng.integers(1, 3)), "s": int(rng.integers(1, 40)) * int(rng.choice([1, 8, 16]))}
    sizes["t"] = sizes["s"] if causal or rng.random() < 0.6 else int(rng.integers(1, 500))
    d, e = (int(rng.choice([64, 64, 128, 128, 32, 40, 80, 96, 192, 256])) for _ in range(2))
    e = d if rng.random() < 0.7 else e
    if small:
        each, groups, d, e = each % 3 + 1, 1, *(int(x) for x in rng.choice([64, 32, 40], 2))
        sizes |= {"b": 1, "s": 64 + sizes["s"] % 9, "t": 64 + sizes[("t", "s")[causal]] % 9}
    sizes |= {"h": each * groups, "g": groups, "d": d, "e": e}
    heads_first, scale = rng.random() < 0.7, d**-0.5
    axes = {name: text if heads_first else text[0] + text[2] + text[1] + text[3]
            for name, text in (("q", "bhsd"), ("k", "bgtd"), ("v", "bgte"), ("o", "bhse"))}  # fmt: skip
    q, k, v, g = (_normal(rng, axes[name], sizes, dtype) for name in "qkvo")
    wanted, logs, out = _gradient((q, k, v, g), axes, each, causal)
    text = _gradient_text(axes, dtype, scale, causal, each, at_once=each == 1 or rng.random() < 0.7)
    given = [q, k, v, np.ascontiguousarray(out.astype(q.dtype)), g, logs.astype(np.float32)]
    return MatrixProgram(text, "fast", given, wanted, 1.2e-2 if dtype == "bfloat16" else 4e-3)


def _gradient_text(axes: dict[str, str], dtype: str, scale: float, causal: bool, each: int, *, at_once: bool) -> str:
    head = f"g*{each}+r" if each > 1 else "g"
    named = {name: _list(text.upper()) for name, text in axes.items()}
    named |= {f"{name}i": _list(text).replace("g", f"h/{each}" if each > 1 else "h") for name, text in axes.items()}
    named |= {f"{name}g": _list(text).replace("h", head) for name, text in axes.items()}
    named |= {f"{name}h": _list(axes[name]).replace("g", "h") for name in "kv"}
    named |= {f"{name}e": _list(axes[name]).replace("g", head) for name in "kv"}
    named |= {"type": dtype, "scale": f"{scale:.8f}", "hg": head, "where": f" where r in 0:{each}" if each > 1 else ""}
    named |= {"keep": "s >= t ? " if causal else "", "otherwise": " : 0.0" if causal else ""}
    return GRADIENT.format(**named, sums=(AT_ONCE if at_once else ONE_BY_ONE).format(**named))


def _gradient(
    given: Sequence[Array], axes: dict[str, str], each: int, causal: bool
) -> tuple[list[Array], Array, Array]:
    """The gradients, the logarithms, and the results."""
    order = {
        name: [text.index(a) for a in ("bhsd", "bgtd", "bgte", "bhse")["qkvo".index(name)]]
        for name, text in axes.items()
    }
    q, k, v, g = (np.transpose(x.astype(np.float64), order[name]) for x, name in zip(given, "qkvo"))
    k, v = (np.repeat(x, each, 1) for x in (k, v))
    scale = q.shape[-1] ** -0.5
    x = q @ k.swapaxes(-1, -2) * scale
    if causal:
        x = np.where(np.arange(x.shape[2])[:, None] >= np.arange(x.shape[3]), x, -np.inf)
    top = x.max(-1, keepdims=True)
    logs = np.log(np.exp(x - top).sum(-1)) + top[..., 0]
    p = np.exp(x - logs[..., None])
    out = p @ v
    z = p * (g @ v.swapaxes(-1, -2) - (g * out).sum(-1, keepdims=True)) * scale
    shared = [
        y.reshape(y.shape[0], -1, each, *y.shape[2:]).sum(2) for y in (z.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ g)
    ]
    back = {name: np.argsort(order[name]) for name in order}
    made = [np.transpose(y, back[name]) for y, name in zip((z @ k, *shared), "qkv")]
    return made, logs, np.transpose(out, back["o"])


#: What is done with sums ``s`` of the first of two products, ``b`` and ``r`` beside: formula, and the same in NumPy.
BETWEEN: dict[str, tuple[str, Callable[..., Array]]] = {
    "bias, ReLU": ("max({s} + {b}, 0.0)", lambda s, b, r: np.maximum(s + b, 0)),
    "gated": ("{s} * sigmoid({s}) * {r}", lambda s, b, r: s * sigmoid(s) * r),
    "scaled": ("{s} * 0.5", lambda s, b, r: s * 0.5),
}


def draw_layers(seed: int, *, small: bool = False) -> MatrixProgram:
    """Two products with a formula between them and one after, as layers have them: any layouts, batches before rows."""
    rng = np.random.default_rng(seed)
    dtype, batch = str(rng.choice(["bfloat16", "float16"])), str(rng.choice(["", "z"], p=[0.7, 0.3]))
    sizes = {a: int(rng.choice([64, 64, 128, 192, 256, 8 * rng.integers(2, 40)])) for a in "hkn"}
    sizes |= {"m": int(rng.integers(100, 1500)), "z": int(rng.integers(1, 5))}
    if small:
        sizes = {a: min(n, 2 if a == "z" else 130 if a == "m" else 64) for a, n in sizes.items()}
    axes = {"X": f"{batch}mk", "W": str(rng.choice(["hk", "kh"])), "B": "h", "R": f"{batch}mh"}
    axes |= {"V": str(rng.choice(["nh", "hn"])), "D": "n"}
    name = str(rng.choice(list(BETWEEN)))
    formula, same = BETWEEN[name]
    for unused in [x for x, mark in (("B", "{b}"), ("R", "{r}")) if mark not in formula]:
        del axes[unused]
    given = {name: _normal(rng, text, sizes, dtype) for name, text in axes.items()}
    wide = {name: x.astype(np.float64) for name, x in given.items()}
    first, second = f"{batch}mh", f"{batch}mn"
    s = np.einsum(f"{axes['X']},{axes['W']}->{first}", wide["X"], wide["W"], optimize=True)
    a = same(s, *(_placed(wide.get(n), axes.get(n, ""), first) for n in "BR"))
    rounded = a.astype(weft.numpy_dtype(dtype)).astype(np.float64)
    wanted = np.einsum(f"{first},{axes['V']}->{second}", rounded, wide["V"], optimize=True) + wide["D"]
    inputs = ", ".join(f"{dtype}({_list(text.upper())}) {name}" for name, text in axes.items())
    at, to = _list(first), _list(second)
    read = {n: f"float32({n}({_list(text)}))" for n, text in axes.items()}
    done = formula.format(s=f"P({at})", b=read.get("B"), r=read.get("R"))
    text = f"""def f({inputs}) -> ({dtype}({_list(second.upper())}) O) {{
    P({at}) +=! {read["X"]} * {read["W"]}
    A({at}) = {dtype}({done})
    Q({to}) +=! float32(A({at})) * {read["V"]}
    O({to}) = {dtype}(Q({to}) + {read["D"]})
}}"""
    return MatrixProgram(text, "fast", [*given.values()], [wanted], 8e-3 if dtype == "bfloat16" else 2e-3)

"""What is known of functions, as rewrites of sums: exp of a sum, inverses, extremes as sets, roots, sigmoids.

``fast`` rules hold for every float up to rounding, ``finite`` ones where nothing on the way is infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import gcd, lcm

from weft.algebra.cells import cells
from weft.algebra.functions import Functions
from weft.algebra.linear import names_of, negate
from weft.algebra.terms import ONE, Read, Sum, Term, number, product, restricted, scaled

#: Powers that are written out.
MOST_POWER = 8


def apply(functions: Functions, name: str, args: Sequence[Sum]) -> Sum:
    """``name(args)`` with the rules of that function; opaque where there are none."""
    rule = _RULES.get(name)
    if rule is None:
        return functions.instance(name, args)
    found: list[Term] = []
    for where, quotients, settled in cells(args):
        found += restricted(rule(functions, *settled), where, quotients)
    return tuple(found)


def times(functions: Functions, a: Sum, b: Sum) -> Sum:
    """The product, with inverses and roots that meet in it taken out."""
    if len(a) > 1 or len(b) > 1 or any(t.bound for t in (*a, *b)):
        functions.note("products are distributed over sums", "fast")
    if not (a and b and _is_whole(a) and _is_whole(b)):
        functions.note("0 * x = 0", "finite")
    return tuple(u for t in product(a, b) for u in _tidied(functions, t))


def _is_whole(terms: Sum) -> bool:
    """Whether no test leaves places where nothing is added: each has its opposite in another term."""
    tests = {w for t in terms for w in t.where if names_of([w[0]]).isdisjoint(t.bound)}
    return all(any(o in tests for o in negate(w)) for w in tests)


def _tidied(functions: Functions, term: Term) -> Sum:
    for n, r in enumerate(term.reads):
        if r.name.startswith("1/"):
            other = Read(r.name[2:], r.subscripts)
            if other in term.reads:
                functions.note("x * (1 / x) = 1", "finite")
                kept = list(term.reads)
                kept.remove(r)
                kept.remove(other)
                return _tidied(functions, replace(term, reads=tuple(kept)))
        if r.name.startswith("sqrt:") and r in term.reads[n + 1 :] and (under := functions.arguments(r)):
            functions.note("sqrt(x) * sqrt(x) = x", "finite")
            kept = [s for k, s in enumerate(term.reads) if k != n]
            kept.remove(r)
            return times(functions, (replace(term, reads=tuple(kept)),), under[0])
    return (term,)


def is_plain(term: Term) -> bool:
    """A product that nothing is summed over and nothing tests."""
    return not (term.bound or term.quotients or term.where)


def exp(functions: Functions, x: Sum) -> Sum:
    total = ONE
    rest: list[Term] = []
    for t in x:
        if t.reads == _INFINITE and t.weight < 0:
            return ()
        if is_plain(t):
            total = times(functions, total, _exp_of(functions, t))
        else:
            rest.append(t)
    if len(x) > 1:
        functions.note("exp(a + b) = exp(a) * exp(b)", "finite")
    if not rest:
        return total
    negative = all(t.weight < 0 for t in rest)
    whole = functions.opaque("exp", [scaled(tuple(rest), -1 if negative else 1)])
    return times(functions, total, inverse(functions, whole) if negative else whole)


def _exp_of(functions: Functions, t: Term) -> Sum:
    size = abs(t.weight)
    power = int(size) if size.denominator == 1 and size <= MOST_POWER else 1
    base = replace(t, weight=size / power)
    if (
        len(t.reads) == 1
        and t.reads[0].name.startswith("log:")
        and base.weight == 1
        and (under := functions.arguments(t.reads[0]))
    ):
        functions.note("exp(log(x)) = x", "finite")
        one = under[0]
    else:
        one = functions.opaque("exp", [(base,)])
    if t.weight < 0:
        one = inverse(functions, one)
    total = ONE
    for _ in range(power):
        total = times(functions, total, one)
    return total


_INFINITE = (Read("inf", ()),)


def log(functions: Functions, x: Sum) -> Sum:
    if len(x) != 1 or not is_plain(x[0]) or not x[0].reads or x[0].weight <= 0:
        return functions.opaque("log", [x])
    total: Sum = () if x[0].weight == 1 else functions.opaque("log", [number(x[0].weight)])
    for r in x[0].reads:
        total += _log_of(functions, r)
    if len(x[0].reads) > 1:
        functions.note("log(a * b) = log(a) + log(b)", "finite")
    return total


def _log_of(functions: Functions, r: Read) -> Sum:
    if r.name.startswith("1/"):
        return scaled(_log_of(functions, Read(r.name[2:], r.subscripts)), -1)
    if r.name.startswith("exp:") and (under := functions.arguments(r)):
        functions.note("log(exp(x)) = x", "finite")
        return under[0]
    if r.name.startswith("sum:") and (under := functions.arguments(r)):
        return functions.opaque("log", [under[0]])
    return functions.opaque("log", [(Term(reads=(r,)),)])


def inverse(functions: Functions, x: Sum) -> Sum:
    """1 / x: of products the product of inverses, of sums with a common factor that of the factor too."""
    if len(x) == 1 and is_plain(x[0]):
        t = x[0]
        if not t.weight:
            return functions.opaque("1/0", [()])
        found = Term(1 / t.weight, reads=tuple(_inverted(r) for r in t.reads))
        return (found,)
    if not x:
        return functions.opaque("1/0", [()])
    common = [r for r in x[0].reads if all(_is_free(r, t) and r in t.reads for t in x)]
    kept = []
    for t in x:
        reads = list(t.reads)
        for r in common:
            reads.remove(r) if r in reads else None
        kept.append(replace(t, reads=tuple(reads)))
    content = Fraction(gcd(*(t.weight.numerator for t in x)), lcm(*(t.weight.denominator for t in x)))
    whole = functions.opaque("sum", [scaled(tuple(kept), 1 / content)])
    if common:
        functions.note("a / (b * c) = (a / b) / c", "finite")
    factors = Term(1 / content, reads=tuple(_inverted(r) for r in common))
    return tuple(u for t in product((factors,), inverse(functions, whole)) for u in _tidied(functions, t))


def _inverted(r: Read) -> Read:
    return Read(r.name[2:] if r.name.startswith("1/") else f"1/{r.name}", r.subscripts)


def _is_free(r: Read, t: Term) -> bool:
    """Whether a read of the term is the same at all points that are summed."""
    return names_of(r.subscripts).isdisjoint({*t.bound, *(q.name for q in t.quotients)}) and t.reads.count(r) >= 1


def divide(functions: Functions, a: Sum, b: Sum) -> Sum:
    return times(functions, a, apply(functions, "inverse", [b]))


def sqrt(functions: Functions, x: Sum) -> Sum:
    if len(x) == 1 and is_plain(x[0]) and not x[0].reads and x[0].weight == 1:
        return x
    return functions.opaque("sqrt", [x])


def rsqrt(functions: Functions, x: Sum) -> Sum:
    return inverse(functions, sqrt(functions, x))


def sigmoid(functions: Functions, x: Sum) -> Sum:
    functions.note("sigmoid(x) = 1 / (1 + exp(-x))", "fast")
    return inverse(functions, ONE + exp(functions, scaled(x, -1)))


def tanh(functions: Functions, x: Sum) -> Sum:
    functions.note("tanh(x) = 2 * sigmoid(2 * x) - 1", "fast")
    return scaled(sigmoid(functions, scaled(x, 2)), 2) + number(-1)


def member(functions: Functions, x: Sum) -> Sum:
    """What stands for a value in a set: the read that it is, or an opaque name for it."""
    if len(x) == 1 and is_plain(x[0]) and x[0].weight == 1 and len(x[0].reads) == 1:
        under = functions.arguments(x[0].reads[0]) if x[0].reads[0].name.startswith("max:") else None
        return x if under is None else under[0]
    if len(x) == 1 and is_plain(x[0]) and x[0].weight < 0 and x[0].reads == _INFINITE:
        return ()
    return functions.opaque("value", [x])


def greatest(functions: Functions, members: Sum) -> Sum:
    """The greatest of a set of members; that of one is the member."""
    if not members:
        return scaled((Term(reads=_INFINITE),), -1)
    if len(members) == 1 and is_plain(members[0]):
        r = members[0].reads[0]
        under = functions.arguments(r) if r.name.startswith("value:") else None
        return members if under is None else under[0]
    return functions.opaque("max", [members])


def maximum(functions: Functions, a: Sum, b: Sum) -> Sum:
    return greatest(functions, member(functions, a) + member(functions, b))


def minimum(functions: Functions, a: Sum, b: Sum) -> Sum:
    return scaled(maximum(functions, scaled(a, -1), scaled(b, -1)), -1)


def relu(functions: Functions, x: Sum) -> Sum:
    return maximum(functions, x, ())


def absolute(functions: Functions, x: Sum) -> Sum:
    return maximum(functions, x, scaled(x, -1))


_RULES: dict[str, Callable[..., Sum]] = {
    "exp": exp,
    "log": log,
    "inverse": inverse,
    "sqrt": sqrt,
    "rsqrt": rsqrt,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "relu": relu,
    "abs": absolute,
    "fabs": absolute,
    "maximum": maximum,
    "minimum": minimum,
    "member": member,
    "greatest": greatest,
}

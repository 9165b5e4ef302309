"""What people write who know Python, numpy or a textbook: the full text of what they are told."""

from __future__ import annotations

import pytest

from weft.ir.errors import LanguageError
from weft.lang.parse import parse_programs

#: name -> (statement, message)
CASES: dict[str, tuple[str, str]] = {
    "numpy": (
        "O(i) = np.exp(A(i))",
        (
            "error: there is no module `np`\n"
            "  f.weft:2        O(i) = np.exp(A(i))\n"
            "                            ^^^\n"
            "  why:   functions are the language's own and written bare\n"
            "  help:  write `exp(x)`"
        ),
    ),
    "math": (
        "O(i) = math.sqrt(A(i))",
        (
            "error: there is no module `math`\n"
            "  f.weft:2        O(i) = math.sqrt(A(i))\n"
            "                              ^^^^\n"
            "  why:   functions are the language's own and written bare\n"
            "  help:  write `sqrt(x)`"
        ),
    ),
    "nested_module": (
        "O(i) = torch.nn.functional.relu(A(i))",
        (
            "error: there is no module `torch.nn.functional`\n"
            "  f.weft:2        O(i) = torch.nn.functional.relu(A(i))\n"
            "                               ^^\n"
            "  why:   functions are the language's own and written bare\n"
            "  help:  write `relu(x)`"
        ),
    ),
    "tensorflow": (
        "O(i) = tf.exp(A(i))",
        (
            "error: there is no module `tf`\n"
            "  f.weft:2        O(i) = tf.exp(A(i))\n"
            "                            ^^^\n"
            "  why:   functions are the language's own and written bare\n"
            "  help:  write `exp(x)`"
        ),
    ),
    "module_sum": (
        "O = np.sum(A)",
        (
            "error: there is no module `np`\n"
            "  f.weft:2        O = np.sum(A)\n"
            "                         ^^^\n"
            "  why:   functions are the language's own and written bare\n"
            "  help:  the assignment reduces: `S(i) +=! A(i,j)`, over the variables that are only on the right"
        ),
    ),
    "unknown_of_a_module": (
        "O(i) = F.flor(A(i))",
        (
            "error: there is no module `F`\n"
            "  f.weft:2        O(i) = F.flor(A(i))\n"
            "                           ^^^^\n"
            "  why:   functions are the language's own and written bare\n"
            "  help:  did you mean `floor` or `floormod` or `floordiv`?"
        ),
    ),
    "method": (
        "O(i) = A(i).exp()",
        (
            "error: an array has no method `exp`\n"
            "  f.weft:2        O(i) = A(i).exp()\n"
            "                             ^\n"
            "  why:   functions are written before their argument\n"
            "  help:  write `exp(x)`"
        ),
    ),
    "method_sum": (
        "O = A.sum()",
        (
            "error: an array has no method `sum`\n"
            "  f.weft:2        O = A.sum()\n"
            "                        ^^^\n"
            "  why:   functions are written before their argument\n"
            "  help:  the assignment reduces: `S(i) +=! A(i,j)`, over the variables that are only on the right"
        ),
    ),
    "transposed": (
        "O(i,j) = B.T(i,j)",
        (
            "error: an array has no attributes\n"
            "  f.weft:2        O(i,j) = B.T(i,j)\n"
            "                             ^\n"
            "  help:  write its subscripts in the other order: `A(j,i)`"
        ),
    ),
    "transposed_element": (
        "O(i,j) = B(i,j).T",
        (
            "error: an array has no attributes\n"
            "  f.weft:2        O(i,j) = B(i,j).T\n"
            "                                 ^\n"
            "  help:  write its subscripts in the other order: `A(j,i)`"
        ),
    ),
    "brackets": (
        "O(i) = A[i]",
        (
            "error: unexpected `[`\n"
            "  f.weft:2        O(i) = A[i]\n"
            "                          ^\n"
            "  why:   expected an operator here\n"
            "  help:  subscripts are written with parentheses: `A(i,j)`"
        ),
    ),
    "power": (
        "O(i) = A(i)**2",
        (
            "error: unexpected `*`\n"
            "  f.weft:2        O(i) = A(i)**2\n"
            "                              ^\n"
            "  why:   expected an expression here\n"
            "  help:  there is no `**`: write `pow(x, y)`"
        ),
    ),
    "caret": (
        "O(i) = A(i) ^ 2",
        (
            "error: unexpected `^`\n"
            "  f.weft:2        O(i) = A(i) ^ 2\n"
            "                              ^\n"
            "  why:   expected an operator here\n"
            "  help:  write `pow(x, y)` for a power, `bit_xor(x, y)` for bits"
        ),
    ),
    "and": (
        "O(i) = A(i) > 0 and A(i) < 1 ? 1.0 : 0.0",
        (
            "error: unexpected `(`\n"
            "  f.weft:2        O(i) = A(i) > 0 and A(i) < 1 ? 1.0 : 0.0\n"
            "                                       ^\n"
            "  why:   expected a name or `}` here\n"
            "  help:  write `&&` for a logical and"
        ),
    ),
    "or": (
        "O(i) = A(i) > 0 or A(i) < 1 ? 1.0 : 0.0",
        (
            "error: unexpected `(`\n"
            "  f.weft:2        O(i) = A(i) > 0 or A(i) < 1 ? 1.0 : 0.0\n"
            "                                      ^\n"
            "  why:   expected a name or `}` here\n"
            "  help:  write `||` for a logical or"
        ),
    ),
    "not": (
        "O(i) = not (A(i) > 0) ? 1.0 : 0.0",
        (
            "error: unknown tensor or function `not`\n"
            "  f.weft:2        O(i) = not (A(i) > 0) ? 1.0 : 0.0\n"
            "                         ^^^\n"
            "  why:   it is not a parameter, not written by an earlier statement and not a builtin\n"
            "  help:  write `!` for a logical not"
        ),
    ),
    "matrix_product": (
        "O(i,j) = B @ B",
        (
            "error: unexpected `@`\n"
            "  f.weft:2        O(i,j) = B @ B\n"
            "                             ^\n"
            "  why:   expected an operator here\n"
            "  help:  a product of matrices is a sum: `C(i,j) +=! A(i,k) * B(k,j)`"
        ),
    ),
    "assigned_by_two": (
        "O(i) == A(i)",
        (
            "error: unexpected `=`\n"
            "  f.weft:2        O(i) == A(i)\n"
            "                        ^\n"
            "  why:   expected an expression here\n"
            "  help:  write one `=` to assign; `==` compares two values"
        ),
    ),
    "walrus": (
        "O(i) := A(i)",
        (
            "error: unexpected `:`\n"
            "  f.weft:2        O(i) := A(i)\n"
            "                       ^\n"
            "  why:   expected `=`, a name or an assignment such as `+=!` here\n"
            "  help:  write `=` to assign"
        ),
    ),
    "if_then": (
        "O(i) = if A(i) > 0 then 1 else 0",
        (
            "error: unexpected `>`\n"
            "  f.weft:2        O(i) = if A(i) > 0 then 1 else 0\n"
            "                                 ^\n"
            "  why:   expected `=`, a name or an assignment such as `+=!` here\n"
            "  help:  write `condition ? a : b`"
        ),
    ),
    "if_else": (
        "O(i) = 1.0 if A(i) > 0 else 0.0",
        (
            "error: unexpected `(`\n"
            "  f.weft:2        O(i) = 1.0 if A(i) > 0 else 0.0\n"
            "                                 ^\n"
            "  why:   expected a name or `}` here\n"
            "  help:  write `condition ? a : b`"
        ),
    ),
    "where": (
        "O(i) = where(A(i) > 0, 1, 0)",
        (
            "error: unexpected `where`\n"
            "  f.weft:2        O(i) = where(A(i) > 0, 1, 0)\n"
            "                         ^^^^^\n"
            "  why:   expected an expression here\n"
            "  help:  write `condition ? a : b`; `where` gives ranges, after the value"
        ),
    ),
    "select": (
        "O(i) = select(A(i) > 0, 1, 0)",
        (
            "error: unknown tensor or function `select`\n"
            "  f.weft:2        O(i) = select(A(i) > 0, 1, 0)\n"
            "                         ^^^^^^\n"
            "  why:   it is not a parameter, not written by an earlier statement and not a builtin\n"
            "  help:  write `condition ? a : b`"
        ),
    ),
    "slice": (
        "O(i) = A(:)",
        (
            "error: unexpected `:`\n"
            "  f.weft:2        O(i) = A(:)\n"
            "                           ^\n"
            "  why:   expected an expression or `)` here\n"
            "  help:  there are no slices: an index variable takes all, as `i` in `B(i) = A(i)`"
        ),
    ),
    "lambda": (
        "O(i) = lambda x: x",
        (
            "error: unexpected `:`\n"
            "  f.weft:2        O(i) = lambda x: x\n"
            "                                 ^\n"
            "  why:   expected `(`, `=`, a name or an assignment such as `+=!` here\n"
            "  help:  there are no functions of your own inside a statement: write the value itself"
        ),
    ),
    "true": (
        "O(i) = True",
        (
            "error: there is no `True`\n"
            "  f.weft:2        O(i) = True\n"
            "                         ^^^^\n"
            "  help:  write `true`"
        ),
    ),
    "none": (
        "O(i) = None",
        (
            "error: there is no `None`\n"
            "  f.weft:2        O(i) = None\n"
            "                         ^^^^\n"
            "  help:  leave it out: every element has a value"
        ),
    ),
    "bars": (
        "O(i) = |A(i)|",
        (
            "error: unexpected `|`\n"
            "  f.weft:2        O(i) = |A(i)|\n"
            "                         ^\n"
            "  why:   expected an expression here\n"
            "  help:  write `abs(x)`"
        ),
    ),
    "squared": (
        "O(i) = A(i)²",
        (
            "error: unexpected character U+00B2 `²`\n"
            "  f.weft:2        O(i) = A(i)²\n"
            "                             ^\n"
            "  why:   expected an operator here\n"
            "  help:  write `x * x`, or `pow(x, y)`"
        ),
    ),
    "sigma": (
        "O = ∑ A(i)",
        (
            "error: unexpected character U+2211 `∑`\n"
            "  f.weft:2        O = ∑ A(i)\n"
            "                      ^\n"
            "  why:   expected an expression here\n"
            "  help:  the assignment reduces: `S(i) +=! A(i,j)`, over the variables that are only on the right"
        ),
    ),
    "bare_argument": (
        "O(i) = exp A(i)",
        (
            "error: unexpected `}`\n"
            "  f.weft:3        }\n"
            "                  ^\n"
            "  why:   expected `=`, a name or an assignment such as `+=!` here\n"
            "  help:  write `exp(A(i))`"
        ),
    ),
    "not_equal_twice": (
        "O(i) = A(i) !== 0",
        (
            "error: unexpected `=`\n"
            "  f.weft:2        O(i) = A(i) !== 0\n"
            "                                ^\n"
            "  why:   expected an expression here\n"
            "  help:  write `!=` to compare"
        ),
    ),
    "basic": (
        "O(i) = A(i) <> 0",
        (
            "error: unexpected `>`\n"
            "  f.weft:2        O(i) = A(i) <> 0\n"
            "                               ^\n"
            "  why:   expected an expression here\n"
            "  help:  write `!=` to compare"
        ),
    ),
    "no_star": (
        "O(i) = 2A(i)",
        (
            "error: unexpected `}`\n"
            "  f.weft:3        }\n"
            "                  ^\n"
            "  why:   expected `=`, a name or an assignment such as `+=!` here\n"
            "  help:  a product is written with `*`"
        ),
    ),
    "times": (
        "O(i) = A(i) × A(i)",
        (
            "error: unexpected character U+00D7 `×`\n"
            "  f.weft:2        O(i) = A(i) × A(i)\n"
            "                              ^\n"
            "  why:   expected an operator here\n"
            "  help:  write `*`"
        ),
    ),
    "dash": (
        "O(i) = −A(i)",
        (
            "error: unexpected character U+2212 `−`\n"
            "  f.weft:2        O(i) = −A(i)\n"
            "                         ^\n"
            "  why:   expected an expression here\n"
            "  help:  write `-`"
        ),
    ),
    "ln": (
        "O(i) = ln(A(i))",
        (
            "error: unknown tensor or function `ln`\n"
            "  f.weft:2        O(i) = ln(A(i))\n"
            "                         ^^\n"
            "  why:   it is not a parameter, not written by an earlier statement and not a builtin\n"
            "  help:  write `log(x)`, the natural logarithm"
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_text(name: str) -> None:
    statement, message = CASES[name]
    with pytest.raises(LanguageError) as caught:
        parse_programs(f"def f(float(N) A, float(N,N) B) -> (O) {{\n    {statement}\n}}", "f.weft")
    assert str(caught.value) == message

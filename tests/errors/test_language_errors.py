"""The full text of every error a program in the whiteboard language can cause at its definition."""

from __future__ import annotations

import pytest

from weft.ir.errors import LanguageError, ShapeError, UnsupportedError
from weft.lang.parse import parse_programs

#: name -> (class, program, message)
CASES: dict[str, tuple[type[Exception], str, str]] = {
    "minus_assign": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) -= A(i)\n}"),
        (
            "error: unexpected `-`\n"
            "  f.weft:2        B(i) -= A(i)\n"
            "                       ^\n"
            "  why:   expected `=`, a name or an assignment such as `+=!` here\n"
            "  help:  there is no `-=`: write `+=` and negate the right side"
        ),
    ),
    "brackets": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B[i] = A(i)\n}"),
        (
            "error: unexpected `[`\n"
            "  f.weft:2        B[i] = A(i)\n"
            "                   ^\n"
            "  why:   expected `(`, `=`, a name or an assignment such as `+=!` here\n"
            "  help:  subscripts are written with parentheses: `A(i,j)`"
        ),
    ),
    "outside_does_not_fit": (
        LanguageError,
        ("def f(uint8(N) A) -> (B) {\n    B(i) = A(i-1) where i in 0:N, A outside -1\n}"),
        (
            "error: `A` holds uint8, and what is outside is -1\n"
            "  f.weft:2        B(i) = A(i-1) where i in 0:N, A outside -1\n"
            "                                                          ^^\n"
            "  why:   what is read beyond an edge has the type of the elements, which does not hold int32 here\n"
            "  help:  convert it, `uint8(...)`, or choose by a test: `i >= 0 ? A(i) : ...`"
        ),
    ),
    "chained_comparison": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = 0 < A(i) + 1 <= 3 ? A(i) : 0.0\n}"),
        (
            "error: comparisons in a chain\n"
            "  f.weft:2        B(i) = 0 < A(i) + 1 <= 3 ? A(i) : 0.0\n"
            "                         ^^^^^^^^^^^^^^^^^\n"
            "  why:   `0 < A(i) + 1` would be compared as true or false with `3`, as in C\n"
            "  help:  write `0 < A(i) + 1 && A(i) + 1 <= 3`"
        ),
    ),
    "power": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i) ** 2\n}"),
        (
            "error: unexpected `*`\n"
            "  f.weft:2        B(i) = A(i) ** 2\n"
            "                               ^\n"
            "  why:   expected an expression here\n"
            "  help:  there is no `**`: write `pow(x, y)`"
        ),
    ),
    "bitwise": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i) & 2\n}"),
        (
            "error: unexpected `&`\n"
            "  f.weft:2        B(i) = A(i) & 2\n"
            "                              ^\n"
            "  why:   expected an operator here\n"
            "  help:  write `&&` for a logical and"
        ),
    ),
    "missing_brace": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i)\n"),
        (
            "error: unexpected end of the text\n"
            "  f.weft:2        B(i) = A(i)\n"
            "                             ^\n"
            "  why:   expected an operator, the next statement, `where` or `}` here\n"
            "  help:  the definition is not closed: a `}` is missing"
        ),
    ),
    "missing_paren": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = exp(A(i)\n}"),
        (
            "error: unexpected `}`\n"
            "  f.weft:3        }\n"
            "                  ^\n"
            "  why:   expected `)` or `,` here\n"
            "  help:  a `)` is missing"
        ),
    ),
    "missing_arrow": (
        LanguageError,
        ("def f(float(N) A) (B) {\n    B(i) = A(i)\n}"),
        (
            "error: unexpected `(`\n"
            "  f.weft:1        def f(float(N) A) (B) {\n"
            "                                    ^\n"
            "  why:   expected `->` here\n"
            "  help:  a definition reads `def f(float(N) A) -> (B) { ... }`"
        ),
    ),
    "missing_operand": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i) +\n}"),
        ("error: unexpected `}`\n  f.weft:3        }\n                  ^\n  why:   expected an expression here"),
    ),
    "missing_assign": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) A(i) + 1\n}"),
        (
            "error: unexpected `(`\n"
            "  f.weft:2        B(i) A(i) + 1\n"
            "                        ^\n"
            "  why:   expected a name or `}` here\n"
            "  help:  to assign, write `=` or `+=!` between the left side and the value"
        ),
    ),
    "def_inside": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i)\ndef g(float(N) A) -> (B) { B(i) = A(i) }"),
        (
            "error: unexpected `def`\n"
            "  f.weft:3        def g(float(N) A) -> (B) { B(i) = A(i) }\n"
            "                  ^^^\n"
            "  why:   expected an operator, the next statement, `where` or `}` here\n"
            "  help:  the definition is not closed: a `}` is missing"
        ),
    ),
    "where_range": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i) where i 0:N\n}"),
        (
            "error: unexpected `0`\n"
            "  f.weft:2        B(i) = A(i) where i 0:N\n"
            "                                      ^\n"
            "  why:   expected `=`, `in` or `outside` here"
        ),
    ),
    "for_loop": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    for (int i = 0; i < N; i++) B(i) = A(i)\n}"),
        (
            "error: unexpected `(`\n"
            "  f.weft:2        for (int i = 0; i < N; i++) B(i) = A(i)\n"
            "                      ^\n"
            "  why:   expected a name here\n"
            "  help:  an index variable on the left is a loop; a block of steps reads `for t in 1:T { ... }`"
        ),
    ),
    "binary_garbage": (
        LanguageError,
        "\x00\x01\x02",
        (
            "error: unexpected character U+0000\n"
            "  f.weft:1           \n"
            "                  ^\n"
            "  why:   expected `def` here"
        ),
    ),
    "accent": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = Á(i)\n}"),
        (
            "error: unexpected character U+00C1 `Á`\n"
            "  f.weft:2        B(i) = Á(i)\n"
            "                         ^\n"
            "  why:   expected an expression here"
        ),
    ),
    "no_definition": (
        LanguageError,
        "# nothing here\n",
        (
            "error: there is no definition in the text\n"
            "  f.weft:1        # nothing here\n"
            "                  ^\n"
            "  why:   a program is one `def` or several\n"
            "  help:  write `def name(float(N) A) -> (B) { B(i) = A(i) }`"
        ),
    ),
    "empty": (
        LanguageError,
        "",
        (
            "error: there is no definition in the text\n"
            "  why:   a program is one `def` or several\n"
            "  help:  write `def name(float(N) A) -> (B) { B(i) = A(i) }`"
        ),
    ),
    "huge_integer": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i) + 99999999999999999999\n}"),
        (
            "error: integer is too large\n"
            "  f.weft:2        B(i) = A(i) + 99999999999999999999\n"
            "                                ^^^^^^^^^^^^^^^^^^^^\n"
            "  why:   no element type holds more than 64 bits\n"
            "  help:  write it as a float, with a `.` or an exponent"
        ),
    ),
    "unknown_type": (
        LanguageError,
        ("def f(flaot(N) A) -> (B) {\n    B(i) = A(i)\n}"),
        (
            "error: unknown type `flaot`\n"
            "  f.weft:1        def f(flaot(N) A) -> (B) {\n"
            "                        ^^^^^\n"
            "  why:   the types are float, double, half, int, uint, bool, int8, int16, int32, int64, ui"
            "nt8, uint16, uint32, uint64, float16, bfloat16, float32, float64, "
            "float8_e4m3fn, float8_e5m2\n"
            "  help:  did you mean `float` or `float64` or `float32`?"
        ),
    ),
    "untyped_param": (
        LanguageError,
        ("def f(A) -> (B) {\n    B(i) = A(i)\n}"),
        (
            "error: parameter `A` has no type\n"
            "  f.weft:1        def f(A) -> (B) {\n"
            "                        ^\n"
            "  why:   only outputs may leave it out\n"
            "  help:  write `float(N) A` for a tensor, `float A` for a number"
        ),
    ),
    "size_expression": (
        LanguageError,
        ("def f(float(2*N) A) -> (B) {\n    B(i) = A(i)\n}"),
        (
            "error: a size of a parameter must be a name or an integer\n"
            "  f.weft:1        def f(float(2*N) A) -> (B) {\n"
            "                              ^^^\n"
            "  why:   sizes are read off the arguments of a call\n"
            "  help:  give the size a name of its own"
        ),
    ),
    "unknown_output_size": (
        LanguageError,
        ("def f(float(N) A) -> (float(M) B) {\n    B(i) = A(i)\n}"),
        (
            "error: unknown size `M`\n"
            "  f.weft:1        def f(float(N) A) -> (float(M) B) {\n"
            "                                              ^\n"
            "  why:   no input has a dimension of that name\n"
            "  help:  pass it as a parameter: `int M`"
        ),
    ),
    "twice_defined": (
        LanguageError,
        ("def f(float(N) A) -> (B) { B(i) = A(i) }\ndef f(float(N) A) -> (B) { B(i) = A(i) }"),
        (
            "error: `f` is defined twice\n"
            "  f.weft:2        def f(float(N) A) -> (B) { B(i) = A(i) }\n"
            "                      ^\n"
            "  why:   it was first defined on line 1"
        ),
    ),
    "twice_declared": (
        LanguageError,
        ("def f(float(N) A, float(N) A) -> (B) {\n    B(i) = A(i)\n}"),
        (
            "error: `A` is declared twice\n"
            "  f.weft:1        def f(float(N) A, float(N) A) -> (B) {\n"
            "                                             ^\n"
            "  why:   it is already an input of `f`\n"
            "  help:  give one of the two another name"
        ),
    ),
    "no_outputs": (
        LanguageError,
        ("def f(float(N) A) -> () {\n}"),
        (
            "error: `f` has no outputs\n"
            "  f.weft:1        def f(float(N) A) -> () {\n"
            "                      ^\n"
            "  why:   what it computes would be lost\n"
            "  help:  name them after the arrow: `-> (C)`"
        ),
    ),
    "output_never_written": (
        LanguageError,
        ("def f(float(N) A) -> (B, C) {\n    B(i) = A(i)\n}"),
        (
            "error: output `C` is never written\n"
            "  f.weft:1        def f(float(N) A) -> (B, C) {\n"
            "                                           ^\n"
            "  why:   no statement has it on the left\n"
            "  help:  add a statement such as `C(i) = ...`, or remove it"
        ),
    ),
    "unknown_function": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = sqroot(A(i))\n}"),
        (
            "error: unknown tensor or function `sqroot`\n"
            "  f.weft:2        B(i) = sqroot(A(i))\n"
            "                         ^^^^^^\n"
            "  why:   it is not a parameter, not written by an earlier statement and not a builtin\n"
            "  help:  did you mean `sqrt` or `rsqrt`?"
        ),
    ),
    "unknown_tensor": (
        LanguageError,
        ("def f(float(N) Weights) -> (B) {\n    B(i) = Wieghts(i)\n}"),
        (
            "error: unknown tensor or function `Wieghts`\n"
            "  f.weft:2        B(i) = Wieghts(i)\n"
            "                         ^^^^^^^\n"
            "  why:   it is not a parameter, not written by an earlier statement and not a builtin\n"
            "  help:  did you mean `Weights`?"
        ),
    ),
    "wrong_rank": (
        ShapeError,
        ("def f(float(M,N) A) -> (B) {\n    B(i) = A(i)\n}"),
        (
            "error: `A` has 2 dimensions, but 1 index is given\n"
            "  f.weft:2        B(i) = A(i)\n"
            "                         ^^^^\n"
            "  help:  write `A(i, j)`"
        ),
    ),
    "no_subscripts": (
        LanguageError,
        ("def f(float(M,N) A) -> (B) {\n    B(i) = A * 2\n}"),
        (
            "error: tensor `A` is used without subscripts\n"
            "  f.weft:2        B(i) = A * 2\n"
            "                         ^\n"
            "  why:   it has 2 dimensions, and a statement is about single elements\n"
            "  help:  write `A(i,j)`"
        ),
    ),
    "size_called": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i) * N(i)\n}"),
        (
            "error: `N` is a size, not a tensor or function\n"
            "  f.weft:2        B(i) = A(i) * N(i)\n"
            "                                ^\n"
            "  help:  write `N` alone"
        ),
    ),
    "argument_count": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = pow(A(i))\n}"),
        (
            "error: `pow` takes 2 arguments, not 1\n"
            "  f.weft:2        B(i) = pow(A(i))\n"
            "                         ^^^^^^^^^\n"
            "  help:  write `pow(x, y)`"
        ),
    ),
    "cast_count": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = int(A(i), 2)\n}"),
        (
            "error: `int(...)` converts one value, not 2\n"
            "  f.weft:2        B(i) = int(A(i), 2)\n"
            "                         ^^^^^^^^^^^^\n"
            "  help:  declare tensors in the parameter list or as temporaries: `float(N) T`"
        ),
    ),
    "float_subscript": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(A(i))\n}"),
        (
            "error: a subscript or bound must be an integer, not float32\n"
            "  f.weft:2        B(i) = A(A(i))\n"
            "                           ^^^^\n"
            "  why:   it says which element\n"
            "  help:  convert it: `int(...)` truncates, `int(floor(...))` rounds down"
        ),
    ),
    "float_literal_subscript": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i + 0.5)\n}"),
        (
            "error: a subscript or bound must be an integer, not float32\n"
            "  f.weft:2        B(i) = A(i + 0.5)\n"
            "                               ^^^\n"
            "  why:   it says which element\n"
            "  help:  convert it: `int(...)` truncates, `int(floor(...))` rounds down"
        ),
    ),
    "bits_of_float": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = bit_and(A(i), 3)\n}"),
        (
            "error: `bit_and` takes integers, not float32\n"
            "  f.weft:2        B(i) = bit_and(A(i), 3)\n"
            "                         ^^^^^^^^^^^^^^^^\n"
            "  help:  convert with `int(...)`"
        ),
    ),
    "no_such_dimension": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i) / A.1\n}"),
        (
            "error: `A` has no dimension 1\n"
            "  f.weft:2        B(i) = A(i) / A.1\n"
            "                                ^^^\n"
            "  why:   it has 1 dimension, counted from 0"
        ),
    ),
    "narrowing": (
        LanguageError,
        ("def f(float(N) A) -> (half(N) B) {\n    B(i) = A(i)\n}"),
        (
            "error: cannot put float32 into float16 tensor `B`\n"
            "  f.weft:2        B(i) = A(i)\n"
            "                  ^^^^^^^^^^^\n"
            "  why:   float32 narrows to float16, and values are never narrowed silently\n"
            "  help:  convert the value: `float16(...)`, or declare `B` as float32"
        ),
    ),
    "reduction_with_equals": (
        LanguageError,
        ("def f(float(M,N) A) -> (B) {\n    B(i) = A(i,j)\n}"),
        (
            "error: `=` with reduction variable `j`\n"
            "  f.weft:2        B(i) = A(i,j)\n"
            "                             ^\n"
            "  why:   `j` is not on the left, so every value of it would overwrite `B` again\n"
            "  help:  say how to combine the values: `+=!` sums from zero, `+=` adds to what is there"
        ),
    ),
    "write_input": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    A(i) = 0\n    B(i) = A(i)\n}"),
        (
            "error: cannot write `A`\n"
            "  f.weft:2        A(i) = 0\n"
            "                  ^^^^^^^^\n"
            "  why:   it is an input; what a call is given is never changed\n"
            "  help:  write to another tensor, such as `A_new`"
        ),
    ),
    "unknown_range": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i,j) = A(i)\n}"),
        (
            "error: unknown range of index variable `j`\n"
            "  f.weft:2        B(i,j) = A(i)\n"
            "                      ^\n"
            "  why:   no access to a tensor of known size mentions `j`\n"
            "  help:  add `where j in 0:...` with the range you mean"
        ),
    ),
    "tied_range": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i,j) = A(i + j)\n}"),
        (
            "error: unknown range of index variables `i`, `j`\n"
            "  f.weft:2        B(i,j) = A(i + j)\n"
            "                    ^\n"
            "  why:   `i` is tied to `j` in `A(i+j)`; `j` is tied to `i` in `A(i+j)`\n"
            "  help:  add `where i in 0:..., j in 0:...` with the range you mean"
        ),
    ),
    "out_of_bounds": (
        ShapeError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i + 3) where i in 0:N\n}"),
        (
            "error: `A(i+3)` reads outside `A`\n"
            "  f.weft:2        B(i) = A(i + 3) where i in 0:N\n"
            "                         ^^^^^^^^\n"
            "  why:   at i=N-1: index N+2 of dimension 0, which has size N\n"
            "  help:  give the range: `where i in 0:N-3`, or say what is there: `where A outside zero`"
        ),
    ),
    "before_the_start": (
        ShapeError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i - 1)\n}"),
        (
            "error: `A(i-1)` reads outside `A`\n"
            "  f.weft:2        B(i) = A(i - 1)\n"
            "                         ^^^^^^^^\n"
            "  why:   at i=0: index -1 of dimension 0, which has size N\n"
            "  help:  give the range: `where i in 1:N+1`, or say what is there: `where A outside zero`"
        ),
    ),
    "bound_reads_tensor": (
        LanguageError,
        ("def f(float(N) A, int(N) L) -> (B) {\n    B(i) +=! A(j) where i in 0:N, j in 0:L(i)\n}"),
        (
            "error: a bound of `j` reads a tensor\n"
            "  f.weft:2        B(i) +=! A(j) where i in 0:N, j in 0:L(i)\n"
            "                                                       ^^^^\n"
            "  why:   ranges depend on sizes, integer parameters and other index variables only\n"
            "  help:  use a wider range and a condition in the expression"
        ),
    ),
    "unused_range": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i) where j in 0:N\n}"),
        (
            "error: `j` has a range but is not used\n"
            "  f.weft:2        B(i) = A(i) where j in 0:N\n"
            "                                    ^^^^^^^^\n"
            "  why:   no subscript or value of the statement mentions it\n"
            "  help:  remove the clause or use the variable"
        ),
    ),
    "range_of_size": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i) where N in 0:5\n}"),
        (
            "error: `N` is not an index variable\n"
            "  f.weft:2        B(i) = A(i) where N in 0:5\n"
            "                                    ^\n"
            "  why:   it names a tensor, a size or a parameter\n"
            "  help:  give the index variable another name"
        ),
    ),
    "let_loops": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(k) where k = j + 1, j = k - 1\n}"),
        (
            "error: `k` is defined by itself\n"
            "  f.weft:2        B(i) = A(k) where k = j + 1, j = k - 1\n"
            "                                                   ^\n"
            "  why:   its `where` clause leads back to it: k -> j -> k\n"
            "  help:  for a range write `k in lo:hi`"
        ),
    ),
    "outside_unread": (
        LanguageError,
        ("def f(float(N) Image) -> (B) {\n    B(i) = Image(i) where Imag outside zero\n}"),
        (
            "error: `Imag` has an `outside` but is not read\n"
            "  f.weft:2        B(i) = Image(i) where Imag outside zero\n"
            "                                        ^^^^\n"
            "  why:   the clause says what reads of a tensor beyond its edge give, in this statement\n"
            "  help:  did you mean `Image`?"
        ),
    ),
    "call_in_expression": (
        LanguageError,
        ("def g(float(N) A) -> (B) { B(i) = A(i) }\ndef f(float(N) A) -> (B) {\n    B(i) = g(A) + 1\n}"),
        (
            "error: definition `g` is called inside an expression\n"
            "  f.weft:3        B(i) = g(A) + 1\n"
            "                         ^\n"
            "  why:   a definition gives whole tensors, an expression is about single elements\n"
            "  help:  give it a statement of its own: `T = g(...)`"
        ),
    ),
    "recursion": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B = f(A)\n}"),
        (
            "error: `f` calls itself\n"
            "  f.weft:2        B = f(A)\n"
            "                      ^\n"
            "  why:   the calls go round: f -> f\n"
            "  help:  a scan is written as a statement that reads its own earlier elements"
        ),
    ),
    "scatter_without_size": (
        LanguageError,
        ("def f(float(N) A, int(N) I) -> (B) {\n    B(I(i)) +=! A(i)\n}"),
        (
            "error: the size of dimension 0 of `B` is unknown\n"
            "  f.weft:2        B(I(i)) +=! A(i)\n"
            "                  ^^^^^^^^^^^^^^^^\n"
            "  why:   `B(I(i))` writes where the data says\n"
            "  help:  declare it: `-> (float(M) B)`"
        ),
    ),
    "argmin_needs_one": (
        LanguageError,
        ("def f(float(M,N) A) -> (I) {\n    I argmin=! A(m,n)\n}"),
        (
            "error: `argmin=` needs exactly one reduction variable\n"
            "  f.weft:2        I argmin=! A(m,n)\n"
            "                  ^^^^^^^^^^^^^^^^^\n"
            "  why:   it gives the value of the one reduction variable; there are 2\n"
            "  help:  write `I(m) argmin=! D(m,n)`"
        ),
    ),
    "sum_into_bool": (
        LanguageError,
        ("def f(bool(N) A) -> (bool B) {\n    B +=! A(i)\n}"),
        (
            "error: `+=` into bool tensor `B`\n"
            "  f.weft:2        B +=! A(i)\n"
            "                  ^^^^^^^^^^\n"
            "  why:   bools have no sums and products\n"
            "  help:  use `max=` for any, or an int tensor"
        ),
    ),
    "read_before_write": (
        LanguageError,
        ("def f(float(N) A) -> (B, C) {\n    B(i) = A(i) + C(i)\n    C(i) = A(i)\n}"),
        (
            "error: `C` is read before it is written\n"
            "  f.weft:2        B(i) = A(i) + C(i)\n"
            "                                ^^^^\n"
            "  why:   its type and sizes are not known yet\n"
            "  help:  write it first, or declare it with its type: `-> (float(N) C)`"
        ),
    ),
    "let_of_size": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i) where N = 3\n}"),
        (
            "error: `N` already has a meaning\n"
            "  f.weft:2        B(i) = A(i) where N = 3\n"
            "                                    ^\n"
            "  why:   it names a tensor, a size or a parameter\n"
            "  help:  give what the clause defines another name"
        ),
    ),
    "let_twice": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(k) where k = i, k = i + 1\n}"),
        (
            "error: `k` is given twice in one `where`\n"
            "  f.weft:2        B(i) = A(k) where k = i, k = i + 1\n"
            "                                           ^"
        ),
    ),
    "let_and_range": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(k) where k = i, k in 0:N\n}"),
        (
            "error: `k` has both a value and a range in one `where`\n"
            "  f.weft:2        B(i) = A(k) where k = i, k in 0:N\n"
            "                                           ^\n"
            "  why:   `k = ...` already says what it is\n"
            "  help:  keep one of the two clauses"
        ),
    ),
    "bessel": (
        UnsupportedError,
        ("def f(float(N) A) -> (B) {\n    B(i) = j0f(A(i))\n}"),
        (
            "error: function `j0f` is not available\n"
            "  f.weft:2        B(i) = j0f(A(i))\n"
            "                         ^^^\n"
            "  why:   Bessel functions and functions that give two results are missing\n"
            "  help:  of two results, compute each: `sin(x)` and `cos(x)`, `trunc(x)` and `x - trunc(x)`"
        ),
    ),
    "huge_subscript": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i + 9223372036854775808)\n}"),
        (
            "error: integer is too large for a subscript or size\n"
            "  f.weft:2        B(i) = A(i + 9223372036854775808)\n"
            "                               ^^^^^^^^^^^^^^^^^^^\n"
            "  why:   positions are counted in int64"
        ),
    ),
    "outside_function": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = outside(A(i))\n}"),
        (
            "error: `outside` takes a tensor access and what it gives beyond the edge\n"
            "  f.weft:2        B(i) = outside(A(i))\n"
            "                         ^^^^^^^^^^^^^\n"
            "  help:  write `outside(A(i-1), zero)`, or edge, wrap, reflect, or a value"
        ),
    ),
    "call_arguments": (
        LanguageError,
        ("def g(float(N) A) -> (B) { B(i) = A(i) }\ndef f(float(N) A) -> (B) {\n    B = g(A, A)\n}"),
        (
            "error: `g` takes 1 argument, not 2\n"
            "  f.weft:3        B = g(A, A)\n"
            "                      ^^^^^^^\n"
            "  why:   its parameters are A"
        ),
    ),
    "call_target": (
        LanguageError,
        ("def g(float(N) A) -> (B) { B(i) = A(i) }\ndef f(float(N) A) -> (B) {\n    B(i) = A(i)\n    B = g(A)\n}"),
        (
            "error: `B` cannot receive a result of `g`\n"
            "  f.weft:4        B = g(A)\n"
            "                  ^\n"
            "  why:   it is written already, and a call gives new tensors\n"
            "  help:  use another name, such as `B_new`"
        ),
    ),
    "call_element": (
        LanguageError,
        ("def g(float(N) A) -> (B) { B(i) = A(i) }\ndef f(float(N) A) -> (B) {\n    B(i) = g(A)\n}"),
        (
            "error: the result of `g` is a whole tensor\n"
            "  f.weft:3        B(i) = g(A)\n"
            "                  ^\n"
            "  why:   a call gives new tensors and cannot write single elements or accumulate\n"
            "  help:  write `B = g(...)`"
        ),
    ),
    "call_type": (
        LanguageError,
        ("def g(int(N) A) -> (B) { B(i) = A(i) }\ndef f(float(N) A) -> (B) {\n    B = g(A)\n}"),
        (
            "error: `A` does not fit parameter `A`\n"
            "  f.weft:3        B = g(A)\n"
            "                        ^\n"
            "  why:   it is float32 with 1 dimension; int32 with 1 is wanted"
        ),
    ),
    "word_and": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i) > 0 and A(i) < 1 ? 1.0 : 0.0\n}"),
        (
            "error: unexpected `(`\n"
            "  f.weft:2        B(i) = A(i) > 0 and A(i) < 1 ? 1.0 : 0.0\n"
            "                                       ^\n"
            "  why:   expected a name or `}` here\n"
            "  help:  write `&&` for a logical and"
        ),
    ),
    "word_if": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i) if A(i) > 0 else 0.0\n}"),
        (
            "error: unexpected `(`\n"
            "  f.weft:2        B(i) = A(i) if A(i) > 0 else 0.0\n"
            "                                  ^\n"
            "  why:   expected a name or `}` here\n"
            "  help:  write `condition ? a : b`"
        ),
    ),
    "foreign_comment": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    // doubled\n    B(i) = 2 * A(i)\n}"),
        (
            "error: unexpected `//`\n"
            "  f.weft:2        // doubled\n"
            "                  ^^\n"
            "  why:   expected a name or `}` here\n"
            "  help:  a comment starts with `#`"
        ),
    ),
    "range_with_equals": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = A(i) where i = 0:N\n}"),
        (
            "error: unexpected `:`\n"
            "  f.weft:2        B(i) = A(i) where i = 0:N\n"
            "                                         ^\n"
            "  why:   expected `,`, a name or `}` here\n"
            "  help:  a range is written with `in`: `i in 0:N`"
        ),
    ),
    "sum_function": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B = sum(A(i))\n}"),
        (
            "error: unknown tensor or function `sum`\n"
            "  f.weft:2        B = sum(A(i))\n"
            "                      ^^^\n"
            "  why:   it is not a parameter, not written by an earlier statement and not a builtin\n"
            "  help:  the assignment reduces: `S(i) +=! A(i,j)`, over the variables that are only on the right"
        ),
    ),
    "return": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    return A\n}"),
        (
            "error: unknown type `return`\n"
            "  f.weft:2        return A\n"
            "                  ^^^^^^\n"
            "  why:   the types are float, double, half, int, uint, bool, int8, int16, int32, int64, uint8, uint16, "
            "uint32, uint64, float16, bfloat16, float32, float64, float8_e4m3fn, float8_e5m2\n"
            "  help:  outputs are assigned: `B(i) = ...`; nothing is returned"
        ),
    ),
    "composed_in_composed": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    B(i) = erfinv(erfinv(A(i)))\n}"),
        (
            "error: expression is too large with `erfinv` written out\n"
            "  f.weft:2        B(i) = erfinv(erfinv(A(i)))\n"
            "                         ^^^^^^^^^^^^^^^^^^^^\n"
            "  why:   it is made of other functions, which takes more than 10000 operations here\n"
            "  help:  write its argument to a temporary: `T(i) = ...`, then use `T(i)`"
        ),
    ),
    "read_before_written": (
        LanguageError,
        (
            "def viterbi(float(T,S) E, float(S,S) A) -> (float(T,S) V) {\n"
            "    V(t,s) = E(t,s) where t in 0:1\n"
            "    M(t,s) max=! V(t-1,p) + A(p,s) where t in 1:T\n"
            "    V(t,s) = M(t,s) + E(t,s) where t in 1:T\n"
            "}"
        ),
        (
            "error: `V(t-1, p)` reads what nothing has written yet\n"
            "  f.weft:3        M(t,s) max=! V(t-1,p) + A(p,s) where t in 1:T\n"
            "                               ^^^^^^^^\n"
            "  why:   at t = 2, s = 0, p = 0 (with T = 5, S = 6) it reads `V(1, 0)`; "
            "so far, only `V(t, s)` for t in 0:1, s in 0:S is written\n"
            "  help:  put what goes on together in a block, `for t in 1:T { ... }`, or set those elements before"
        ),
    ),
    "read_of_a_later_step": (
        LanguageError,
        (
            "def f(float(T,S) E) -> (float(T,S) V) {\n"
            "    V(0,s) = E(0,s)\n"
            "    for t in 1:T-1 {\n"
            "        M(s) = V(t+1,s) + E(t,s)\n"
            "        V(t,s) = M(s) + E(t,s)\n"
            "    }\n"
            "}"
        ),
        (
            "error: `V(t+1, s)` reads what nothing has written yet\n"
            "  f.weft:4        M(s) = V(t+1,s) + E(t,s)\n"
            "                         ^^^^^^^^\n"
            "  why:   at t = 1, s = 0 (with T = 5, S = 6) it reads `V(2, 0)`; "
            "so far, only `V(0, s)` for s in 0:S is written\n"
            "  help:  steps run in order: read what an earlier one wrote, as at `t-1`, and set what the first needs"
        ),
    ),
    "read_never_written": (
        LanguageError,
        (
            "def f(float(N) A) -> (B) {\n"
            "    float(N+2) P\n"
            "    P(i+1) = A(i)\n"
            "    B(i) = P(i) + P(i+1) + P(i+2) where i in 0:N\n"
            "}"
        ),
        (
            "error: `P(i)` reads what nothing has written yet\n"
            "  f.weft:4        B(i) = P(i) + P(i+1) + P(i+2) where i in 0:N\n"
            "                         ^^^^\n"
            "  why:   at i = 0 (with N = 5) it reads `P(0)`; so far, only `P(i+1)` for i in 0:N is written\n"
            "  help:  set those elements before"
        ),
    ),
    "block_of_a_size": (
        LanguageError,
        ("def f(float(T,S) E) -> (V) {\n    for T in 0:3 { V(s) = E(T,s) }\n}"),
        (
            "error: `T` cannot count the steps of a block\n"
            "  f.weft:2        for T in 0:3 { V(s) = E(T,s) }\n"
            "                      ^\n"
            "  why:   it names a tensor, a size, a parameter or the steps of a block around this one\n"
            "  help:  give the variable of the block another name"
        ),
    ),
    "block_in_a_block_of_its_name": (
        LanguageError,
        ("def f(float(T,S) E) -> (V) {\n    for t in 0:T { for t in 0:3 { V(s) = E(t,s) } }\n}"),
        (
            "error: `t` cannot count the steps of a block\n"
            "  f.weft:2        for t in 0:T { for t in 0:3 { V(s) = E(t,s) } }\n"
            "                                     ^\n"
            "  why:   it names a tensor, a size, a parameter or the steps of a block around this one\n"
            "  help:  give the variable of the block another name"
        ),
    ),
    "block_bound": (
        LanguageError,
        ("def f(float(T,S) E) -> (V) {\n    for t in 0:i { V(t,s) = E(t,s) }\n}"),
        (
            "error: unknown name `i` in the range of `t`\n"
            "  f.weft:2        for t in 0:i { V(t,s) = E(t,s) }\n"
            "                  ^^^^^^^^^^^^\n"
            "  why:   the steps of a block are bounded by sizes, integer parameters and the steps of blocks around it"
        ),
    ),
    "block_that_is_empty": (
        LanguageError,
        ("def f(float(T) E) -> (V) {\n    for t in 0:T { }\n    V(i) = E(i)\n}"),
        (
            "error: a block without statements\n"
            "  f.weft:2        for t in 0:T { }\n"
            "                  ^^^^^^^^^^^^\n"
            "  why:   its steps do nothing\n"
            "  help:  remove it"
        ),
    ),
    "block_variable_with_a_range": (
        LanguageError,
        ("def f(float(T,S) E) -> (V) {\n    for t in 0:T {\n        V(t,s) = E(t,s) where t in 0:3\n    }\n}"),
        (
            "error: `t` already has a range\n"
            "  f.weft:3        V(t,s) = E(t,s) where t in 0:3\n"
            "                                        ^\n"
            "  why:   it counts the steps of the block around this statement, which all run for each `t`\n"
            "  help:  choose in the expression, `c ? a : b`, or write a block of its own"
        ),
    ),
    "block_variable_written": (
        LanguageError,
        ("def f(float(T,S) E) -> (V) {\n    for t in 0:T {\n        t(s) = E(t,s)\n    }\n}"),
        (
            "error: cannot write `t`\n"
            "  f.weft:3        t(s) = E(t,s)\n"
            "                  ^\n"
            "  why:   it counts the steps of the block around this statement\n"
            "  help:  give the tensor another name"
        ),
    ),
    "block_not_closed": (
        LanguageError,
        ("def f(float(T,S) E) -> (V) {\n    for t in 0:T {\n        V(t,s) = E(t,s)\n}"),
        (
            "error: unexpected end of the text\n"
            "  f.weft:4        }\n"
            "                   ^\n"
            "  why:   expected a name or `}` here\n"
            "  help:  the definition is not closed: a `}` is missing"
        ),
    ),
    "block_with_equals": (
        LanguageError,
        ("def f(float(T,S) E) -> (V) {\n    for t = 0:T { V(t,s) = E(t,s) }\n}"),
        (
            "error: unexpected `=`\n"
            "  f.weft:2        for t = 0:T { V(t,s) = E(t,s) }\n"
            "                        ^\n"
            "  why:   expected `in` here\n"
            "  help:  an index variable on the left is a loop; a block of steps reads `for t in 1:T { ... }`"
        ),
    ),
    "several_results": (
        LanguageError,
        ("def f(float(N) A) -> (B) {\n    (B, C) = exp(A)\n}"),
        (
            "error: several results, but no definition is called\n"
            "  f.weft:2        (B, C) = exp(A)\n"
            "                           ^^^^^^\n"
            "  why:   only a call gives several tensors at once\n"
            "  help:  write one statement for each tensor"
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name: str) -> None:
    kind, text, message = CASES[name]
    with pytest.raises(kind) as caught:
        parse_programs(text, "f.weft")
    assert str(caught.value) == message


def test_a_caret_is_in_the_text_at_hand() -> None:
    """Equal expressions of programs read before do not lend their place."""
    parse_programs("def first(float(M,N) A) -> (B) { B(i,j) = A(i,j) where i in 0:M }", "first.weft")
    with pytest.raises(LanguageError) as caught:
        parse_programs("def f(float(N) A) -> (B) {\n    B(i) = A(i) where i in 0:M\n}", "f.weft")
    assert str(caught.value) == (
        "error: unknown name `M` in the range of `i`\n"
        "  f.weft:2        B(i) = A(i) where i in 0:M\n"
        "                                    ^^^^^^^^\n"
        "  why:   a bound is made of sizes, integer parameters and the statement's other index variables"
    )

"""Random CUDA kernels: whole numbers of several types, floats, branches, loops, shared memory with barriers."""

from __future__ import annotations

import random

TYPES = ("int", "unsigned", "float", "long long", "unsigned char")


class Writer:
    """Writes a kernel of 64 threads a block that reads A and B and writes C and D; every thread its own elements."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names: list[tuple[str, str]] = [("int", "i"), ("int", "n"), ("unsigned", "t")]
        self.count = 0

    def kernel(self) -> str:
        body = "\n  ".join(self.statement(3) for _ in range(5))
        shared = self.random.random() < 0.6
        middle = ""
        if shared:
            distance = self.random.choice((1, 3, 16, 63))
            middle = (f"s[t] = {self.value('int', 2)};\n  __syncthreads();\n  int heard = s[(t + {distance}) % 64];\n"
                      "  __syncthreads();\n  ")  # fmt: skip
            self.names.append(("int", "heard"))
        last = "\n  ".join(self.statement(2) for _ in range(2))
        return (
            "__global__ void k(const int *a, const float *b, int *c, float *d, int n) {\n"
            "  __shared__ int s[64];\n  unsigned t = threadIdx.x;\n  int i = blockIdx.x * blockDim.x + t;\n"
            f"  {body}\n  {middle}{last}\n"
            f"  if (i < n) {{ c[i] = {self.value('int', 3)}; d[i] = {self.value('float', 3)}; }}\n}}\n"
        )

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def statement(self, depth: int) -> str:
        kind = self.random.random()
        if kind < 0.5 or depth == 0:
            type, name = self.random.choice(TYPES), self.fresh()
            text = f"{type} {name} = {self.value(type, depth)};"
            self.names.append((type, name))
            return text
        changing = [(type, name) for type, name in self.names if name.startswith("v")]
        if kind < 0.7 and changing:
            type, name = self.random.choice(changing)
            wraps = ("*=",) if type == "unsigned" else ()  # a signed number must not overflow
            op = self.random.choice(("=", "+=", "-=", *wraps)) if type != "unsigned char" else "="
            return f"{name} {op} {self.value(type, depth)};"
        if kind < 0.85:
            return f"if ({self.condition(2)}) {{ {self.inner(depth)} }} else {{ {self.inner(depth)} }}"
        j = self.fresh().replace("v", "j")
        limit = self.random.choice(("4", "t % 5", "(i & 3) + 1"))
        stop = self.random.choice(("", f"if ({self.condition(1)}) break; ", f"if ({j} == 2) continue; "))
        return f"for (int {j} = 0; {j} < {limit}; {j}++) {{ {stop}{self.inner(depth)} }}"

    def inner(self, depth: int) -> str:
        known = list(self.names)
        text = " ".join(self.statement(depth - 1) for _ in range(2))
        self.names = known
        return text

    def condition(self, depth: int) -> str:
        op = self.random.choice(("<", "<=", ">", "!=", "=="))
        type = self.random.choice(("int", "float", "unsigned"))
        simple = f"{self.value(type, depth)} {op} {self.value(type, depth)}"
        if depth and self.random.random() < 0.3:
            return f"({simple}) {self.random.choice(('&&', '||'))} ({self.condition(depth - 1)})"
        return simple

    def value(self, type: str, depth: int) -> str:
        """An expression of ``type`` in which no signed number overflows: those are kept small."""
        if depth == 0 or self.random.random() < 0.25:
            return self.leaf(type)
        a, b = self.value(type, depth - 1), self.value(type, depth - 1)
        if type == "float":
            how = self.random.choice((f"{a} + {b}", f"{a} * 0.5f - {b}", f"fmaxf({a}, {b})", f"fabsf({a})"))
        elif type == "unsigned":
            how = self.random.choice(
                (f"{a} + {b}", f"{a} * {b}", f"{a} - {b}", f"{a} ^ {b}", f"{a} >> 3", f"{a} % 77u")
            )
        elif type == "unsigned char":
            how = f"(unsigned char)({a} + {b})"
        else:
            how = self.random.choice(
                (f"({a} + {b}) % 1000", f"({a} - {b}) / 3", f"{a} % 31 * ({b} % 17)", f"min({a}, {b})", f"{a} & {b}",
                 f"(({self.condition(0)}) ? {a} : {b})", f"({a}) >> 2")
            )  # fmt: skip
        return f"({how})"

    def leaf(self, type: str) -> str:
        same = [name for t, name in self.names if t == type]
        kind = self.random.random()
        if same and kind < 0.5:
            name = self.random.choice(same)
            return name if type in ("float", "unsigned", "unsigned char") else f"({name} % 10000)"
        if kind < 0.75:
            place = self.random.choice(("i % 128", "t", "(i + 5) % 128"))
            loaded = f"b[{place}]" if type == "float" else f"a[{place}]"
            return loaded if type in ("int", "float") else f"({type}){loaded}"
        number = str(self.random.randrange(50))
        return {"float": f"{number}.25f", "unsigned": f"{number}u", "long long": f"{number}ll"}.get(type, number)

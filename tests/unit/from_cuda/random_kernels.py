"""Random CUDA kernels: numbers of all types, branches and loops of all kinds, local arrays, records, templates,
lambdas, functions, pointers, shared memory with barriers in loops and branches, warp functions, atomics, vectors."""

from __future__ import annotations

import random

TYPES = ("int", "unsigned", "float", "long long", "unsigned char", "short", "double", "unsigned long long")
#: Signed numbers are kept small where they are read, so that none overflows.
SIGNED = ("int", "long long", "short")
UNSIGNED = ("unsigned", "unsigned long long")

#: Seeds below this one give small kernels, of which many can be compiled in a test.
SMALL = 1000

PARAMETERS = "const int *a, const float *b, int *c, float *d, unsigned *e, int n"

PRELUDE = """
#include <cuda_fp16.h>
__constant__ int table[8] = {3, 14, 15, 92, 65, 35, 89, 79};
struct Pair { int x; float y; __device__ int mix(int k) const { return x % 100 + k % 100; } };
__device__ int fold(int v, int limit) {
  for (int k = 0; k < 8; k++) {
    if (v < limit) return v + k;
    v = v / 2 - 1;
  }
  return v;
}
__device__ void spread(int v, int &low, int &high) { low = v % 16; high = v / 16; }
template <typename T> __device__ T pick(bool first, T x, T y) { return first ? x : y; }
template <typename T, int N> struct Box {
  T at[N];
  __device__ Box(T first) { for (int k = 0; k < N; k++) at[k] = (T)(first + (T)k); }
  __device__ T &operator[](int k) { return at[k]; }
  __device__ T sum() const { T all = (T)0; for (int k = 0; k < N; k++) all = (T)(all + at[k]); return all; }
};
"""


class Writer:
    """Writes a kernel of 64 threads a block that reads A and B and writes C and D, every thread its own elements, and
    counts in E."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.shape = (16, 4) if seed % 3 == 0 else (64, 1)
        self.names: list[tuple[str, str]] = [("int", "i"), ("int", "n"), ("unsigned", "t")]
        self.count = 0
        self.is_small = seed < SMALL
        self.has_counted = False
        self.statements = 1 if self.is_small else 2 + seed % 3

    def kernel(self, name: str = "k") -> str:
        flat = self.random.random() < 0.5  # a block has rows else
        index = "threadIdx.x" if flat and self.shape[1] == 1 else "threadIdx.x + blockDim.x * threadIdx.y"
        parts = [self.statement(1 if self.is_small else 2) for _ in range(self.statements)]
        further = (
            self.exchange, self.shuffle, self.tree, self.atomic, self.counts, self.array, self.record, self.rounds,
            self.voted_rounds, self.warp_sum, self.transposed, self.wrapped, self.vector, self.half, self.box,
            self.looked_up, self.float_sum,
        )  # fmt: skip
        for part in self.random.sample(further, 1 if self.is_small else 2):
            parts += [part()] if self.is_small else [part(), self.statement(1)]
            self.has_counted |= part in (self.atomic, self.counts)
        deep = 1 if self.is_small else 2
        stored = f"c[i] = {self.value('int', deep)}; d[i] = {self.value('float', deep)};"
        last = self.random.choice((f"if (i < n) {{ {stored} }}", f"if (i >= n) return;\n  {stored}"))
        return (
            f"__global__ void {name}({PARAMETERS}) {{\n  __shared__ int s[64];\n  unsigned t = {index};\n"
            "  int i = blockIdx.x * 64 + t;\n  " + "\n  ".join([*parts, last]) + "\n}\n"
        )

    # What all threads of a block do together.

    def exchange(self) -> str:
        """A value from another thread by shared memory."""
        name, distance = self.fresh(), self.random.choice((1, 3, 16, 63))
        text = f"s[t] = {self.value('int', 1)};\n  __syncthreads();\n  int {name} = s[(t + {distance}) % 64];"
        return self.known("int", name, text + "\n  __syncthreads();")

    def tree(self) -> str:
        """A sum or an extremum over a block, with a barrier in a loop, in one of the ways that people write it."""
        name, how = self.fresh(), self.random.choice(("{0} + {1}", "max({0}, {1})", "{0} ^ {1}"))
        down = self.random.choice(("/= 2", ">>= 1"))
        loop, guard, at = self.random.choice((
            (f"int w = 32; w > 0; w {down}", "t < w", "t"),
            ("int w = 1; w < 64; w *= 2", "t % (2 * w) == 0", "t"),
            ("int w = 1; w < 64; w <<= 1", "2 * w * t < 64", "2 * w * t"),
            (f"int w = 32; w > {self.random.choice((0, 1, 4))}; w {down}", "t < w", "t"),
        ))  # fmt: skip
        text = (
            f"s[t] = {self.value('int', 1)} % 1000;\n  __syncthreads();\n"
            f"  for ({loop}) {{\n"
            f"    if ({guard}) s[{at}] = {how.format(f's[{at}]', f's[{at} + w]')};\n    __syncthreads();\n  }}\n"
            f"  int {name} = s[{self.random.choice(('0', '0', 't', 't / 32 * 32'))}];\n  __syncthreads();"
        )
        return self.known("int", name, text)

    def float_sum(self) -> str:
        """The usual sum of warps, then of the block: the same to the last bit in whatever way it is computed."""
        name, by, part = self.fresh(), self.random.choice(("down", "xor")), self.fresh()
        text = (
            f"__shared__ float {part}[2];\n  float {name} = {self.value('float', 1)};\n"
            f"  for (int w = 16; w > 0; w >>= 1) {name} += __shfl_{by}_sync(0xffffffffu, {name}, w);\n"
            f"  if (t % 32 == 0) {part}[t / 32] = {name};\n  __syncthreads();\n"
            f"  {name} = {self.random.choice((f'{part}[0] + {part}[1]', f'fmaxf({part}[1], {part}[t / 32])'))};"
        )
        return self.known("float", name, text)

    def shuffle(self) -> str:
        name, kind = self.fresh(), self.random.choice(("int", "float", "unsigned"))
        value = self.value(kind, 1)
        how = self.random.choice((
            f"__shfl_xor_sync(~0u, {value}, {self.random.choice((1, 2, 16))})",
            f"__shfl_down_sync(~0u, {value}, {self.random.choice((1, 4, 31))})",
            f"__shfl_up_sync(~0u, {value}, 3, 8)",
            f"__shfl_sync(~0u, {value}, {self.random.randrange(32)})",
            f"({kind})__popc(__ballot_sync(~0u, {self.condition(1)}))",
            f"({kind})__any_sync(~0u, {self.condition(1)})",
        ))  # fmt: skip
        return self.known(kind, name, f"{kind} {name} = {how};")

    def atomic(self) -> str:
        if self.has_counted:  # updates of several kinds have an order
            return self.array()
        how = self.random.choice(("atomicAdd", "atomicMax", "atomicXor", "atomicOr", "atomicMin"))
        return f"if ({self.condition(1)}) {how}(&e[{self.value('unsigned', 1)} % 16], {self.value('unsigned', 1)});"

    def rounds(self) -> str:
        """Exchanges in loops within loops, where the whole block may take another branch."""
        name, guard = self.fresh(), self.random.choice(("", "if ((r + q + blockIdx.x) % 2 == 0) ", "if (q > r) "))
        text = (
            f"int {name} = {self.value('int', 1)} % 1000;\n"
            f"  for (int r = 0; r < {self.random.choice(('2', '3', 'n / 50'))}; r++)\n"
            f"    for (int q = {self.random.choice(('0', 'r'))}; q < 3; q++) {guard}{{\n"
            f"      s[t] = {name};\n      __syncthreads();\n"
            f"      {name} = ({name} * 3 + s[(t + q * 5 + r + 1) % 64]) % 1000;\n      __syncthreads();\n    }}"
        )
        return self.known("int", name, text)

    def voted_rounds(self) -> str:
        """A loop that ends when few enough threads want to go on."""
        name = self.fresh()
        text = (
            f"int {name} = abs({self.value('int', 1)}) % 300;\n"
            f"  while (__syncthreads_count({name} > 9) > {self.random.choice((0, 20))}) {name} = {name} / 2;"
        )
        return self.known("int", name, text)

    def warp_sum(self) -> str:
        name, by = self.fresh(), self.random.choice(("down", "xor"))
        text = (
            f"int {name} = {self.value('int', 1)} % 1000;\n  #pragma unroll\n"
            f"  for (int w = 16; w > 0; w >>= 1) {name} += __shfl_{by}_sync(0xffffffffu, {name}, w);"
        )
        return self.known("int", name, text)

    def transposed(self) -> str:
        name, tile = self.fresh(), self.fresh()
        text = (
            f"__shared__ float {tile}[8][9];\n  {tile}[t / 8][t % 8] = {self.value('float', 1)};\n  __syncthreads();\n"
            f"  float {name} = {tile}[t % 8][t / 8];"
        )
        return self.known("float", name, text)

    def wrapped(self) -> str:
        """Numbers that programs count on to wrap: hashes and random numbers of signed ints."""
        name = self.fresh()
        step = self.random.choice(
            ("{0} * 1664525 + 1013904223", "({0} ^ ({0} >> 3)) * 16777619 + a[k]", "{0} * 31 + a[(t + k) % 128]")
        ).format(name)
        text = f"int {name} = {self.value('int', 1)};\n  for (int k = 0; k < 7; k++) {name} = {step};"
        return self.known("int", name, text)

    def vector(self) -> str:
        name, low = self.fresh(), self.fresh()
        text = (
            f"int4 {name} = reinterpret_cast<const int4 *>(a)[{self.random.choice(('t % 32', 'i / 4'))}];\n"
            f"  {name}.y += {self.value('int', 1)} % 100;\n"
            f"  float2 {low} = make_float2((float){name}.x, {self.value('float', 1)});"
        )
        self.names += [("int", f"{name}.{m}") for m in "yzw"] + [("float", f"{low}.x"), ("float", f"{low}.y")]
        return text

    def half(self) -> str:
        name, how = self.fresh(), self.random.choice(("__hadd(h, g)", "__hmul(h, g)", "__hsub(__hmul(h, h), g)"))
        text = (
            f"float {name};\n  {{ __half h = __float2half({self.value('float', 1)}), g = "
            f"__float2half({self.value('float', 1)}); {name} = __half2float({how}); }}"
        )
        return self.known("float", name, text)

    def box(self) -> str:
        name, sum, type = self.fresh(), self.fresh(), self.random.choice(("int", "unsigned", "float"))
        change = self.value(type, 1)
        text = (
            f"Box<{type}, {self.random.choice((2, 3))}> {name}({self.value(type, 1)});\n"
            f"  auto set{name} = [&](int k, {type} v) {{ {name}[k % 2] = v; }};\n  set{name}((int)(t & 7), {change});\n"
            f"  {type} {sum} = {name}.sum();"
        )
        return self.known(type, sum, text)

    def looked_up(self) -> str:
        name = self.fresh()
        return self.known("int", name, f"int {name} = table[{self.value('unsigned', 1)} % 8u];")

    def counts(self) -> str:
        """Few counters of a block, and of all blocks."""
        if self.has_counted:
            return self.array()
        value, old = self.value("int", 1), self.fresh()
        how = self.random.choice(("atomicAdd", "atomicMax", "atomicXor", "atomicOr", "atomicMin"))
        place = self.random.choice(("t % 2", f"{self.value('unsigned', 1)} % 3", "0", "(s[t] & 1) + 1"))
        amount = self.random.choice((f"{self.value('unsigned', 1)}", "1u", "(unsigned)s[t]"))
        text = (
            f"s[t] = 0;\n  __syncthreads();\n  if ({self.condition(1)}) atomicAdd(&s[{self.value('unsigned', 1)} % 7],"
            f" {value});\n  __syncthreads();\n  {how}(&e[{place}], {amount});\n  int {old} = s[t];\n  __syncthreads();"
        )
        return self.known("int", old, text)

    def array(self) -> str:
        name, value = self.fresh(), self.fresh()
        text = (
            f"int {name}[5] = {{{self.value('int', 1)}, 7}};\n"
            f"  for (int k = 2; k < 5; k++) {name}[k] = ({name}[k - 1] + {name}[k - 2] * 3) % 500 + k;\n"
            f"  {name}[(t + i) % 5] += 2;\n  int {value} = {name}[t % 5];"
        )
        return self.known("int", value, text)

    def record(self) -> str:
        name, low, high = self.fresh(), self.fresh(), self.fresh()
        text = (
            f"Pair {name} = {{{self.value('int', 1)}, {self.value('float', 1)}}};\n"
            f"  if ({self.condition(0)}) {name}.x = fold({self.value('int', 1)}, 20);\n"
            f"  int {low}, {high};\n  spread({name}.mix(i), {low}, {high});"
        )
        self.names += [("int", low), ("int", high)]
        return text

    # What a thread does.

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def known(self, kind: str, name: str, text: str) -> str:
        self.names.append((kind, name))
        return text

    def statement(self, depth: int) -> str:
        kind = self.random.random()
        if kind < 0.4 or depth == 0:
            type, name = self.random.choice(TYPES), self.fresh()
            return self.known(type, name, f"{type} {name} = {self.value(type, depth)};")
        changing = [(type, name) for type, name in self.names if name.startswith("v")]
        if kind < 0.6 and changing:
            type, name = self.random.choice(changing)
            return f"{name} {self.assignment(type)} {self.value(type, depth)};"
        if kind < 0.8:
            other = f" else {{ {self.inner(depth)} }}" if self.random.random() < 0.6 else ""
            return f"if ({self.condition(1)}) {{ {self.inner(depth)} }}{other}"
        if kind < 0.87:
            cases = " ".join(
                f"case {k}: {self.inner(depth, 1)} {self.random.choice(('break;', 'break;', ''))}" for k in range(3)
            )
            return f"switch ({self.value('unsigned', 1)} % 5u) {{ {cases} default: {self.inner(depth, 1)} }}"
        return self.loop(depth)

    def assignment(self, type: str) -> str:
        if type in ("unsigned char", "short"):
            return "="
        return self.random.choice(("=", "+=", "-=", *(("*=", "^=", "|=") if type in UNSIGNED else ())))

    def loop(self, depth: int) -> str:
        j = self.fresh().replace("v", "j")
        limit = self.random.choice(("4", "t % 5", "(i & 3) + 1"))
        stop = self.random.choice(("", f"if ({self.condition(1)}) break; ", f"if ({j} == 2) continue; "))
        body = f"{stop}{self.inner(depth)}"
        kind = self.random.random()
        if kind < 0.6:
            return f"for (int {j} = 0; {j} < {limit}; {j}++) {{ {body} }}"
        if kind < 0.8:
            return f"int {j} = -1; while (++{j} < {limit}) {{ {body} }}"
        return f"unsigned {j} = 0; do {{ {body} }} while (++{j} < ({limit}));"

    def inner(self, depth: int, count: int = 2) -> str:
        known = list(self.names)
        text = " ".join(self.statement(depth - 1) for _ in range(count))
        self.names = known
        return f"{{ {text} }}"

    def condition(self, depth: int) -> str:
        op = self.random.choice(("<", "<=", ">", "!=", "=="))
        type = self.random.choice(("int", "float", "unsigned", "long long"))
        simple = f"{self.value(type, depth)} {op} {self.value(type, depth)}"
        if depth and self.random.random() < 0.3:
            return f"({simple}) {self.random.choice(('&&', '||'))} ({self.condition(depth - 1)})"
        return simple

    def value(self, type: str, depth: int) -> str:
        """An expression of ``type`` in which no signed number overflows: those are kept small."""
        if depth == 0 or self.random.random() < 0.25:
            return self.leaf(type)
        a, b = self.value(type, depth - 1), self.value(type, depth - 1)
        if type in ("float", "double"):
            f = "f" if type == "float" else ""
            how = self.random.choice((f"{a} + {b}", f"{a} * 0.5{f} - {b}", f"fmax{f}({a}, {b})", f"fabs{f}({a})",
                                      f"pick({self.condition(0)}, {a}, {b})"))  # fmt: skip
        elif type in UNSIGNED:
            how = self.random.choice((f"{a} + {b}", f"{a} * {b}", f"{a} - {b}", f"{a} ^ {b}", f"{a} >> 3", f"{a} % 77u",
                                      f"{a} << {self.random.randrange(9)}", f"~{a}", f"{a} / 5u"))  # fmt: skip
        elif type in ("unsigned char", "short"):
            how = f"({type})({a} + {b})"
        else:
            how = self.random.choice(
                (f"({a} + {b}) % 1000", f"({a} - {b}) / 3", f"{a} % 31 * ({b} % 17)", f"min({a}, {b})", f"{a} & {b}",
                 f"(({self.condition(0)}) ? {a} : {b})", f"({a}) >> 2", f"({type})abs((int)({a}))", f"-({a})")
            )  # fmt: skip
        return f"({how})"

    def leaf(self, type: str) -> str:
        same = [name for t, name in self.names if t == type]
        kind = self.random.random()
        if same and kind < 0.5:
            name = self.random.choice(same)
            return f"({name} % 10000)" if type in SIGNED else name
        if kind < 0.6:
            return self.converted(type)
        if kind < 0.8:
            return self.loaded(type)
        number = str(self.random.randrange(50))
        written = {"float": ".25f", "double": ".5", "unsigned": "u", "long long": "ll", "unsigned long long": "ull"}
        return f"({type}){number}" if type in ("short", "unsigned char") else number + written.get(type, "")

    def converted(self, type: str) -> str:
        """A variable of another type as one of ``type``: floats only in the range where that is the same everywhere."""
        other, name = self.random.choice(self.names)
        if other in ("float", "double") and type not in ("float", "double"):
            return f"({type})(int)fminf(fmaxf((float){name}, 0.0f), 100.0f)"
        return f"({type})({name} % 100)" if other not in ("float", "double") else f"({type}){name}"

    def loaded(self, type: str) -> str:
        place = self.random.choice(("i % 128", "t", "(i + 5) % 128", "127 - t"))
        array = "b" if type in ("float", "double") else "a"
        way = self.random.choice((f"{array}[{place}]", f"*({array} + {place})", f"(&{array}[3])[t]"))
        return way if type in ("int", "float") else f"({type}){way}"

"""CUDA C++ in: clang reads a source (`clang`, `unit`), and what a kernel does becomes a grid-form loop program
(`translate`): pointers become buffers with offsets, local aggregates become scalars, device functions are inlined, and
signed 32-bit index arithmetic is exact, since overflow is undefined in C++."""

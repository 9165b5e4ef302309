"""What a process that will compile for GPUs does before its first task, while others still trace the model."""

from __future__ import annotations

#: Rows, columns and depth: enough for tiles of matrix instructions.
_SIZE = 256


def warm_up(_: None) -> None:
    """Compiles a small product for some GPU, so that what this imports, reads and sets up is there when tasks come."""
    from weft.auto.gpu.estimate import estimate_gpu
    from weft.graph.builder import formula_program
    from weft.graph.formulas import contraction
    from weft.graph.graph import Edge, dense_strides
    from weft.ir import dtype as dt
    from weft.operators.scheduling import Scheduling
    from weft.operators.signature import Layout, Signature
    from weft.operators.specialization import artifact_of
    from weft.operators.stages import build
    from weft.target.cuda.machine import gpu_for_arch

    machine, shape = gpu_for_arch("sm_90"), (_SIZE, _SIZE)
    program = formula_program("warm_up", [Edge(n, dt.bfloat16, shape) for n in "xw"], contraction.matmul)
    layout = Layout("bfloat16", shape, dense_strides(shape))
    given = Signature(tuple((b.name, layout) for b in program.inputs), (), ())

    made = build(program, given, machine, True, Scheduling("auto", "fast"))
    separated = made.separated()
    estimate_gpu(separated.main, machine)
    artifact_of(made, separated)

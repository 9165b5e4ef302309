"""Say what is chosen for a program or an ONNX model, why, and what bounds its speed.

weft explain mm.weft --size M=64 --size N=64 --size K=32
weft explain mm.weft --arg A=a.npy --arg B=b.npy --target cuda
weft explain model.onnx --size n=8                              # its kernels and their members, memory
"""

from __future__ import annotations

import argparse

from weft.cli.inputs import add_file, add_inputs, make_arguments, read_operator
from weft.cli.models import is_model, read_model
from weft.graph.explain import explain
from weft.ir.errors import ArgumentError
from weft.target import TARGETS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser, models=True)
    add_inputs(parser)
    parser.add_argument("--target", choices=tuple(TARGETS), help="what for (default: this CPU)")


def main(options: argparse.Namespace) -> int:
    if is_model(options.file):
        return _explain_model(options)
    op = read_operator(options)
    print(op.explain(*make_arguments(op.interface, options), target=options.target))
    return 0


def _explain_model(options: argparse.Namespace) -> int:
    if options.target not in (None, "cpu"):
        raise ArgumentError(
            f"models are explained for this CPU, not for {options.target}",
            help='for a GPU: net = weft.load_onnx(path, device="cuda"); net(x); print(weft.explain(net))',
        )
    net, arrays = read_model(options)
    net.run(None, arrays)
    print(explain(net))
    return 0

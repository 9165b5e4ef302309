"""Who runs the models: a file each, asked as those of `bench.field.peers` are."""

from __future__ import annotations

from bench.field.peers import Peer

_TORCH = ("torch", "torchvision", "transformers", "onnxscript")
_WEFT = ("numpy", "llvmlite", "lark", "islpy")
#: The version that our tests have, for a CPU: the newest brings gigabytes for a GPU.
_PACKAGES = ("torch==2.13.0", *_TORCH[1:], *_WEFT)


def _peer(name: str, module: str, imports: tuple[str, ...], environment: str, packages: tuple[str, ...] = ()) -> Peer:
    return Peer(
        name,
        f"bench.models.peers.{module}",
        imports,
        packages or imports,
        environment=environment,
        registry="bench.models.workloads",
        patience_s=600.0,
    )


PEERS = {
    peer.name: peer
    for peer in (
        _peer("weft", "weft_itself", (*_TORCH, *_WEFT), "models", _PACKAGES),
        _peer("eager", "torch_eager", _TORCH, "models", _PACKAGES),
        _peer("inductor", "torch_frozen", _TORCH, "models", _PACKAGES),
        _peer("onnxruntime", "onnxruntime_session", ("onnxruntime", "onnx"), "onnxruntime"),
        _peer("openvino", "openvino_model", ("openvino", "onnx"), "openvino"),
    )
}

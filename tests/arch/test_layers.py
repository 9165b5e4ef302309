"""The folders of the package may import those before them, never those after or beside them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "weft"

#: Earlier lines may be imported by later ones; folders on one line do not know each other.
LAYERS = [
    ["ir"],
    ["tensor", "poly"],
    ["lang", "schedules", "passes", "algebra"],
    ["ops", "target", "sanitizer"],
    ["runtime"],
    ["auto", "from_cuda"],
    ["operators"],
    ["tune"],
    ["graph"],
    ["report"],
    ["dist", "analysis"],
    ["cli"],
]
RANK = {folder: rank for rank, layer in enumerate(LAYERS) for folder in layer}

#: Third-party packages that only load on first use, and the one module allowed to import each.
HEAVY = {
    "lark": {"lang/syntax.py", "ir/parser.py", "ir/parse_tables.py"},
    "llvmlite": {"target/cpu/llvm.py"},
    "ml_dtypes": {"ir/numpy_dtypes.py"},
    "torch": {"graph/from_torch/edge.py"},
    "onnx": {"graph/from_onnx/edge.py"},
    "islpy": {"poly/isl_worker.py", "poly/isl_weights.py"},
    "cuda": {"target/cuda/nvrtc.py", "runtime/cuda_driver.py"},
}


def imports_of(path: Path) -> list[tuple[int, str, bool]]:
    """(line, module, at top level) of every import in a file."""
    tree = ast.parse(path.read_text())
    top = set(map(id, tree.body))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, id(node) in top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules = [f"weft.{a.name}" for a in node.names] if node.module == "weft" else [node.module]
            found += [(node.lineno, module, id(node) in top) for module in modules]
    return found


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_follow_the_layers(path: Path) -> None:
    parts = path.relative_to(PACKAGE).parts
    if len(parts) == 1:  # weft/__init__.py and __main__.py are the front door
        return
    own = parts[0]
    assert own in RANK, f"folder weft/{own} has no place in the layers"
    for line, module, _ in imports_of(path):
        if module.startswith("weft.") and (other := module.split(".")[1]) in RANK and other != own:
            assert RANK[other] < RANK[own], f"{path}:{line}: weft/{own} may not import weft/{other}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_heavy_packages_load_lazily_in_their_edge_module(path: Path) -> None:
    name = str(path.relative_to(PACKAGE))
    for line, module, top_level in imports_of(path):
        package = module.split(".")[0]
        if package in HEAVY:
            assert name in HEAVY[package], f"{name}:{line} imports {package}; only {HEAVY[package]} may"
            assert not top_level, f"{name}:{line} imports {package} at import time"


def test_import_weft_loads_only_numpy() -> None:
    code = "import sys; import weft; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"lark", "llvmlite", "torch", "ml_dtypes", "islpy", "cuda"} & set(loaded)

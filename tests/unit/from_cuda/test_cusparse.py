"""cuSPARSE: every format, operation and order of dense matrices against loops over a dense copy."""

from __future__ import annotations

import subprocess
from pathlib import Path

from weft.from_cuda.nvcc_options import read_options
from weft.from_cuda.program import build_program

PROGRAM = Path(__file__).parent / "cusparse.cpp"


def test_sparse_matrices(tmp_path: Path) -> None:
    options = read_options([str(PROGRAM), "-lcusparse", "-o", str(tmp_path / "program")])
    (program,) = build_program(options)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["1 1 1 1", "CUSPARSE_STATUS_NOT_SUPPORTED"]
    assert done.stderr.splitlines() == ["weft: cusparseSpMV does not support elements of several types here: it does nothing and gives "
        "CUSPARSE_STATUS_NOT_SUPPORTED (10)"]

"""Names of the package are found on first use."""

from __future__ import annotations

import subprocess
import sys


def test_the_library_is_there_after_importing_weft_alone() -> None:
    code = "import weft; print(type(weft.ops.matmul).__name__, weft.define.__name__, weft.Operator.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Operator", "define", "Operator"]

"""`weft cuda show` and `weft cuda check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.cli.main import main

SOURCE = """__global__ void sum(const float *x, float *out) {
  __shared__ float s[32];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = x[i];
  s[31 - threadIdx.x] += 1;
  __syncthreads();
  out[i] = s[threadIdx.x];
}
"""


def test_show_and_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sum.cu"
    file.write_text(SOURCE)
    assert main(["cuda", "show", str(file), "--kernel", "sum", "--block", "32"]) == 0
    assert "thread tx in 0:32" in capsys.readouterr().out
    arrays = ["--arg", "float32[64]", "--arg", "float32[64]"]
    assert main(["cuda", "check", str(file), "--kernel", "sum", "--grid", "2", "--block", "32", *arrays]) == 1
    told = capsys.readouterr().out
    assert "race: nothing orders two accesses of `s[31]`" in told
    assert "sum.cu:5  s[31 - threadIdx.x] += 1;" in told


def test_help_behind_an_action(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cuda", "build", "--help"]) == 0
    assert "usage: weft cuda" in capsys.readouterr().out

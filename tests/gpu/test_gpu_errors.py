"""What goes wrong on a GPU is told clearly, and the process goes on."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import weft
from weft.ir.errors import ArgumentError, ShapeError, TargetError

LOOKUP = "def lookup(float(E,D) T, int(N) I) -> (O) { O(i,d) = T(I(i),d) }"


def test_a_failed_lookup_is_told_later(torch: Any) -> None:
    op = weft.define(LOOKUP)
    table = torch.randn(10, 4, device="cuda")
    good = torch.tensor([1, 9], dtype=torch.int32, device="cuda")
    bad = torch.tensor([1, 12], dtype=torch.int32, device="cuda")
    torch.testing.assert_close(op(table, good), table[good.long()])
    for _ in range(2):
        op(table, bad)
        with pytest.raises(ShapeError) as caught:
            weft.cuda.synchronize()
        assert "12" in str(caught.value)
        assert "lookup" in str(caught.value)
        torch.testing.assert_close(op(table, good), table[good.long()])
        weft.cuda.synchronize()
    op(table, bad)
    torch.cuda.synchronize()
    other = weft.define("def other(float(N) X) -> (Y) { Y(i) = X(i) }")
    with pytest.raises(ShapeError, match="12"):
        other(table[0])
    torch.testing.assert_close(other(table[0]), table[0])


def test_devices_do_not_mix(torch: Any) -> None:
    mm = weft.define("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
    a = torch.randn(4, 4)
    mm(a.cuda(), a.cuda())
    for _ in range(3):
        with pytest.raises(ArgumentError, match="is on `cuda:0` and `B` on `cpu`"):
            mm(a.cuda(), a)
        with pytest.raises(ArgumentError, match="on `cpu`"):
            mm(a.cuda(), a.cuda(), out=a)
        with pytest.raises(ArgumentError, match="bound"):
            mm.bind(B=a)(a.cuda())
        with pytest.raises(ArgumentError, match="must be float32"):
            mm(a.cuda(), a.cuda().double())
        with pytest.raises(ShapeError):
            mm(a.cuda(), torch.randn(5, 4).cuda())
        with pytest.raises(ArgumentError, match="gradient"):
            mm(a.cuda(), a.cuda().requires_grad_())
    assert mm(a, a).shape == (4, 4)


def test_outputs_do_not_overlap(torch: Any) -> None:
    axpy = weft.define("def scaled(float(N) X) -> (Z) { Z(i) = X(i) * 2 }")
    x = torch.randn(100, device="cuda")
    axpy(x[:50], out=x[50:])
    for _ in range(3):
        with pytest.raises(ArgumentError, match="overlaps"):
            axpy(x[:50], out=x[25:75])
    axpy(x[::2], out=x[1::2])
    torch.testing.assert_close(x[1::2], x[::2] * 2)


def test_out_of_memory(torch: Any) -> None:
    outer = weft.define("def outer(float(N) X, float(M) Y) -> (Z) { Z(i,j) = X(i) * Y(j) }")
    x = torch.randn(1 << 20, device="cuda")
    for _ in range(2):
        with pytest.raises(TargetError, match="cannot allocate"):
            outer(x, x)
    assert outer(x[:10], x[:10]).shape == (10, 10)


LOST = """
import torch, weft
bad = weft.kernel('''kernel bad(X: float32[n], out Y: float32[n], n: int64) {
  block b in 0:1 { thread t in 0:32 { Y[(t + 1) * 1000000000000] = X[t] } }
}''')
x = torch.ones(64, device="cuda")
y = torch.ones(64, device="cuda")
bad(x, y, 64)
for n in range(2):
    try:
        weft.cuda.synchronize()
    except weft.TargetError as error:
        print(error)
try:
    bad(x, y, 64)
except weft.Error as error:
    print(error)
print("the process goes on:", weft.define("def f(float(N) X) -> (Y) { Y(i) = X(i) }").show("tensor").split()[0])
"""


def test_an_illegal_address_is_told() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=120)
    assert "illegal address" in done.stdout, done.stdout + done.stderr
    assert "bad" in done.stdout
    assert "weft.sanitize" in done.stdout
    assert "the process goes on" in done.stdout, done.stdout + done.stderr

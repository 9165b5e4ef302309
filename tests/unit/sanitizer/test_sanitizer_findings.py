"""What a run under watch reports, in full, and what it must not report."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ir.errors import ArgumentError, ProgramError, ShapeError, UnsupportedError
from weft.ir.parser import parse_kernel
from weft.sanitizer.findings import Report
from weft.sanitizer.sanitize import sanitize_kernel

SHIFT = """kernel shift(A: float32[64], out B: float32[64]) {
  block b in 0:2 {
    alloc tile: float32[33] in shared
    thread t in 0:32 {
      tile[t] = A[b * 32 + t]
      barrier(block)
      B[b * 32 + t] = tile[t] + tile[t + 1]
    }
  }
}"""


def run(text: str, *args: object) -> Report:
    return sanitize_kernel(parse_kernel(text, "k.loops"), args)


def floats(count: int = 64) -> np.ndarray:
    return np.arange(count, dtype=np.float32)


def only(report: Report) -> str:
    (finding,) = report.findings
    return str(finding)


def test_reading_what_nothing_has_written():
    assert only(run(SHIFT, floats(), floats())) == (
        "uninitialized: `tile[32]` is read, and nothing has written it\n"
        "  k.loops:7       B[b * 32 + t] = tile[t] + tile[t + 1]\n"
        "                                            ^^^^^^^^^^^\n"
        "    (b=0, t=31) is the first\n"
        "    and 1 more like it\n"
        "  help:  shared memory starts with whatever was there"
    )


def test_a_race_names_both_threads_and_both_lines():
    text = SHIFT.replace("      barrier(block)\n", "").replace("t + 1", "31 - t")
    assert only(run(text, floats(), floats())) == (
        "race: nothing orders two accesses of `tile[31]`\n"
        "  k.loops:5       tile[t] = A[b * 32 + t]\n"
        "                  ^^^^^^^^^^^^^^^^^^^^^^^\n"
        "    (b=0, t=31) writes it\n"
        "  k.loops:6       B[b * 32 + t] = tile[t] + tile[31 - t]\n"
        "                                            ^^^^^^^^^^^^\n"
        "    (b=0, t=0) reads it\n"
        "    and 63 more like it\n"
        "  help:  put a barrier between the two"
    )


def test_out_of_bounds_says_the_shape():
    found = run(SHIFT.replace("float32[33]", "float32[31]").replace(" + tile[t + 1]", ""), floats(), floats()).findings
    assert [f.what for f in found] == [
        "`tile[31]` is written, but `tile` is [31]",
        "`tile[31]` is read, but `tile` is [31]",
    ]


def test_a_barrier_that_some_threads_miss():
    text = SHIFT.replace("      barrier(block)\n", "      if t < 7 { barrier(block) }\n").replace(" + tile[t + 1]", "")
    assert only(run(text, floats(), floats())) == (
        "divergent barrier: not all threads reach this block barrier\n"
        "  k.loops:6       if t < 7 { barrier(block) }\n"
        "                             ^^^^^^^^^^^^^^\n"
        "    (b=0, t=0) waits here\n"
        "    (b=0, t=7) of the same team does not come\n"
        "    and 1 more like it\n"
        "  help:  move the barrier out of what only some threads run"
    )


def test_two_blocks_that_write_one_element():
    text = "kernel k(out B: float32[4]) { block b in 0:8 { B[b % 4] = float32(int32(b)) } }"
    found = only(run(text, floats(4)))
    assert "(b=0) writes it" in found
    assert "(b=4) writes it" in found
    assert "use an atomic" in found


def test_blocks_that_run_in_different_parts_still_race():
    """More blocks than run at once: the first and the last write one element."""
    count = 1 << 17
    text = f"kernel k(out B: float32[{count}]) {{ block b in 0:{count} {{ B[b % {count - 1}] = 1.0_f32 }} }}"
    assert f"(b={count - 1})" in only(run(text, floats(count)))


def test_a_failed_assert_and_an_endless_loop(monkeypatch):
    monkeypatch.setattr("weft.sanitizer.run_stmt.ENDLESS", 100)
    text = """kernel k(out B: float32[4]) { thread t in 0:4 {
      assert t < 3, "too many: {0}", t
      while t < 1 { B[t] = 1.0_f32 } } }"""
    found = run(text, floats(4)).findings
    assert [f.kind for f in found] == ["failed assert", "endless loop"]
    assert "too many: 3" in str(found[0])


@pytest.mark.parametrize("barrier", ["barrier(block)", "barrier(warp)"])
def test_a_barrier_of_warps_orders_warps_only(barrier):
    text = f"""kernel k(out B: int64[64]) {{
      alloc s: int64[64] in shared
      thread t in 0:64 {{ s[t] = t {barrier} B[t] = s[63 - t] }} }}"""
    report = run(text, np.zeros(64, np.int64))
    assert report.ok == (barrier == "barrier(block)")
    near = text.replace("63 - t", "t / 32 * 32 + (t + 1) % 32".replace("/", "//"))
    assert run(near, np.zeros(64, np.int64)).ok


def test_atomics_do_not_race_with_one_another_but_with_reads():
    text = "kernel k(out S: int32[2]) { thread t in 0:100 { atomic S[0] += 1_i32 } }"
    report = run(text, np.zeros(2, np.int32))
    assert report.ok
    assert report.outputs["S"].tolist() == [100, 0]
    found = run(text.replace("{ atomic", "{ S[1] = S[0] atomic"), np.zeros(2, np.int32)).findings
    assert {f.kind for f in found} == {"race"}


def test_each_thread_finds_another_value_of_a_counter():
    text = """kernel k(out S: int32[1], out seen: int32[50]) { thread t in 0:50 {
      let old: int32 = 0_i32
      old = atomic S[0] += 1_i32
      seen[t] = old } }"""
    report = run(text, np.zeros(1, np.int32), np.zeros(50, np.int32))
    assert report.ok
    assert sorted(report.outputs["seen"].tolist()) == list(range(50))


def test_threads_that_returned_are_not_waited_for():
    text = """kernel k(n: int64, out B: int64[8]) { alloc s: int64[8] in shared
      thread t in 0:8 { if t >= n { return } s[t] = t barrier(block) B[t] = s[n - 1 - t] } }"""
    report = run(text, 5, np.zeros(8, np.int64))
    assert report.ok
    assert report.outputs["B"].tolist() == [4, 3, 2, 1, 0, 0, 0, 0]


def test_loops_of_different_length_with_break_and_continue():
    text = """kernel k(out B: int64[16]) { thread t in 0:16 {
      for i in 0:t { if i % 2 == 0 { continue } if i > 9 { break } B[t] = B[t] + i } } }"""
    report = run(text, np.zeros(16, np.int64))
    assert report.ok
    assert report.outputs["B"].tolist() == [sum(i for i in range(t) if i % 2 and i <= 9) for t in range(16)]


def test_arguments_stay_as_they_are_and_are_checked():
    b = floats()
    report = run(SHIFT.replace(" + tile[t + 1]", ""), floats() + 1, b)
    assert np.array_equal(b, floats())
    assert np.array_equal(report.outputs["B"], floats() + 1)
    report.check()
    with pytest.raises(ShapeError, match="has shape"):
        run(SHIFT, floats(3), b)
    with pytest.raises(ArgumentError, match="takes 2 arguments"):
        run(SHIFT, b)
    with pytest.raises(ProgramError, match="uninitialized"):
        run(SHIFT, floats(), b).check()


def test_what_reaches_memory_on_its_own_is_refused():
    with pytest.raises(UnsupportedError, match="cannot be watched"):
        run("kernel k(out B: float32[4]) { B[ramp(0, 1, 4)] = broadcast(1.0_f32, 4) }", floats(4))


def test_the_front_door_takes_texts_kernels_and_operators():
    assert weft.sanitize(weft.kernel(SHIFT.replace(" + tile[t + 1]", "")), floats(), floats()).ok
    assert not weft.sanitize(SHIFT, [floats(), floats()]).ok
    double = weft.define("def f(float(N) X) -> (Y) { Y(i) = X(i) * 2 }")
    report = weft.sanitize(double, floats(1000))
    assert report.ok
    assert np.array_equal(report.outputs["Y"], floats(1000) * 2)
    with pytest.raises(ArgumentError, match="sanitize takes a loop program"):
        weft.sanitize(3)  # type: ignore[arg-type]

"""The machine code behind `threads`: one ``weft_parallel_for``, over an OpenMP runtime or our own pool.

How a loop is shared out is in `job_text`, what is OpenMP's in `openmp_text`; here are the threads of our own. One that
finds itself on the caller's core steps aside: the system may wake it there, though others idle. A second caller, and a
call from inside a job, find the pool busy and run their loop alone.
"""

from __future__ import annotations

from weft.runtime.job_text import JOBS
from weft.runtime.native_module import NativeModule, words
from weft.runtime.openmp_text import OPENMP

_ENTRY = '''
def weft_parallel_for(fn, ctx, n):
    if n <= 0:
        return 0
    count = atomic_load(threads)
    if n < count:
        count = n
    if count <= 1 or n >> place_bits != 0:
        return fn(ctx, 0, n)
    if atomic_load(runtime) == 0:
        return over_pool(fn, ctx, n, count)
    if atomic_load(team_master) == pthread_self():
        return over_team(fn, ctx, n, count)
    return over_openmp(fn, ctx, n, count)


def over_pool(fn, ctx, n, count):
    if not atomic_replace(busy, 0, 1):
        return fn(ctx, 0, n)
    atomic_store(caller_core, sched_getcpu())
    hire(count - 1)
    status = share_out(pool_job, fn, ctx, n, count)
    atomic_store(busy, 0)
    return status


def hire(wanted):
    """Workers up to the number asked for; where the system refuses threads, fewer do the work."""
    mask = room(16)
    old = room(16)
    handle = room(1)
    index = atomic_load(workers)
    if index >= wanted:
        return
    # Signals belong to the threads Python knows.
    llvm.memset.p0.i64(mask, -1, 128, 0)
    pthread_sigmask(2, mask, old)
    while index < wanted and pthread_create(handle, 0, work, index) == 0:
        pthread_detach(handle[0])
        index += 1
        atomic_store(workers, index)
    pthread_sigmask(2, old, 0)


def work(index):
    serve(pool_job, index)


def leave_core(core):
    """Off the caller's core, where this thread is on it."""
    if sched_getcpu() == core:
        step_aside(core)


def step_aside(core):
    """This thread to any core the process may use but one; where there is no other, it stays."""
    mask = room(mask_words)
    if sched_getaffinity(getpid(), 8 * mask_words, mask) != 0:
        return
    mask[core // 64] = mask[core // 64] & ~(1 << core % 64)
    sched_setaffinity(0, 8 * mask_words, mask)


def weft_reset_pool():
    """In a child process none of the parent's workers exist."""
    atomic_store(runtime, 0)
    atomic_store(pool_job + job_gate, 0)
    atomic_store(pool_job + job_sleepers, 0)
    atomic_store(workers, 0)
    atomic_store(busy, 0)
    atomic_store(team_master, 0)
'''

#: By processor: the number of the futex system call, and how a spinning thread yields its core.
_PROCESSORS = {"x86_64": (202, "llvm.x86.sse2.pause", ""), "aarch64": (98, "llvm.aarch64.hint", "1")}
#: Turns of a waiting thread before it sleeps, some 300 microseconds: being woken takes tens of them, and a wait for
#: the last chunk of a loop is often longer than a few. A thread that waits for more than a pause between loops sleeps.
SPINS = 20_000
#: Nanoseconds after the last chunk from which on OpenMP's threads are late, and for how long they are left alone then.
#: Once late is not for long: while our own pool runs loops between a library's, which are OpenMP's, both want cores.
LATE, SHORTEST_PAUSE, LONGEST_PAUSE = 1_000_000, 20_000_000, 16_000_000_000
#: A team starts with the loop after so many: what it costs, one or two loops do not give back.
FEW_LOOPS = 2
#: What a worker reads of a job lies in the cache line of the word it waits for; the words from ``status`` on, which
#: hardly change, in the next; then, in lines of their own, how far each share is given out.
_JOB = words("fn", "ctx", "n", "shares", "limit", "tag", "gate", "", "status", "done", "sleepers")
_TEAM = words("size", "loops", "is_busy")
#: The gate: how many workers are inside, bits, and above them the number of the job.
_INSIDE, _WAITING, _OVER, _OPENED, _NUMBER_BITS = (1 << 16) - 1, 1 << 28, 1 << 29, 1 << 30, 32
#: A share: the next iteration, and above it the tag of the job. Longer loops run on one thread.
_PLACE_BITS, _TAGS = 40, 1 << 23
#: Shares of a loop: one for each thread, up to so many; further threads begin where another does.
MOST_SHARES, SHARE_WORDS = 32, 8
_JOB_ROOM = SHARE_WORDS * (2 + MOST_SHARES)
_FUNCTIONS = {
    "pthread_create": "i32 (ptr, ptr, ptr, ptr)", "pthread_detach": "i32 (i64)",
    "pthread_sigmask": "i32 (i32, ptr, ptr)", "syscall": "i64 (i64, ...)", "getpid": "i32 ()", "sched_getcpu": "i32 ()",
    "sched_getaffinity": "i32 (i32, i64, ptr)", "sched_setaffinity": "i32 (i32, i64, ptr)",
    "clock_gettime": "i32 (i32, ptr)", "pthread_self": "i64 ()",
}  # fmt: skip
#: What the module needs of the C library.
POOL_IMPORTS = tuple(_FUNCTIONS)
#: How many words each takes; what is used together lies in one cache line.
_MEMORY = {
    **dict.fromkeys(("threads", "runtime", "follow", "gomp_parallel", "start_threads", "end_threads", "omp_in_parallel",
                    "omp_get_max_threads", "omp_get_thread_num"), 1),
    "pool_job": _JOB_ROOM, "busy": 1, "workers": 1, "caller_core": 1, "lateness": 2, "late": 1,
    "team_job": _JOB_ROOM, "team_master": 1, "team_state": len(_TEAM),
}  # fmt: skip


def pool_module(processor: str) -> NativeModule:
    """The module for ``processor`` (``x86_64`` or ``aarch64``) on Linux."""
    futex, pause, hint = _PROCESSORS[processor]
    constants = {
        "futex": futex, "wait": 128, "wake": 129, "spins": SPINS,
        "inside": _INSIDE, "waiting": _WAITING, "over": _OVER, "opened": _OPENED, "number_bits": _NUMBER_BITS,
        "next_job": 1 << _NUMBER_BITS, "place_bits": _PLACE_BITS, "places": (1 << _PLACE_BITS) - 1, "tags": _TAGS,
        "job_room": _JOB_ROOM, "job_shares": 16 * SHARE_WORDS, "share_bytes": 8 * SHARE_WORDS,
        "most_shares": MOST_SHARES, **{f"job_{name}": _JOB[name][0] for name in ("gate", "status", "done", "sleepers")},
        "few_loops": FEW_LOOPS,
        "shortest_pause": SHORTEST_PAUSE, "longest_pause": LONGEST_PAUSE, "away_until": 8,
        "mask_words": 128,  # enough for 8,192 cores
    }  # fmt: skip
    functions = {
        **_FUNCTIONS, "llvm.memset.p0.i64": "void (ptr, i8, i64, i1)", pause: f"void ({'i32' if hint else ''})",
    }  # fmt: skip
    source = (_ENTRY + JOBS + OPENMP).replace("$PAUSE()", f"{pause}({hint})")
    return NativeModule(source, constants, {"Job": _JOB, "Team": _TEAM}, functions, (), _MEMORY)

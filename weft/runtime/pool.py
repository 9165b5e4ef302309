"""The machine code behind `threads`: one ``weft_parallel_for``, over an OpenMP runtime or our own pool.

Our pool: the caller publishes a job and opens a gate; workers that see it count themselves
in, take chunks until none are left, and count themselves out. The caller takes chunks too,
closes the gate, and waits only for workers that came in, so one that slept through a short
job costs nothing. Each thread begins with a share of the iterations that is its own, the same in
every loop: what it wrote in one loop it finds in its caches in the next. Then it takes what others
have left. Workers spin for a while after a job, then sleep on a futex. A worker that
finds itself on the caller's core steps aside: the system may wake it there, though others idle.
A second caller, and a call from inside a job, find the pool busy and run their loop alone.

Over OpenMP: a team of the requested size takes chunks from the same kind of counter. OpenMP ends a loop with all of its
threads, however late one is: where other programs use the cores, a loop of microseconds takes as long as the system
lets a thread wait, tens of milliseconds. So it is noted when the last chunk was done; where the loop ended long after
that, loops run on our own pool for a while, longer each time OpenMP's threads are late again.
"""

from __future__ import annotations

from weft.runtime.native_module import NativeModule, words

_SOURCE = '''
def weft_parallel_for(fn, ctx, n):
    if n <= 0:
        return 0
    count = atomic_load(threads)
    if n < count:
        count = n
    if count <= 1:
        return fn(ctx, 0, n)
    if atomic_load(runtime) != 0:
        return over_openmp(fn, ctx, n, count)
    return over_pool(fn, ctx, n, count)


def take_chunks(job: Job, thread):
    """First of the share that is this thread's, then of the others'; whether there was any to take."""
    shares = job.shares
    took = 0
    for turn in range(shares):
        took = take_share(job, (thread + turn) % shares) or took
        if atomic_load(job + job_status) != 0:
            return took
    return took


def take_share(job: Job, share):
    """Chunks of one share until none are left: half of what there is, in the end one by one, so that late or slow
    threads leave the rest to others."""
    fn = job.fn
    ctx = job.ctx
    at = job + job_shares + share * share_bytes
    limit = job.n * (share + 1) // job.shares
    took = 0
    while 1:
        begin = atomic_load(at)
        if begin >= limit or atomic_load(job + job_status) != 0:
            return took
        chunk = (limit - begin) // 2
        end = begin + (chunk if chunk > 1 else 1)
        if atomic_replace(at, begin, end):
            status = fn(ctx, begin, end)
            took = 1
            if status != 0:
                atomic_replace(job + job_status, 0, status)
                return took


def fill_job(job: Job, fn, ctx, n, count):
    job.fn = fn
    job.ctx = ctx
    job.n = n
    shares = count if count < most_shares else most_shares
    job.shares = shares
    for share in range(shares):
        atomic_store(job + job_shares + share * share_bytes, n * share // shares)
    atomic_store(job + job_status, 0)


def team_size(count):
    """Where nobody set a number of threads here, the OpenMP runtime's own number holds (torch.set_num_threads)."""
    ask = omp_get_max_threads[0]
    if atomic_load(follow) == 0:
        return count
    most = ask()
    return most if most < count else count


def over_openmp(fn, ctx, n, count):
    job = room(job_room)
    is_inside = omp_in_parallel[0]
    if is_inside() != 0:
        return fn(ctx, 0, n)
    size = team_size(count)
    if size <= 1:
        return fn(ctx, 0, n)
    away = atomic_load(lateness + away_until)
    if away != 0 and nanoseconds() < away:
        return over_pool(fn, ctx, n, size)
    fill_job(job, fn, ctx, n, size)
    atomic_store(job + job_done, nanoseconds())
    run = gomp_parallel[0]
    run(take_timed, job, size, 0)
    note_lateness(atomic_load(job + job_done))
    return atomic_load(job + job_status)


def take_timed(job: Job):
    thread = omp_get_thread_num[0]
    if take_chunks(job, thread()) != 0:
        atomic_store(job + job_done, nanoseconds())


def note_lateness(done):
    """Leaves OpenMP's threads alone for a while where some of them came long after all was ``done``."""
    ended = nanoseconds()
    if ended - done < late:
        if atomic_load(lateness) != 0:
            atomic_store(lateness, 0)
            atomic_store(lateness + away_until, 0)
        return
    pause = atomic_load(lateness)
    pause = 2 * pause if pause != 0 else shortest_pause
    if pause > longest_pause:
        pause = longest_pause
    atomic_store(lateness, pause)
    atomic_store(lateness + away_until, ended + pause)


def nanoseconds():
    time = room(2)
    clock_gettime(1, time)
    return time[0] * 1000000000 + time[1]


def over_pool(fn, ctx, n, count):
    if not atomic_replace(busy, 0, 1):
        return fn(ctx, 0, n)
    atomic_store(caller_core, sched_getcpu())
    hire(count - 1)
    fill_job(pool_job, fn, ctx, n, count)
    atomic_store(gate + gate_limit, count - 1)
    atomic_or(gate, opened)
    atomic_add(ticket, 1)
    if atomic_load(ticket + ticket_sleepers) > 0:
        # All of them: the limit decides who takes part, and which worker a single wake would reach is not known.
        syscall(futex, ticket, wake, 0x7FFFFFFF, 0, 0, 0)
    take_chunks(pool_job, 0)
    atomic_and(gate, ~opened)
    await_gate()
    status = atomic_load(pool_job + job_status)
    atomic_store(busy, 0)
    return status


def await_gate():
    """Until every worker that came in has left: spin, then sleep on the gate."""
    for turn in range(spins):
        if atomic_load(gate) == 0:
            return
        $PAUSE()
    atomic_store(gate + gate_waiting, 1)
    now = atomic_load(gate)
    while now != 0:
        syscall(futex, gate, wait, now, 0, 0, 0)
        atomic_store(gate + gate_waiting, 1)
        now = atomic_load(gate)
    atomic_store(gate + gate_waiting, 0)


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
    while 1:
        core = atomic_load(caller_core)
        if sched_getcpu() == core:
            step_aside(core)
        # The ticket is read before the gate is tried, so a job published in between is not slept through.
        seen = atomic_load(ticket)
        if atomic_add(gate, 1) & opened != 0 and index < atomic_load(gate + gate_limit):
            take_chunks(pool_job, index + 1)
        if atomic_add(gate, -1) == 1 and atomic_load(gate + gate_waiting) != 0:
            syscall(futex, gate, wake, 1, 0, 0, 0)
        turn = 0
        while turn < spins and atomic_load(ticket) == seen:
            $PAUSE()
            turn += 1
        if turn == spins:
            atomic_add(ticket + ticket_sleepers, 1)
            syscall(futex, ticket, wait, seen, 0, 0, 0)
            atomic_add(ticket + ticket_sleepers, -1)


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
    atomic_store(gate, 0)
    atomic_store(ticket + ticket_sleepers, 0)
    atomic_store(gate + gate_waiting, 0)
    atomic_store(workers, 0)
    atomic_store(busy, 0)
'''

#: By processor: the number of the futex system call, and how a spinning thread yields its core.
_PROCESSORS = {"x86_64": (202, "llvm.x86.sse2.pause", ""), "aarch64": (98, "llvm.aarch64.hint", "1")}
#: Turns of a waiting thread before it sleeps, some 300 microseconds: being woken takes tens of them, and a wait for
#: the last chunk of a loop is often longer than a few. A thread that waits for more than a pause between loops sleeps.
SPINS = 20_000
#: Nanoseconds after the last chunk from which on OpenMP's threads are late, and for how long they are left alone then.
#: Once late is not for long: while our own pool runs loops between a library's, which are OpenMP's, both want cores.
LATE, SHORTEST_PAUSE, LONGEST_PAUSE = 1_000_000, 20_000_000, 16_000_000_000
#: Behind these words of a job stands where each share goes on, in a cache line of its own.
_JOB = words("fn", "ctx", "n", "shares", "status", "done")
#: Shares of a loop: one for each thread, up to so many; further threads begin where another does.
MOST_SHARES, SHARE_WORDS = 32, 8
_JOB_ROOM = SHARE_WORDS * (1 + MOST_SHARES)
_FUNCTIONS = {
    "pthread_create": "i32 (ptr, ptr, ptr, ptr)", "pthread_detach": "i32 (i64)",
    "pthread_sigmask": "i32 (i32, ptr, ptr)", "syscall": "i64 (i64, ...)", "getpid": "i32 ()", "sched_getcpu": "i32 ()",
    "sched_getaffinity": "i32 (i32, i64, ptr)", "sched_setaffinity": "i32 (i32, i64, ptr)",
    "clock_gettime": "i32 (i32, ptr)",
}  # fmt: skip
#: What the module needs of the C library.
POOL_IMPORTS = tuple(_FUNCTIONS)
#: How many words each takes; what is used together lies in one cache line.
_MEMORY = {
    **dict.fromkeys(("threads", "runtime", "follow", "gomp_parallel", "omp_in_parallel", "omp_get_max_threads",
                    "omp_get_thread_num"), 1),
    "pool_job": _JOB_ROOM, "gate": 3, "ticket": 2, "busy": 1, "workers": 1, "caller_core": 1, "lateness": 2,
}  # fmt: skip


def pool_module(processor: str) -> NativeModule:
    """The module for ``processor`` (``x86_64`` or ``aarch64``) on Linux."""
    futex, pause, hint = _PROCESSORS[processor]
    constants = {
        "futex": futex, "wait": 128, "wake": 129, "spins": SPINS, "opened": 1 << 30,
        "gate_limit": 8, "gate_waiting": 16, "ticket_sleepers": 8, "job_room": _JOB_ROOM,
        "job_shares": 8 * SHARE_WORDS, "share_bytes": 8 * SHARE_WORDS, "most_shares": MOST_SHARES,
        "job_status": _JOB["status"][0], "job_done": _JOB["done"][0],
        "late": LATE, "shortest_pause": SHORTEST_PAUSE, "longest_pause": LONGEST_PAUSE, "away_until": 8,
        "mask_words": 128,  # enough for 8,192 cores
    }  # fmt: skip
    functions = {
        **_FUNCTIONS, "llvm.memset.p0.i64": "void (ptr, i8, i64, i1)", pause: f"void ({'i32' if hint else ''})",
    }  # fmt: skip
    source = _SOURCE.replace("$PAUSE()", f"{pause}({hint})")
    return NativeModule(source, constants, {"Job": _JOB}, functions, (), _MEMORY)

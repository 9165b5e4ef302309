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
    if count <= 1 or n >> place_bits != 0:
        return fn(ctx, 0, n)
    if atomic_load(runtime) == 0:
        return over_pool(fn, ctx, n, count)
    if atomic_load(team_master) == pthread_self():
        return over_team(fn, ctx, n, count)
    return over_openmp(fn, ctx, n, count)


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
    tag = job.tag
    at = job + job_shares + share * share_bytes
    begin = job.n * share // job.shares
    limit = job.n * (share + 1) // job.shares
    took = 0
    while 1:
        word = atomic_load(at)
        if word >> place_bits == tag:
            begin = word & places
        if begin >= limit or atomic_load(job + job_status) != 0:
            return took
        chunk = (limit - begin) // 2
        end = begin + (chunk if chunk > 1 else 1)
        if atomic_replace(at, word, tag << place_bits | end):
            status = fn(ctx, begin, end)
            took = 1
            if status != 0:
                atomic_replace(job + job_status, 0, status)
                return took


def fill_job(job: Job, fn, ctx, n, count):
    """What each share has given out is not set back: a word with another tag is of a job before."""
    job.fn = fn
    job.ctx = ctx
    job.n = n
    job.shares = count if count < most_shares else most_shares
    job.limit = count - 1
    job.tag = job.tag + 1
    if job.tag == tags:
        job.tag = 1
        for share in range(most_shares):
            at = job + job_shares + share * share_bytes
            at[0] = 0
    if atomic_load(job + job_status) != 0:
        atomic_store(job + job_status, 0)


def share_out(job: Job, fn, ctx, n, count):
    """A loop over workers that `serve`, and this thread."""
    gate = job + job_gate
    fill_job(job, fn, ctx, n, count)
    atomic_add(gate, next_job + opened)
    if atomic_load(job + job_sleepers) > 0:
        # All of them: the limit decides who takes part, and which worker a single wake would reach is not known.
        syscall(futex, gate + 4, wake, 0x7FFFFFFF, 0, 0, 0)
    take_chunks(job, 0)
    if atomic_add(gate, -opened) & inside != 0:
        await_gate(gate)
    return atomic_load(job + job_status)


def await_gate(gate):
    """Until every worker that came in has left: spin, then sleep on the gate."""
    for turn in range(spins):
        if atomic_load(gate) & inside == 0:
            return
        $PAUSE()
    now = atomic_or(gate, waiting) | waiting
    while now & inside != 0:
        syscall(futex, gate, wait, now & 0xFFFFFFFF, 0, 0, 0)
        now = atomic_load(gate)
    atomic_and(gate, ~waiting)


def serve(job: Job, index):
    """Takes part in job after job until one says that it was the last."""
    gate = job + job_gate
    seen = -1
    while 1:
        if job == pool_job:
            leave_core(atomic_load(caller_core))
        now = await_job(job, seen)
        seen = now >> number_bits
        if now & over != 0:
            return
        if now & opened == 0 or index >= job.limit:
            continue
        now = atomic_add(gate, 1)
        seen = now >> number_bits
        if now & opened != 0 and index < job.limit:
            take_chunks(job, index + 1)
        now = atomic_add(gate, -1)
        if now & inside == 1 and now & waiting != 0:
            syscall(futex, gate, wake, 1, 0, 0, 0)


def await_job(job, seen):
    """The gate's word with another number than the one ``seen``: spin, then sleep."""
    gate = job + job_gate
    while 1:
        for turn in range(spins):
            now = atomic_load(gate)
            if now >> number_bits != seen:
                return now
            $PAUSE()
        atomic_add(job + job_sleepers, 1)
        syscall(futex, gate + 4, wait, seen, 0, 0, 0)
        atomic_add(job + job_sleepers, -1)


def weft_with_team(fn, ctx):
    """``fn(ctx)``, the loops of which find OpenMP's threads awake from the first of them on."""
    if atomic_load(runtime) == 0 or atomic_load(no_teams) != 0 or not atomic_replace(team_master, 0, pthread_self()):
        return fn(ctx)
    status = fn(ctx)
    weft_end_team()
    atomic_store(team_master, 0)
    return status


def over_team(fn, ctx, n, count):
    team: Team = team_state
    if team.is_busy != 0:
        return fn(ctx, 0, n)  # inside a loop of the team's
    if team.size == 0 and start_team(team) == 0:
        return over_openmp(fn, ctx, n, count)
    team.is_busy = 1
    status = share_out(team_job, fn, ctx, n, count if count < team.size else team.size)
    team.is_busy = 0
    return status


def start_team(team: Team):
    """Whether there is one now."""
    is_inside = omp_in_parallel[0]
    size = team_size(atomic_load(threads))
    if size <= 1 or is_away() or is_inside() != 0:
        return 0
    team.size = size
    atomic_and(team_job + job_gate, ~over)
    start = start_threads[0]
    start(serve_team, team_job, size)
    return 1


def serve_team(job):
    thread = omp_get_thread_num[0]
    serve(job, thread() - 1)


def weft_end_team():
    """For those in `weft_with_team` who call what starts OpenMP's threads itself: loops after that make a new one."""
    team: Team = team_state
    if atomic_load(team_master) != pthread_self() or team.size == 0 or team.is_busy != 0:
        return
    team.size = 0
    atomic_add(team_job + job_gate, next_job + over)
    if atomic_load(team_job + job_sleepers) > 0:
        syscall(futex, team_job + job_gate + 4, wake, 0x7FFFFFFF, 0, 0, 0)
    done = nanoseconds()
    end = end_threads[0]
    end()
    note_lateness(done)


def team_size(count):
    """Where nobody set a number of threads here, the OpenMP runtime's own number holds (torch.set_num_threads)."""
    ask = omp_get_max_threads[0]
    if atomic_load(follow) == 0:
        return count
    most = ask()
    return most if most < count else count


def over_openmp(fn, ctx, n, count):
    job: Job = room(job_room)
    is_inside = omp_in_parallel[0]
    if is_inside() != 0:
        return fn(ctx, 0, n)
    size = team_size(count)
    if size <= 1:
        return fn(ctx, 0, n)
    if is_away():
        return over_pool(fn, ctx, n, size)
    job.tag = tags - 1
    atomic_store(job + job_status, 0)
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


def is_away():
    away = atomic_load(lateness + away_until)
    return away != 0 and nanoseconds() < away


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
#: What a worker reads of a job lies in the cache line of the word it waits for; the words from ``status`` on, which
#: hardly change, in the next; then, in lines of their own, how far each share is given out.
_JOB = words("fn", "ctx", "n", "shares", "limit", "tag", "gate", "", "status", "done", "sleepers")
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
                    "omp_get_max_threads", "omp_get_thread_num", "no_teams"), 1),
    "pool_job": _JOB_ROOM, "busy": 1, "workers": 1, "caller_core": 1, "lateness": 2,
    "team_job": _JOB_ROOM, "team_master": 1, "team_state": 2,
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
        "late": LATE, "shortest_pause": SHORTEST_PAUSE, "longest_pause": LONGEST_PAUSE, "away_until": 8,
        "mask_words": 128,  # enough for 8,192 cores
    }  # fmt: skip
    functions = {
        **_FUNCTIONS, "llvm.memset.p0.i64": "void (ptr, i8, i64, i1)", pause: f"void ({'i32' if hint else ''})",
    }  # fmt: skip
    source = _SOURCE.replace("$PAUSE()", f"{pause}({hint})")
    return NativeModule(source, constants, {"Job": _JOB, "Team": words("size", "is_busy")}, functions, (), _MEMORY)

"""How threads share out a loop, in the language of `native_language`; a part of `pool`.

The caller publishes a job and opens a gate; workers that see it count themselves in, take chunks until none are left,
and count themselves out. The caller takes chunks too, closes the gate, and waits only for workers that came in, so one
that was late costs nothing. Each thread begins with a share of the iterations that is its own, the same in every loop:
what it wrote in one loop it finds in its caches in the next. Then it takes what others have left. Workers spin for a
while after a job, then sleep on a futex.
"""

from __future__ import annotations

JOBS = '''
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
'''

"""The machine code behind `threads`: one ``weft_parallel_for``, over an OpenMP runtime or our own pool.

Our pool: the caller publishes a job and opens a gate; workers that see it count themselves
in, take chunks until none are left, and count themselves out. The caller takes chunks too,
closes the gate, and waits only for workers that came in, so one that slept through a short
job costs nothing. Workers spin for a while after a job, then sleep on a futex. A worker that
finds itself on the caller's core steps aside: the system may wake it there, though others idle.
A second caller, and a call from inside a job, find the pool busy and run their loop alone.

Over OpenMP: a team of the requested size takes chunks from the same kind of counter.
"""

from __future__ import annotations

from weft.runtime.short_llvm import expand

_COMMON = """
@threads = global i32 1
@runtime = global i32 0

%Job = type { ptr, ptr, i64, i64, i64, i32 }

define i32 @weft_parallel_for(ptr %fn, ptr %ctx, i64 %n) {
  br i64 %n sle 0, label %nothing, label %some
nothing:
  ret i32 0
some:
  %wanted = load atomic i32, ptr @threads seq_cst, align 4
  %wide = sext i32 %wanted to i64
  %few = icmp slt i64 %n, %wide
  %count = select i1 %few, i64 %n, i64 %wide
  br i64 %count sle 1, label %inline, label %many
inline:
  %own = call i32 %fn(ptr %ctx, i64 0, i64 %n)
  ret i32 %own
many:
  %kind = load atomic i32, ptr @runtime seq_cst, align 4
  br i32 %kind ne 0, label %openmp, label %pool
openmp:
  %a = call i32 @over_openmp(ptr %fn, ptr %ctx, i64 %n, i64 %count)
  ret i32 %a
pool:
  %b = call i32 @over_pool(ptr %fn, ptr %ctx, i64 %n, i64 %count)
  ret i32 %b
}

; A quarter of an even share: late or slow threads leave the rest to the others.
define internal i64 @chunk_size(i64 %n, i64 %count) {
  %parts = shl i64 %count, 2
  %up = add i64 %parts, -1
  %sum = add i64 %n, %up
  %size = udiv i64 %sum, %parts
  ret i64 %size
}

define internal void @take_chunks(ptr %job) {
  %fn.at = getelementptr %Job, ptr %job, i32 0, i32 0
  %fn = load ptr, ptr %fn.at
  %ctx.at = getelementptr %Job, ptr %job, i32 0, i32 1
  %ctx = load ptr, ptr %ctx.at
  %n.at = getelementptr %Job, ptr %job, i32 0, i32 2
  %n = load i64, ptr %n.at
  %chunk.at = getelementptr %Job, ptr %job, i32 0, i32 3
  %chunk = load i64, ptr %chunk.at
  %next.at = getelementptr %Job, ptr %job, i32 0, i32 4
  %status.at = getelementptr %Job, ptr %job, i32 0, i32 5
  br label %again
again:
  %begin = atomicrmw add ptr %next.at, i64 %chunk seq_cst
  br i64 %begin slt %n, label %check, label %done
check:
  %seen = load atomic i32, ptr %status.at seq_cst, align 4
  br i32 %seen eq 0, label %work, label %done
work:
  %past = add i64 %begin, %chunk
  %last = icmp sgt i64 %past, %n
  %end = select i1 %last, i64 %n, i64 %past
  %status = call i32 %fn(ptr %ctx, i64 %begin, i64 %end)
  br i32 %status eq 0, label %again, label %failed
failed:
  %first = cmpxchg ptr %status.at, i32 0, i32 %status seq_cst seq_cst
  br label %done
done:
  ret void
}

define internal void @fill_job(ptr %job, ptr %fn, ptr %ctx, i64 %n, i64 %count) {
  %fn.at = getelementptr %Job, ptr %job, i32 0, i32 0
  store ptr %fn, ptr %fn.at
  %ctx.at = getelementptr %Job, ptr %job, i32 0, i32 1
  store ptr %ctx, ptr %ctx.at
  %n.at = getelementptr %Job, ptr %job, i32 0, i32 2
  store i64 %n, ptr %n.at
  %chunk = call i64 @chunk_size(i64 %n, i64 %count)
  %chunk.at = getelementptr %Job, ptr %job, i32 0, i32 3
  store i64 %chunk, ptr %chunk.at
  %next.at = getelementptr %Job, ptr %job, i32 0, i32 4
  store atomic i64 0, ptr %next.at seq_cst, align 8
  %status.at = getelementptr %Job, ptr %job, i32 0, i32 5
  store atomic i32 0, ptr %status.at seq_cst, align 4
  ret void
}

define internal i32 @job_status(ptr %job) {
  %status.at = getelementptr %Job, ptr %job, i32 0, i32 5
  %status = load atomic i32, ptr %status.at seq_cst, align 4
  ret i32 %status
}
"""

_OPENMP = """
@gomp_parallel = global ptr null
@omp_in_parallel = global ptr null
@omp_get_max_threads = global ptr null
@follow = global i32 1

; Where nobody set a number of threads here, the OpenMP runtime's own number holds (torch.set_num_threads).
define internal i64 @team_size(i64 %count) {
  %follow = load atomic i32, ptr @follow seq_cst, align 4
  br i32 %follow ne 0, label %ask, label %keep
ask:
  %most.fn = load ptr, ptr @omp_get_max_threads
  %most = call i32 %most.fn()
  %wide = sext i32 %most to i64
  %fewer = icmp slt i64 %wide, %count
  %least = select i1 %fewer, i64 %wide, i64 %count
  ret i64 %least
keep:
  ret i64 %count
}

define internal i32 @over_openmp(ptr %fn, ptr %ctx, i64 %n, i64 %count) {
  %inside.fn = load ptr, ptr @omp_in_parallel
  %inside = call i32 %inside.fn()
  br i32 %inside ne 0, label %alone, label %ask
ask:
  %size = call i64 @team_size(i64 %count)
  br i64 %size sle 1, label %alone, label %team
alone:
  %own = call i32 %fn(ptr %ctx, i64 0, i64 %n)
  ret i32 %own
team:
  %job = alloca %Job, align 64
  call void @fill_job(ptr %job, ptr %fn, ptr %ctx, i64 %n, i64 %size)
  %parallel = load ptr, ptr @gomp_parallel
  %members = trunc i64 %size to i32
  call void %parallel(ptr @take_chunks, ptr %job, i32 %members, i32 0)
  %status = call i32 @job_status(ptr %job)
  ret i32 %status
}
"""

_POOL = """
@job = global %Job zeroinitializer, align 64
@gate = global i32 0, align 64
@limit = global i32 0, align 4
@waiting = global i32 0, align 4
@ticket = global i32 0, align 64
@sleepers = global i32 0, align 4
@busy = global i32 0, align 64
@workers = global i32 0, align 4
@caller.core = global i32 -1, align 4

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @getpid()
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i32 @over_pool(ptr %fn, ptr %ctx, i64 %n, i64 %count) {
  %was = cmpxchg ptr @busy, i32 0, i32 1 seq_cst seq_cst
  %mine = extractvalue { i32, i1 } %was, 1
  br i1 %mine, label %lead, label %alone
alone:
  %own = call i32 %fn(ptr %ctx, i64 0, i64 %n)
  ret i32 %own
lead:
  %count32 = trunc i64 %count to i32
  %helpers = add i32 %count32, -1
  call void @hire(i32 %helpers)
  call void @fill_job(ptr @job, ptr %fn, ptr %ctx, i64 %n, i64 %count)
  store atomic i32 %helpers, ptr @limit seq_cst, align 4
  %core = call i32 @sched_getcpu()
  store atomic i32 %core, ptr @caller.core seq_cst, align 4
  %opened = atomicrmw or ptr @gate, i32 $OPEN seq_cst
  %called = atomicrmw add ptr @ticket, i32 1 seq_cst
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  br i32 %asleep sgt 0, label %wake, label %work
wake:
  ; All of them: the limit decides who takes part, and which worker a single wake would reach is not known.
  %woken = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr @ticket, i32 129, i32 2147483647, ptr null, ptr null, i32 0)
  br label %work
work:
  call void @take_chunks(ptr @job)
  %closed = atomicrmw and ptr @gate, i32 $CLOSED seq_cst
  call void @await_gate()
  %status = call i32 @job_status(ptr @job)
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret i32 %status
}

; Until every worker that came in has left: spin, then sleep on the gate.
define internal void @await_gate() {
entry:
  br label %spin
spin:
  %turn = phi i32 [ 0, %entry ], [ %more, %pause ]
  %inside = load atomic i32, ptr @gate seq_cst, align 4
  br i32 %inside eq 0, label %done, label %waitmore
waitmore:
  %more = add i32 %turn, 1
  br i32 %more slt $SPINS, label %pause, label %sleep
pause:
  $PAUSE
  br label %spin
sleep:
  store atomic i32 1, ptr @waiting seq_cst, align 4
  %now = load atomic i32, ptr @gate seq_cst, align 4
  br i32 %now eq 0, label %awake, label %block
block:
  %r = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr @gate, i32 128, i32 %now, ptr null, ptr null, i32 0)
  br label %sleep
awake:
  store atomic i32 0, ptr @waiting seq_cst, align 4
  br label %done
done:
  ret void
}

; Workers up to the number asked for; where the system refuses threads, fewer do the work.
define internal void @hire(i32 %wanted) {
entry:
  %mask = alloca [128 x i8], align 8
  %old = alloca [128 x i8], align 8
  %handle = alloca i64, align 8
  %have = load atomic i32, ptr @workers seq_cst, align 4
  br i32 %have sge %wanted, label %done, label %begin
begin:
  ; Signals belong to the threads Python knows.
  call void @llvm.memset.p0.i64(ptr %mask, i8 -1, i64 128, i1 false)
  %m = call i32 @pthread_sigmask(i32 2, ptr %mask, ptr %old)
  br label %more
more:
  %index = phi i32 [ %have, %begin ], [ %next, %made ]
  br i32 %index sge %wanted, label %end, label %make
make:
  %wide = zext i32 %index to i64
  %arg = inttoptr i64 %wide to ptr
  %failed = call i32 @pthread_create(ptr %handle, ptr null, ptr @work, ptr %arg)
  br i32 %failed eq 0, label %made, label %end
made:
  %id = load i64, ptr %handle
  %d = call i32 @pthread_detach(i64 %id)
  %next = add i32 %index, 1
  store atomic i32 %next, ptr @workers seq_cst, align 4
  br label %more
end:
  %u = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  br label %done
done:
  ret void
}

define internal ptr @work(ptr %arg) {
entry:
  %wide = ptrtoint ptr %arg to i64
  %index = trunc i64 %wide to i32
  br label %idle
idle:
  %here = call i32 @sched_getcpu()
  %theirs = load atomic i32, ptr @caller.core seq_cst, align 4
  br i32 %here eq %theirs, label %aside, label %look
aside:
  call void @step_aside(i32 %theirs)
  br label %look
look:
  ; The ticket is read before the gate is tried, so a job published in between is not slept through.
  %seen = load atomic i32, ptr @ticket seq_cst, align 4
  %before = atomicrmw add ptr @gate, i32 1 seq_cst
  %is.open = and i32 %before, $OPEN
  br i32 %is.open ne 0, label %enter, label %leave
enter:
  %limit = load atomic i32, ptr @limit seq_cst, align 4
  br i32 %index slt %limit, label %take, label %leave
take:
  call void @take_chunks(ptr @job)
  br label %leave
leave:
  %left = atomicrmw sub ptr @gate, i32 1 seq_cst
  br i32 %left eq 1, label %maybe.wake, label %wait
maybe.wake:
  %someone = load atomic i32, ptr @waiting seq_cst, align 4
  br i32 %someone ne 0, label %wake, label %wait
wake:
  %w = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr @gate, i32 129, i32 1, ptr null, ptr null, i32 0)
  br label %wait
wait:
  br label %spin
spin:
  %turn = phi i32 [ 0, %wait ], [ %more, %pause ]
  %ticket = load atomic i32, ptr @ticket seq_cst, align 4
  br i32 %ticket ne %seen, label %idle, label %waitmore
waitmore:
  %more = add i32 %turn, 1
  br i32 %more slt $SPINS, label %pause, label %sleep
pause:
  $PAUSE
  br label %spin
sleep:
  %s = atomicrmw add ptr @sleepers, i32 1 seq_cst
  %r = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr @ticket, i32 128, i32 %seen, ptr null, ptr null, i32 0)
  %t = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %idle
}

; This thread to any core the process may use but one; where there is no other, it stays.
define internal void @step_aside(i32 %core) {
  %mask = alloca [$MASK_BYTES x i8], align 8
  %process = call i32 @getpid()
  %refused = call i32 @sched_getaffinity(i32 %process, i64 $MASK_BYTES, ptr %mask)
  br i32 %refused eq 0, label %move, label %done
move:
  %index = udiv i32 %core, 8
  %bit = urem i32 %core, 8
  %byte.at = getelementptr i8, ptr %mask, i32 %index
  %byte = load i8, ptr %byte.at
  %bit8 = trunc i32 %bit to i8
  %one = shl i8 1, %bit8
  %others = xor i8 %one, -1
  %left = and i8 %byte, %others
  store i8 %left, ptr %byte.at
  %moved = call i32 @sched_setaffinity(i32 0, i64 $MASK_BYTES, ptr %mask)
  br label %done
done:
  ret void
}

; In a child process none of the parent's workers exist.
define void @weft_reset_pool() {
  store atomic i32 0, ptr @runtime seq_cst, align 4
  store atomic i32 0, ptr @gate seq_cst, align 4
  store atomic i32 0, ptr @sleepers seq_cst, align 4
  store atomic i32 0, ptr @waiting seq_cst, align 4
  store atomic i32 0, ptr @workers seq_cst, align 4
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret void
}
"""

#: Of a set of cores, in the system's form: enough for 8,192.
_MASK_BYTES = 1024
#: By processor: the number of the futex system call, and how a spinning thread yields its core.
_PROCESSORS = {
    "x86_64": ("202", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("98", "call void @llvm.aarch64.hint(i32 1)"),
}
_OPEN = 1 << 30
#: Turns of a waiting thread before it sleeps, some 300 microseconds: being woken takes tens of them, and a wait for
#: the last chunk of a loop is often longer than a few. A thread that waits for more than a pause between loops sleeps.
SPINS = 20_000


def pool_text(processor: str, spins: int = SPINS) -> str:
    """The module for ``processor`` (``x86_64`` or ``aarch64``) on Linux."""
    futex, pause = _PROCESSORS[processor]
    values = {
        "FUTEX": futex,
        "PAUSE": pause,
        "SPINS": spins,
        "OPEN": _OPEN,
        "CLOSED": ~_OPEN,
        "MASK_BYTES": _MASK_BYTES,
    }
    return expand(_COMMON + _OPENMP + _POOL, values)


#: What the module needs of the C library.
POOL_IMPORTS = (
    *("pthread_create", "pthread_detach", "pthread_sigmask", "syscall", "getpid"),
    *("sched_getcpu", "sched_getaffinity", "sched_setaffinity"),
)

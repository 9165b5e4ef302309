"""Loops on the threads of an OpenMP runtime, in the language of `native_language`; a part of `pool`.

A loop by itself is a parallel region, in which threads take chunks until none are left. Who runs many loops does so in
`weft_with_team`: the threads of one region serve loop after loop, as the workers of our own pool do (`job_text`), and
are neither started nor waited for in between. It begins with the third loop and ends with the call, or before a
library's own regions. It is of one caller at a time; loops of others are regions by themselves.

OpenMP ends a region with all of its threads, however late one is: where other programs use the cores, a loop of
microseconds takes as long as the system lets a thread wait, tens of milliseconds. So it is noted when all was done;
where the region ended long after that, loops run on our own pool for a while, longer each time OpenMP's threads are
late again.
"""

from __future__ import annotations

OPENMP = '''
def weft_with_team(fn, ctx):
    """``fn(ctx)``, the loops of which find OpenMP's threads awake from the first of them on."""
    if atomic_load(runtime) == 0 or not atomic_replace(team_master, 0, pthread_self()):
        return fn(ctx)
    team: Team = team_state
    team.size = 0
    team.loops = 0
    team.is_busy = 0
    status = fn(ctx)
    weft_end_team()
    atomic_store(team_master, 0)
    return status


def over_team(fn, ctx, n, count):
    team: Team = team_state
    if team.is_busy != 0:
        return fn(ctx, 0, n)  # inside a loop of the team's
    if team.size == 0:
        team.loops = team.loops + 1
        if team.loops <= few_loops or start_team(team) == 0:
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
    team.loops = 0
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
    if ended - done < late[0]:
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
'''

// What cuda_on_host.h needs: threads of a block take turns on one thread of the host, each until it waits for others.
// That is far quicker than threads of the host, always the same, and who waits for ever is found. Built once, loaded with
// every kernel.
#include <csetjmp>
#include <cstring>
#include <map>
#include <memory>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

struct Index { unsigned x, y, z; };
extern "C" {
thread_local Index host_thread, host_block;
Index host_block_dim, host_grid_dim;
}
static unsigned number;
static bool is_concurrent;

// Turns of threads: each has a stack, of which only what it touches is memory.
constexpr size_t STACK = 1 << 20, MOST = 1024;
struct Fiber { jmp_buf place; bool is_started, is_done; };
static std::vector<Fiber> fibers;
static jmp_buf scheduler;
static bool moved;
static void (*started)(unsigned);

static void start() {
  started(number);
  fibers[number].is_done = moved = true;
  _longjmp(scheduler, 1);
}
static void enter(unsigned n) {
  static char* const stacks = (char*)mmap(nullptr, STACK * MOST, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  static ucontext_t fresh;
  fibers[n].is_started = true;
  getcontext(&fresh);
  fresh.uc_stack.ss_sp = stacks + n * STACK;
  fresh.uc_stack.ss_size = STACK;
  makecontext(&fresh, start, 0);
  setcontext(&fresh);
}
static void set_thread(unsigned n) {
  const Index d = host_block_dim;
  number = n;
  host_thread = {n % d.x, n / d.x % d.y, n / d.x / d.y};
}
// Runs ``thread`` for all; false where some wait for ever.
static bool take_turns(unsigned threads, void (*thread)(unsigned)) {
  fibers.assign(threads, Fiber());
  started = thread;
  for (bool are_done = false; !are_done;) {
    are_done = true;
    moved = false;
    for (unsigned n = 0; n < threads; ++n) {
      if (fibers[n].is_done) continue;
      are_done = false;
      set_thread(n);
      if (_setjmp(scheduler) == 0) {
        if (fibers[n].is_started) _longjmp(fibers[n].place, 1);
        enter(n);
      }
    }
    if (!moved && !are_done) return false;
  }
  return true;
}
template <typename Is> static void wait_until(Is is_over) {
  while (!is_over())
    if (_setjmp(fibers[number].place) == 0) _longjmp(scheduler, 1);
  moved = true;
}

struct Barrier {
  unsigned expected, arrived = 0, phases = 0;
  void settle() { if (expected && arrived == expected) arrived = 0, ++phases; }
  void wait() {
    const unsigned phase = phases;
    ++arrived;
    moved = true;
    settle();
    wait_until([=, this] { return phases != phase; });
  }
  void drop() { --expected; settle(); }
};
static Barrier block_barrier, some_barrier;
static std::vector<Barrier> warp_barriers, quad_barriers;
struct Slot { unsigned char bytes[32]; };
static std::vector<Slot> exchanged;

extern "C" void host_sync_threads() { if (is_concurrent) block_barrier.wait(); }
extern "C" void host_sync_warp() { if (is_concurrent) warp_barriers[number / 32].wait(); }
extern "C" void host_lock() {}
extern "C" void host_unlock() {}
// Between all lanes of a warp, or between four that are there.
extern "C" void host_exchange(void* value, int bytes, int distance, unsigned lanes) {
  const bool all = __builtin_popcount(lanes) != 4;
  const auto meet = [=] { if (is_concurrent) (all ? warp_barriers[number / 32] : quad_barriers[number / 4]).wait(); };
  std::memcpy(&exchanged[number], value, bytes);
  meet();
  std::memcpy(value, &exchanged[number ^ distance], bytes);
  meet();
}
// What all lanes of the warp bring, in order of the lanes.
extern "C" void host_gather(const void* value, int bytes, void* all) {
  std::memcpy(&exchanged[number], value, bytes);
  host_sync_warp();
  for (int lane = 0; lane < 32; ++lane)
    std::memcpy((char*)all + lane * bytes, &exchanged[number / 32 * 32 + lane], bytes);
  host_sync_warp();
}
// Transaction barriers: what is left of this phase in arrivals and bytes, the arrivals of each, and phases that are over.
struct Turn { int left = 0, bytes = 0, arrivals = 0, phases = 0; };
static std::map<void*, Turn> turns;
static void settle(Turn& t) {
  if (t.left || t.bytes) return;
  t.left = t.arrivals;
  ++t.phases;
  moved = true;
}
extern "C" void host_turn_start(unsigned long long* turn, int arrivals) {
  turns[turn] = {arrivals, 0, arrivals, 0};
}
extern "C" void host_turn_expect(unsigned long long* turn, int bytes) {
  Turn& t = turns[turn];
  t.bytes += bytes;
  --t.left;
  settle(t);
}
extern "C" void host_turn_arrive(unsigned long long* turn, int bytes) {
  Turn& t = turns[turn];
  if (bytes) t.bytes -= bytes; else --t.left;
  settle(t);
}
extern "C" void host_turn_wait(unsigned long long* turn, int parity) {
  wait_until([=] { return turns[turn].phases % 2 != parity; });
}
extern "C" void host_sync_some(int threads) {
  some_barrier.expected = threads;
  some_barrier.wait();
}
extern "C" int host_lane() { return number % 32; }

static void (*kernel)(void**);
static void** arguments;
static void run_thread(unsigned n) {
  kernel(arguments);
  warp_barriers[n / 32].drop();
  quad_barriers[n / 4].drop();
  block_barrier.drop();
}

static bool run_block(unsigned threads) {
  if (!is_concurrent) {
    for (unsigned n = 0; n < threads; ++n) {
      set_thread(n);
      kernel(arguments);
    }
    return true;
  }
  block_barrier = {threads};
  some_barrier = {0};
  warp_barriers.clear();
  quad_barriers.assign((threads + 3) / 4, {4});
  exchanged.assign((threads + 31) / 32 * 32, Slot());
  for (unsigned n = 0; n < threads; n += 32) warp_barriers.push_back({threads - n < 32 ? threads - n : 32});
  return take_turns(threads, run_thread);
}

// False where threads wait for ever.
extern "C" bool host_launch(void (*call)(void**), void** args, const unsigned* grid, const unsigned* block, int waits) {
  host_grid_dim = {grid[0], grid[1], grid[2]};
  host_block_dim = {block[0], block[1], block[2]};
  is_concurrent = waits;
  kernel = call;
  arguments = args;
  for (unsigned z = 0; z < grid[2]; ++z)
    for (unsigned y = 0; y < grid[1]; ++y)
      for (unsigned x = 0; x < grid[0]; ++x) {
        host_block = {x, y, z};
        if (!run_block(block[0] * block[1] * block[2])) return false;
      }
  return true;
}

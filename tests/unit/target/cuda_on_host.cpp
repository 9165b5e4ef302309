// What cuda_on_host.h needs: threads that wait for each other. Built once, loaded with every kernel.
#include <barrier>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

struct Index { unsigned x, y, z; };
extern "C" {
thread_local Index host_thread, host_block;
Index host_block_dim, host_grid_dim;
}
static thread_local unsigned number;
static std::unique_ptr<std::barrier<>> block_barrier;
static std::vector<std::unique_ptr<std::barrier<>>> warp_barriers;
struct Slot { unsigned char bytes[32]; };
static std::vector<Slot> exchanged;
static std::mutex atomics;
static bool is_concurrent;

extern "C" void host_sync_threads() { if (is_concurrent) block_barrier->arrive_and_wait(); }
extern "C" void host_sync_warp() { if (is_concurrent) warp_barriers[number / 32]->arrive_and_wait(); }
extern "C" void host_lock() { atomics.lock(); }
extern "C" void host_unlock() { atomics.unlock(); }
extern "C" void host_exchange(void* value, int bytes, int distance) {
  std::memcpy(&exchanged[number], value, bytes);
  host_sync_warp();
  std::memcpy(value, &exchanged[number ^ distance], bytes);
  host_sync_warp();
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
static std::mutex turns_lock;
static std::condition_variable phase_over;
static std::map<void*, Turn> turns;
static void settle(Turn& t) {
  if (t.left || t.bytes) return;
  t.left = t.arrivals;
  ++t.phases;
  phase_over.notify_all();
}
extern "C" void host_turn_start(unsigned long long* turn, int arrivals) {
  const std::lock_guard<std::mutex> held(turns_lock);
  turns[turn] = {arrivals, 0, arrivals, 0};
}
extern "C" void host_turn_expect(unsigned long long* turn, int bytes) {
  const std::lock_guard<std::mutex> held(turns_lock);
  Turn& t = turns[turn];
  t.bytes += bytes;
  --t.left;
  settle(t);
}
extern "C" void host_turn_arrive(unsigned long long* turn, int bytes) {
  const std::lock_guard<std::mutex> held(turns_lock);
  Turn& t = turns[turn];
  if (bytes) t.bytes -= bytes; else --t.left;
  settle(t);
}
extern "C" void host_turn_wait(unsigned long long* turn, int parity) {
  std::unique_lock<std::mutex> held(turns_lock);
  phase_over.wait(held, [=] { return turns[turn].phases % 2 != parity; });
}
static std::unique_ptr<std::barrier<>> some_barrier;
extern "C" void host_sync_some(int threads) {
  {
    const std::lock_guard<std::mutex> held(turns_lock);
    if (!some_barrier) some_barrier = std::make_unique<std::barrier<>>(threads);
  }
  some_barrier->arrive_and_wait();
}
extern "C" int host_lane() { return number % 32; }

static void run_thread(void (*call)(void**), void** args, Index block, unsigned n) {
  const Index d = host_block_dim;
  number = n;
  host_block = block;
  host_thread = {n % d.x, n / d.x % d.y, n / d.x / d.y};
  call(args);
  if (is_concurrent) {
    warp_barriers[n / 32]->arrive_and_drop();
    block_barrier->arrive_and_drop();
  }
}

static void run_block(void (*call)(void**), void** args, Index block, unsigned threads) {
  if (!is_concurrent) {
    for (unsigned n = 0; n < threads; ++n) run_thread(call, args, block, n);
    return;
  }
  block_barrier = std::make_unique<std::barrier<>>(threads);
  some_barrier.reset();
  warp_barriers.clear();
  exchanged.assign((threads + 31) / 32 * 32, Slot());
  for (unsigned n = 0; n < threads; n += 32)
    warp_barriers.push_back(std::make_unique<std::barrier<>>(threads - n < 32 ? threads - n : 32));
  std::vector<std::thread> running;
  for (unsigned n = 0; n < threads; ++n) running.emplace_back(run_thread, call, args, block, n);
  for (auto& t : running) t.join();
}

extern "C" void host_launch(void (*call)(void**), void** args, const unsigned* grid, const unsigned* block, int waits) {
  host_grid_dim = {grid[0], grid[1], grid[2]};
  host_block_dim = {block[0], block[1], block[2]};
  is_concurrent = waits;
  for (unsigned z = 0; z < grid[2]; ++z)
    for (unsigned y = 0; y < grid[1]; ++y)
      for (unsigned x = 0; x < grid[0]; ++x) run_block(call, args, {x, y, z}, block[0] * block[1] * block[2]);
}

// A fault of the processor while a kernel runs is told before the program ends by it: a GPU would give an error.
#include "weft_cuda.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const weft_kernel *volatile weft_running_kernel;

namespace {
// The function's own name in a mangled one: the last of its parts, each of which comes with its length before it.
void write_name(const char *mangled, char *to, size_t room) {
  snprintf(to, room, "%s", mangled);
  if (strncmp(mangled, "_Z", 2) != 0) return;
  const char *at = mangled + 2 + (mangled[2] == 'N');
  while (*at >= '1' && *at <= '9') {
    size_t length = 0;
    while (*at >= '0' && *at <= '9') length = 10 * length + (size_t)(*at++ - '0');
    if (length > strlen(at)) return;
    snprintf(to, room, "%.*s", (int)length, at);
    at += length;
    if (mangled[2] != 'N') return;
  }
}

void write_fault(int number, const void *at, char *to, size_t room) {
  if (number == SIGFPE) {
    snprintf(to, room, "divides a whole number by zero");
    return;
  }
  uint64_t bytes, past = weft_bytes_past(at, &bytes);
  if (past < (uint64_t)1 << 32)
    snprintf(to, room, "touches memory that is not there, %lu bytes behind the end of an allocation of %lu",
             (unsigned long)past, (unsigned long)bytes);
  else snprintf(to, room, (uintptr_t)at < 65536 ? "follows a null pointer" : "touches memory that is not there");
}

void tell(int number, siginfo_t *info, void *) {
  if (const weft_kernel *kernel = weft_running_kernel) {
    char name[200], fault[200], text[600];
    write_name(kernel->name, name, sizeof name);
    write_fault(number, info->si_addr, fault, sizeof fault);
    int length = snprintf(text, sizeof text, "error: kernel `%s` %s\n  help:  `weft cuda check` tells the line and the thread\n",
                          name, fault);
    if (write(2, text, (size_t)length) < 0) _exit(1);
  }
  signal(number, SIG_DFL);  // the instruction runs again, and ends the program
}

__attribute__((constructor)) void watch_faults() {
  const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE};
  for (int number : numbers) {
    struct sigaction before, ours = {};
    ours.sa_sigaction = tell;
    ours.sa_flags = SA_SIGINFO;
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_DFL) sigaction(number, &ours, nullptr);
  }
}
}  // namespace

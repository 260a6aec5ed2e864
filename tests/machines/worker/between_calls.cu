// Each entry asks the kernel to run code of this file later, in its first call. Its result is how often that code ran up
// to the call that is made now.
#include "../virtual/runtime/artifact.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

__global__ void fill(float* x, int n, float value) {
  if (threadIdx.x < n) x[threadIdx.x] = value;
}

static volatile int ran = 0;
static void handle(int) { ++ran; }
static void handle_on(int signal) {
  struct sigaction action = {};
  action.sa_handler = handle;
  sigaction(signal, &action, nullptr);
}

static int told(Call& call) {
  fill<<<1, 256, 0, call.stream>>>(call.x, call.n, float(ran));
  return same(call);
}

static int sigio(Call& call) {  // the next request comes through descriptor 3
  handle_on(SIGIO);
  fcntl(3, F_SETOWN, getpid());
  fcntl(3, F_SETFL, O_ASYNC);
  return told(call);
}

static int other_signal(Call& call) {
  handle_on(SIGUSR1);
  const int owner[2] = {0, gettid()};
  int on = 1;
  fcntl(3, 15 /* F_SETOWN_EX */, owner);
  fcntl(3, 10 /* F_SETSIG */, SIGUSR1);
  ioctl(3, FIOASYNC, &on);
  return told(call);
}

static int interval(Call& call) {
  handle_on(SIGALRM);
  const itimerval soon = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &soon, nullptr);
  return told(call);
}

static int timer(Call& call) {
  handle_on(SIGUSR2);
  timer_t made;
  sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGUSR2;
  const itimerspec soon = {{0, 1000000}, {0, 1000000}};
  if (timer_create(CLOCK_MONOTONIC, &event, &made) == 0) timer_settime(made, 0, &soon, nullptr);
  return told(call);
}

static int directory(Call& call) {
  handle_on(SIGIO);
  const int folder = open("/tmp", O_RDONLY | O_DIRECTORY);
  fcntl(folder, 1026 /* F_NOTIFY */, 0x80000007u /* access, modify, create, again and again */);
  return told(call);
}

// Where the C library has registered an area for restartable sequences, a thread that the kernel took from the processor
// inside read() goes on at `land`, which ends the process.
#ifdef __x86_64__
extern "C" __attribute__((weak)) const ptrdiff_t __rseq_offset;
extern "C" __attribute__((weak)) const unsigned int __rseq_size;
extern "C" void land();
asm(".text\n .long 0x53053053\n land: mov $77, %edi\n mov $231, %eax\n syscall\n");
struct Sequence {
  uint32_t version, flags;
  uint64_t start, length, abort;
};
alignas(32) static Sequence reading;
#endif

static int sequence(Call& call) {
#ifdef __x86_64__
  if (&__rseq_size && __rseq_size) {
    reading = {0, 0, reinterpret_cast<uint64_t>(&read), 256, reinterpret_cast<uint64_t>(&land)};
    auto* own = static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset;
    *reinterpret_cast<volatile uint64_t*>(own + 8) = reinterpret_cast<uint64_t>(&reading);
  }
#endif
  return told(call);
}

static int fault(Call& call) {  // a handler for faults: a page that the worker touches could be closed to it
  handle_on(SIGSEGV);
  struct sigaction now = {};
  if (sigaction(SIGSEGV, nullptr, &now) == 0 && now.sa_handler == handle) ++ran;
  return told(call);
}

// In a constructor, before any call, where the filter is not closed yet.
__attribute__((constructor)) static void early() { handle_on(SIGPROF); }

static int constructor(Call& call) {
  const itimerval soon = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_PROF, &soon, nullptr);
  return told(call);
}

ENTRIES(ROW(sigio), ROW(other_signal), ROW(interval), ROW(timer), ROW(directory), ROW(sequence), ROW(fault), ROW(constructor))

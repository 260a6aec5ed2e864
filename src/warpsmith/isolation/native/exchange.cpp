// One write and the wait for an answer under a clock. A library for the evaluator process: called without the
// interpreter's lock, so that nothing else in its process stands on the clock.
#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>

namespace {

double now_s() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

}  // namespace

// Seconds from the write until `in` can be read, at most `timeout_s`; polls without sleeping for `spin_s`, then sleeps.
// -1: the other end is closed. `count` bytes fit into the pipe, which was read empty: the write never waits.
extern "C" double warpsmith_exchange(int out, const void* data, size_t count, int in, double spin_s, double timeout_s) {
  pollfd answer = {in, POLLIN, 0};
  const double begin = now_s();
  if (write(out, data, count) != static_cast<ssize_t>(count)) return -1;
  while (poll(&answer, 1, 0) == 0 && now_s() - begin < spin_s) {
  }
  const double left_s = timeout_s - (now_s() - begin);
  if (answer.revents == 0 && left_s > 0) poll(&answer, 1, static_cast<int>(left_s * 1e3));
  return answer.revents ? now_s() - begin : timeout_s;
}

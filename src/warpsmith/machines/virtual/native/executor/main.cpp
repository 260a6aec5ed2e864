// The executor process: owns the virtual GPU, serves the stand-in runtime and the evaluator process, and ends with the
// latter.
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <thread>

#include "channel.h"
#include "session.h"

namespace {

using namespace executor;

// Access to the memory of the process that waits for the reply.
class Peer : public Host {
 public:
  explicit Peer(int fd) : fd_(fd) {}

  bool read(const Copy& copy, std::vector<uint8_t>* rows) override {
    wire::Reply access = make_access(wire::Kind::ReadHost, copy.from, copy.from_pitch, copy);
    wire::Request answer;
    uint64_t wanted = copy.width * copy.height;
    bool whole = channel::send_frame(fd_, access, nullptr, 0) && channel::receive_frame(fd_, &answer, rows, wanted);
    return whole && rows->size() == wanted;
  }

  bool write(const Copy& copy, const std::vector<uint8_t>& rows) override {
    wire::Reply access = make_access(wire::Kind::WriteHost, copy.to, copy.to_pitch, copy);
    wire::Request answer;
    std::vector<uint8_t> nothing;
    return channel::send_frame(fd_, access, rows.data(), rows.size()) &&
           channel::receive_frame(fd_, &answer, &nothing, 0);
  }

 private:
  static wire::Reply make_access(wire::Kind kind, uint64_t address, uint64_t pitch, const Copy& copy) {
    wire::Reply access;
    access.kind = kind;
    access.words[0] = address;
    access.words[1] = pitch;
    access.words[2] = copy.width;
    access.words[3] = copy.height;
    return access;
  }
  int fd_;
};

// Turns an exception, such as bad_alloc, into an error of the candidate. The connection of the evaluator process stays
// usable.
Answer attempt(const wire::Request& request, Bytes bytes, Session* session, bool is_evaluator) {
  try {
    return is_evaluator ? session->answer_evaluator(request, bytes) : session->answer(request, std::move(bytes));
  } catch (const std::exception& error) {
    return session->give_up(error.what());
  }
}

bool serve(int fd, Session* session, bool is_evaluator) {
  wire::Request request;
  std::vector<uint8_t> bytes;
  if (!channel::receive_frame(fd, &request, &bytes, wire::kMostBytes) || request.magic != wire::kMagic) return false;
  Peer peer(fd);
  session->set_host(is_evaluator ? nullptr : static_cast<Host*>(&peer));
  Answer answer = attempt(request, std::move(bytes), session, is_evaluator);
  session->set_host(nullptr);
  wire::Reply reply;
  reply.error = answer.error;
  std::memcpy(reply.words, answer.words, sizeof reply.words);
  return channel::send_frame(fd, reply, answer.bytes.data(), answer.bytes.size());
}

// Runs in a thread: a launch may take a minute, and the executor must end at once when the evaluator process ends.
void exit_with_evaluator(int control) {
  pollfd watched{control, POLLRDHUP, 0};
  while (poll(&watched, 1, -1) >= 0)
    if (watched.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) _exit(0);
}

int serve_both(int client, int control, Session* session) {
  pollfd watched[2] = {{control, POLLIN, 0}, {client, POLLIN, 0}};
  while (poll(watched, 2, -1) >= 0) {
    // The candidate's requests come first: the facts must include everything that it requested before the evaluator
    // asked.
    if (watched[1].revents && !serve(client, session, false)) {
      close(client);
      watched[1].fd = -1;
      watched[1].revents = 0;
      continue;
    }
    if (watched[0].revents && !watched[1].revents && !serve(control, session, true)) return 0;
  }
  return 0;
}

bool number(const std::string& text, double* value) {
  char* end = nullptr;
  *value = std::strtod(text.c_str(), &end);
  return end && *end == 0 && !text.empty();
}

struct Setting {
  const char* key;
  void (*apply)(Setup* setup, double value);
};

constexpr Setting kSettings[] = {
    {"sm_count", [](Setup* setup, double value) { setup->gpu.sm_count = int(value); }},
    {"cc_major", [](Setup* setup, double value) { setup->gpu.cc_major = int(value); }},
    {"cc_minor", [](Setup* setup, double value) { setup->gpu.cc_minor = int(value); }},
    {"max_threads_per_block", [](Setup* setup, double value) { setup->gpu.max_threads_per_block = int(value); }},
    {"max_threads_per_sm", [](Setup* setup, double value) { setup->gpu.max_threads_per_sm = int(value); }},
    {"max_blocks_per_sm", [](Setup* setup, double value) { setup->gpu.max_blocks_per_sm = int(value); }},
    {"registers_per_sm", [](Setup* setup, double value) { setup->gpu.registers_per_sm = int(value); }},
    {"shared_per_sm_bytes", [](Setup* setup, double value) { setup->gpu.shared_per_sm = size_t(value); }},
    {"shared_per_block_bytes", [](Setup* setup, double value) { setup->gpu.shared_per_block = size_t(value); }},
    {"shared_per_block_optin_bytes",
     [](Setup* setup, double value) { setup->gpu.shared_per_block_optin = size_t(value); }},
    {"memory_bytes", [](Setup* setup, double value) { setup->gpu.memory_bytes = size_t(value); }},
    {"l2_bytes", [](Setup* setup, double value) { setup->l2_bytes = uint64_t(value); }},
    {"clock_mhz", [](Setup* setup, double value) { setup->clock_khz = int(value * 1000); }},
    {"memory_clock_mhz", [](Setup* setup, double value) { setup->memory_clock_khz = int(value * 1000); }},
    {"bus_bits", [](Setup* setup, double value) { setup->bus_bits = int(value); }},
    {"copy_bytes_per_us", [](Setup* setup, double value) { setup->rates.memory_bytes_per_us = value; }},
    {"launch_us", [](Setup* setup, double value) { setup->rates.launch_us = value; }},
    {"graph_node_us", [](Setup* setup, double value) { setup->rates.graph_node_us = value; }},
    {"lent_from", [](Setup* setup, double value) { setup->lent_from = int(value); }},
    {"lent_count", [](Setup* setup, double value) { setup->lent_count = int(value); }},
    {"check", [](Setup* setup, double value) { setup->options.check = value != 0; }},
    {"instruction_budget", [](Setup* setup, double value) { setup->options.instruction_budget = uint64_t(value); }},
    {"print_limit_bytes", [](Setup* setup, double value) { setup->options.print_limit = size_t(value); }},
};

bool set(Setup* setup, const std::string& key, const std::string& text) {
  double value = 0;
  if (key == "name") {
    setup->gpu.name = text;
    return true;
  }
  const auto* setting =
      std::find_if(std::begin(kSettings), std::end(kSettings), [&](const Setting& row) { return key == row.key; });
  if (setting == std::end(kSettings) || !number(text, &value)) return false;
  setting->apply(setup, value);
  return true;
}

}  // namespace

// Arguments: CLIENT_FD CONTROL_FD key=value...
int main(int count, char** arguments) {
  if (count < 3) return 2;
  int client = std::atoi(arguments[1]), control = std::atoi(arguments[2]);
  executor::Setup setup;
  for (int i = 3; i < count; ++i) {
    std::string word = arguments[i];
    size_t equals = word.find('=');
    if (equals != std::string::npos && set(&setup, word.substr(0, equals), word.substr(equals + 1))) continue;
    std::fprintf(stderr, "executor: %s is no setting\n", arguments[i]);
    return 2;
  }
  setup.rates.warp_instructions_per_us =
      double(setup.gpu.sm_count) * 4 * double(setup.clock_khz ? setup.clock_khz : 1500000) / 1000;
  prctl(PR_SET_DUMPABLE, 0);
  executor::Session session(setup);
  std::thread(exit_with_evaluator, control).detach();
  serve_both(client, control, &session);
  _exit(0);
}

// The executor process: owns the device, answers the stand-in runtime and the judge, ends with the judge.
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "channel.h"
#include "session.h"

namespace {

using namespace executor;

// Errands to the process that waits for our reply.
class Peer : public Host {
 public:
  explicit Peer(int fd) : fd_(fd) {}

  bool read(const Copy& copy, std::vector<uint8_t>* rows) override {
    wire::Reply errand = ask(wire::Kind::ReadHost, copy.from, copy.from_pitch, copy);
    wire::Request answer;
    uint64_t wanted = copy.width * copy.height;
    bool whole = channel::send_frame(fd_, errand, nullptr, 0) && channel::receive_frame(fd_, &answer, rows, wanted);
    return whole && rows->size() == wanted;
  }

  bool write(const Copy& copy, const std::vector<uint8_t>& rows) override {
    wire::Reply errand = ask(wire::Kind::WriteHost, copy.to, copy.to_pitch, copy);
    wire::Request answer;
    std::vector<uint8_t> nothing;
    return channel::send_frame(fd_, errand, rows.data(), rows.size()) &&
           channel::receive_frame(fd_, &answer, &nothing, 0);
  }

 private:
  static wire::Reply ask(wire::Kind kind, uint64_t address, uint64_t pitch, const Copy& copy) {
    wire::Reply errand;
    errand.kind = kind;
    errand.words[0] = address;
    errand.words[1] = pitch;
    errand.words[2] = copy.width;
    errand.words[3] = copy.height;
    return errand;
  }
  int fd_;
};

// What no check foresaw, and memory that is not there, ends the candidate's work and not the judge's line.
Answer attempt(const wire::Request& request, Bytes bytes, Session* session, bool judge) {
  try {
    return judge ? session->judge(request, bytes) : session->answer(request, std::move(bytes));
  } catch (const std::exception& error) {
    return session->give_up(error.what());
  }
}

bool serve(int fd, Session* session, bool judge) {
  wire::Request request;
  std::vector<uint8_t> bytes;
  if (!channel::receive_frame(fd, &request, &bytes, wire::kMostBytes) || request.magic != wire::kMagic) return false;
  Peer peer(fd);
  session->lend(judge ? nullptr : static_cast<Host*>(&peer));
  Answer answer = attempt(request, std::move(bytes), session, judge);
  session->lend(nullptr);
  wire::Reply reply;
  reply.error = answer.error;
  std::memcpy(reply.words, answer.words, sizeof reply.words);
  return channel::send_frame(fd, reply, answer.bytes.data(), answer.bytes.size());
}

// A launch may run for a minute; the judge's death must not wait for it.
void end_with(int control) {
  pollfd watched{control, POLLRDHUP, 0};
  while (poll(&watched, 1, -1) >= 0)
    if (watched.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) _exit(0);
}

int loop(int client, int control, Session* session) {
  pollfd watched[2] = {{control, POLLIN, 0}, {client, POLLIN, 0}};
  while (poll(watched, 2, -1) >= 0) {
    // The candidate first: what it asked for before the judge asked is part of what the judge is told.
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

bool set(Setup* setup, const std::string& key, const std::string& text) {
  vgpu::Gpu& gpu = setup->gpu;
  double value = 0;
  if (key == "name") {
    gpu.name = text;
    return true;
  }
  if (!number(text, &value)) return false;
  if (key == "sm_count") gpu.sm_count = int(value);
  else if (key == "cc_major") gpu.cc_major = int(value);
  else if (key == "cc_minor") gpu.cc_minor = int(value);
  else if (key == "max_threads_per_block") gpu.max_threads_per_block = int(value);
  else if (key == "max_threads_per_sm") gpu.max_threads_per_sm = int(value);
  else if (key == "max_blocks_per_sm") gpu.max_blocks_per_sm = int(value);
  else if (key == "registers_per_sm") gpu.registers_per_sm = int(value);
  else if (key == "shared_per_sm_bytes") gpu.shared_per_sm = size_t(value);
  else if (key == "shared_per_block_bytes") gpu.shared_per_block = size_t(value);
  else if (key == "shared_per_block_optin_bytes") gpu.shared_per_block_optin = size_t(value);
  else if (key == "memory_bytes") gpu.memory_bytes = size_t(value);
  else if (key == "l2_bytes") setup->l2_bytes = uint64_t(value);
  else if (key == "clock_mhz") setup->clock_khz = int(value * 1000);
  else if (key == "memory_clock_mhz") setup->memory_clock_khz = int(value * 1000);
  else if (key == "bus_bits") setup->bus_bits = int(value);
  else if (key == "copy_bytes_per_us") setup->rates.memory_bytes_per_us = value;
  else if (key == "launch_us") setup->rates.launch_us = value;
  else if (key == "graph_node_us") setup->rates.graph_node_us = value;
  else if (key == "lent_from") setup->lent_from = int(value);
  else if (key == "lent_count") setup->lent_count = int(value);
  else if (key == "check") setup->options.check = value != 0;
  else if (key == "instruction_budget") setup->options.instruction_budget = uint64_t(value);
  else if (key == "print_limit_bytes") setup->options.print_limit = size_t(value);
  else return false;
  return true;
}

}  // namespace

// executor CLIENT_FD CONTROL_FD key=value...
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
  std::thread(end_with, control).detach();
  loop(client, control, &session);
  _exit(0);
}

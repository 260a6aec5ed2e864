// A recorded call asked of the device again, in a process that never saw its candidate's host code: the kernels are taken
// out of the artifact's file, which is read and not loaded.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "worker_program.h"
#include "worker_values.h"

namespace worker {

class Replay {
 public:
  // Takes a recording of an artifact and does what lies before the call; a sentence when something refuses it.
  std::string prepare(const std::string& artifact, Reader from, void* stream);
  bool is_ready() const { return ready_; }
  // All operations of the call; the first CUDA error.
  int perform(void* stream) const;

 private:
  struct Step {
    Operation kind{};
    const void* handle = nullptr;  // what the runtime knows a kernel or a symbol by
    LaunchConfig shape{};
    std::vector<LaunchAttribute> attributes;
    std::vector<uint32_t> sizes;
    std::vector<void*> arguments;  // into the data
    uint64_t to = 0, from = 0, bytes = 0;
    int attribute = 0, value = 0;
    std::string data;
  };

  std::string open(const std::string& artifact, Reader* from);
  void read(Reader* from, Step* step) const;
  void read_kernel(Reader* from, Step* step) const;
  const void* handle(const std::string& name) const;
  static int ask(const Step& step, void* stream);

  std::string image_;  // the fat binary
  std::map<std::string, const void*> handles_;
  std::deque<char> tokens_;  // their addresses stand for host functions and variables
  std::deque<Step> steps_;
  bool open_ = false, ready_ = false;
};

}  // namespace worker

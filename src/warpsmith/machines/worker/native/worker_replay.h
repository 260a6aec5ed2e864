// A recorded call asked of the device again, in a process that never saw its candidate's host code: the kernels are
// taken out of the artifact's file, which is read and not loaded.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "worker_arena.h"
#include "worker_program.h"
#include "worker_values.h"

namespace worker {

class Replay {
 public:
  // Takes a recording of an artifact and does what lies before the call; a sentence when something refuses it.
  std::string prepare(const std::string& artifact, Reader from, const Arenas& arenas, void* stream);
  bool is_ready() const { return ready_; }
  // The variables of the device code hold again what they held before the call; the first CUDA error.
  int restore(void* stream) const;
  // All operations of the call; the first CUDA error.
  int perform(void* stream) const;

 private:
  struct alignas(16) Token {
    char bytes[16];  // its address stands for a host function or variable
  };
  struct Step {
    Operation kind{};
    const void* handle = nullptr;  // what the runtime knows a kernel or a symbol by
    LaunchConfig shape{};
    std::vector<LaunchAttribute> attributes;
    std::vector<uint32_t> sizes;
    std::vector<void*> arguments;  // into the data
    uint64_t to = 0, from = 0, offset = 0, bytes = 0, to_pitch = 0, from_pitch = 0, rows = 0;
    int attribute = 0, value = 0;
    std::string data;
  };

  std::string open(const std::string& artifact, Reader* from);
  void enlist(const std::vector<std::string>& kernels);
  bool take_values(Reader* from);
  bool read(Reader* from, const Arenas& arenas, Step* step) const;
  bool read_kernel(Reader* from, Step* step) const;
  bool find(const std::string& name, Step* step) const;
  static int ask(const Step& step, void* stream);

  std::string image_;  // the fat binary
  std::map<std::string, const void*> handles_;
  std::map<std::string, uint64_t> variables_;                // bytes of each, by its name
  std::vector<std::pair<const void*, std::string>> values_;  // of variables, before the call
  std::deque<Token> tokens_;
  std::deque<Step> steps_;
  bool open_ = false, ready_ = false;
};

}  // namespace worker

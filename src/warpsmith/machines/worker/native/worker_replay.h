// Replay of a captured call in a process that never loads host code of its candidate. The kernels come from the
// artifact's file, which is read and not loaded.
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
  // Parses a capture of an artifact and replays its settings. Returns an empty string, or a sentence if the capture is
  // refused.
  std::string prepare(const std::string& artifact, Reader from, const Arenas& arenas, void* stream);
  bool is_ready() const { return ready_; }
  // Sets the device variables to their values before the captured call. Returns the first CUDA error.
  int restore(void* stream) const;
  // Submits all operations of the call. Returns the first CUDA error.
  int perform(void* stream) const;

 private:
  struct alignas(16) Token {
    char bytes[16];  // only its address is used: it stands for a host function or variable
  };
  struct Step {
    Operation kind{};
    const void* handle = nullptr;  // handle under which the runtime knows the kernel or symbol
    LaunchConfig shape{};
    std::vector<LaunchAttribute> attributes;
    std::vector<uint32_t> sizes;
    std::vector<void*> arguments;  // pointers into `data`
    uint64_t to = 0, from = 0, offset = 0, bytes = 0, to_pitch = 0, from_pitch = 0, rows = 0;
    int attribute = 0, value = 0;
    std::string data;
  };

  std::string load_image(const std::string& artifact, Reader* from);
  void register_code(const std::vector<std::string>& kernels);
  bool read_variables(Reader* from);
  bool read_step(Reader* from, const Arenas& arenas, Step* step) const;
  bool read_kernel(Reader* from, Step* step) const;
  bool find_handle(const std::string& name, Step* step) const;
  static int issue(const Step& step, void* stream);

  std::string image_;  // the fat binary
  std::map<std::string, const void*> handles_;
  std::map<std::string, uint64_t> variables_;                // size of each variable by name
  std::vector<std::pair<const void*, std::string>> values_;  // values of the variables before the call
  std::deque<Token> tokens_;
  std::deque<Step> steps_;
  bool open_ = false, ready_ = false;
};

}  // namespace worker

// Facts since the last request of the evaluator process: findings, counters by kernel, printf, the first error.
#pragma once

#include <string>
#include <vector>

#include "../engine/engine.h"
#include "bounds.h"
#include "errors.h"

namespace executor {

// Sum over the launches of one kernel with one shape.
struct Row {
  std::string kernel;
  vgpu::Dim3 grid, block;
  size_t dynamic_shared = 0, static_shared = 0;
  int registers = 0, blocks_per_sm = 0;
  bool in_graph = false;
  uint64_t launches = 0;
  vgpu::Counters counters;
};

class Ledger {
 public:
  explicit Ledger(size_t print_limit) : print_limit_(print_limit) {}

  void add_findings(vgpu::Finding finding);
  void add_findings(const std::vector<vgpu::Finding>& findings);
  void add_launch(Row launch, const vgpu::Counters& counters);
  void add_transfer(uint64_t bytes, bool to_host) {
    ++transfers_;
    transferred_bytes_ += bytes;
    host_bytes_ += to_host ? bytes : 0;
  }
  void append_log(const std::string& text);
  // Keeps the first error; later errors follow from it.
  void set_error(cuda::Error error, const std::string& kind, const std::string& detail);

  std::string text() const;
  void clear();

 private:
  std::vector<vgpu::Finding> findings_;
  std::vector<Row> rows_;
  std::string log_;
  uint64_t printed_bytes_ = 0, transfers_ = 0, transferred_bytes_ = 0, host_bytes_ = 0, findings_dropped_ = 0;
  size_t print_limit_;
  cuda::Error error_ = cuda::kSuccess;
  std::string kind_, detail_;
};

}  // namespace executor

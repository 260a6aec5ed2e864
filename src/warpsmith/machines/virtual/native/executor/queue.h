// Operations that wait, and their execution. Execution is lazy: an operation runs when the host needs its result, so
// that a missing synchronization shows.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "catalog.h"
#include "ledger.h"
#include "order.h"
#include "work.h"

namespace executor {

// The memory of the process that runs the candidate. It can be accessed only while that process waits for a reply.
class Host {
 public:
  virtual ~Host() = default;
  virtual bool read(const Copy& copy, std::vector<uint8_t>* rows) = 0;
  virtual bool write(const Copy& copy, const std::vector<uint8_t>& rows) = 0;
};

struct Rates {
  double launch_us = 4.0, graph_node_us = 1.2, memory_bytes_per_us = 4.3e6, host_bytes_per_us = 5e4,
         warp_instructions_per_us = 1e6;
};

class Queue {
 public:
  Queue(vgpu::Engine* engine, Catalog* catalog, Ledger* ledger, const vgpu::Gpu& gpu, Rates rates);

  Operation add(Work work, const std::vector<Operation>& after, uint64_t stream, bool in_graph);
  // Runs the operation and all that it waits for, and notes that the host has waited for it.
  cuda::Error finish(Operation operation);
  cuda::Error finish(const std::vector<Operation>& operations);
  cuda::Error finish_all();

  bool done(Operation operation) const { return operation == 0 || !slots_[operation].waiting; }
  bool done(const std::vector<Operation>& operations) const;
  double ended_us(const std::vector<Operation>& operations) const;
  cuda::Error sticky_error() const { return sticky_; }
  void set_sticky_error(cuda::Error error, const std::string& kind, const std::string& detail);
  void set_host(Host* host) { host_ = host; }  // nullptr: no process is there to copy from or to
  // Adds a finding for each kernel or transfer that has not been waited for.
  void report_unjoined();
  // Adds an operation of the evaluator process, after all that the host has waited for. It runs nothing else, so that
  // results are read as the candidate's own stream left them.
  Operation add_evaluator_operation();

 private:
  struct Waiting {
    Work work;
    std::vector<Operation> after;
    uint64_t stream = 0;
    bool in_graph = false;
  };
  // A finished operation keeps few bytes: a candidate may submit a million.
  struct Slot {
    std::unique_ptr<Waiting> waiting;
    double ended_us = 0;
  };

  void run(Operation operation);
  void retire(Operation operation);
  double attempt(Operation operation, Waiting* waiting);
  double perform(Operation operation, Waiting* waiting);
  double launch(Operation operation, Waiting* waiting, Kernel* kernel);
  double copy(Operation operation, Copy* copy);
  double fill(Operation operation, const Fill& fill);
  void record_outcome(const vgpu::Outcome& outcome, const std::string& kernel);
  void record_transfer(const std::vector<vgpu::Finding>& findings, bool moved);
  void run_oldest();

  vgpu::Engine* engine_;
  Catalog* catalog_;
  Ledger* ledger_;
  vgpu::Gpu gpu_;
  Rates rates_;
  Order order_;
  std::deque<Slot> slots_;       // by operation number
  Operation first_waiting_ = 1;  // all earlier ones are done
  size_t waiting_ = 0, staged_bytes_ = 0;
  Host* host_ = nullptr;
  cuda::Error sticky_ = cuda::kSuccess;
};

}  // namespace executor

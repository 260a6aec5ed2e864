// Operations that wait, and the one place where they run. Nothing runs before somebody needs it to have run.
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

// The memory of the process that runs the candidate; only reachable while it waits for a reply.
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
  // Runs the operation and all it waits for; the host has then seen it end.
  cuda::Error finish(Operation operation);
  cuda::Error finish(const std::vector<Operation>& operations);
  cuda::Error finish_all();

  bool done(Operation operation) const { return operation == 0 || !slots_[operation].waiting; }
  bool done(const std::vector<Operation>& operations) const;
  double ended_us(const std::vector<Operation>& operations) const;
  cuda::Error sticky() const { return sticky_; }
  void stick(cuda::Error error, const std::string& kind, const std::string& detail);
  void lend(Host* host) { host_ = host; }  // nullptr: nobody is there to be copied to
  // A finding for each kernel or transfer that nobody waited for.
  void report_unjoined();
  // One operation of the judge's own: after what the host waited for, before whatever comes. Runs nothing else, so
  // that a result is read as the candidate's own stream left it.
  Operation judge();

 private:
  struct Waiting {
    Work work;
    std::vector<Operation> after;
    uint64_t stream = 0;
    bool in_graph = false;
  };
  // Small once it is over: a candidate may ask for a million.
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
  void judged(const vgpu::Outcome& outcome, const std::string& kernel);
  void take(const std::vector<vgpu::Finding>& findings, bool moved);
  void relieve();

  vgpu::Engine* engine_;
  Catalog* catalog_;
  Ledger* ledger_;
  vgpu::Gpu gpu_;
  Rates rates_;
  Order order_;
  std::deque<Slot> slots_;       // by operation
  Operation first_waiting_ = 1;  // all before it are done
  size_t waiting_ = 0, staged_bytes_ = 0;
  Host* host_ = nullptr;
  cuda::Error sticky_ = cuda::kSuccess;
};

}  // namespace executor

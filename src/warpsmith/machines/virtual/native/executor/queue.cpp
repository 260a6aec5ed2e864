// Execution of operations by the engine, their modelled time, and sticky errors.
#include "queue.h"

#include <algorithm>

#include "names.h"

namespace executor {
namespace {

// Real queues are bounded as well: beyond this size the oldest operations run.
constexpr size_t kMostWaiting = 4096, kMostStagedBytes = size_t(256) << 20;

cuda::Error error_of(const vgpu::Outcome& outcome) {
  using vgpu::Status;
  switch (outcome.status) {
    case Status::Done: return cuda::kSuccess;
    case Status::BudgetSpent: return cuda::kLaunchTimeout;
    case Status::UnknownInstruction: return cuda::kNotSupported;
    case Status::BadLaunch: return cuda::kLaunchFailure;
    case Status::Assert: return cuda::kAssert;
    case Status::Trap: return cuda::kLaunchFailure;
    case Status::Faulted: break;
  }
  for (const vgpu::Finding& finding : outcome.findings) {
    if (finding.checker == "out_of_bounds") return cuda::kIllegalAddress;
    if (finding.checker == "misaligned") return cuda::kMisalignedAddress;
  }
  return cuda::kLaunchFailure;
}

const char* kind_of(vgpu::Status status) {
  using vgpu::Status;
  switch (status) {
    case Status::BudgetSpent: return "budget";
    case Status::UnknownInstruction: return "unknown_instruction";
    case Status::BadLaunch: return "launch";
    case Status::Assert: return "assert";
    case Status::Trap: return "trap";
    default: return "fault";
  }
}

}  // namespace

Queue::Queue(vgpu::Engine* engine, Catalog* catalog, Ledger* ledger, const vgpu::Gpu& gpu, Rates rates)
    : engine_(engine), catalog_(catalog), ledger_(ledger), gpu_(gpu), rates_(rates) {
  slots_.emplace_back();
  engine_->ordered([this](vgpu::Operation a, vgpu::Operation b) { return order_.before(a, b); });
}

Operation Queue::add(Work work, const std::vector<Operation>& after, uint64_t stream, bool in_graph) {
  Operation operation = order_.add(after);
  if (auto* copy = std::get_if<Copy>(&work)) staged_bytes_ += copy->staged.size();
  auto waiting = std::make_unique<Waiting>();
  waiting->work = std::move(work);
  for (Operation earlier : after)
    if (!done(earlier)) waiting->after.push_back(earlier);
  waiting->stream = stream;
  waiting->in_graph = in_graph;
  slots_.push_back({std::move(waiting), ended_us(after)});  // until the operation runs, this is its earliest start
  ++waiting_;
  run_oldest();
  return operation;
}

void Queue::run_oldest() {
  while (waiting_ > kMostWaiting || (staged_bytes_ > kMostStagedBytes && waiting_ > 1)) {
    while (done(first_waiting_)) ++first_waiting_;
    run(first_waiting_);
  }
}

bool Queue::done(const std::vector<Operation>& operations) const {
  return std::all_of(operations.begin(), operations.end(), [this](Operation operation) { return done(operation); });
}

double Queue::ended_us(const std::vector<Operation>& operations) const {
  double latest = 0;
  for (Operation operation : operations) latest = std::max(latest, slots_[operation].ended_us);
  return latest;
}

cuda::Error Queue::finish(Operation operation) {
  if (operation == 0) return sticky_;
  run(operation);
  order_.host_waited_for(operation);
  return sticky_;
}

cuda::Error Queue::finish(const std::vector<Operation>& operations) {
  for (Operation operation : operations) finish(operation);
  return sticky_;
}

// Runs the last operation first, with its dependencies. An operation that no other waits for runs as late as it may on
// a GPU.
cuda::Error Queue::finish_all() {
  for (Operation operation = Operation(slots_.size()); operation-- > first_waiting_;) finish(operation);
  first_waiting_ = Operation(slots_.size());
  return sticky_;
}

// Depth first without recursion: a chain of a million launches would overflow the stack.
void Queue::run(Operation wanted) {
  std::vector<Operation> stack{wanted};
  while (!stack.empty()) {
    Operation operation = stack.back();
    if (done(operation)) {
      stack.pop_back();
      continue;
    }
    const std::vector<Operation>& after = slots_[operation].waiting->after;
    auto first = std::find_if(after.begin(), after.end(), [this](Operation earlier) { return !done(earlier); });
    if (first != after.end()) {
      stack.push_back(*first);
      continue;
    }
    retire(operation);
    stack.pop_back();
  }
}

void Queue::retire(Operation operation) {
  Slot& slot = slots_[operation];
  if (auto* copy = std::get_if<Copy>(&slot.waiting->work)) staged_bytes_ -= copy->staged.size();
  double begin = std::max(slot.ended_us, ended_us(slot.waiting->after));
  slot.ended_us = begin + (sticky_ ? 0.0 : attempt(operation, slot.waiting.get()));
  slot.waiting.reset();
  --waiting_;
}

// A candidate may request more memory than there is, or pass text that is not PTX.
double Queue::attempt(Operation operation, Waiting* waiting) {
  try {
    return perform(operation, waiting);
  } catch (const std::exception& error) {
    set_sticky_error(cuda::kLaunchFailure, "launch", std::string("The virtual GPU cannot do this: ") + error.what());
    return 0;
  }
}

double Queue::perform(Operation operation, Waiting* waiting) {
  if (auto* kernel = std::get_if<Kernel>(&waiting->work)) return launch(operation, waiting, kernel);
  if (auto* moved = std::get_if<Copy>(&waiting->work)) return copy(operation, moved);
  if (auto* filled = std::get_if<Fill>(&waiting->work)) return fill(operation, *filled);
  if (auto* release = std::get_if<Release>(&waiting->work)) engine_->release(release->start);
  return 0;
}

double Queue::launch(Operation operation, Waiting* waiting, Kernel* kernel) {
  Function* function = catalog_->at(uint64_t(kernel->function));
  vgpu::Launch& launch = kernel->launch;
  launch.operation = operation;
  vgpu::Outcome outcome = engine_->launch(launch);
  ledger_->append_log(engine_->take_printed());
  Row row;
  row.kernel = function->name;
  row.grid = launch.grid;
  row.block = launch.block;
  row.dynamic_shared = launch.dynamic_shared;
  row.static_shared = function->needs.static_shared;
  row.registers = function->needs.registers;
  row.blocks_per_sm =
      blocks_per_sm(gpu_, function->needs, launch.block.x * launch.block.y * launch.block.z, launch.dynamic_shared);
  row.in_graph = waiting->in_graph;
  ledger_->add_launch(std::move(row), outcome.counters);
  record_outcome(outcome, function->name);
  double memory =
      double(outcome.counters.unique_read_bytes + outcome.counters.unique_written_bytes) / rates_.memory_bytes_per_us;
  double issue = double(outcome.counters.warp_instructions) / rates_.warp_instructions_per_us;
  return (waiting->in_graph ? rates_.graph_node_us : rates_.launch_us) + std::max(memory, issue);
}

void Queue::record_outcome(const vgpu::Outcome& outcome, const std::string& kernel) {
  ledger_->add_findings(outcome.findings);
  cuda::Error error = error_of(outcome);
  if (!error) return;
  bool silent = outcome.detail.empty() && !outcome.findings.empty();
  set_sticky_error(error, kind_of(outcome.status),
                   plain_name(kernel) + ": " + (silent ? outcome.findings[0].message : outcome.detail));
}

void Queue::set_sticky_error(cuda::Error error, const std::string& kind, const std::string& detail) {
  if (sticky_) return;
  sticky_ = error;
  ledger_->set_error(error, kind, detail);
}

void Queue::record_transfer(const std::vector<vgpu::Finding>& findings, bool moved) {
  ledger_->add_findings(findings);
  if (!moved) set_sticky_error(cuda::kIllegalAddress, "fault", "A transfer reached outside of device memory.");
}

double Queue::copy(Operation operation, Copy* copy) {
  std::vector<vgpu::Finding> findings;
  uint64_t width = copy->width, total = copy->width * copy->height;
  bool moved = true;
  if (copy->direction == Direction::In && !copy->is_staged && !(host_ && host_->read(*copy, &copy->staged))) return 0;
  if (copy->direction == Direction::Out) copy->staged.resize(total);
  for (uint64_t row = 0; row < copy->height && moved; ++row) {
    uint8_t* rows = copy->staged.data() + row * width;
    uint64_t to = copy->to + row * copy->to_pitch, from = copy->from + row * copy->from_pitch;
    if (copy->direction == Direction::In) moved = engine_->write(operation, to, rows, width, &findings);
    if (copy->direction == Direction::Out) moved = engine_->read(operation, rows, from, width, &findings);
    if (copy->direction == Direction::Within) moved = engine_->copy(operation, to, from, width, &findings);
  }
  if (copy->direction == Direction::Out && moved && host_) host_->write(*copy, copy->staged);
  if (copy->direction == Direction::Out) copy->staged.clear();
  record_transfer(findings, moved);
  ledger_->add_transfer(total, copy->direction == Direction::Out);
  bool inside = copy->direction == Direction::Within;
  return rates_.launch_us + double(total) / (inside ? rates_.memory_bytes_per_us / 2 : rates_.host_bytes_per_us);
}

double Queue::fill(Operation operation, const Fill& fill) {
  std::vector<vgpu::Finding> findings;
  bool moved = true;
  for (uint64_t row = 0; row < fill.rows && moved; ++row)
    moved = engine_->fill(operation, fill.to + row * fill.pitch, fill.value, fill.element, fill.count, &findings);
  record_transfer(findings, moved);
  uint64_t bytes = fill.element * fill.count * fill.rows;
  ledger_->add_transfer(bytes, false);
  return rates_.launch_us + double(bytes) / rates_.memory_bytes_per_us;
}

void Queue::report_unjoined() {
  for (Operation operation = first_waiting_; operation < slots_.size(); ++operation) {
    if (done(operation)) continue;
    const Waiting& waiting = *slots_[operation].waiting;
    if (std::holds_alternative<Nothing>(waiting.work) || std::holds_alternative<Release>(waiting.work)) continue;
    vgpu::Finding finding;
    finding.checker = "leak";
    std::string what = "A transfer";
    if (auto* kernel = std::get_if<Kernel>(&waiting.work)) {
      finding.kernel = catalog_->at(uint64_t(kernel->function))->name;
      what = "Kernel " + plain_name(finding.kernel);
    }
    finding.message = what + " on stream " + std::to_string(waiting.stream) +
                      " was still waiting when the results were read: nothing joins that stream with the current one.";
    ledger_->add_findings(std::move(finding));
  }
}

Operation Queue::add_evaluator_operation() {
  Operation operation = order_.add({});
  slots_.emplace_back();
  order_.host_waited_for(operation);
  return operation;
}

}  // namespace executor

// Launches, attributes of functions, occupancy, and graphs.
#include <algorithm>
#include <cstring>

#include "session.h"

namespace executor {

using wire::Call;

namespace {

std::vector<Id> ids(const Bytes& bytes, size_t offset, size_t count) {
  std::vector<Id> found(count);
  if (offset + count * sizeof(Id) > bytes.size()) return {};
  if (count) std::memcpy(found.data(), bytes.data() + offset, count * sizeof(Id));
  return found;
}

Copy copy_of(const uint64_t* words) {
  Copy copy;
  copy.direction = Direction(std::min<uint64_t>(words[0], 2));
  copy.to = words[1];
  copy.to_pitch = words[2];
  copy.from = words[3];
  copy.from_pitch = words[4];
  copy.width = words[5];
  copy.height = words[6];
  return copy;
}

Fill fill_of(const uint64_t* words) { return {words[0], words[1], uint32_t(words[2]), words[3], words[4], words[5]}; }

void put(Bytes* into, const std::vector<Id>& found) {
  auto* raw = reinterpret_cast<const uint8_t*>(found.data());
  into->assign(raw, raw + found.size() * sizeof(Id));
}

}  // namespace

cuda::Error Session::kernel(const uint64_t* at, Bytes parameters, Kernel* made) {
  Function* function = catalog_.at(at[0]);
  if (!function) return cuda::kInvalidDeviceFunction;
  made->function = int(at[0]);
  vgpu::Launch& launch = made->launch;
  launch.module = function->module;
  launch.entry = function->name;
  launch.grid = {wire::low(at[1]), wire::high(at[1]), wire::low(at[2])};
  launch.block = {wire::high(at[2]), wire::low(at[3]), wire::high(at[3])};
  launch.dynamic_shared = at[4];
  launch.cooperative = at[5] & wire::kCooperative;
  launch.cluster = {std::max(1u, wire::low(at[6])), std::max(1u, wire::high(at[6])), std::max(1u, wire::low(at[7]))};
  launch.max_dynamic_shared = function->needs.max_dynamic_shared;
  launch.parameters = std::move(parameters);
  if (launch.parameters.size() != function->parameter_bytes) return cuda::kInvalidValue;
  Refusal refusal = check_cluster(launch, at[5] & wire::kNonPortable);
  if (!refusal.error) refusal = check_launch(setup_.gpu, function->needs, launch);
  if (refusal.error) return refuse(refusal.error, "launch", function->name, refusal.sentence);
  return cuda::kSuccess;
}

Answer Session::function_facts(const Function& function) {
  Answer answer;
  answer.words[0] = uint64_t(function.needs.registers);
  answer.words[1] = function.needs.static_shared;
  answer.words[2] = function.needs.local_bytes;
  answer.words[3] = uint64_t(threads_at_most(setup_.gpu, function.needs));
  answer.words[4] = function.needs.max_dynamic_shared;
  answer.words[5] = uint64_t(function.ptx_version);
  answer.words[6] = uint64_t(setup_.gpu.cc_major * 10 + setup_.gpu.cc_minor);
  return answer;
}

Answer Session::launches(const wire::Request& request, Bytes bytes) {
  const uint64_t* words = request.words;
  if (request.call == Call::Launch) {
    Kernel made;
    if (cuda::Error error = kernel(words + 1, std::move(bytes), &made)) return {error, {}, {}};
    return {streams_.enqueue(words[0], std::move(made), false), {}, {}};
  }
  Function* function = catalog_.at(words[0]);
  if (!function) return {cuda::kInvalidDeviceFunction, {}, {}};
  Answer answer;
  switch (request.call) {
    case Call::FunctionFacts: return function_facts(*function);
    case Call::AllowShared:
      if (words[1] > setup_.gpu.shared_per_block_optin ||
          words[1] + function->needs.static_shared > setup_.gpu.shared_per_block_optin)
        return {cuda::kInvalidValue, {}, {}};
      function->needs.max_dynamic_shared = words[1];
      return answer;
    case Call::Occupancy:
      answer.words[0] = uint64_t(blocks_per_sm(setup_.gpu, function->needs, uint32_t(words[1]), words[2]));
      return answer;
    default: return {cuda::kUnknown, {}, {}};
  }
}

Answer Session::graphs(const wire::Request& request, Bytes bytes) {
  const uint64_t* words = request.words;
  Answer answer;
  Id made = 0;
  switch (request.call) {
    case Call::CaptureBegin: answer.error = streams_.begin(words[0], Mode(std::min<uint64_t>(words[1], 2))); break;
    case Call::CaptureEnd: answer.error = streams_.end(words[0], &answer.words[0]); break;
    case Call::CaptureState: answer.words[0] = streams_.state(words[0], &answer.words[1]); break;
    case Call::GraphCreate: answer.words[0] = graphs_.create(); break;
    case Call::GraphDestroy: answer.error = graphs_.destroy(words[0]); break;
    case Call::GraphClone:
      answer.words[0] = graphs_.clone(words[0]);
      answer.error = answer.words[0] ? cuda::kSuccess : cuda::kInvalidValue;
      break;
    case Call::GraphEdge: answer.error = graphs_.edge(words[0], words[1], words[2]); break;
    case Call::Instantiate:
      answer.error = graphs_.instantiate(words[0], &made);
      answer.words[0] = made;
      break;
    case Call::ExecUpdate: {
      bool topology = false;
      answer.error = graphs_.update(words[0], words[1], &made, &topology);
      answer.words[0] = answer.error == cuda::kGraphExecUpdateFailure ? (made ? 3 : 2) : (answer.error ? 1 : 0);
      answer.words[1] = made;
      break;
    }
    case Call::ExecLaunch: answer.error = streams_.launch(words[0], words[1]); break;
    case Call::ExecDestroy: answer.error = graphs_.destroy_exec(words[0]); break;
    default: return nodes(request, std::move(bytes));
  }
  return answer;
}

Answer Session::nodes(const wire::Request& request, Bytes bytes) {
  const uint64_t* words = request.words;
  Answer answer;
  Work work;
  std::vector<Id> after = ids(bytes, 0, bytes.size() / sizeof(Id));
  switch (request.call) {
    case Call::GraphAddEmpty: break;
    case Call::GraphAddKernel: {
      size_t count = words[12] <= bytes.size() / sizeof(Id) ? words[12] : 0;
      after = ids(bytes, 0, count);
      Kernel made;
      if (cuda::Error error = kernel(words + 1, Bytes(bytes.begin() + long(count * sizeof(Id)), bytes.end()), &made))
        return {error, {}, {}};
      work = std::move(made);
      break;
    }
    case Call::GraphAddCopy:
      work = copy_of(words + 1);
      if (cuda::Error error = check(std::get<Copy>(work))) return {error, {}, {}};
      break;
    case Call::GraphAddFill:
      work = fill_of(words + 1);
      if (cuda::Error error = check(std::get<Fill>(work))) return {error, {}, {}};
      break;
    case Call::GraphNodes: {
      Graph* graph = graphs_.at(words[0]);
      if (!graph) return {cuda::kInvalidValue, {}, {}};
      std::vector<Id> found;
      for (const Node& node : graph->nodes) found.push_back(node.id);
      put(&answer.bytes, found);
      return answer;
    }
    case Call::GraphEdges: {
      Graph* graph = graphs_.at(words[0]);
      if (!graph) return {cuda::kInvalidValue, {}, {}};
      std::vector<Id> found;
      for (const Node& node : graph->nodes)
        for (Id earlier : node.after) {
          found.push_back(earlier);
          found.push_back(node.id);
        }
      put(&answer.bytes, found);
      return answer;
    }
    default: return change(request, std::move(bytes));
  }
  answer.words[0] = graphs_.add(words[0], std::move(work), std::move(after));
  if (!answer.words[0]) answer.error = cuda::kInvalidValue;
  return answer;
}

// Reads or replaces the operation of one node of a graph (exec 0) or of an executable graph.
Answer Session::change(const wire::Request& request, Bytes bytes) {
  const uint64_t* words = request.words;
  bool looks = request.call == Call::NodeKind || request.call == Call::NodeKernel;
  Exec* exec = looks || !words[0] ? nullptr : graphs_.exec(words[0]);
  if (!looks && words[0] && !exec) return {cuda::kInvalidValue, {}, {}};
  Node* node = looks ? graphs_.node(words[0]) : exec ? exec->graph.find(words[1]) : graphs_.node(words[1]);
  if (!node) return {cuda::kInvalidValue, {}, {}};
  Answer answer;
  auto* known = std::get_if<Kernel>(&node->work);
  switch (request.call) {
    case Call::NodeKind: answer.words[0] = node->work.index(); return answer;
    case Call::NodeKernel:
      if (!known) return {cuda::kInvalidValue, {}, {}};
      answer.words[0] = uint64_t(known->function);
      answer.words[1] = wire::pack(known->launch.grid.x, known->launch.grid.y);
      answer.words[2] = wire::pack(known->launch.grid.z, known->launch.block.x);
      answer.words[3] = wire::pack(known->launch.block.y, known->launch.block.z);
      answer.words[4] = known->launch.dynamic_shared;
      answer.bytes = known->launch.parameters;
      return answer;
    case Call::NodeSetKernel: {
      Kernel made;
      if (!known) return {cuda::kInvalidValue, {}, {}};
      if (cuda::Error error = kernel(words + 2, std::move(bytes), &made)) return {error, {}, {}};
      node->work = std::move(made);
      return answer;
    }
    case Call::NodeSetCopy:
      if (!std::holds_alternative<Copy>(node->work)) return {cuda::kInvalidValue, {}, {}};
      if (cuda::Error error = check(copy_of(words + 2))) return {error, {}, {}};
      node->work = copy_of(words + 2);
      return answer;
    case Call::NodeSetFill:
      if (!std::holds_alternative<Fill>(node->work)) return {cuda::kInvalidValue, {}, {}};
      if (cuda::Error error = check(fill_of(words + 2))) return {error, {}, {}};
      node->work = fill_of(words + 2);
      return answer;
    default: return {cuda::kUnknown, {}, {}};
  }
}

}  // namespace executor

// Construction, cloning, instantiation and update of graphs.
#include "graphs.h"

#include <algorithm>
#include <set>

namespace executor {
namespace {

// Sorts topologically (Kahn); returns an empty list if there is a cycle.
std::vector<Node> sorted(const std::vector<Node>& nodes) {
  std::vector<Node> found;
  std::set<Id> placed;
  std::vector<char> used(nodes.size(), 0);
  for (bool moved = true; moved && found.size() < nodes.size();) {
    moved = false;
    for (size_t i = 0; i < nodes.size(); ++i) {
      auto ready = [&](Id id) { return placed.count(id) > 0; };
      if (used[i] || !std::all_of(nodes[i].after.begin(), nodes[i].after.end(), ready)) continue;
      used[i] = 1;
      placed.insert(nodes[i].id);
      found.push_back(nodes[i]);
      moved = true;
    }
  }
  return found.size() == nodes.size() ? found : std::vector<Node>{};
}

// Returns the indices of the dependencies of each node. Two graphs of the same shape have equal lists.
std::vector<std::vector<size_t>> shape(const std::vector<Node>& nodes) {
  std::map<Id, size_t> places;
  for (size_t i = 0; i < nodes.size(); ++i) places[nodes[i].id] = i;
  std::vector<std::vector<size_t>> found;
  for (const Node& node : nodes) {
    std::vector<size_t> row;
    for (Id id : node.after) row.push_back(places[id]);
    std::sort(row.begin(), row.end());
    found.push_back(row);
  }
  return found;
}

}  // namespace

Node* Graph::find(Id id) {
  auto found = std::find_if(nodes.begin(), nodes.end(), [&](const Node& node) { return node.id == id; });
  return found == nodes.end() ? nullptr : &*found;
}

std::vector<Id> Graph::reach(const std::vector<Id>& ends) const {
  std::map<Id, const Node*> known;
  for (const Node& node : nodes) known[node.id] = &node;
  std::set<Id> seen;
  std::vector<Id> stack = ends;
  while (!stack.empty()) {
    Id id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second || !known.count(id)) continue;
    for (Id earlier : known[id]->after) stack.push_back(earlier);
  }
  return {seen.begin(), seen.end()};
}

std::vector<Id> Graph::leaves() const {
  std::set<Id> waited;
  for (const Node& node : nodes) waited.insert(node.after.begin(), node.after.end());
  std::vector<Id> found;
  for (const Node& node : nodes)
    if (!waited.count(node.id)) found.push_back(node.id);
  return found;
}

Id Graphs::create() {
  Id id = (*next_)++;
  graphs_[id] = {};
  return id;
}

Graph* Graphs::at(Id graph) {
  auto found = graphs_.find(graph);
  return found == graphs_.end() ? nullptr : &found->second;
}

cuda::Error Graphs::destroy(Id graph) { return graphs_.erase(graph) ? cuda::kSuccess : cuda::kInvalidValue; }

Id Graphs::clone(Id graph) {
  Graph* from = at(graph);
  if (!from) return 0;
  Id id = create();
  std::map<Id, Id> renamed;
  for (const Node& node : sorted(from->nodes)) {
    std::vector<Id> after;
    for (Id earlier : node.after) after.push_back(renamed[earlier]);
    renamed[node.id] = add(id, node.work, after);
  }
  return id;
}

Id Graphs::add(Id graph, Work work, std::vector<Id> after) {
  Graph* into = at(graph);
  if (!into) return 0;
  for (Id earlier : after)
    if (!into->find(earlier)) return 0;
  Node node{(*next_)++, std::move(work), std::move(after)};
  into->nodes.push_back(std::move(node));
  return into->nodes.back().id;
}

cuda::Error Graphs::edge(Id graph, Id from, Id to) {
  Graph* found = at(graph);
  Node* target = found ? found->find(to) : nullptr;
  if (!target || !found->find(from)) return cuda::kInvalidValue;
  target->after.push_back(from);
  return cuda::kSuccess;
}

Node* Graphs::node(Id id) {
  for (auto& [graph, content] : graphs_)
    if (Node* found = content.find(id)) return found;
  return nullptr;
}

cuda::Error Graphs::instantiate(Id graph, Id* exec) {
  Graph* from = at(graph);
  if (!from) return cuda::kInvalidValue;
  Exec made{{sorted(from->nodes)}, {}};
  if (made.graph.nodes.size() != from->nodes.size()) return cuda::kInvalidValue;
  *exec = (*next_)++;
  execs_[*exec] = std::move(made);
  return cuda::kSuccess;
}

Exec* Graphs::exec(Id exec) {
  auto found = execs_.find(exec);
  return found == execs_.end() ? nullptr : &found->second;
}

cuda::Error Graphs::destroy_exec(Id exec) { return execs_.erase(exec) ? cuda::kSuccess : cuda::kInvalidValue; }

cuda::Error Graphs::update(Id exec_id, Id graph, Id* differing_node, bool* topology) {
  Exec* into = exec(exec_id);
  Graph* from = at(graph);
  if (!into || !from) return cuda::kInvalidValue;
  std::vector<Node> fresh = sorted(from->nodes);
  std::vector<Node>& known = into->graph.nodes;
  *topology = fresh.size() != known.size() || shape(fresh) != shape(known);
  for (size_t i = 0; i < fresh.size() && i < known.size(); ++i)
    if (fresh[i].work.index() != known[i].work.index()) {
      *differing_node = fresh[i].id;
      return cuda::kGraphExecUpdateFailure;
    }
  if (*topology) return cuda::kGraphExecUpdateFailure;
  for (size_t i = 0; i < fresh.size(); ++i) known[i].work = fresh[i].work;
  return cuda::kSuccess;
}

}  // namespace executor

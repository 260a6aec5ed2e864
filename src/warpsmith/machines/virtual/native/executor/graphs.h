// Graphs of operations and their executable copies. Node numbers are unique in the process.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "errors.h"
#include "order.h"
#include "work.h"

namespace executor {

using Id = uint64_t;

struct Node {
  Id id = 0;
  Work work;
  std::vector<Id> after;
};

struct Graph {
  std::vector<Node> nodes;

  Node* find(Id id);
  // Returns `ends` and all nodes that they wait for, directly or indirectly.
  std::vector<Id> reach(const std::vector<Id>& ends) const;
  std::vector<Id> leaves() const;
};

struct Exec {
  Graph graph;                  // nodes in topological order
  std::vector<Operation> last;  // operations of the previous launch: two launches of one executable graph never overlap
};

class Graphs {
 public:
  explicit Graphs(Id* next) : next_(next) {}

  Id create();
  Graph* at(Id graph);
  cuda::Error destroy(Id graph);
  Id clone(Id graph);
  // Returns 0 if the graph or a dependency does not exist.
  Id add(Id graph, Work work, std::vector<Id> after);
  cuda::Error edge(Id graph, Id from, Id to);
  Node* node(Id node);

  cuda::Error instantiate(Id graph, Id* exec);
  Exec* exec(Id exec);
  cuda::Error destroy_exec(Id exec);
  // Takes over the operations of a graph of the same shape. Sets `differing_node` on failure.
  cuda::Error update(Id exec, Id graph, Id* differing_node, bool* topology);

 private:
  Id* next_;
  std::map<Id, Graph> graphs_;
  std::map<Id, Exec> execs_;
};

}  // namespace executor

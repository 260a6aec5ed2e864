// Graphs of work and their executable copies. A node is known by a number that is unique in the process.
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
  // All that `ends` wait for, and they themselves.
  std::vector<Id> reach(const std::vector<Id>& ends) const;
  std::vector<Id> leaves() const;
};

struct Exec {
  Graph graph;                  // each node after those it waits for
  std::vector<Operation> last;  // of the launch before: an exec never runs beside itself
};

class Graphs {
 public:
  explicit Graphs(Id* next) : next_(next) {}

  Id create();
  Graph* at(Id graph);
  cuda::Error destroy(Id graph);
  Id clone(Id graph);
  // 0 when the graph or a node that it should wait for does not exist.
  Id add(Id graph, Work work, std::vector<Id> after);
  cuda::Error edge(Id graph, Id from, Id to);
  Node* node(Id node);

  cuda::Error instantiate(Id graph, Id* exec);
  Exec* exec(Id exec);
  cuda::Error destroy_exec(Id exec);
  // Takes the work of a graph of the same shape; `culprit` is the node that differs.
  cuda::Error update(Id exec, Id graph, Id* culprit, bool* topology);

 private:
  Id* next_;
  std::map<Id, Graph> graphs_;
  std::map<Id, Exec> execs_;
};

}  // namespace executor

// Basic blocks of a function, lifetimes of its registers, and the allocation of places to them.
#include "flow.h"

#include <algorithm>

namespace vgpu {

using ptx::Operand;
using ptx::Statement;

namespace {

bool begins(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

size_t resolve_label(const ptx::Function& function, const std::string& name, int scope, int line) {
  auto found = function.labels.find(name);
  if (found != function.labels.end())
    for (int at = scope; at >= 0; at = function.scope_parent[size_t(at)])
      for (const ptx::LabelAt& label : found->second)
        if (label.scope == at) return label.index;
  throw ptx::ReadError(line, "the label '" + name + "' is not in " + function.name);
}

std::string plain(const std::string& name) { return name.substr(0, name.find('@')); }

}  // namespace

bool is_warp_sync(std::string_view op) {
  auto starts = [&](std::string_view prefix) { return op.substr(0, prefix.size()) == prefix; };
  return starts("shfl.sync") || starts("vote.sync") || starts("match.") || starts("redux.sync") ||
         starts("bar.warp.sync") || starts("elect.sync") || starts("mma.sync") || starts("ldmatrix") ||
         starts("stmatrix") || starts("wgmma.") || starts("movmatrix") || starts("wmma.") || starts("activemask");
}

Kind kind_of(const Statement& statement) {
  const std::string& op = statement.opcode;
  if (op == "bra" || op == "bra.uni") return Kind::Jump;
  if (begins(op, "brx.idx")) return Kind::Index;
  if (op == "call" || op == "call.uni") return Kind::Call;
  if (op == "ret" || op == "ret.uni") return Kind::Return;
  if (op == "exit") return Kind::Exit;
  if (op == "trap") return Kind::Trap;
  if (is_warp_sync(op)) return Kind::WarpSync;
  if (begins(op, "barrier.cluster.wait")) return Kind::ClusterWait;
  if (begins(op, "bar.") || begins(op, "barrier.cta") || begins(op, "barrier.sync") || begins(op, "barrier.red") ||
      begins(op, "barrier.arrive"))
    return Kind::Barrier;
  return Kind::Straight;
}

Flow control_flow(const ptx::Function& function) {
  Flow flow;
  std::vector<uint32_t> node_of(function.statements.size() + 1);
  for (size_t i = 0; i < function.statements.size(); ++i) {
    const Statement& statement = function.statements[i];
    node_of[i] = uint32_t(flow.nodes.size());
    Kind kind = kind_of(statement);
    if (statement.guard >= 0 && kind != Kind::Straight && kind != Kind::Jump) {
      Node skip;
      skip.statement = &statement;
      skip.skip = true;
      skip.target = uint32_t(flow.nodes.size()) + 2;
      flow.nodes.push_back(skip);
    }
    Node index;
    index.statement = &statement;
    flow.nodes.push_back(index);
  }
  node_of[function.statements.size()] = uint32_t(flow.nodes.size());
  // A body without a final ret returns at its end.
  static const Statement implicit_return = [] {
    Statement statement;
    statement.opcode = "ret";
    return statement;
  }();
  Node end;
  end.statement = &implicit_return;
  flow.nodes.push_back(end);

  auto leads = [&](uint32_t index) {
    if (index < flow.nodes.size()) flow.nodes[index].leads = true;
  };
  leads(0);
  for (auto& entry : function.labels)
    for (const ptx::LabelAt& label : entry.second) leads(node_of[label.index]);
  for (uint32_t index = 0; index < flow.nodes.size(); ++index) {
    Node& node = flow.nodes[index];
    const Statement& statement = *node.statement;
    if (node.skip) {
      leads(index + 1);
      leads(node.target);
      continue;
    }
    Kind kind = kind_of(statement);
    if (kind == Kind::Straight) continue;
    leads(index + 1);
    if (kind == Kind::WarpSync || kind == Kind::Barrier || kind == Kind::ClusterWait) leads(index);
    if (kind == Kind::Jump) {
      if (statement.operands.empty() || statement.operands[0].kind != Operand::Symbol)
        throw ptx::ReadError(statement.line, "bra without a label");
      node.target =
          node_of[resolve_label(function, plain(statement.operands[0].name), statement.scope, statement.line)];
    } else if (kind == Kind::Index) {
      if (statement.operands.size() < 2 || statement.operands[1].kind != Operand::Symbol)
        throw ptx::ReadError(statement.line, "brx.idx without a list of targets");
      auto list = function.branch_targets.find(plain(statement.operands[1].name));
      if (list == function.branch_targets.end())
        throw ptx::ReadError(statement.line,
                             "the list of targets '" + statement.operands[1].name + "' is not in " + function.name);
      for (const std::string& label : list->second)
        node.targets.push_back(node_of[resolve_label(function, label, statement.scope, statement.line)]);
    }
  }

  for (uint32_t index = 0; index < flow.nodes.size(); ++index) {
    if (flow.nodes[index].leads) flow.blocks.push_back({index, index});
    flow.nodes[index].block = uint32_t(flow.blocks.size()) - 1;
    flow.blocks.back().second = index + 1;
  }
  flow.successors.resize(flow.blocks.size());
  for (size_t block = 0; block < flow.blocks.size(); ++block) {
    const Node& last = flow.nodes[flow.blocks[block].second - 1];
    auto& out = flow.successors[block];
    Kind kind = last.skip ? Kind::Jump : kind_of(*last.statement);
    if (kind == Kind::Jump) {
      out.push_back(flow.nodes[last.target].block);
      if (last.statement->guard < 0) continue;
    }
    for (uint32_t target : last.targets) out.push_back(flow.nodes[target].block);
    if (kind == Kind::Return || kind == Kind::Exit || kind == Kind::Index) continue;
    if (block + 1 < flow.blocks.size()) out.push_back(uint32_t(block) + 1);
  }
  return flow;
}

namespace {

bool has_target(const Statement& statement) {
  if (statement.operands.empty() || statement.operands[0].kind == Operand::Address) return false;
  const std::string& op = statement.opcode;
  if (begins(op, "bar") && op.find(".red") == std::string::npos) return false;
  for (const char* prefix : {"nanosleep", "setmaxnreg", "exit", "ret", "trap", "membar", "fence", "bra", "brx", "call",
                             "pmevent", "griddepcontrol", "st.", "red."})
    if (begins(op, prefix)) return false;
  return true;
}

template <class F>
void registers_of(const Operand& operand, F visit) {
  if (operand.reg >= 0) visit(size_t(operand.reg));
  for (const Operand& part : operand.parts) registers_of(part, visit);
}

struct Sets {
  std::vector<uint64_t> words;
  explicit Sets(size_t bits = 0) : words((bits + 63) / 64) {}
  bool test(size_t i) const { return words[i / 64] >> (i % 64) & 1; }
  void set(size_t i) { words[i / 64] |= uint64_t(1) << (i % 64); }
};

template <class Use, class Def>
void visit(const Node& node, Use use, Def def) {
  const Statement& statement = *node.statement;
  if (statement.guard >= 0) use(size_t(statement.guard));
  if (node.skip) return;
  bool target = has_target(statement);
  for (size_t i = 0; i < statement.operands.size(); ++i) {
    if (i == 0 && target) continue;
    registers_of(statement.operands[i], use);
  }
  bool adds = begins(statement.opcode, "wgmma.mma_async");  // the product adds to its target, so it also reads it
  if (target)
    registers_of(statement.operands[0], [&](size_t reg) {
      if (statement.guard >= 0 || adds) use(reg);
      def(reg);
    });
}

struct Lives {
  std::vector<uint32_t> from, to;
};

Lives life_times(const ptx::Function& function, const Flow& flow) {
  size_t count = function.registers.size(), blocks = flow.blocks.size();
  std::vector<Sets> gen(blocks, Sets(count)), kill(blocks, Sets(count)), live_in(blocks, Sets(count)),
      live_out(blocks, Sets(count));
  Lives lives{std::vector<uint32_t>(count, UINT32_MAX), std::vector<uint32_t>(count, 0)};
  auto touch = [&](size_t reg, uint32_t at) {
    lives.from[reg] = std::min(lives.from[reg], at);
    lives.to[reg] = std::max(lives.to[reg], at);
  };
  for (size_t block = 0; block < blocks; ++block)
    for (uint32_t i = flow.blocks[block].first; i < flow.blocks[block].second; ++i)
      visit(
          flow.nodes[i],
          [&](size_t reg) {
            touch(reg, i);
            if (!kill[block].test(reg)) gen[block].set(reg);
          },
          [&](size_t reg) {
            touch(reg, i);
            kill[block].set(reg);
          });
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t block = blocks; block-- > 0;) {
      for (uint32_t successor : flow.successors[block])
        for (size_t k = 0; k < live_out[block].words.size(); ++k)
          live_out[block].words[k] |= live_in[successor].words[k];
      for (size_t k = 0; k < live_in[block].words.size(); ++k) {
        uint64_t next = gen[block].words[k] | (live_out[block].words[k] & ~kill[block].words[k]);
        changed |= next != live_in[block].words[k];
        live_in[block].words[k] = next;
      }
    }
  }
  for (size_t block = 0; block < blocks; ++block)
    for (size_t k = 0; k < live_in[block].words.size(); ++k) {
      for (uint64_t bits_left = live_in[block].words[k]; bits_left; bits_left &= bits_left - 1)
        touch(k * 64 + size_t(__builtin_ctzll(bits_left)), flow.blocks[block].first);
      for (uint64_t bits_left = live_out[block].words[k]; bits_left; bits_left &= bits_left - 1)
        touch(k * 64 + size_t(__builtin_ctzll(bits_left)), flow.blocks[block].second - 1);
    }
  return lives;
}

}  // namespace

Layout place_registers(const ptx::Function& function, const Flow& flow, size_t base, size_t first_predicate) {
  Lives lives = life_times(function, flow);
  Layout layout;
  layout.slots.place.assign(function.registers.size(), 0);
  layout.predicates = first_predicate;
  std::vector<size_t> order;
  for (size_t reg = 0; reg < function.registers.size(); ++reg)
    if (lives.from[reg] != UINT32_MAX) order.push_back(reg);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lives.from[a] < lives.from[b]; });
  // There is one pool of places for each width, so two places are equal or disjoint. A place becomes free after the
  // last use, not at it: an instruction that exchanges values between lanes may write its target before it has read all
  // sources.
  struct Active {
    uint32_t to;
    int32_t place;
  };
  std::map<int, std::vector<Active>> busy;
  std::map<int, std::vector<int32_t>> free_places;
  size_t next = base;
  for (size_t reg : order) {
    int width = function.registers[reg].width;
    auto& active = busy[width];
    auto& pool = free_places[width];
    for (size_t i = 0; i < active.size();) {
      if (active[i].to < lives.from[reg]) {
        pool.push_back(active[i].place);
        active[i] = active.back();
        active.pop_back();
      } else ++i;
    }
    int32_t place;
    if (!pool.empty()) {
      place = pool.back();
      pool.pop_back();
    } else if (width == 0) place = int32_t(layout.predicates++);
    else {
      place = int32_t(next);
      next += size_t(width) * 32;
    }
    active.push_back({lives.to[reg], place});
    layout.slots.place[reg] = place;
  }
  layout.bytes = next - base;
  return layout;
}

}  // namespace vgpu

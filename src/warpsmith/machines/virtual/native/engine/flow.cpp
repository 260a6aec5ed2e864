#include "flow.h"

#include <algorithm>

namespace vgpu {

using ptx::Operand;
using ptx::Statement;

namespace {

bool begins(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

size_t resolve_label(const ptx::Function& f, const std::string& name, int scope, int line) {
  auto found = f.labels.find(name);
  if (found != f.labels.end())
    for (int at = scope; at >= 0; at = f.scope_parent[size_t(at)])
      for (const ptx::LabelAt& l : found->second)
        if (l.scope == at) return l.index;
  throw ptx::ReadError(line, "the label '" + name + "' is not in " + f.name);
}

std::string plain(const std::string& name) { return name.substr(0, name.find('@')); }

}  // namespace

bool is_warp_sync(std::string_view op) {
  auto starts = [&](std::string_view p) { return op.substr(0, p.size()) == p; };
  return starts("shfl.sync") || starts("vote.sync") || starts("match.") || starts("redux.sync") ||
         starts("bar.warp.sync") || starts("elect.sync") || starts("mma.sync") || starts("ldmatrix") ||
         starts("stmatrix") || starts("wgmma.") || starts("movmatrix") || starts("wmma.") || starts("activemask");
}

Kind kind_of(const Statement& s) {
  const std::string& op = s.opcode;
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

Flow control_flow(const ptx::Function& f) {
  Flow flow;
  std::vector<uint32_t> node_of(f.statements.size() + 1);
  for (size_t i = 0; i < f.statements.size(); ++i) {
    const Statement& s = f.statements[i];
    node_of[i] = uint32_t(flow.nodes.size());
    Kind k = kind_of(s);
    if (s.guard >= 0 && k != Kind::Straight && k != Kind::Jump) {
      Node skip;
      skip.statement = &s;
      skip.skip = true;
      skip.target = uint32_t(flow.nodes.size()) + 2;
      flow.nodes.push_back(skip);
    }
    Node n;
    n.statement = &s;
    flow.nodes.push_back(n);
  }
  node_of[f.statements.size()] = uint32_t(flow.nodes.size());
  // A body that falls off its end returns.
  static const Statement implicit_return = [] {
    Statement s;
    s.opcode = "ret";
    return s;
  }();
  Node end;
  end.statement = &implicit_return;
  flow.nodes.push_back(end);

  auto leads = [&](uint32_t n) {
    if (n < flow.nodes.size()) flow.nodes[n].leads = true;
  };
  leads(0);
  for (auto& entry : f.labels)
    for (const ptx::LabelAt& l : entry.second) leads(node_of[l.index]);
  for (uint32_t n = 0; n < flow.nodes.size(); ++n) {
    Node& node = flow.nodes[n];
    const Statement& s = *node.statement;
    if (node.skip) {
      leads(n + 1);
      leads(node.target);
      continue;
    }
    Kind k = kind_of(s);
    if (k == Kind::Straight) continue;
    leads(n + 1);
    if (k == Kind::WarpSync || k == Kind::Barrier || k == Kind::ClusterWait) leads(n);
    if (k == Kind::Jump) {
      if (s.operands.empty() || s.operands[0].kind != Operand::Symbol)
        throw ptx::ReadError(s.line, "bra without a label");
      node.target = node_of[resolve_label(f, plain(s.operands[0].name), s.scope, s.line)];
    } else if (k == Kind::Index) {
      if (s.operands.size() < 2 || s.operands[1].kind != Operand::Symbol)
        throw ptx::ReadError(s.line, "brx.idx without a list of targets");
      auto list = f.branch_targets.find(plain(s.operands[1].name));
      if (list == f.branch_targets.end())
        throw ptx::ReadError(s.line, "the list of targets '" + s.operands[1].name + "' is not in " + f.name);
      for (const std::string& label : list->second)
        node.targets.push_back(node_of[resolve_label(f, label, s.scope, s.line)]);
    }
  }

  for (uint32_t n = 0; n < flow.nodes.size(); ++n) {
    if (flow.nodes[n].leads) flow.blocks.push_back({n, n});
    flow.nodes[n].block = uint32_t(flow.blocks.size()) - 1;
    flow.blocks.back().second = n + 1;
  }
  flow.successors.resize(flow.blocks.size());
  for (size_t b = 0; b < flow.blocks.size(); ++b) {
    const Node& last = flow.nodes[flow.blocks[b].second - 1];
    auto& out = flow.successors[b];
    Kind k = last.skip ? Kind::Jump : kind_of(*last.statement);
    if (k == Kind::Jump) {
      out.push_back(flow.nodes[last.target].block);
      if (last.statement->guard < 0) continue;
    }
    for (uint32_t t : last.targets) out.push_back(flow.nodes[t].block);
    if (k == Kind::Return || k == Kind::Exit || k == Kind::Index) continue;
    if (b + 1 < flow.blocks.size()) out.push_back(uint32_t(b) + 1);
  }
  return flow;
}

namespace {

bool has_target(const Statement& s) {
  if (s.operands.empty() || s.operands[0].kind == Operand::Address) return false;
  const std::string& op = s.opcode;
  if (begins(op, "bar") && op.find(".red") == std::string::npos) return false;
  for (const char* p : {"nanosleep", "setmaxnreg", "exit", "ret", "trap", "membar", "fence", "bra", "brx", "call",
                        "pmevent", "griddepcontrol", "st.", "red."})
    if (begins(op, p)) return false;
  return true;
}

template <class F>
void registers_of(const Operand& o, F f) {
  if (o.reg >= 0) f(size_t(o.reg));
  for (const Operand& part : o.parts) registers_of(part, f);
}

struct Sets {
  std::vector<uint64_t> words;
  explicit Sets(size_t n = 0) : words((n + 63) / 64) {}
  bool test(size_t i) const { return words[i / 64] >> (i % 64) & 1; }
  void set(size_t i) { words[i / 64] |= uint64_t(1) << (i % 64); }
};

template <class Use, class Def>
void visit(const Node& n, Use use, Def def) {
  const Statement& s = *n.statement;
  if (s.guard >= 0) use(size_t(s.guard));
  if (n.skip) return;
  bool target = has_target(s);
  for (size_t i = 0; i < s.operands.size(); ++i) {
    if (i == 0 && target) continue;
    registers_of(s.operands[i], use);
  }
  bool adds = begins(s.opcode, "wgmma.mma_async");  // to what its target holds
  if (target)
    registers_of(s.operands[0], [&](size_t r) {
      if (s.guard >= 0 || adds) use(r);
      def(r);
    });
}

struct Lives {
  std::vector<uint32_t> from, to;
};

Lives life_times(const ptx::Function& f, const Flow& flow) {
  size_t n = f.registers.size(), blocks = flow.blocks.size();
  std::vector<Sets> gen(blocks, Sets(n)), kill(blocks, Sets(n)), live_in(blocks, Sets(n)), live_out(blocks, Sets(n));
  Lives lives{std::vector<uint32_t>(n, UINT32_MAX), std::vector<uint32_t>(n, 0)};
  auto touch = [&](size_t r, uint32_t at) {
    lives.from[r] = std::min(lives.from[r], at);
    lives.to[r] = std::max(lives.to[r], at);
  };
  for (size_t b = 0; b < blocks; ++b)
    for (uint32_t i = flow.blocks[b].first; i < flow.blocks[b].second; ++i)
      visit(
          flow.nodes[i],
          [&](size_t r) {
            touch(r, i);
            if (!kill[b].test(r)) gen[b].set(r);
          },
          [&](size_t r) {
            touch(r, i);
            kill[b].set(r);
          });
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = blocks; b-- > 0;) {
      for (uint32_t s : flow.successors[b])
        for (size_t k = 0; k < live_out[b].words.size(); ++k) live_out[b].words[k] |= live_in[s].words[k];
      for (size_t k = 0; k < live_in[b].words.size(); ++k) {
        uint64_t next = gen[b].words[k] | (live_out[b].words[k] & ~kill[b].words[k]);
        changed |= next != live_in[b].words[k];
        live_in[b].words[k] = next;
      }
    }
  }
  for (size_t b = 0; b < blocks; ++b)
    for (size_t k = 0; k < live_in[b].words.size(); ++k) {
      for (uint64_t m = live_in[b].words[k]; m; m &= m - 1)
        touch(k * 64 + size_t(__builtin_ctzll(m)), flow.blocks[b].first);
      for (uint64_t m = live_out[b].words[k]; m; m &= m - 1)
        touch(k * 64 + size_t(__builtin_ctzll(m)), flow.blocks[b].second - 1);
    }
  return lives;
}

}  // namespace

Layout place_registers(const ptx::Function& f, const Flow& flow, size_t base, size_t first_predicate) {
  Lives lives = life_times(f, flow);
  Layout layout;
  layout.slots.place.assign(f.registers.size(), 0);
  layout.predicates = first_predicate;
  std::vector<size_t> order;
  for (size_t r = 0; r < f.registers.size(); ++r)
    if (lives.from[r] != UINT32_MAX) order.push_back(r);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lives.from[a] < lives.from[b]; });
  // One pool a width, so that two places are the same or disjoint. A place is free after the last use, not at it:
  // instructions that touch several lanes may write their target before they have read every source.
  struct Active {
    uint32_t to;
    int32_t place;
  };
  std::map<int, std::vector<Active>> busy;
  std::map<int, std::vector<int32_t>> free_places;
  size_t next = base;
  for (size_t r : order) {
    int width = f.registers[r].width;
    auto& active = busy[width];
    auto& pool = free_places[width];
    for (size_t i = 0; i < active.size();) {
      if (active[i].to < lives.from[r]) {
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
    active.push_back({lives.to[r], place});
    layout.slots.place[r] = place;
  }
  layout.bytes = next - base;
  return layout;
}

}  // namespace vgpu

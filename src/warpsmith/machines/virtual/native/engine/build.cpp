#include "build.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "access.h"
#include "control.h"
#include "flow.h"

namespace vgpu {

using ptx::Operand;
using ptx::Space;
using ptx::Statement;

const char* class_name(Class c) {
  static const char* names[] = {"int",     "fp32", "fp64",   "fp16",   "sfu",   "tensor", "wgmma",  "convert", "move",
                                "control", "sync", "global", "shared", "local", "param",  "atomic", "warp"};
  return names[size_t(c)];
}

namespace {

constexpr size_t kMostFunctions = 1000;  // each has its own table of names

size_t align_up(size_t at, size_t to) { return (at + to - 1) & ~(to - 1); }

const LowerEntry* find_lower(const std::string& base) {
  static const std::unordered_map<std::string, const LowerEntry*> table = [] {
    std::unordered_map<std::string, const LowerEntry*> t;
    for (const LowerEntry* list : {kIntegerOps, kBitOps, kFloatOps, kHalfOps, kConvertOps, kCompareOps, kMoveOps,
                                   kMemoryOps, kAtomicOps, kWarpOps, kMatrixOps, kAsyncOps, kFunctionOps})
      for (; list->opcode; ++list) t[list->opcode] = list;
    return t;
  }();
  auto found = table.find(base);
  return found == table.end() ? nullptr : found->second;
}

class Builder {
 public:
  Builder(const Loaded& m, const ptx::Function& entry)
      : loaded_(m), entry_(entry), program_(std::make_unique<Program>()), lowering_(*program_) {}

  std::unique_ptr<Program> run() {
    program_->name = entry_.name;
    program_->module = loaded_.module.get();
    collect(entry_);
    lay_out_shared();
    measure_transfer();
    for (const ptx::Function* f : functions_) declare(*f);
    program_->register_bytes = align_up(program_->register_bytes, 256);
    lowering_.reserve_temporaries(program_->register_bytes, Lowering::kTemporaries);
    program_->register_bytes += size_t(Lowering::kTemporaries) * 256;
    for (const ptx::Function* f : functions_) lower(*f);
    finish();
    return std::move(program_);
  }

 private:
  struct Placed {
    Flow flow;
    Layout layout;
    uint32_t first_block = 0;
    Symbols symbols;
  };

  const ptx::Function* named(const std::string& name) const {
    for (auto& f : loaded_.module->functions)
      if (f->name == name) return f.get();
    return nullptr;
  }

  // Callees first, so that their blocks lie lower and run first when a warp has diverged.
  void collect(const ptx::Function& f) {
    if (std::count(visiting_.begin(), visiting_.end(), &f) || std::count(functions_.begin(), functions_.end(), &f))
      return;
    visiting_.push_back(&f);
    if (visiting_.size() > kMostFunctions)
      throw ptx::ReadError(0, entry_.name + " calls more than " + std::to_string(kMostFunctions) + " functions");
    for (const Statement& s : f.statements) {
      for (const Operand& o : s.operands) mention(o);
      if (s.opcode.rfind("call", 0) == 0) indirect_ |= call_is_indirect(s);
    }
    if (&f == &entry_ && indirect_)
      for (auto& other : loaded_.module->functions)
        if (other->has_body && !other->is_entry) collect(*other);
    functions_.push_back(&f);
  }

  void mention(const Operand& o) {
    if (!o.name.empty()) {
      mentioned_.insert(o.name);
      const ptx::Function* callee = named(o.name);
      if (callee && callee->has_body && !callee->is_entry) collect(*callee);
      mentioned_extern_ |= callee != nullptr;
    }
    for (const Operand& part : o.parts) mention(part);
  }

  bool call_is_indirect(const Statement& s) const {
    for (const Operand& o : s.operands)
      if (o.kind == Operand::Reg) return true;
    return false;
  }

  void lay_out_shared() {
    size_t at = 0;
    std::vector<const ptx::Variable*> dynamic;
    auto place = [&](const ptx::Variable& v) {
      if (v.space != Space::Shared || !mentioned_.count(v.name)) return;
      if (v.unsized || v.bytes() == 0) {
        dynamic.push_back(&v);
        return;
      }
      at = align_up(at, v.alignment);
      shared_[v.name] = {Space::Shared, at, v.bytes(), false};
      at += v.bytes();
    };
    for (const ptx::Variable& v : loaded_.module->variables) place(v);
    for (const ptx::Function* f : functions_)
      for (const ptx::Variable& v : f->locals) place(v);
    size_t alignment = 16;
    for (const ptx::Variable* v : dynamic) alignment = std::max(alignment, v->alignment);
    size_t start = dynamic.empty() ? at : align_up(at, alignment);
    for (const ptx::Variable* v : dynamic) shared_[v->name] = {Space::Shared, start, 0, false};
    program_->static_shared = start;
  }

  void measure_transfer() {
    if (functions_.size() == 1 && !mentioned_extern_) return;
    auto widen = [&](const ptx::Prototype& t) {
      local_at_ = std::max({local_at_, transfer_size(t.parameters), transfer_size(t.results)});
    };
    for (auto& f : loaded_.module->functions) {
      if (!f->is_entry) widen(f->prototype);
      for (auto& entry : f->call_prototypes) widen(entry.second);
    }
    local_at_ = align_up(local_at_, 16);
  }

  // Parameters pass through a transfer area at the start of local memory; a function's own copies lie in its frame.
  void declare(const ptx::Function& f) {
    Placed p;
    p.flow = control_flow(f);
    p.layout = place_registers(f, p.flow, program_->register_bytes, program_->predicate_count);
    program_->register_bytes += p.layout.bytes;
    program_->predicate_count = p.layout.predicates;
    p.first_block = uint32_t(block_total_);
    block_total_ += p.flow.blocks.size();
    p.symbols = loaded_.symbols;
    for (auto& entry : shared_) p.symbols[entry.first] = entry.second;
    auto take = [&](const ptx::Variable& v, Space space) {
      local_at_ = align_up(local_at_, std::max<size_t>(v.alignment, 1));
      p.symbols[v.name] = {space, local_at_, v.bytes(), false};
      local_at_ += v.bytes();
    };
    for (const ptx::Variable& v : loaded_.module->variables)
      if (v.space == Space::Local) take(v, Space::Local);
    for (const ptx::Variable& v : f.locals)
      if (v.space == Space::Local || v.space == Space::Param) take(v, v.space == Space::Param ? Space::Local : v.space);
    if (f.is_entry) {
      size_t at = 0;
      for (const ptx::Variable& v : f.prototype.parameters) {
        at = align_up(at, v.alignment);
        p.symbols[v.name] = {Space::Param, at, v.bytes(), false};
        at += v.bytes();
      }
      program_->parameter_bytes = at;
    } else {
      for (const ptx::Variable& v : f.prototype.parameters) take(v, Space::Local);
      for (const ptx::Variable& v : f.prototype.results) take(v, Space::Local);
    }
    program_->functions.push_back({f.name, p.first_block, true});
    placed_.push_back(std::move(p));
  }

  static size_t transfer_size(const std::vector<ptx::Variable>& list) {
    size_t at = 0;
    for (const ptx::Variable& v : list) at = align_up(at, std::max<size_t>(v.alignment, 8)) + v.bytes();
    return at;
  }

  void lower(const ptx::Function& f) {
    size_t index = size_t(std::find(functions_.begin(), functions_.end(), &f) - functions_.begin());
    Placed& p = placed_[index];
    lowering_.function = &f;
    lowering_.slots = &p.layout.slots;
    lowering_.symbols = &p.symbols;
    for (size_t b = 0; b < p.flow.blocks.size(); ++b) {
      BasicBlock block;
      block.first = uint32_t(program_->code.size());
      if (b == 0 && !f.is_entry) receive(f, p);
      if (results_)
        transfer_operands(*results_, p, f, false, program_->places.empty() ? 0 : uint32_t(program_->places.size()) - 1);
      results_ = nullptr;
      for (uint32_t n = p.flow.blocks[b].first; n < p.flow.blocks[b].second; ++n) node(f, p, p.flow.nodes[n], block);
      block.count = uint32_t(program_->code.size()) - block.first;
      program_->blocks.push_back(block);
      program_->block_function.push_back(uint32_t(index));
    }
  }

  uint32_t note(const Statement& s) {
    program_->places.push_back({s.location, s.line, s.opcode});
    return uint32_t(program_->places.size()) - 1;
  }

  void append(Inst i, uint32_t where) {
    i.where = where;
    program_->code.push_back(i);
  }

  void copy_list(const std::vector<ptx::Variable>& list, const Symbols& symbols, bool into_transfer, uint32_t where) {
    size_t at = 0;
    for (const ptx::Variable& v : list) {
      at = align_up(at, std::max<size_t>(v.alignment, 8));
      move(symbols.at(v.name), at, v.bytes(), into_transfer, where);
      at += v.bytes();
    }
  }

  // Both lie in local memory: a call may list anything that has a name, and more than the function takes.
  void move(const Symbol& frame, uint64_t transfer, size_t bytes, bool into_transfer, uint32_t where) {
    if (frame.space != Space::Local || frame.address + bytes > local_at_ || transfer + bytes > local_at_)
      return lowering_.refuse();
    Inst i;
    i.fn = copy_local;
    i.imm = int64_t(bytes);
    i.a = int32_t(into_transfer ? frame.address : transfer);
    i.d = int32_t(into_transfer ? transfer : frame.address);
    append(i, where);
  }

  void receive(const ptx::Function& f, const Placed& p) { copy_list(f.prototype.parameters, p.symbols, false, 0); }

  // The actual arguments or results of a call, in the order and with the alignment of the declared variables.
  void transfer_operands(const Operand& list, const Placed& p, const ptx::Function& f, bool into_transfer,
                         uint32_t where) {
    size_t at = 0;
    for (const Operand& o : list.parts) {
      const ptx::Variable* v = nullptr;
      for (const ptx::Variable& local : f.locals)
        if (local.name == o.name) v = &local;
      if (!v)
        for (const ptx::Variable& own : f.prototype.parameters)
          if (own.name == o.name) v = &own;
      if (!v || !p.symbols.count(o.name)) {
        lowering_.refuse();
        return;
      }
      at = align_up(at, std::max<size_t>(v->alignment, 8));
      move(p.symbols.at(o.name), at, v->bytes(), into_transfer, where);
      at += v->bytes();
    }
  }

  void node(const ptx::Function& f, Placed& p, const Node& n, BasicBlock& block) {
    const Statement& s = *n.statement;
    uint32_t where = note(s);
    if (n.skip) return branch(p, n, block, where, true);
    ++block.weight;
    Kind k = kind_of(s);
    if (k != Kind::Straight) block.last.where = where;
    switch (k) {
      case Kind::Jump: count(block, Class::Control); return branch(p, n, block, where, false);
      case Kind::Index: count(block, Class::Control); return index(p, n, block, where);
      case Kind::Call: count(block, Class::Control); return call(f, p, s, block, where);
      case Kind::Return:
        count(block, Class::Control);
        if (!f.is_entry) copy_list(f.prototype.results, p.symbols, true, where);
        block.control = f.is_entry ? Control::Exit : Control::Return;
        return;
      case Kind::Exit:
        count(block, Class::Control);
        block.control = Control::Exit;
        return;
      case Kind::Trap:
        count(block, Class::Control);
        block.control = Control::Trap;
        return;
      case Kind::Barrier:
      case Kind::ClusterWait:
      case Kind::WarpSync:
      case Kind::Straight: return straight(s, k, block, where);
    }
  }

  void count(BasicBlock& block, Class c, uint16_t times = 1) { block.classes[size_t(c)] += times; }

  void straight(const Statement& s, Kind k, BasicBlock& block, uint32_t where) {
    Statement bare;
    const Statement* use = &s;
    if (k != Kind::Straight && s.guard >= 0) {
      bare = s;
      bare.guard = -1;
      use = &bare;
    }
    lowering_.start(*use);
    const LowerEntry* entry = find_lower(std::string(lowering_.parts[0]));
    if (entry) lowering_.idle = entry->idle;
    bool known = entry && entry->lower(lowering_) && lowering_.finish() && !lowering_.emitted.empty();
    if (!known) {
      Inst i;
      i.fn = unknown_instruction;
      if (s.guard >= 0 && k == Kind::Straight) {
        i.inner = i.fn;
        i.fn = guarded;
        i.guard = lowering_.slots->place[size_t(s.guard)];
        i.negated = s.guard_negated;
      }
      append(i, where);
      count(block, Class::Control);
      return;
    }
    count(block, lowering_.kind, lowering_.times);
    if (k != Kind::Straight) {
      // The instruction itself is the last; what prepares its operands goes before it.
      block.last = lowering_.emitted.back();
      block.last.where = where;
      lowering_.emitted.pop_back();
      block.control = k == Kind::Barrier       ? Control::Barrier
                      : k == Kind::ClusterWait ? Control::ClusterWait
                                               : Control::WarpSync;
    }
    for (Inst& i : lowering_.emitted) append(i, where);
  }

  void branch(Placed& p, const Node& n, BasicBlock& block, uint32_t where, bool skip) {
    const Statement& s = *n.statement;
    block.target = p.first_block + p.flow.nodes[n.target].block;
    block.last.where = where;
    if (s.guard < 0) {
      block.control = Control::Jump;
      return;
    }
    block.control = Control::Branch;
    block.last.guard = p.layout.slots.place[size_t(s.guard)];
    block.last.negated = skip ? !s.guard_negated : s.guard_negated;
  }

  void index(Placed& p, const Node& n, BasicBlock& block, uint32_t where) {
    auto table = std::make_unique<std::vector<uint32_t>>();
    for (uint32_t t : n.targets) table->push_back(p.first_block + p.flow.nodes[t].block);
    Statement bare = *n.statement;
    bare.guard = -1;
    lowering_.start(bare);
    block.last.a = lowering_.source(size_t(0), 4);
    for (Inst& i : lowering_.emitted) append(i, where);
    block.last.where = where;
    block.last.table = table.get();
    block.control = Control::Index;
    program_->tables.push_back(std::move(table));
  }

  void call(const ptx::Function& f, Placed& p, const Statement& s, BasicBlock& block, uint32_t where) {
    const Operand *results = nullptr, *callee = nullptr, *arguments = nullptr;
    for (const Operand& o : s.operands) {
      if (o.kind == Operand::List) {
        if (!callee) results = &o;
        else arguments = &o;
      } else if (!callee) callee = &o;
    }
    Statement bare = s;
    bare.guard = -1;
    lowering_.start(bare);
    if (!callee) return fail_call(block, where);
    if (arguments) transfer_operands(*arguments, p, f, true, where);
    if (callee->kind == Operand::Reg) {
      block.control = Control::CallIndirect;
      block.last.a = p.layout.slots.place[size_t(callee->reg)];
      if (lowering_.register_width(*callee) != 8) lowering_.refuse();
    } else {
      const ptx::Function* target = named(callee->name);
      size_t at = size_t(std::find(functions_.begin(), functions_.end(), target) - functions_.begin());
      if (target && at < functions_.size()) {
        block.control = Control::Call;
        block.target = placed_[at].first_block;
      } else {
        block.last.fn = builtin(callee->name);
        if (!block.last.fn) {
          program_->places[where].opcode = "call " + callee->name;
          lowering_.refuse();
        }
        block.control = Control::Builtin;
      }
    }
    block.last.where = where;
    if (lowering_.refused()) return fail_call(block, where);
    results_ = results;
  }

  void fail_call(BasicBlock& block, uint32_t where) {
    Inst i;
    i.fn = unknown_instruction;
    append(i, where);
    block.control = Control::Exit;
  }

  void finish() {
    Program& p = *program_;
    p.constant_storage = std::make_unique<uint8_t[]>(p.constant_bytes + 128);
    uint8_t* start = p.constant_storage.get();
    start += (64 - reinterpret_cast<uintptr_t>(start) % 64) % 64;
    p.constants_end = start + p.constant_bytes;
    uint8_t* at = p.constants_end;
    for (const auto& [bits, width] : p.constants) {
      at -= width * 32;
      for (int lane = 0; lane < 32; ++lane) std::memcpy(at + lane * width, &bits, size_t(width));
    }
    p.entry_block = placed_.back().first_block;
    p.local_bytes = align_up(local_at_, 16);
  }

  const Loaded& loaded_;
  const ptx::Function& entry_;
  std::unique_ptr<Program> program_;
  Lowering lowering_;
  std::vector<const ptx::Function*> functions_, visiting_;
  std::vector<Placed> placed_;
  std::set<std::string> mentioned_;
  Symbols shared_;
  size_t block_total_ = 0, local_at_ = 0;
  bool indirect_ = false;
  bool mentioned_extern_ = false;
  const Operand* results_ = nullptr;  // of the call that ended the block before
};

// Writes a variable's initial bytes; symbols are resolved once all have addresses.
void initialize(const Loaded& m, const ptx::Variable& v, uint8_t* to) {
  size_t element = size_t(v.type.bits / 8) * v.type.lanes;
  for (size_t i = 0; i < v.values.size() && (i + 1) * element <= v.bytes(); ++i) {
    uint64_t bits = v.values[i].bits;
    if (!v.values[i].symbol.empty()) {
      auto found = m.symbols.find(v.values[i].symbol);
      if (found == m.symbols.end())
        throw ptx::ReadError(
            0, "the initializer of " + v.name + " names '" + v.values[i].symbol + "', which is not declared");
      bits = found->second.address + uint64_t(v.values[i].addend);
    }
    std::memcpy(to + i * element, &bits, std::min<size_t>(element, 8));
  }
}

}  // namespace

std::string place_variables(Loaded& m, Memory& memory) {
  for (size_t i = 0; i < m.module->functions.size(); ++i) {
    const std::string& name = m.module->functions[i]->name;
    m.symbols[name] = {Space::Global, kFunctionWindow + i * 16, 16, true};
  }
  for (const ptx::Variable& v : m.module->variables) {
    if (v.space != Space::Global && v.space != Space::Const) continue;
    Allocation* a =
        memory.allocate(std::max<size_t>(v.bytes(), 1),
                        (v.space == Space::Const ? "the constant " : "the variable ") + v.name, v.alignment);
    if (!a)
      return "the variable " + v.name + " of " + std::to_string(v.bytes()) + " bytes does not fit into device memory";
    if (a->cells.wrote) std::fill(a->cells.wrote, a->cells.wrote + a->cells.count(), 1u << 6);
    std::memset(a->host, 0, v.bytes());
    a->read_only = v.space == Space::Const;
    m.symbols[v.name] = {v.space, a->start, v.bytes(), false};
    m.allocations.push_back(a->start);
  }
  for (const ptx::Variable& v : m.module->variables)
    if (!v.values.empty() && m.symbols.count(v.name) && v.space != Space::Shared)
      initialize(m, v, memory.host(m.symbols[v.name].address));
  return "";
}

std::unique_ptr<Program> build(const Loaded& m, const ptx::Function& entry) { return Builder(m, entry).run(); }

}  // namespace vgpu

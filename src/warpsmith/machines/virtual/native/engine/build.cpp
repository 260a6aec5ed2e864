// Building of programs: the functions that an entry calls, their registers, shared and local memory, and their decoded
// blocks.
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

const char* class_name(Class kind) {
  static const char* names[] = {"int",     "fp32", "fp64",   "fp16",   "sfu",   "tensor", "wgmma",  "convert", "move",
                                "control", "sync", "global", "shared", "local", "param",  "atomic", "warp"};
  return names[size_t(kind)];
}

namespace {

constexpr size_t kMostFunctions = 1000;  // each has its own table of names

size_t align_up(size_t at, size_t to) { return (at + to - 1) & ~(to - 1); }

const LowerEntry* find_lower(const std::string& base) {
  static const std::unordered_map<std::string, const LowerEntry*> table = [] {
    std::unordered_map<std::string, const LowerEntry*> entries;
    for (const LowerEntry* list : {kIntegerOps, kBitOps, kFloatOps, kHalfOps, kConvertOps, kCompareOps, kMoveOps,
                                   kMemoryOps, kAtomicOps, kWarpOps, kMatrixOps, kAsyncOps, kFunctionOps})
      for (; list->opcode; ++list) entries[list->opcode] = list;
    return entries;
  }();
  auto found = table.find(base);
  return found == table.end() ? nullptr : found->second;
}

class Builder {
 public:
  Builder(const Loaded& loaded, const ptx::Function& entry)
      : loaded_(loaded), entry_(entry), program_(std::make_unique<Program>()), lowering_(*program_) {}

  std::unique_ptr<Program> run() {
    program_->name = entry_.name;
    program_->module = loaded_.module.get();
    collect(entry_);
    lay_out_shared();
    measure_transfer();
    for (const ptx::Function* function : functions_) declare(*function);
    program_->register_bytes = align_up(program_->register_bytes, 256);
    lowering_.reserve_temporaries(program_->register_bytes, Lowering::kTemporaries);
    program_->register_bytes += size_t(Lowering::kTemporaries) * 256;
    for (const ptx::Function* function : functions_) lower(*function);
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
    for (auto& function : loaded_.module->functions)
      if (function->name == name) return function.get();
    return nullptr;
  }

  // Callees come first: their blocks get lower numbers and therefore run first in a diverged warp.
  void collect(const ptx::Function& function) {
    if (std::count(visiting_.begin(), visiting_.end(), &function) ||
        std::count(functions_.begin(), functions_.end(), &function))
      return;
    visiting_.push_back(&function);
    if (visiting_.size() > kMostFunctions)
      throw ptx::ReadError(0, entry_.name + " calls more than " + std::to_string(kMostFunctions) + " functions");
    for (const Statement& statement : function.statements) {
      for (const Operand& operand : statement.operands) mention(operand);
      if (statement.opcode.rfind("call", 0) == 0) indirect_ |= call_is_indirect(statement);
    }
    if (&function == &entry_ && indirect_)
      for (auto& other : loaded_.module->functions)
        if (other->has_body && !other->is_entry) collect(*other);
    functions_.push_back(&function);
  }

  void mention(const Operand& operand) {
    if (!operand.name.empty()) {
      mentioned_.insert(operand.name);
      const ptx::Function* callee = named(operand.name);
      if (callee && callee->has_body && !callee->is_entry) collect(*callee);
      mentioned_extern_ |= callee != nullptr;
    }
    for (const Operand& part : operand.parts) mention(part);
  }

  bool call_is_indirect(const Statement& statement) const {
    for (const Operand& operand : statement.operands)
      if (operand.kind == Operand::Reg) return true;
    return false;
  }

  void lay_out_shared() {
    size_t at = 0;
    std::vector<const ptx::Variable*> dynamic;
    auto place = [&](const ptx::Variable& variable) {
      if (variable.space != Space::Shared || !mentioned_.count(variable.name)) return;
      if (variable.unsized || variable.bytes() == 0) {
        dynamic.push_back(&variable);
        return;
      }
      at = align_up(at, variable.alignment);
      shared_[variable.name] = {Space::Shared, at, variable.bytes(), false};
      at += variable.bytes();
    };
    for (const ptx::Variable& variable : loaded_.module->variables) place(variable);
    for (const ptx::Function* function : functions_)
      for (const ptx::Variable& variable : function->locals) place(variable);
    size_t alignment = 16;
    for (const ptx::Variable* variable : dynamic) alignment = std::max(alignment, variable->alignment);
    size_t start = dynamic.empty() ? at : align_up(at, alignment);
    for (const ptx::Variable* variable : dynamic) shared_[variable->name] = {Space::Shared, start, 0, false};
    program_->static_shared = start;
  }

  void measure_transfer() {
    if (functions_.size() == 1 && !mentioned_extern_) return;
    auto widen = [&](const ptx::Prototype& prototype) {
      local_at_ = std::max({local_at_, transfer_size(prototype.parameters), transfer_size(prototype.results)});
    };
    for (auto& function : loaded_.module->functions) {
      if (!function->is_entry) widen(function->prototype);
      for (auto& entry : function->call_prototypes) widen(entry.second);
    }
    local_at_ = align_up(local_at_, 16);
  }

  // Parameters of a call pass through a transfer area at the start of local memory. A function copies them to its own
  // frame.
  void declare(const ptx::Function& function) {
    Placed placed;
    placed.flow = control_flow(function);
    placed.layout = place_registers(function, placed.flow, program_->register_bytes, program_->predicate_count);
    program_->register_bytes += placed.layout.bytes;
    program_->predicate_count = placed.layout.predicates;
    placed.first_block = uint32_t(block_total_);
    block_total_ += placed.flow.blocks.size();
    placed.symbols = loaded_.symbols;
    for (auto& entry : shared_) placed.symbols[entry.first] = entry.second;
    auto take = [&](const ptx::Variable& variable, Space space) {
      local_at_ = align_up(local_at_, std::max<size_t>(variable.alignment, 1));
      placed.symbols[variable.name] = {space, local_at_, variable.bytes(), false};
      local_at_ += variable.bytes();
    };
    for (const ptx::Variable& variable : loaded_.module->variables)
      if (variable.space == Space::Local) take(variable, Space::Local);
    for (const ptx::Variable& variable : function.locals)
      if (variable.space == Space::Local || variable.space == Space::Param)
        take(variable, variable.space == Space::Param ? Space::Local : variable.space);
    if (function.is_entry) {
      size_t at = 0;
      for (const ptx::Variable& variable : function.prototype.parameters) {
        at = align_up(at, variable.alignment);
        placed.symbols[variable.name] = {Space::Param, at, variable.bytes(), false};
        at += variable.bytes();
      }
      program_->parameter_bytes = at;
    } else {
      for (const ptx::Variable& variable : function.prototype.parameters) take(variable, Space::Local);
      for (const ptx::Variable& variable : function.prototype.results) take(variable, Space::Local);
    }
    program_->functions.push_back({function.name, placed.first_block, true});
    placed_.push_back(std::move(placed));
  }

  static size_t transfer_size(const std::vector<ptx::Variable>& list) {
    size_t at = 0;
    for (const ptx::Variable& variable : list)
      at = align_up(at, std::max<size_t>(variable.alignment, 8)) + variable.bytes();
    return at;
  }

  void lower(const ptx::Function& function) {
    size_t index = size_t(std::find(functions_.begin(), functions_.end(), &function) - functions_.begin());
    Placed& placed = placed_[index];
    lowering_.function = &function;
    lowering_.slots = &placed.layout.slots;
    lowering_.symbols = &placed.symbols;
    for (size_t number = 0; number < placed.flow.blocks.size(); ++number) {
      BasicBlock block;
      block.first = uint32_t(program_->code.size());
      if (number == 0 && !function.is_entry) receive(function, placed);
      if (results_)
        transfer_operands(*results_, placed, function, false,
                          program_->places.empty() ? 0 : uint32_t(program_->places.size()) - 1);
      results_ = nullptr;
      for (uint32_t index = placed.flow.blocks[number].first; index < placed.flow.blocks[number].second; ++index)
        node(function, placed, placed.flow.nodes[index], block);
      block.count = uint32_t(program_->code.size()) - block.first;
      program_->blocks.push_back(block);
      program_->block_function.push_back(uint32_t(index));
    }
  }

  uint32_t note(const Statement& statement) {
    program_->places.push_back({statement.location, statement.line, statement.opcode});
    return uint32_t(program_->places.size()) - 1;
  }

  void append(Inst inst, uint32_t where) {
    inst.where = where;
    program_->code.push_back(inst);
  }

  void copy_list(const std::vector<ptx::Variable>& list, const Symbols& symbols, bool into_transfer, uint32_t where) {
    size_t at = 0;
    for (const ptx::Variable& variable : list) {
      at = align_up(at, std::max<size_t>(variable.alignment, 8));
      move(symbols.at(variable.name), at, variable.bytes(), into_transfer, where);
      at += variable.bytes();
    }
  }

  // Source and target lie in local memory. The text of a call may name any variable and any number of them, so the
  // bounds are checked.
  void move(const Symbol& frame, uint64_t transfer, size_t bytes, bool into_transfer, uint32_t where) {
    if (frame.space != Space::Local || frame.address + bytes > local_at_ || transfer + bytes > local_at_)
      return lowering_.refuse();
    Inst inst;
    inst.fn = copy_local;
    inst.imm = int64_t(bytes);
    inst.a = int32_t(into_transfer ? frame.address : transfer);
    inst.d = int32_t(into_transfer ? transfer : frame.address);
    append(inst, where);
  }

  void receive(const ptx::Function& function, const Placed& placed) {
    copy_list(function.prototype.parameters, placed.symbols, false, 0);
  }

  // Copies the arguments or results of a call in the order and with the alignment of the declared variables.
  void transfer_operands(const Operand& list, const Placed& placed, const ptx::Function& function, bool into_transfer,
                         uint32_t where) {
    size_t at = 0;
    for (const Operand& operand : list.parts) {
      const ptx::Variable* variable = nullptr;
      for (const ptx::Variable& local : function.locals)
        if (local.name == operand.name) variable = &local;
      if (!variable)
        for (const ptx::Variable& own : function.prototype.parameters)
          if (own.name == operand.name) variable = &own;
      if (!variable || !placed.symbols.count(operand.name)) {
        lowering_.refuse();
        return;
      }
      at = align_up(at, std::max<size_t>(variable->alignment, 8));
      move(placed.symbols.at(operand.name), at, variable->bytes(), into_transfer, where);
      at += variable->bytes();
    }
  }

  void node(const ptx::Function& function, Placed& placed, const Node& fresh, BasicBlock& block) {
    const Statement& statement = *fresh.statement;
    uint32_t where = note(statement);
    if (fresh.skip) return branch(placed, fresh, block, where, true);
    ++block.weight;
    Kind kind = kind_of(statement);
    if (kind != Kind::Straight) block.last.where = where;
    switch (kind) {
      case Kind::Jump: count(block, Class::Control); return branch(placed, fresh, block, where, false);
      case Kind::Index: count(block, Class::Control); return index(placed, fresh, block, where);
      case Kind::Call: count(block, Class::Control); return call(function, placed, statement, block, where);
      case Kind::Return:
        count(block, Class::Control);
        if (!function.is_entry) copy_list(function.prototype.results, placed.symbols, true, where);
        block.control = function.is_entry ? Control::Exit : Control::Return;
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
      case Kind::Straight: return straight(statement, kind, block, where);
    }
  }

  void count(BasicBlock& block, Class kind, uint16_t times = 1) { block.classes[size_t(kind)] += times; }

  void straight(const Statement& statement, Kind kind, BasicBlock& block, uint32_t where) {
    Statement bare;
    const Statement* use = &statement;
    if (kind != Kind::Straight && statement.guard >= 0) {
      bare = statement;
      bare.guard = -1;
      use = &bare;
    }
    lowering_.start(*use);
    const LowerEntry* entry = find_lower(std::string(lowering_.parts[0]));
    if (entry) lowering_.ignorable = entry->ignorable;
    bool known = entry && entry->lower(lowering_) && lowering_.finish() && !lowering_.emitted.empty();
    if (!known) {
      Inst inst;
      inst.fn = unknown_instruction;
      if (statement.guard >= 0 && kind == Kind::Straight) {
        inst.inner = inst.fn;
        inst.fn = guarded;
        inst.guard = lowering_.slots->place[size_t(statement.guard)];
        inst.negated = statement.guard_negated;
      }
      append(inst, where);
      count(block, Class::Control);
      return;
    }
    count(block, lowering_.kind, lowering_.times);
    if (kind != Kind::Straight) {
      // The instruction itself ends the block; instructions that prepare its operands precede it.
      block.last = lowering_.emitted.back();
      block.last.where = where;
      lowering_.emitted.pop_back();
      block.control = kind == Kind::Barrier       ? Control::Barrier
                      : kind == Kind::ClusterWait ? Control::ClusterWait
                                                  : Control::WarpSync;
    }
    for (Inst& inst : lowering_.emitted) append(inst, where);
  }

  void branch(Placed& placed, const Node& node, BasicBlock& block, uint32_t where, bool skip) {
    const Statement& statement = *node.statement;
    block.target = placed.first_block + placed.flow.nodes[node.target].block;
    block.last.where = where;
    if (statement.guard < 0) {
      block.control = Control::Jump;
      return;
    }
    block.control = Control::Branch;
    block.last.guard = placed.layout.slots.place[size_t(statement.guard)];
    block.last.negated = skip ? !statement.guard_negated : statement.guard_negated;
  }

  void index(Placed& placed, const Node& node, BasicBlock& block, uint32_t where) {
    auto table = std::make_unique<std::vector<uint32_t>>();
    for (uint32_t target : node.targets) table->push_back(placed.first_block + placed.flow.nodes[target].block);
    Statement bare = *node.statement;
    bare.guard = -1;
    lowering_.start(bare);
    block.last.a = lowering_.source(size_t(0), 4);
    for (Inst& inst : lowering_.emitted) append(inst, where);
    block.last.where = where;
    block.last.table = table.get();
    block.control = Control::Index;
    program_->tables.push_back(std::move(table));
  }

  void call(const ptx::Function& function, Placed& placed, const Statement& statement, BasicBlock& block,
            uint32_t where) {
    const Operand *results = nullptr, *callee = nullptr, *arguments = nullptr;
    for (const Operand& operand : statement.operands) {
      if (operand.kind == Operand::List) {
        if (!callee) results = &operand;
        else arguments = &operand;
      } else if (!callee) callee = &operand;
    }
    Statement bare = statement;
    bare.guard = -1;
    lowering_.start(bare);
    if (!callee) return fail_call(block, where);
    if (arguments) transfer_operands(*arguments, placed, function, true, where);
    if (callee->kind == Operand::Reg) {
      block.control = Control::CallIndirect;
      block.last.a = placed.layout.slots.place[size_t(callee->reg)];
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
    Inst inst;
    inst.fn = unknown_instruction;
    append(inst, where);
    block.control = Control::Exit;
  }

  void finish() {
    Program& program = *program_;
    program.constant_storage = std::make_unique<uint8_t[]>(program.constant_bytes + 128);
    uint8_t* start = program.constant_storage.get();
    start += (64 - reinterpret_cast<uintptr_t>(start) % 64) % 64;
    program.constants_end = start + program.constant_bytes;
    uint8_t* at = program.constants_end;
    for (const auto& [bits, width] : program.constants) {
      at -= width * 32;
      for (int lane = 0; lane < 32; ++lane) std::memcpy(at + lane * width, &bits, size_t(width));
    }
    program.entry_block = placed_.back().first_block;
    program.local_bytes = align_up(local_at_, 16);
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
  const Operand* results_ = nullptr;  // results of the call that ended the previous block
};

// Writes the initial bytes of a variable. It runs after all symbols have addresses.
void initialize(const Loaded& loaded, const ptx::Variable& variable, uint8_t* to) {
  size_t element = size_t(variable.type.bits / 8) * variable.type.lanes;
  for (size_t i = 0; i < variable.values.size() && (i + 1) * element <= variable.bytes(); ++i) {
    uint64_t bits = variable.values[i].bits;
    if (!variable.values[i].symbol.empty()) {
      auto found = loaded.symbols.find(variable.values[i].symbol);
      if (found == loaded.symbols.end())
        throw ptx::ReadError(0, "the initializer of " + variable.name + " names '" + variable.values[i].symbol +
                                    "', which is not declared");
      bits = found->second.address + uint64_t(variable.values[i].addend);
    }
    std::memcpy(to + i * element, &bits, std::min<size_t>(element, 8));
  }
}

}  // namespace

std::string place_variables(Loaded& loaded, Memory& memory) {
  for (size_t i = 0; i < loaded.module->functions.size(); ++i) {
    const std::string& name = loaded.module->functions[i]->name;
    loaded.symbols[name] = {Space::Global, kFunctionWindow + i * 16, 16, true};
  }
  for (const ptx::Variable& variable : loaded.module->variables) {
    if (variable.space != Space::Global && variable.space != Space::Const) continue;
    Allocation* allocation = memory.allocate(
        std::max<size_t>(variable.bytes(), 1),
        (variable.space == Space::Const ? "the constant " : "the variable ") + variable.name, variable.alignment);
    if (!allocation)
      return "the variable " + variable.name + " of " + std::to_string(variable.bytes()) +
             " bytes does not fit into device memory";
    if (allocation->cells.wrote)
      std::fill(allocation->cells.wrote, allocation->cells.wrote + allocation->cells.count(), 1u << 6);
    std::memset(allocation->host, 0, variable.bytes());
    allocation->read_only = variable.space == Space::Const;
    loaded.symbols[variable.name] = {variable.space, allocation->start, variable.bytes(), false};
    loaded.allocations.push_back(allocation->start);
  }
  for (const ptx::Variable& variable : loaded.module->variables)
    if (!variable.values.empty() && loaded.symbols.count(variable.name) && variable.space != Space::Shared)
      initialize(loaded, variable, memory.host(loaded.symbols[variable.name].address));
  return "";
}

std::unique_ptr<Program> build(const Loaded& loaded, const ptx::Function& entry) {
  return Builder(loaded, entry).run();
}

}  // namespace vgpu

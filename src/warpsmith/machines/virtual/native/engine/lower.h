// Lowering: one PTX statement to decoded instructions. Each family of opcodes has a table of its own.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "program.h"

namespace vgpu {

struct Symbol {
  ptx::Space space = ptx::Space::Global;
  uint64_t address = 0;
  size_t bytes = 0;
  bool is_function = false;
};

using Symbols = std::unordered_map<std::string, Symbol>;

struct SlotMap {
  std::vector<int32_t> place;  // by register: byte offset, or the number of a predicate
};

class Lowering {
 public:
  Program& program;
  const ptx::Function* function = nullptr;
  const ptx::Statement* statement = nullptr;
  const SlotMap* slots = nullptr;
  const Symbols* symbols = nullptr;     // of the module and the function
  std::vector<std::string_view> parts;  // of the opcode
  std::vector<Inst> emitted;
  Class kind = Class::Int;
  uint16_t times = 1;          // how often its class counts it
  std::string_view ignorable;  // parts of this opcode that the lowering may ignore

  explicit Lowering(Program& built) : program(built) {}
  void start(const ptx::Statement& statement);
  bool finish();  // applies the guard and widens results; returns false if an operand or a part was refused

  // Access to the parts of the opcode. A part that was read counts as used. An instruction with an unused part that is
  // not ignorable is refused, so that no modifier is silently dropped.
  bool has(std::string_view part) const;
  bool has_prefix(std::string_view prefix) const;
  std::string_view part(size_t i) const;   // empty beyond the last
  std::vector<std::string> types() const;  // the parts that are types, in order
  std::string type() const;                // the last of them

  size_t operands() const { return statement->operands.size(); }
  const ptx::Operand& operand(size_t i) const;  // a missing operand refuses the instruction

  // Places of operands. `width` is in bytes: 2, 4, 8.
  int32_t source(const ptx::Operand& operand, int width, char kind = 'b');
  int32_t source(size_t i, int width, char kind = 'b');
  int32_t target(const ptx::Operand& operand, int width, bool is_signed = false);
  int32_t target(size_t i, int width, bool is_signed = false);
  int32_t predicate(const ptx::Operand& operand);  // a source or target predicate, a sink or a constant
  int32_t predicate_source(const ptx::Operand& operand, bool* negated);
  int register_width(const ptx::Operand& operand) const;
  int32_t temporary(int width);
  int32_t constant(uint64_t bits, int width);
  bool number(const ptx::Operand& operand, int64_t* value) const;

  Inst& emit(Handler fn);
  void refuse() { refused_ = true; }
  bool refused() const { return refused_; }
  Memo* memo();

  void reserve_temporaries(size_t offset, int count);
  static constexpr int kTemporaries = 12;

 private:
  int32_t special(const ptx::Operand& operand, int width);
  bool all_parts_used() const;
  mutable bool refused_ = false;
  mutable uint64_t used_parts_ = 0;  // bit mask by part; parts beyond bit 63 never count as used
  size_t temporaries_at_ = 0;
  int used_temporaries_ = 0;
  std::vector<Inst> after_;
  std::map<std::pair<uint64_t, int>, int32_t> constants_;
};

using Lower = bool (*)(Lowering&);
struct LowerEntry {
  const char* opcode;
  Lower lower;
  const char* ignorable = "";  // parts that may be ignored, such as defaults; * is every part
};

// Tables of the families, each ended by {nullptr, nullptr}.
extern const LowerEntry kIntegerOps[], kBitOps[], kFloatOps[], kHalfOps[], kConvertOps[], kCompareOps[], kMoveOps[],
    kMemoryOps[], kAtomicOps[], kWarpOps[], kMatrixOps[], kAsyncOps[], kFunctionOps[];

// One row of a table of handlers by type.
struct TypeRow {
  std::string_view type;
  Handler handler;
};
// Returns the handler of a type; nullptr if the table lacks the type.
inline Handler find_handler(std::initializer_list<TypeRow> table, std::string_view type) {
  for (const TypeRow& row : table)
    if (row.type == type) return row.handler;
  return nullptr;
}

Handler special_register(const std::string& name, int* width);
Handler resize(int from, int to, bool is_signed);
void guarded(Warp& warp, const Inst& inst);
void unknown_instruction(Warp& warp, const Inst& inst);
int type_width(const std::string& type);  // bytes of a register of this type: 2, 4, 8; 0 if unknown
int type_bytes(const std::string& type);  // bytes in memory
bool type_signed(const std::string& type);

// A warp-wide instruction ends a basic block: it may have to wait for lanes at other blocks.
bool is_warp_sync(std::string_view opcode);

}  // namespace vgpu

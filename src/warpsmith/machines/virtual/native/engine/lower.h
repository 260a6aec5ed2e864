// Lowering: one PTX statement to decoded instructions. Each family of opcodes has a table of its own.
#pragma once

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
  uint16_t times = 1;     // what its class counts it as
  std::string_view idle;  // parts of this opcode that may go unheeded

  explicit Lowering(Program& built) : program(built) {}
  void start(const ptx::Statement& statement);
  bool finish();  // applies the guard and results wider than the type; false when an operand or a part was refused

  // The opcode. A part that was asked for or read is heeded; an instruction with others that matter is refused.
  bool has(std::string_view part) const;
  bool has_prefix(std::string_view prefix) const;
  std::string_view part(size_t i) const;   // empty beyond the last
  std::vector<std::string> types() const;  // the parts that are types, in order
  std::string type() const;                // the last of them

  size_t operands() const { return statement->operands.size(); }
  const ptx::Operand& operand(size_t i) const;  // one that is missing refuses the instruction

  // Operands to places. `width` is in bytes: 2, 4, 8.
  int32_t source(const ptx::Operand& operand, int width, char kind = 'b');
  int32_t source(size_t i, int width, char kind = 'b');
  int32_t target(const ptx::Operand& operand, int width, bool is_signed = false);
  int32_t target(size_t i, int width, bool is_signed = false);
  int32_t predicate(const ptx::Operand& operand);  // a source or target predicate; sinks and constants too
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
  bool heeded_all() const;
  mutable bool refused_ = false;
  mutable uint64_t heeded_ = 0;  // by part; those beyond the last bit count as heeded never
  size_t temporaries_at_ = 0;
  int used_temporaries_ = 0;
  std::vector<Inst> after_;
  std::map<std::pair<uint64_t, int>, int32_t> constants_;
};

using Lower = bool (*)(Lowering&);
struct LowerEntry {
  const char* opcode;
  Lower lower;
  const char* idle = "";  // parts that it need not ask for, as defaults and only types; * is every part
};

// The tables of the families, each ended by {nullptr, nullptr}.
extern const LowerEntry kIntegerOps[], kBitOps[], kFloatOps[], kHalfOps[], kConvertOps[], kCompareOps[], kMoveOps[],
    kMemoryOps[], kAtomicOps[], kWarpOps[], kMatrixOps[], kAsyncOps[], kFunctionOps[];

Handler special_register(const std::string& name, int* width);
Handler resize(int from, int to, bool is_signed);
void guarded(Warp& warp, const Inst& inst);
void unknown_instruction(Warp& warp, const Inst& inst);
int type_width(const std::string& type);  // bytes of a register that holds it: 2, 4, 8; 0 when unknown
int type_bytes(const std::string& type);  // bytes in memory
bool type_signed(const std::string& type);

// Warp-wide instructions end a block of their own: they may have to wait for lanes elsewhere.
bool is_warp_sync(std::string_view opcode);

}  // namespace vgpu

// Parts of an opcode, operands as places, constants and temporaries, and guards.
#include "lower.h"

#include <algorithm>
#include <cstring>

#include "access.h"
#include "warp.h"

namespace vgpu {

using ptx::Operand;

namespace {

const std::unordered_map<std::string_view, int>& type_table() {  // type to bytes in memory
  static const std::unordered_map<std::string_view, int> table = {
      {"b8", 1},   {"u8", 1},   {"s8", 1},     {"b16", 2},    {"u16", 2},   {"s16", 2},   {"f16", 2},
      {"bf16", 2}, {"b32", 4},  {"u32", 4},    {"s32", 4},    {"f32", 4},   {"f16x2", 4}, {"bf16x2", 4},
      {"tf32", 4}, {"b64", 8},  {"u64", 8},    {"s64", 8},    {"f64", 8},   {"b128", 16}, {"pred", 0},
      {"e4m3", 1}, {"e5m2", 1}, {"e4m3x2", 2}, {"e5m2x2", 2}, {"u16x2", 4}, {"s16x2", 4}, {"f32x2", 8}};
  return table;
}

bool lists(std::string_view words, std::string_view word) {
  for (size_t at = 0; at < words.size();) {
    size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

// Parts that change neither results nor checks: defaults, scopes, cache hints.
bool is_ignorable(std::string_view part) {
  static const std::set<std::string_view> ignorable = {"rn",  "lo",  "sync", "aligned", "weak", "cluster",
                                                       "gpu", "sys", "ca",   "cg",      "cs",   "lu",
                                                       "cv",  "wb",  "wt",   "noftz"};
  return ignorable.count(part) || part.substr(0, 4) == "L1::" || part.substr(0, 4) == "L2::";
}

template <class From, class To>
void resize_lanes(Warp& warp, const Inst& inst) {
  const From* a = in<From>(warp, inst.a);
  lanes<To>(warp, inst.d, [a](int i) { return static_cast<To>(a[i]); });
}

}  // namespace

int type_bytes(const std::string& type) {
  auto found = type_table().find(type);
  return found == type_table().end() ? -1 : found->second;
}

int type_width(const std::string& type) {
  int bytes = type_bytes(type);
  return bytes < 0 ? 0 : bytes == 1 ? 2 : bytes;
}

bool type_signed(const std::string& type) { return type[0] == 's'; }

Handler resize(int from, int to, bool is_signed) {
  switch (from * 100 + to * 10 + is_signed) {
    case 240: return resize_lanes<uint16_t, uint32_t>;
    case 241: return resize_lanes<int16_t, int32_t>;
    case 280: return resize_lanes<uint16_t, uint64_t>;
    case 281: return resize_lanes<int16_t, int64_t>;
    case 480: return resize_lanes<uint32_t, uint64_t>;
    case 481: return resize_lanes<int32_t, int64_t>;
    case 420:
    case 421: return resize_lanes<uint32_t, uint16_t>;
    case 820:
    case 821: return resize_lanes<uint64_t, uint16_t>;
    case 840:
    case 841: return resize_lanes<uint64_t, uint32_t>;
    default: return nullptr;
  }
}

void guarded(Warp& warp, const Inst& inst) {
  uint32_t mask = warp.mask, taken = mask & pred_in(warp, inst.guard, inst.negated);
  if (!taken) return;
  if (taken == mask) return inst.inner(warp, inst);
  set_mask(warp, taken);
  inst.inner(warp, inst);
  set_mask(warp, mask);
}

void Lowering::start(const ptx::Statement& next) {
  statement = &next;
  parts.clear();
  std::string_view text = next.opcode;
  for (size_t at = 0; at <= text.size();) {
    size_t dot = text.find('.', at);
    if (dot == std::string_view::npos) dot = text.size();
    parts.push_back(text.substr(at, dot - at));
    at = dot + 1;
  }
  emitted.clear();
  after_.clear();
  refused_ = false;
  used_parts_ = 0;
  used_temporaries_ = 0;
  kind = Class::Int;
  times = 1;
}

bool Lowering::all_parts_used() const {
  if (ignorable == "*") return true;
  for (size_t i = 1; i < parts.size(); ++i)
    if ((i > 63 || !(used_parts_ >> i & 1)) && !is_ignorable(parts[i]) && !lists(ignorable, parts[i])) return false;
  return true;
}

bool Lowering::finish() {
  if (refused_ || !all_parts_used()) return false;
  for (Inst& inst : after_) emitted.push_back(inst);
  if (statement->guard >= 0)
    for (Inst& inst : emitted) {
      inst.inner = inst.fn;
      inst.fn = guarded;
      inst.guard = slots->place[size_t(statement->guard)];
      inst.negated = statement->guard_negated;
    }
  return true;
}

std::string_view Lowering::part(size_t i) const {
  if (i >= parts.size()) return {};
  if (i < 64) used_parts_ |= uint64_t(1) << i;
  return parts[i];
}

bool Lowering::has(std::string_view part) const {
  bool found = false;
  for (size_t i = 1; i < parts.size(); ++i)
    if (parts[i] == part) found = !this->part(i).empty();
  return found;
}

bool Lowering::has_prefix(std::string_view prefix) const {
  bool found = false;
  for (size_t i = 1; i < parts.size(); ++i)
    if (parts[i].substr(0, prefix.size()) == prefix) found = !part(i).empty();
  return found;
}

std::vector<std::string> Lowering::types() const {
  std::vector<std::string> list;
  for (size_t i = 1; i < parts.size(); ++i)
    if (type_table().count(parts[i])) list.emplace_back(part(i));
  return list;
}

std::string Lowering::type() const {
  for (size_t i = parts.size(); i-- > 1;)
    if (type_table().count(parts[i])) return std::string(part(i));
  return "";
}

const Operand& Lowering::operand(size_t i) const {
  static const Operand none;
  if (i < operands()) return statement->operands[i];
  refused_ = true;
  return none;
}

int Lowering::register_width(const Operand& operand) const {
  return operand.kind == Operand::Reg ? function->registers[size_t(operand.reg)].width : -1;
}

void Lowering::reserve_temporaries(size_t offset, int) { temporaries_at_ = offset; }

int32_t Lowering::temporary(int) {
  if (used_temporaries_ >= kTemporaries) {
    refused_ = true;
    return 0;
  }
  return static_cast<int32_t>(temporaries_at_ + size_t(used_temporaries_++) * 256);
}

int32_t Lowering::constant(uint64_t bits, int width) {
  if (width < 8) bits &= (uint64_t(1) << (width * 8)) - 1;
  auto key = std::make_pair(bits, width);
  auto found = constants_.find(key);
  if (found != constants_.end()) return found->second;
  // Constants grow downwards from the end of their storage, so a place stays valid when more are added.
  program.constants.push_back(key);
  program.constant_bytes += size_t(width) * 32;
  int32_t offset = -static_cast<int32_t>(program.constant_bytes);
  constants_[key] = offset;
  return offset;
}

bool Lowering::number(const Operand& operand, int64_t* value) const {
  if (operand.kind != Operand::Integer) return false;
  *value = static_cast<int64_t>(operand.bits);
  return true;
}

namespace {

// Returns a real constant in the width of the instruction. A 0d constant in f32 code and a decimal real are rounded.
uint64_t real_bits(const Operand& operand, int width) {
  if (operand.real_bytes == width) return operand.bits;
  if (operand.real_bytes == 8 && width == 4) {
    double wide;
    std::memcpy(&wide, &operand.bits, 8);
    float single = static_cast<float>(wide);
    uint32_t result;
    std::memcpy(&result, &single, 4);
    return result;
  }
  if (operand.real_bytes == 4 && width == 8) {
    float single;
    uint32_t low = static_cast<uint32_t>(operand.bits);
    std::memcpy(&single, &low, 4);
    double wide = single;
    uint64_t result;
    std::memcpy(&result, &wide, 8);
    return result;
  }
  return operand.bits;
}

}  // namespace

int32_t Lowering::special(const Operand& operand, int width) {
  int natural = 4;
  Handler fn = special_register(operand.name, &natural);
  if (!fn) {
    refuse();
    return 0;
  }
  Inst inst;
  inst.fn = fn;
  inst.d = temporary(natural);
  emitted.push_back(inst);
  if (natural == width) return inst.d;
  Inst resized;
  resized.fn = resize(natural, width, false);
  if (!resized.fn) {
    refuse();
    return 0;
  }
  resized.a = inst.d;
  resized.d = temporary(width);
  emitted.push_back(resized);
  return resized.d;
}

int32_t Lowering::source(const Operand& operand, int width, char kind_of_value) {
  switch (operand.kind) {
    case Operand::Integer: return constant(operand.bits, width);
    case Operand::Real:
      if (width < 4) refuse();  // PTX defines no 0f constant for f16 and bf16
      return constant(real_bits(operand, width), width);
    case Operand::Special: return special(operand, width);
    case Operand::Symbol: {
      auto found = symbols->find(operand.name);
      if (found == symbols->end()) {
        refuse();
        return 0;
      }
      return constant(found->second.address + uint64_t(operand.offset), width);
    }
    case Operand::Reg: break;
    default: refuse(); return 0;
  }
  int have = register_width(operand);
  int32_t place = slots->place[size_t(operand.reg)];
  if (have == width) return place;
  Inst inst;
  inst.fn = resize(have, width, kind_of_value == 's');
  if (!inst.fn) {
    refuse();
    return 0;
  }
  inst.a = place;
  inst.d = temporary(width);
  emitted.push_back(inst);
  return inst.d;
}

int32_t Lowering::source(size_t i, int width, char kind_of_value) {
  if (i >= operands()) {
    refuse();
    return 0;
  }
  return source(operand(i), width, kind_of_value);
}

int32_t Lowering::target(const Operand& operand, int width, bool is_signed) {
  if (operand.kind == Operand::Sink) return temporary(width);
  if (operand.kind != Operand::Reg) {
    refuse();
    return 0;
  }
  int have = register_width(operand);
  int32_t place = slots->place[size_t(operand.reg)];
  if (have == width) return place;
  Inst inst;
  inst.fn = resize(width, have, is_signed);
  if (!inst.fn) {
    refuse();
    return 0;
  }
  inst.a = temporary(width);
  inst.d = place;
  after_.push_back(inst);
  return inst.a;
}

int32_t Lowering::target(size_t i, int width, bool is_signed) {
  if (i >= operands()) {
    refuse();
    return 0;
  }
  return target(operand(i), width, is_signed);
}

int32_t Lowering::predicate(const Operand& operand) {
  if (operand.kind == Operand::Sink) return 0;
  if (operand.kind == Operand::Integer) return operand.bits ? 1 : 0;
  if (operand.kind != Operand::Reg || register_width(operand) != 0) {
    refuse();
    return 0;
  }
  return slots->place[size_t(operand.reg)];
}

int32_t Lowering::predicate_source(const Operand& operand, bool* negated) {
  *negated = operand.negated;
  return predicate(operand);
}

Inst& Lowering::emit(Handler fn) {
  Inst inst;
  inst.fn = fn;
  emitted.push_back(inst);
  if (!fn) refuse();
  return emitted.back();
}

Memo* Lowering::memo() {
  program.memos.push_back(std::make_unique<Memo>());
  return program.memos.back().get();
}

}  // namespace vgpu

// The syntax tree of PTX: modules, functions, variables, statements.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vgpu::ptx {

// Thrown for text that cannot be parsed; `line` is the line of the text, counted from 1.
struct ReadError : std::runtime_error {
  ReadError(int at, const std::string& what)
      : std::runtime_error("line " + std::to_string(at) + ": " + what), line(at) {}
  int line;
};

enum class Space : uint8_t { Reg, Global, Const, Shared, Local, Param, Generic };

struct Type {
  char kind = 'b';  // b s u f p(redicate) h(bf16 family) o(paque)
  uint16_t bits = 32;
  uint8_t lanes = 1;  // f16x2 and bf16x2 are two
};

struct Initializer {  // one element: a number, or the address of a symbol
  uint64_t bits = 0;
  std::string symbol;
  int64_t addend = 0;
  bool generic = false;
};

struct Variable {
  std::string name;
  Space space = Space::Global;
  Type type;
  size_t count = 1;
  size_t alignment = 1;
  bool is_extern = false, unsized = false;
  std::vector<Initializer> values;
  size_t bytes() const { return count * (type.bits / 8) * type.lanes; }
};

struct Register {
  char kind = 'b';
  uint8_t width = 4;  // bytes: 0 is a predicate, else 2, 4, 8, 16
};

struct Operand {
  enum Kind : uint8_t { None, Reg, Integer, Real, Symbol, Address, Vector, Special, Sink, Label, List } kind = None;
  bool negated = false;        // !p
  uint8_t real_bytes = 0;      // 4 for 0f, 8 for 0d and decimal reals
  int reg = -1;                // Reg, and the base of Address
  uint64_t bits = 0;           // Integer, Real
  int64_t offset = 0;          // Symbol + offset, Address
  std::string name;            // Symbol, Special, Label, base symbol of Address
  std::vector<Operand> parts;  // Vector, List, and the second half of p|q
  bool paired = false;         // p|q: parts[0] is q
};

struct Location {
  int file = 0, line = 0, column = 0;
  int inlined_file = 0, inlined_line = 0, inlined_column = 0;
};

struct Statement {
  std::string opcode;  // with its modifiers
  std::vector<Operand> operands;
  int guard = -1;
  bool guard_negated = false;
  int scope = 0;
  int location = -1;  // into Function::locations of the module
  int line = 0;       // of the text
};

struct Prototype {
  std::vector<Variable> results, parameters;
};

struct LabelAt {
  int scope;
  size_t index;  // of the statement that follows
};

struct Function {
  std::string name;
  bool is_entry = false, has_body = false;
  Prototype prototype;
  std::vector<Register> registers;
  std::vector<Variable> locals;  // .local .param .shared inside the body, names made unique
  std::vector<Statement> statements;
  std::vector<int> scope_parent;
  std::unordered_map<std::string, std::vector<LabelAt>> labels;
  std::map<std::string, std::vector<std::string>> branch_targets;
  std::map<std::string, Prototype> call_prototypes;
  std::map<std::string, std::vector<std::string>> call_targets;
  int max_threads = 0;
  uint32_t required[3] = {0, 0, 0};
  uint32_t cluster[3] = {0, 0, 0};
};

struct Module {
  std::string target;
  int address_bits = 64;
  std::vector<Variable> variables;
  std::vector<std::unique_ptr<Function>> functions;
  std::map<int, std::string> files;
  std::vector<Location> locations;
};

std::unique_ptr<Module> read(const char* text, size_t length);  // throws ReadError

}  // namespace vgpu::ptx

// Parser of PTX: tokens to a module.
#pragma once

#include "lexer.h"

namespace vgpu::ptx {

class Reader {
 public:
  Reader(const char* text, size_t length) : lex_(text, length), module_(std::make_unique<Module>()) {}
  std::unique_ptr<Module> module();

 private:
  struct Family {
    Register reg;
    int first = 0;
    uint64_t count = 0;
  };
  static constexpr size_t kMostElements = size_t(1) << 32;  // of an array: sums of sizes then cannot overflow
  struct Scope {
    int id = 0;
    std::unordered_map<std::string, int> registers;
    std::unordered_map<std::string, Family> families;
    std::unordered_map<std::string, std::string> renamed;  // variables of this scope to their unique names
  };

  void top_level();
  void directive(const std::string& name, bool* is_extern);
  void location();
  Type type(const std::string& name);
  size_t alignment();
  Variable variable(Space space, bool is_extern);
  void initializer(Variable* variable, size_t* position);
  Initializer element(const Type& type);
  void parameters(std::vector<Variable>* into);
  void function(bool is_entry, bool is_extern);
  void performance(Function* function);
  void body();
  void block();
  void statement();
  void body_directive(const std::string& name);
  void registers();
  void branch_targets(const std::string& label);
  void call_prototype(const std::string& label);
  void instruction();
  Operand operand();
  Operand address();
  Operand simple();
  Operand name_operand(const std::string& name);
  int find_register(const std::string& name);
  int new_register(Register declared);
  const std::string& renamed(const std::string& name) const;
  void dims(uint32_t out[3]);

  Lexer lex_;
  std::unique_ptr<Module> module_;
  Function* f_ = nullptr;
  std::vector<Scope> scopes_;
  int location_ = -1;
  int unique_ = 0;
  int nested_ = 0;
};

// Counts nested brackets and refuses deep ones: the parser is recursive and the text may be hostile.
class Nesting {
 public:
  Nesting(int* depth, Lexer& lex) : depth_(depth) {
    if (*depth_ >= 200) lex.fail("more than 200 nested brackets");
    ++*depth_;
  }
  ~Nesting() { --*depth_; }

 private:
  int* depth_;
};

}  // namespace vgpu::ptx

// Parser of function bodies: scopes, registers, labels, instructions and their operands.
#include <cctype>
#include <cstring>

#include "reader.h"

namespace vgpu::ptx {

void Reader::body() {
  scopes_.clear();
  location_ = -1;
  f_->scope_parent.clear();
  block();
}

void Reader::block() {
  lex_.expect('{', "a function's body");
  if (scopes_.size() > 200) lex_.fail("more than 200 nested scopes");
  Scope scope;
  scope.id = static_cast<int>(f_->scope_parent.size());
  f_->scope_parent.push_back(scopes_.empty() ? -1 : scopes_.back().id);
  scopes_.push_back(std::move(scope));
  while (!lex_.take('}')) {
    if (lex_.done()) lex_.fail("the text ends inside the body of " + f_->name);
    if (lex_.peek() == '{') block();
    else statement();
  }
  scopes_.pop_back();
}

void Reader::statement() {
  if (lex_.take(';')) return;
  if (lex_.peek() == '.') return body_directive(lex_.directive());
  auto mark = lex_.mark();
  std::string label = lex_.word();
  if (!label.empty() && lex_.peek() == ':' && lex_.peek(1) != ':') {
    lex_.take(':');
    auto before = lex_.mark();
    std::string next = lex_.peek() == '.' ? lex_.directive() : "";
    if (next == "branchtargets") return branch_targets(label);
    if (next == "callprototype") return call_prototype(label);
    if (next == "calltargets") {
      do f_->call_targets[label].push_back(lex_.word());
      while (lex_.take(','));
      lex_.expect(';', ".calltargets");
      return;
    }
    lex_.reset(before);
    f_->labels[label].push_back({scopes_.back().id, f_->statements.size()});
    return;
  }
  lex_.reset(mark);
  instruction();
}

void Reader::branch_targets(const std::string& label) {
  auto& list = f_->branch_targets[label];
  do list.push_back(lex_.word());
  while (lex_.take(','));
  lex_.expect(';', ".branchtargets");
}

void Reader::call_prototype(const std::string& label) {
  Prototype prototype;
  if (lex_.peek() == '(') parameters(&prototype.results);
  lex_.word();
  if (lex_.peek() == '(') parameters(&prototype.parameters);
  while (lex_.peek() == '.') {
    std::string name = lex_.directive();
    if (name != "noreturn") lex_.integer(name.c_str());
  }
  lex_.expect(';', ".callprototype");
  f_->call_prototypes[label] = prototype;
}

void Reader::body_directive(const std::string& name) {
  if (name == "reg") return registers();
  if (name == "loc") return location();
  if (name == "pragma") {
    lex_.quoted();
    lex_.take(';');
    return;
  }
  if (name == "file") {
    int index = static_cast<int>(lex_.integer(".file"));
    module_->files[index] = lex_.quoted();
    return;
  }
  Space space;
  if (name == "local") space = Space::Local;
  else if (name == "shared") space = Space::Shared;
  else if (name == "param") space = Space::Param;
  else if (name == "global") space = Space::Global;
  else if (name == "const") space = Space::Const;
  else lex_.fail("the directive ." + name + " is not known inside a function");
  Variable declared = variable(space, false);
  if (space == Space::Param) lex_.expect(';', "a .param declaration");
  std::string unique = declared.name + "@" + f_->name + "@" + std::to_string(unique_++);
  scopes_.back().renamed[declared.name] = unique;
  declared.name = unique;
  if (space == Space::Global || space == Space::Const) module_->variables.push_back(std::move(declared));
  else f_->locals.push_back(std::move(declared));
}

void Reader::registers() {
  std::string name = lex_.directive();
  if (name == "v2" || name == "v4") lex_.fail("vector registers are not read");
  Type declared = type(name);
  Register fresh;
  fresh.kind = declared.kind;
  unsigned bits = declared.bits * declared.lanes;
  fresh.width = declared.kind == 'p' ? 0 : bits <= 16 ? 2 : bits <= 32 ? 4 : bits <= 64 ? 8 : 16;
  do {
    std::string word = lex_.word();
    if (word.empty()) lex_.fail("a register's name was expected");
    if (lex_.take('<')) {
      int64_t count = lex_.integer("a register family");
      if (count < 0 || count > 1000000)
        lex_.fail("a family of " + std::to_string(count) + " registers; at most 1000000 are read");
      lex_.expect('>', "a register family");
      Family family;
      family.reg = fresh;
      family.first = static_cast<int>(f_->registers.size());
      family.count = static_cast<uint64_t>(count);
      f_->registers.resize(f_->registers.size() + static_cast<size_t>(count), fresh);
      scopes_.back().families[word] = family;
    } else scopes_.back().registers[word] = new_register(fresh);
  } while (lex_.take(','));
  lex_.expect(';', "a register declaration");
}

int Reader::new_register(Register declared) {
  f_->registers.push_back(declared);
  return static_cast<int>(f_->registers.size()) - 1;
}

int Reader::find_register(const std::string& name) {
  size_t digits = name.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1]))) --digits;
  std::string stem = name.substr(0, digits);
  bool plain = digits < name.size() && name.size() - digits < 8 && (name[digits] != '0' || digits + 1 == name.size());
  uint64_t index = plain ? std::strtoull(name.c_str() + digits, nullptr, 10) : 0;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    auto one = scope->registers.find(name);
    if (one != scope->registers.end()) return one->second;
    if (!plain) continue;
    auto family = scope->families.find(stem);
    if (family != scope->families.end() && index < family->second.count)
      return family->second.first + static_cast<int>(index);
  }
  return -1;
}

const std::string& Reader::renamed(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    auto found = scope->renamed.find(name);
    if (found != scope->renamed.end()) return found->second;
  }
  return name;
}

void Reader::instruction() {
  Statement statement;
  statement.scope = scopes_.back().id;
  statement.location = location_;
  statement.line = lex_.line();
  if (lex_.take('@')) {
    statement.guard_negated = lex_.take('!');
    std::string name = lex_.word();
    statement.guard = find_register(name);
    if (statement.guard < 0) lex_.fail("the predicate '" + name + "' is not declared");
    if (f_->registers[static_cast<size_t>(statement.guard)].width != 0)
      lex_.fail("'" + name + "' guards an instruction but is no predicate");
  }
  statement.opcode = lex_.dotted();
  if (statement.opcode.empty()) lex_.fail(std::string("an instruction was expected, not '") + lex_.peek() + "'");
  if (!lex_.take(';')) {
    do statement.operands.push_back(operand());
    while (lex_.take(','));
    lex_.expect(';', ("the instruction " + statement.opcode).c_str());
  }
  f_->statements.push_back(std::move(statement));
}

Operand Reader::operand() {
  Nesting level(&nested_, lex_);
  if (lex_.take('{')) {
    Operand operand;
    operand.kind = Operand::Vector;
    do operand.parts.push_back(simple());
    while (lex_.take(','));
    lex_.expect('}', "a vector operand");
    return operand;
  }
  if (lex_.take('(')) {
    Operand list;
    list.kind = Operand::List;
    if (lex_.take(')')) return list;
    do list.parts.push_back(operand());
    while (lex_.take(','));
    lex_.expect(')', "an operand list");
    return list;
  }
  if (lex_.peek() == '[') return address();
  Operand named = simple();
  if (lex_.take('|')) {
    named.paired = true;
    named.parts.push_back(simple());
  }
  return named;
}

Operand Reader::address() {
  lex_.expect('[', "an address");
  Operand a;
  Operand base = simple();
  a.kind = Operand::Address;
  a.reg = base.kind == Operand::Reg ? base.reg : -1;
  if (base.kind == Operand::Symbol) a.name = base.name;
  a.offset = base.kind == Operand::Integer ? static_cast<int64_t>(base.bits) : base.offset;
  if (base.kind == Operand::Special) lex_.fail("the special register " + base.name + " in an address");
  if (lex_.take('+')) a.offset += lex_.integer("an address");
  else if (lex_.peek() == '-') a.offset += lex_.integer("an address");
  while (lex_.take(',')) a.parts.push_back(operand());
  lex_.expect(']', "an address");
  return a;
}

Operand Reader::simple() {
  Nesting level(&nested_, lex_);
  Operand operand;
  if (lex_.take('!')) {
    operand = simple();
    operand.negated = true;
    return operand;
  }
  bool minus = lex_.take('-');
  bool real = false;
  if (lex_.number(&operand.bits, &real, &operand.real_bytes)) {
    operand.kind = real ? Operand::Real : Operand::Integer;
    if (minus)
      operand.bits = real ? operand.bits ^ (uint64_t(1) << (operand.real_bytes == 4 ? 31 : 63)) : 0 - operand.bits;
    return operand;
  }
  if (minus) lex_.fail("a number was expected after '-'");
  if (lex_.take('(')) {
    operand = simple();
    while (lex_.peek() == '+' || lex_.peek() == '-') {
      bool plus = lex_.take('+');
      if (!plus) lex_.take('-');
      Operand named = simple();
      operand.bits = plus ? operand.bits + named.bits : operand.bits - named.bits;
    }
    lex_.expect(')', "a constant expression");
    return operand;
  }
  std::string name = lex_.peek() == '%' ? lex_.dotted() : lex_.word();
  if (name.empty())
    lex_.fail(lex_.done() ? std::string("the text ends inside an instruction")
                          : std::string("an operand was expected, not '") + lex_.peek() + "'");
  return name_operand(name);
}

Operand Reader::name_operand(const std::string& name) {
  Operand operand;
  if (name == "_") {
    operand.kind = Operand::Sink;
    return operand;
  }
  operand.reg = find_register(name);
  if (operand.reg >= 0) {
    operand.kind = Operand::Reg;
    return operand;
  }
  if (name == "WARP_SZ") {
    operand.kind = Operand::Integer;
    operand.bits = 32;
    return operand;
  }
  if (name[0] == '%') {
    operand.kind = Operand::Special;
    operand.name = name;
    return operand;
  }
  operand.kind = Operand::Symbol;
  operand.name = renamed(name);
  if (lex_.peek() == '+') {
    lex_.take('+');
    operand.offset = lex_.integer("an operand");
  }
  return operand;
}

}  // namespace vgpu::ptx

// Parser of module-level directives: variables, initializers, functions and their attributes.
#include "reader.h"

#include <algorithm>
#include <cstring>

namespace vgpu::ptx {

std::unique_ptr<Module> read(const char* text, size_t length) {
  Reader reader(text, length);
  return reader.module();
}

std::unique_ptr<Module> Reader::module() {
  if (lex_.directive() != "version") lex_.fail("PTX begins with .version; this text does not");
  uint64_t bits = 0;
  bool real = false;
  uint8_t bytes = 0;
  if (!lex_.number(&bits, &real, &bytes)) lex_.fail("a number was expected after .version");
  while (!lex_.done()) top_level();
  return std::move(module_);
}

void Reader::top_level() {
  bool is_extern = false;
  if (lex_.peek() != '.') {
    std::string word = lex_.word();
    if (word.rfind("@@DWARF", 0) == 0 || lex_.peek() == '@') {
      lex_.skip_line();
      return;
    }
    lex_.fail("a directive was expected at module level, not '" + (word.empty() ? std::string(1, lex_.peek()) : word) +
              "'");
  }
  std::string name = lex_.directive();
  if (name.empty()) lex_.fail("a directive was expected after '.'");
  directive(name, &is_extern);
}

void Reader::directive(const std::string& first, bool* is_extern) {
  std::string name = first;
  while (name == "visible" || name == "extern" || name == "weak" || name == "common") {
    if (name == "extern") *is_extern = true;
    name = lex_.directive();
  }
  if (name == "target") {
    module_->target = lex_.word();
    lex_.skip_line();
  } else if (name == "address_size") module_->address_bits = static_cast<int>(lex_.integer(".address_size"));
  else if (name == "file") {
    int index = static_cast<int>(lex_.integer(".file"));
    module_->files[index] = lex_.quoted();
    while (lex_.take(',')) lex_.integer(".file");
  } else if (name == "section") {
    while (!lex_.done() && lex_.peek() != '{') {
      if (lex_.directive().empty() && lex_.word().empty()) lex_.fail("a section's name was expected");
    }
    lex_.skip_braces();
  } else if (name == "loc") location();
  else if (name == "pragma") {
    lex_.quoted();
    lex_.take(';');
  } else if (name == "alias") {
    lex_.skip_line();
  } else if (name == "entry") function(true, *is_extern);
  else if (name == "func") function(false, *is_extern);
  else if (name == "global") module_->variables.push_back(variable(Space::Global, *is_extern));
  else if (name == "const") module_->variables.push_back(variable(Space::Const, *is_extern));
  else if (name == "shared") module_->variables.push_back(variable(Space::Shared, *is_extern));
  else if (name == "local") module_->variables.push_back(variable(Space::Local, *is_extern));
  else lex_.fail("the directive ." + name + " is not known at module level");
}

void Reader::location() {
  Location at;
  at.file = static_cast<int>(lex_.integer(".loc"));
  at.line = static_cast<int>(lex_.integer(".loc"));
  at.column = static_cast<int>(lex_.integer(".loc"));
  while (lex_.take(',')) {
    std::string word = lex_.word();
    if (word == "function_name") {
      lex_.word();
      if (lex_.take('+')) lex_.integer("function_name");
    } else if (word == "inlined_at") {
      at.inlined_file = static_cast<int>(lex_.integer("inlined_at"));
      at.inlined_line = static_cast<int>(lex_.integer("inlined_at"));
      at.inlined_column = static_cast<int>(lex_.integer("inlined_at"));
    } else lex_.fail("'" + word + "' is not an attribute of .loc");
  }
  location_ = static_cast<int>(module_->locations.size());
  module_->locations.push_back(at);
}

Type Reader::type(const std::string& name) {
  static const std::unordered_map<std::string, Type> types = {
      {"b8", {'b', 8, 1}},      {"b16", {'b', 16, 1}},        {"b32", {'b', 32, 1}},    {"b64", {'b', 64, 1}},
      {"b128", {'b', 128, 1}},  {"s8", {'s', 8, 1}},          {"s16", {'s', 16, 1}},    {"s32", {'s', 32, 1}},
      {"s64", {'s', 64, 1}},    {"u8", {'u', 8, 1}},          {"u16", {'u', 16, 1}},    {"u32", {'u', 32, 1}},
      {"u64", {'u', 64, 1}},    {"f16", {'f', 16, 1}},        {"f32", {'f', 32, 1}},    {"f64", {'f', 64, 1}},
      {"f16x2", {'f', 16, 2}},  {"bf16", {'h', 16, 1}},       {"bf16x2", {'h', 16, 2}}, {"pred", {'p', 0, 1}},
      {"texref", {'o', 64, 1}}, {"samplerref", {'o', 64, 1}}, {"surfref", {'o', 64, 1}}};
  auto found = types.find(name);
  if (found == types.end()) lex_.fail("." + name + " is not a type of a variable");
  return found->second;
}

size_t Reader::alignment() {
  int64_t bytes = lex_.integer(".align");
  if (bytes < 1 || bytes > (1 << 20) || (bytes & (bytes - 1)))
    lex_.fail("an alignment of " + std::to_string(bytes) + " bytes is not a power of two");
  return static_cast<size_t>(bytes);
}

Variable Reader::variable(Space space, bool is_extern) {
  Variable variable;
  variable.space = space;
  variable.is_extern = is_extern;
  size_t vector = 1;
  bool typed = false;
  while (lex_.peek() == '.') {
    std::string name = lex_.directive();
    if (name == "align") variable.alignment = alignment();
    else if (name == "v2") vector = 2;
    else if (name == "v4") vector = 4;
    else if (name == "ptr" || name == "managed" || name == "unified" || name == "global" || name == "const" ||
             name == "shared" || name == "local" || name == "param") {
    } else if (name == "attribute") {
      lex_.expect('(', ".attribute");
      while (!lex_.done() && !lex_.take(')'))
        if (lex_.directive().empty() && lex_.word().empty() && !lex_.take(',')) lex_.integer(".attribute");
    } else {
      variable.type = type(name);
      typed = true;
    }
  }
  if (!typed) lex_.fail("a variable without a type");
  variable.name = lex_.word();
  if (variable.name.empty()) lex_.fail("a variable's name was expected");
  size_t position = 0;
  bool array = false;
  while (lex_.take('[')) {
    if (lex_.take(']')) {
      variable.unsized = !array;
      variable.count = array ? variable.count : 0;
      array = true;
      continue;
    }
    int64_t size = lex_.integer("an array's size");
    if (size < 0 || size > (int64_t(1) << 40)) lex_.fail("an array of " + std::to_string(size) + " elements");
    if (__builtin_mul_overflow(variable.count, static_cast<size_t>(size), &variable.count) ||
        variable.count > kMostElements)
      lex_.fail("an array of more than " + std::to_string(kMostElements) + " elements");
    array = true;
    lex_.expect(']', "an array's size");
  }
  variable.count *= vector;
  size_t natural = std::max<size_t>(1, variable.type.bits / 8 * variable.type.lanes * vector);
  variable.alignment = std::max(variable.alignment, natural);
  if (lex_.take('=')) {
    initializer(&variable, &position);
    if (variable.unsized) {
      variable.count = variable.values.size();
      variable.unsized = false;
    }
  }
  if (space != Space::Param) lex_.expect(';', "a variable's declaration");
  return variable;
}

void Reader::initializer(Variable* variable, size_t* position) {
  Nesting level(&nested_, lex_);
  if (!lex_.take('{')) {
    variable->values.push_back(element(variable->type));
    ++*position;
    return;
  }
  while (!lex_.take('}')) {
    if (lex_.done()) lex_.fail("the text ends inside an initializer");
    initializer(variable, position);
    if (!lex_.take(',') && lex_.peek() != '}') lex_.fail("',' or '}' was expected in an initializer");
  }
}

Initializer Reader::element(const Type& type) {
  Initializer initializer;
  bool negative = lex_.take('-');
  bool real = false;
  uint8_t bytes = 0;
  if (lex_.number(&initializer.bits, &real, &bytes)) {
    if (real && bytes == 8 && type.kind == 'f' && type.bits == 32) {
      double d;
      std::memcpy(&d, &initializer.bits, 8);
      float single = static_cast<float>(d);
      initializer.bits = 0;
      std::memcpy(&initializer.bits, &single, 4);
    }
    if (negative)
      initializer.bits =
          real ? initializer.bits ^ (uint64_t(1) << (bytes == 4 || type.bits == 32 ? 31 : 63)) : 0 - initializer.bits;
    return initializer;
  }
  initializer.symbol = lex_.word();
  if (initializer.symbol == "generic") {
    initializer.generic = true;
    lex_.expect('(', "generic()");
    initializer.symbol = lex_.word();
    lex_.expect(')', "generic()");
  }
  if (initializer.symbol == "mask") lex_.fail("mask() initializers are not read");
  if (initializer.symbol.empty()) lex_.fail("a number or a symbol was expected in an initializer");
  if (lex_.take('+')) initializer.addend = lex_.integer("an initializer");
  else if (lex_.take('-')) initializer.addend = -lex_.integer("an initializer");
  return initializer;
}

void Reader::parameters(std::vector<Variable>* into) {
  lex_.expect('(', "a parameter list");
  if (lex_.take(')')) return;
  do {
    std::string kind = lex_.directive();
    if (kind != "param" && kind != "reg") lex_.fail(".param was expected in a parameter list");
    if (kind == "reg") lex_.fail("functions with .reg parameters are not read; nvcc passes .param");
    into->push_back(variable(Space::Param, false));
  } while (lex_.take(','));
  lex_.expect(')', "a parameter list");
}

void Reader::dims(uint32_t out[3]) {
  int i = 0;
  do {
    int64_t size = lex_.integer("a block's shape");
    if (i < 3) out[i++] = static_cast<uint32_t>(size);
  } while (lex_.take(','));
  for (; i < 3; ++i) out[i] = 1;
}

void Reader::performance(Function* function) {
  while (lex_.peek() == '.') {
    std::string name = lex_.directive();
    uint32_t shape[3];
    if (name == "maxntid" || name == "reqntid") {
      dims(shape);
      function->max_threads = static_cast<int>(shape[0] * shape[1] * shape[2]);
      if (name == "reqntid") std::copy(shape, shape + 3, function->required);
    } else if (name == "reqnctapercluster") dims(function->cluster);
    else if (name == "minnctapersm" || name == "maxnreg" || name == "maxnctapersm" || name == "maxclusterrank" ||
             name == "local_maxnreg")
      lex_.integer(name.c_str());
    else if (name == "noreturn" || name == "explicitcluster" || name == "blocksareclusters") {
    } else if (name == "abi_preserve" || name == "abi_preserve_control") lex_.integer(name.c_str());
    else if (name == "pragma") {
      lex_.quoted();
      lex_.take(';');
    } else if (name == "attribute") {
      lex_.expect('(', ".attribute");
      while (!lex_.done() && !lex_.take(')'))
        if (lex_.directive().empty() && lex_.word().empty() && !lex_.take(',')) lex_.integer(".attribute");
    } else lex_.fail("the directive ." + name + " is not known before a function's body");
  }
}

void Reader::function(bool is_entry, bool is_extern) {
  auto made = std::make_unique<Function>();
  made->is_entry = is_entry;
  while (lex_.peek() == '.') {
    std::string name = lex_.directive();
    if (name == "attribute") {
      lex_.expect('(', ".attribute");
      while (!lex_.done() && !lex_.take(')'))
        if (lex_.directive().empty() && lex_.word().empty() && !lex_.take(',')) lex_.integer(".attribute");
    } else lex_.fail("." + name + " before a function's name");
  }
  if (lex_.peek() == '(') parameters(&made->prototype.results);
  made->name = lex_.word();
  if (made->name.empty()) lex_.fail("a function's name was expected");
  if (lex_.peek() == '(') parameters(&made->prototype.parameters);
  performance(made.get());
  f_ = made.get();
  (void)is_extern;
  if (lex_.peek() == '{') {
    made->has_body = true;
    body();
  } else lex_.expect(';', "a function's declaration");
  f_ = nullptr;
  for (auto& other : module_->functions)
    if (other->name == made->name) {
      if (made->has_body) other = std::move(made);
      return;
    }
  module_->functions.push_back(std::move(made));
}

}  // namespace vgpu::ptx

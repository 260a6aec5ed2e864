// A kernel's name as its author wrote it, for sentences; facts keep the name that the linker knows.
#pragma once

#include <cstdlib>
#include <cxxabi.h>
#include <string>

namespace executor {

inline std::string plain_name(const std::string& mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  if (!text) return mangled;
  std::string name(text);
  std::free(text);
  // Templates come with a return type before and all have parameters behind.
  size_t depth = 0, end = name.size(), begin = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth == 0 && name[i] == ' ') begin = i + 1;
    if (depth == 0 && name[i] == '(' && name.compare(i, 11, "(anonymous ") != 0) { end = i; break; }
  }
  return name.substr(begin, end - begin);
}

}  // namespace executor

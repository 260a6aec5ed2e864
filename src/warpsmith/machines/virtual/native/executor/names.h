// Kernel names for messages, as in the source; facts keep the mangled name.
#pragma once

#include <cxxabi.h>
#include <cctype>
#include <cstdlib>
#include <string>

namespace executor {

constexpr size_t kMostName = 16384;
// Limit on back references, which stand for a type that was named before. If each type holds the previous one twice,
// 250 letters expand to 500 MB; with this limit the text grows by a factor of a few hundred at most.
constexpr size_t kMostReferences = 16;

inline bool expands(const std::string& mangled) {
  size_t references = 0;
  for (size_t i = 0; i + 1 < mangled.size(); ++i) {
    unsigned char next = static_cast<unsigned char>(mangled[i + 1]);
    if (mangled[i] == 'S' || mangled[i] == 'T') references += next == '_' || std::isdigit(next) || std::isupper(next);
  }
  return mangled.size() > kMostName || references > kMostReferences;
}

// Returns the last name of a mangled one: _ZN2ns1fIiEEvv is f.
inline std::string last_name(const std::string& mangled) {
  bool nested = mangled.rfind("_ZN", 0) == 0;
  size_t at = nested ? 3 : 2, begin = 0, length = 0;
  while ((nested || !length) && at < mangled.size() && std::isdigit(static_cast<unsigned char>(mangled[at]))) {
    size_t count = 0;
    for (; at < mangled.size() && std::isdigit(static_cast<unsigned char>(mangled[at])) && count < kMostName; ++at)
      count = count * 10 + size_t(mangled[at] - '0');
    if (count > mangled.size() - at) break;
    begin = at;
    length = count;
    at += count;
  }
  return (length ? mangled.substr(begin, length) : mangled).substr(0, kMostName);
}

inline std::string plain_name(const std::string& mangled) {
  if (mangled.rfind("_Z", 0) != 0) return mangled;
  if (expands(mangled)) return last_name(mangled);
  int status = 0;
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  if (!text) return mangled;
  std::string name(text);
  std::free(text);
  // A mangled template has its return type before the name and its parameters after it.
  size_t depth = 0, end = name.size(), begin = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth == 0 && name[i] == ' ') begin = i + 1;
    if (depth == 0 && name[i] == '(' && name.compare(i, 11, "(anonymous ") != 0) {
      end = i;
      break;
    }
  }
  return name.substr(begin, end - begin);
}

}  // namespace executor

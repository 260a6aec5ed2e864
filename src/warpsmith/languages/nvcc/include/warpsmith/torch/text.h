// Values as text for messages, without the stream library. Knows how values read, not why they are said.
#pragma once

#include <cstdio>
#include <string>

#include "array_ref.h"
#include "device.h"

namespace warpsmith {

inline void put(std::string& out, const char* value) { out += value ? value : "(null)"; }
inline void put(std::string& out, const std::string& value) { out += value; }
inline void put(std::string& out, char value) { out += value; }
inline void put(std::string& out, bool value) { out += value ? "true" : "false"; }
inline void put(std::string& out, c10::ScalarType value) { out += c10::toString(value); }
inline void put(std::string& out, c10::TypeMeta value) { out += value.name(); }
inline void put(std::string& out, c10::DeviceType value) { out += value == c10::kCUDA ? "cuda" : "cpu"; }

template <class T>
std::enable_if_t<std::is_arithmetic_v<T>> put(std::string& out, T value) {
  char digits[48];
  if constexpr (std::is_floating_point_v<T>)
    snprintf(digits, sizeof digits, "%g", static_cast<double>(value));
  else
    snprintf(digits, sizeof digits, "%lld", static_cast<long long>(value));
  out += digits;
}

template <class T>
std::enable_if_t<std::is_enum_v<T>> put(std::string& out, T value) {
  put(out, static_cast<long long>(value));
}

inline void put(std::string& out, c10::Device value) {
  put(out, value.type());
  if (value.has_index()) put(out, ":"), put(out, static_cast<int>(value.index()));
}

template <class T>
void put(std::string& out, c10::ArrayRef<T> list) {
  out += "[";
  for (size_t i = 0; i < list.size(); ++i) {
    if (i) out += ", ";
    put(out, list[i]);
  }
  out += "]";
}
template <class T>
void put(std::string& out, const std::vector<T>& list) {
  put(out, c10::ArrayRef<T>(list));
}

template <class... Parts>
std::string text(const Parts&... parts) {
  std::string out;
  (put(out, parts), ...);
  return out;
}

}  // namespace warpsmith

namespace c10 {
template <class... Parts>
std::string str(const Parts&... parts) {
  return warpsmith::text(parts...);
}
}  // namespace c10

// The table of functions an artifact offers, and the exported calls over it. Used by both styles; knows neither.
//
// The name and the kinds of each function are also one constant in the file, after WARPSMITH_MARK, so that the
// signature can be read without running anything of the candidate.
#pragma once

#include <exception>

#include "abi.h"

#define WARPSMITH_MARK "\x7fWARPSMITH-ENTRY\x7f"

// A name as a type: only what is part of a type can be part of a constant of its own.
#define WARPSMITH_NAME(NAME)                                  \
  [] {                                                        \
    struct Name {                                             \
      static constexpr const char* text() { return NAME; }    \
    };                                                        \
    return Name{};                                            \
  }()

namespace warpsmith {

template <int N>
struct Chars {
  char text[N] = {};
  int used = 0;
  constexpr void put(const char* piece) {
    while (*piece) text[used++] = *piece++;
  }
  constexpr void end() { text[used++] = 0; }
};

constexpr int length_of(const char* text) {
  int count = 0;
  while (text[count]) ++count;
  return count;
}

constexpr int kMarkLength = length_of(WARPSMITH_MARK);
constexpr int kKindLength = 18;  // "optional_tensor" and a separator

// What a style says of one function: `void write(Chars&)` puts its signature, `count` bounds its length.
template <class Name, class Style>
struct Described {
  static constexpr int size = kMarkLength + length_of(Name::text()) + 8 + kKindLength * (Style::count + 2);
  static constexpr Chars<size> make() {
    Chars<size> out;
    out.put(WARPSMITH_MARK);
    out.put(Name::text());
    out.end();
    Style::write(out);
    out.end();
    return out;
  }
  static constexpr Chars<size> record = make();
  static const char* name() { return record.text + kMarkLength; }
  static const char* signature() { return name() + length_of(Name::text()) + 1; }
};

using Call = int (*)(void* function, const WsHost* host, const WsValue* arguments, int count, WsValue* results,
                     int capacity);

class Table {
 public:
  static constexpr int kMost = 64;

  template <class Name, class Style>
  void add(const char* doc, void* function, Call call) {
    if (size_ == kMost) return;
    using Record = Described<Name, Style>;
    entries_[size_] = WsEntry{Record::name(), doc, Record::signature()};
    functions_[size_] = function;
    calls_[size_++] = call;
  }

  int list(const WsEntry** table) const {
    *table = entries_;
    return size_;
  }

  int call(const char* name, const WsHost* host, const WsValue* arguments, int count, WsValue* results,
           int capacity) const {
    for (int i = size_ - 1; i >= 0; --i)
      if (same(entries_[i].name, name)) return calls_[i](functions_[i], host, arguments, count, results, capacity);
    return WS_NO_SUCH_ENTRY;
  }

 private:
  static bool same(const char* a, const char* b) {
    while (*a && *a == *b) ++a, ++b;
    return *a == *b;
  }
  int size_ = 0;
  WsEntry entries_[kMost];
  void* functions_[kMost];
  Call calls_[kMost];
};

inline int complain(const WsHost* host, const char* text, int status) {
  host->complain(host->context, text);
  return status;
}

}  // namespace warpsmith

// The three functions of the ABI over the table that FILL(Table&) makes on first use.
#define WARPSMITH_EXPORTS(FILL)                                                                                \
  static const ::warpsmith::Table& warpsmith_table() {                                                         \
    static const ::warpsmith::Table* table = [] {                                                              \
      static ::warpsmith::Table made;                                                                          \
      FILL(made);                                                                                              \
      return &made;                                                                                            \
    }();                                                                                                       \
    return *table;                                                                                             \
  }                                                                                                            \
  extern "C" __attribute__((visibility("default"))) int warpsmith_abi(void) { return WARPSMITH_ABI; }          \
  extern "C" __attribute__((visibility("default"))) int warpsmith_entries(const WsEntry** table) {             \
    return warpsmith_table().list(table);                                                                      \
  }                                                                                                            \
  extern "C" __attribute__((visibility("default"))) int warpsmith_call(                                        \
      const char* name, const WsHost* host, const WsValue* arguments, int count, WsValue* results, int capacity) { \
    return warpsmith_table().call(name, host, arguments, count, results, capacity);                            \
  }

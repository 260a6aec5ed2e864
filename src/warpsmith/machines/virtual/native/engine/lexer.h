// Lexer of PTX: characters to tokens.
#pragma once

#include <string>

#include "ptx.h"

namespace vgpu::ptx {

class Lexer {
 public:
  Lexer(const char* text, size_t length) : at_(text), end_(text + length) { skip(); }

  int line() const { return line_; }
  bool done() const { return at_ >= end_; }
  char peek() const { return at_ < end_ ? *at_ : '\0'; }
  char peek(size_t ahead) const { return at_ + ahead < end_ ? at_[ahead] : '\0'; }
  bool take(char letter);                       // consumes the letter if it is next
  void expect(char letter, const char* where);  // consumes the letter or throws
  std::string word();                           // identifier, possibly with a leading % $ _ ; empty if none is next
  std::string dotted();                         // opcode or special register: words, dots and ::
  std::string directive();                      // .name, without the dot; empty if none is next
  std::string quoted();
  bool number(uint64_t* bits, bool* real, uint8_t* real_bytes);
  int64_t integer(const char* where);
  void skip_line();
  void skip_braces();  // from { to the matching }
  [[noreturn]] void fail(const std::string& what) const;

  struct Mark {
    const char* at;
    int line;
  };
  Mark mark() const { return {at_, line_}; }
  void reset(Mark mark) {
    at_ = mark.at;
    line_ = mark.line;
  }

 private:
  void skip();
  void advance(size_t count) { at_ += count; }
  const char* at_;
  const char* end_;
  int line_ = 1;
};

}  // namespace vgpu::ptx

// Tokens of PTX: words, numbers, strings, comments.
#include "lexer.h"

#include <cctype>
#include <cstdlib>
#include <cstring>

namespace vgpu::ptx {

namespace {
bool starts_word(char letter) {
  return std::isalpha(static_cast<unsigned char>(letter)) || letter == '_' || letter == '$' || letter == '%';
}
bool in_word(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) || letter == '_' || letter == '$'; }
}  // namespace

void Lexer::skip() {
  while (at_ < end_) {
    char letter = *at_;
    if (letter == '\n') {
      ++line_;
      ++at_;
    } else if (std::isspace(static_cast<unsigned char>(letter)) || letter == '\0') ++at_;
    else if (letter == '/' && peek(1) == '/') {
      while (at_ < end_ && *at_ != '\n') ++at_;
    } else if (letter == '/' && peek(1) == '*') {
      at_ += 2;
      while (at_ < end_ && !(*at_ == '*' && peek(1) == '/')) {
        if (*at_ == '\n') ++line_;
        ++at_;
      }
      at_ = at_ + 2 < end_ ? at_ + 2 : end_;
    } else break;
  }
}

void Lexer::fail(const std::string& what) const { throw ReadError(line_, what); }

bool Lexer::take(char letter) {
  if (peek() != letter) return false;
  ++at_;
  skip();
  return true;
}

void Lexer::expect(char letter, const char* where) {
  if (take(letter)) return;
  if (done()) fail(std::string("the text ends where '") + letter + "' was expected in " + where);
  fail(std::string("'") + letter + "' was expected in " + where + ", not '" + peek() + "'");
}

std::string Lexer::word() {
  if (!starts_word(peek())) return "";
  const char* start = at_++;
  while (at_ < end_ && in_word(*at_)) ++at_;
  std::string text(start, at_);
  skip();
  return text;
}

std::string Lexer::dotted() {
  const char* start = at_;
  while (at_ < end_ && (in_word(*at_) || *at_ == '.' || *at_ == '%' ||
                        (*at_ == ':' && (peek(1) == ':' || (at_ > start && at_[-1] == ':')))))
    ++at_;
  std::string text(start, at_);
  skip();
  return text;
}

std::string Lexer::directive() {
  if (peek() != '.' || !starts_word(peek(1))) return "";
  const char* start = ++at_;
  while (at_ < end_ && (in_word(*at_) || (*at_ == ':' && (peek(1) == ':' || at_[-1] == ':')))) ++at_;
  std::string text(start, at_);
  skip();
  return text;
}

std::string Lexer::quoted() {
  if (peek() != '"') fail("a quoted string was expected");
  const char* start = ++at_;
  while (at_ < end_ && *at_ != '"') {
    if (*at_ == '\\' && at_ + 1 < end_) ++at_;
    if (*at_ == '\n') ++line_;
    ++at_;
  }
  if (at_ >= end_) fail("the text ends inside a quoted string");
  std::string text(start, at_);
  ++at_;
  skip();
  return text;
}

bool Lexer::number(uint64_t* bits, bool* real, uint8_t* real_bytes) {
  char letter = peek();
  if (!std::isdigit(static_cast<unsigned char>(letter))) return false;
  *real = false;
  const char* start = at_;
  char kind = static_cast<char>(std::tolower(static_cast<unsigned char>(peek(1))));
  if (letter == '0' && (kind == 'f' || kind == 'd')) {
    at_ += 2;
    const char* digits = at_;
    while (at_ < end_ && std::isxdigit(static_cast<unsigned char>(*at_))) ++at_;
    size_t want = kind == 'f' ? 8 : 16;
    if (size_t(at_ - digits) != want)
      fail("a real constant with " + std::to_string(at_ - digits) + " digits, not " + std::to_string(want));
    *bits = std::strtoull(std::string(digits, at_).c_str(), nullptr, 16);
    *real = true;
    *real_bytes = kind == 'f' ? 4 : 8;
  } else {
    while (at_ < end_ && (std::isalnum(static_cast<unsigned char>(*at_)) ||
                          (*at_ == '.' && std::isdigit(static_cast<unsigned char>(peek(1)))) ||
                          ((*at_ == '-' || *at_ == '+') && (at_[-1] == 'e' || at_[-1] == 'E') && kind != 'x')))
      ++at_;
    std::string text(start, at_);
    bool hex = text.size() > 1 && (text[1] == 'x' || text[1] == 'X');
    if (!hex && text.find_first_of(".eE") != std::string::npos) {
      double value = std::strtod(text.c_str(), nullptr);
      std::memcpy(bits, &value, 8);
      *real = true;
      *real_bytes = 8;
    } else {
      if (!text.empty() && (text.back() == 'U' || text.back() == 'u')) text.pop_back();
      bool binary = text.size() > 2 && (text[1] == 'b' || text[1] == 'B') && text[0] == '0';
      char* stop = nullptr;
      *bits = binary ? std::strtoull(text.c_str() + 2, &stop, 2) : std::strtoull(text.c_str(), &stop, 0);
      if (stop && *stop) fail("'" + text + "' is not a number");
    }
  }
  skip();
  return true;
}

int64_t Lexer::integer(const char* where) {
  bool negative = take('-');
  uint64_t bits = 0;
  bool real = false;
  uint8_t bytes = 0;
  if (!number(&bits, &real, &bytes) || real) fail(std::string("an integer was expected in ") + where);
  return negative ? -static_cast<int64_t>(bits) : static_cast<int64_t>(bits);
}

void Lexer::skip_line() {
  while (at_ < end_ && *at_ != '\n') ++at_;
  skip();
}

void Lexer::skip_braces() {
  expect('{', "a section");
  int depth = 1;
  while (depth > 0) {
    if (done()) fail("the text ends inside braces");
    if (*at_ == '{') ++depth;
    if (*at_ == '}') --depth;
    ++at_;
    skip();
  }
}

}  // namespace vgpu::ptx

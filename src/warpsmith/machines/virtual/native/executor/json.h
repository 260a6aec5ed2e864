// Writer of JSON text for the facts. Text that is not UTF-8 is written byte by byte as Latin-1.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace executor {

class Json {
 public:
  Json& open(char bracket) {
    comma();
    text_ += bracket;
    fresh_ = true;
    return *this;
  }
  Json& close(char bracket) {
    text_ += bracket;
    fresh_ = false;
    return *this;
  }
  Json& key(const std::string& name) {
    quoted(name);
    text_ += ':';
    fresh_ = true;
    return *this;
  }
  Json& value(const std::string& text) {
    quoted(text);
    return *this;
  }
  Json& value(uint64_t number) {
    comma();
    text_ += std::to_string(number);
    return *this;
  }
  Json& value(int number) {
    comma();
    text_ += std::to_string(number);
    return *this;
  }
  Json& value(double number) {
    char shown[40];
    std::snprintf(shown, sizeof shown, "%.17g", number);
    comma();
    text_ += shown;
    return *this;
  }
  Json& value(bool truth) {
    comma();
    text_ += truth ? "true" : "false";
    return *this;
  }
  template <class T>
  Json& field(const std::string& name, const T& content) {
    key(name);
    return value(content);
  }
  const std::string& text() const { return text_; }

 private:
  void comma() {
    if (!fresh_) text_ += ',';
    fresh_ = false;
  }
  void quoted(const std::string& text) {
    comma();
    text_ += '"';
    for (unsigned char letter : text) append(letter);
    text_ += '"';
  }
  void append(unsigned char letter) {
    char shown[8];
    if (letter == '"' || letter == '\\') {
      text_ += '\\';
      text_ += char(letter);
      return;
    }
    if (letter >= 0x20 && letter < 0x7f) {
      text_ += char(letter);
      return;
    }
    std::snprintf(shown, sizeof shown, "\\u%04x", letter);
    text_ += shown;
  }

  std::string text_;
  bool fresh_ = true;
};

}  // namespace executor

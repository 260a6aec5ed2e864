// What was achieved of the confinement and what the machine refused, one line a part.
#pragma once

#include <errno.h>
#include <string.h>

#include <string>

namespace warpsmith {

// The judge reads these kinds on the status descriptor; confine/child.py has the same numbers.
enum StatusKind : unsigned short {
  kConfined = 1,  // lines "+part" and "-part: reason", once the program runs
  kFailed = 2,    // the program could not be started, and why
  kOutcome = 3,   // an OutcomePayload
  kStdout = 4,
  kStderr = 5,
};

class Report {
 public:
  void achieved(const std::string& part) { lines_ += "+" + part + "\n"; }
  void missing(const std::string& part, std::string reason) {
    for (char& letter : reason)
      if (letter == '\n')
        letter = ' ';  // a path in the reason must not begin a line of its own, which could name a part
    lines_ += "-" + part + ": " + reason + "\n";
  }
  // The usual case: a system call that worked or left its reason in errno.
  bool part(const std::string& name, bool worked, const char* call) {
    if (worked) return achieved(name), true;
    return missing(name, std::string(call) + ": " + strerror(errno)), false;
  }
  bool has(const std::string& name) const { return ("\n" + lines_).find("\n+" + name + "\n") != std::string::npos; }
  // For parts that hang on another one, which was refused before their turn came.
  void missing_if_unsaid(const std::string& name, const std::string& reason) {
    if (!has(name) && ("\n" + lines_).find("\n-" + name + ": ") == std::string::npos) missing(name, reason);
  }
  const std::string& lines() const { return lines_; }

 private:
  std::string lines_;
};

}  // namespace warpsmith

// The parts of the confinement that were achieved or refused, one line each.
#pragma once

#include <errno.h>
#include <string.h>

#include <string>

namespace warpsmith {

// The evaluator process reads these kinds on the status descriptor; isolation/child.py has the same numbers.
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
      if (letter == '\n') letter = ' ';  // otherwise a path in the reason could begin a line that names a part
    lines_ += "-" + part + ": " + reason + "\n";
  }
  // Reports a system call that worked, or left its reason in errno.
  bool part(const std::string& name, bool worked, const char* call) {
    if (worked) return achieved(name), true;
    return missing(name, std::string(call) + ": " + strerror(errno)), false;
  }
  bool has(const std::string& name) const { return ("\n" + lines_).find("\n+" + name + "\n") != std::string::npos; }
  // For parts that depend on another part, which was refused before.
  void missing_if_unsaid(const std::string& name, const std::string& reason) {
    if (!has(name) && ("\n" + lines_).find("\n-" + name + ": ") == std::string::npos) missing(name, reason);
  }
  const std::string& lines() const { return lines_; }

 private:
  std::string lines_;
};

}  // namespace warpsmith

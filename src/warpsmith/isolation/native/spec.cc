#include "spec.h"

#include <stdlib.h>
#include <unistd.h>

#include <functional>
#include <map>

namespace warpsmith {
namespace {

using Setter = std::function<void(Spec&, const std::string&)>;

uint64_t number(const std::string& text) { return strtoull(text.c_str(), nullptr, 10); }

const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> table = {
      {"argument", [](Spec& s, const std::string& v) { s.arguments.push_back(v); }},
      {"environment", [](Spec& s, const std::string& v) { s.environment.push_back(v); }},
      {"require", [](Spec& s, const std::string& v) { s.require.push_back(v); }},
      {"read", [](Spec& s, const std::string& v) { s.binds.push_back({v, false}); }},
      {"write", [](Spec& s, const std::string& v) { s.binds.push_back({v, true}); }},
      {"link", [](Spec& s, const std::string& v) { s.links.push_back({v, ""}); }},
      {"target",
       [](Spec& s, const std::string& v) {
         if (!s.links.empty()) s.links.back().target = v;
       }},
      {"file", [](Spec& s, const std::string& v) { s.files.push_back(atoi(v.c_str())); }},
      {"folder", [](Spec& s, const std::string& v) { s.folder = v; }},
      {"seccomp", [](Spec& s, const std::string& v) { s.seccomp = v; }},
      {"cgroup", [](Spec& s, const std::string& v) { s.cgroup = v; }},
      {"subordinate_uid",
       [](Spec& s, const std::string& v) { s.subordinate.uid = static_cast<unsigned int>(number(v)); }},
      {"subordinate_gid",
       [](Spec& s, const std::string& v) { s.subordinate.gid = static_cast<unsigned int>(number(v)); }},
      {"subordinate_count",
       [](Spec& s, const std::string& v) { s.subordinate.count = static_cast<unsigned int>(number(v)); }},
      {"subordinate_refusal", [](Spec& s, const std::string& v) { s.subordinate.refusal = v; }},
      {"newuidmap", [](Spec& s, const std::string& v) { s.subordinate.newuidmap = v; }},
      {"newgidmap", [](Spec& s, const std::string& v) { s.subordinate.newgidmap = v; }},
      {"devices", [](Spec& s, const std::string& v) { s.devices = v == "1"; }},
      {"judge", [](Spec& s, const std::string& v) { s.judge = atoi(v.c_str()); }},
      {"wall_s", [](Spec& s, const std::string& v) { s.limits.wall_s = atof(v.c_str()); }},
      {"cpu_s", [](Spec& s, const std::string& v) { s.limits.cpu_s = number(v); }},
      {"memory_bytes", [](Spec& s, const std::string& v) { s.limits.memory_bytes = number(v); }},
      {"processes", [](Spec& s, const std::string& v) { s.limits.processes = number(v); }},
      {"open_files", [](Spec& s, const std::string& v) { s.limits.open_files = number(v); }},
      {"file_bytes", [](Spec& s, const std::string& v) { s.limits.file_bytes = number(v); }},
      {"output_bytes", [](Spec& s, const std::string& v) { s.limits.output_bytes = number(v); }},
      {"address_space", [](Spec& s, const std::string& v) { s.limits.address_space = v == "1"; }},
  };
  return table;
}

bool read_all(int fd, std::string* text) {
  char buffer[65536];
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0) return false;
    if (n == 0) return true;
    text->append(buffer, static_cast<size_t>(n));
  }
}

}  // namespace

bool read_spec(int fd, Spec* spec, std::string* error) {
  std::string text;
  if (!read_all(fd, &text)) return *error = "the spec cannot be read", false;
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\0', at);
    if (end == std::string::npos) return *error = "the spec ends inside a word", false;
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (words.size() % 2) return *error = "the spec has a key without a value", false;
  for (size_t i = 0; i < words.size(); i += 2) {
    const auto setter = setters().find(words[i]);
    if (setter == setters().end()) return *error = "the spec has an unknown key " + words[i], false;
    setter->second(*spec, words[i + 1]);
  }
  if (spec->arguments.empty()) return *error = "the spec names no program", false;
  if (spec->limits.wall_s <= 0) return *error = "the spec has no wall-clock limit", false;
  return true;
}

}  // namespace warpsmith

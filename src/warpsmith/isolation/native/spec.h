// The launcher's task as the evaluator process wrote it: NUL-separated pairs of key and value on a file descriptor.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace warpsmith {

struct Bind {
  std::string path;  // canonical; the same path inside and outside
  bool write = false;
};

struct Link {
  std::string path;
  std::string target;
};

struct Limits {
  double wall_s = 0;
  uint64_t cpu_s = 0;
  uint64_t memory_bytes = 0;
  uint64_t processes = 0;
  uint64_t open_files = 0;
  uint64_t file_bytes = 0;
  uint64_t output_bytes = 0;
  bool address_space = false;  // bound each mapping, not only resident memory
};

// The ids that /etc/subuid and /etc/subgid grant to an ordinary user, and the setuid programs that map them.
struct Subordinate {
  unsigned int uid = 0, gid = 0;
  unsigned int count = 0;  // 0: none, for the reason in `refusal`
  std::string newuidmap, newgidmap;
  std::string refusal;
};

struct Spec {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::vector<std::string> require;  // parts without which nothing is started
  std::vector<Bind> binds;           // parents before what is inside them
  std::vector<Link> links;
  std::vector<int> files;  // descriptors the child gets, from 3 up, in this order
  std::string folder = "/";
  std::string seccomp = "general";
  std::string cgroup;  // the cgroup to divide, if any
  Subordinate subordinate;
  Limits limits;
  bool devices = false;
  pid_t judge = 0;
};

// Reads and checks a spec. False with `error` if it has an unknown key or lacks a required one.
bool read_spec(int fd, Spec* spec, std::string* error);

}  // namespace warpsmith

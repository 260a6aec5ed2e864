// The mount calls of Linux 5.2 and 5.12 by number, which older C headers lack.
#pragma once

#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace warpsmith {

constexpr uint64_t kReadOnly = 1, kNoSuid = 2, kNoDevices = 4, kIdMap = 0x00100000;
constexpr unsigned int kWholeTree = 0x8000, kEmptyPath = 0x1000;

struct MountAttributes {
  uint64_t set = 0, clear = 0, propagation = 0, user_namespace = 0;
};

inline bool set_attributes(int fd, const char* path, unsigned int flags, MountAttributes change) {
  return syscall(442, fd, path, flags, &change, sizeof change) == 0;
}

inline int open_tree_clone(const char* path) {
  constexpr unsigned int kClone = 1;
  return static_cast<int>(syscall(428, AT_FDCWD, path, kClone | O_CLOEXEC));
}

inline bool move_tree(int fd, const char* to) {
  constexpr unsigned int kFromEmptyPath = 4;
  return syscall(429, fd, "", AT_FDCWD, to, kFromEmptyPath) == 0;
}

}  // namespace warpsmith

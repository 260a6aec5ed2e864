// Shows the child, which is another user, paths that only their owner may read: by mapped ids, or as a copy.
#pragma once

#include <string>

#include "mounts.h"

namespace warpsmith {

// Whether a file or folder refuses readers other than its owner.
bool is_private(const std::string& path);

// Whether `copy_as` would copy the path: it can be read, and is small enough.
bool is_copyable(const std::string& path);

// Mounts `from` at `to` so that files of the owner of `from` belong to `owner`. False if the file system or the kernel
// has no id-mapped mounts.
bool bind_as(const std::string& from, const std::string& to, const Owner& owner);

// Copies small paths on file systems without id-mapped mounts; the copy belongs to `owner`.
// False with errno EFBIG if there is more than 32 MiB.
bool copy_as(const std::string& from, const std::string& to, const Owner& owner);

}  // namespace warpsmith

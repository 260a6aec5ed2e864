// Binds through which what only we may read is readable by the child: our id on disk shows as the child's.
#pragma once

#include <string>

#include "mounts.h"

namespace warpsmith {

// Whether a file or folder refuses readers other than its owner.
bool is_private(const std::string& path);

// Whether `copy_as` would copy the path: it can be read, and is small enough.
bool is_copyable(const std::string& path);

// A bind of `from` at `to` where what belongs to the owner of `from` belongs to `owner`; false where the file system or
// the kernel has no id maps.
bool bind_as(const std::string& from, const std::string& to, const Owner& owner);

// The other way to the same end, for small things on file systems without id maps: a copy that belongs to `owner`.
// False with errno EFBIG if there is more than 32 MiB.
bool copy_as(const std::string& from, const std::string& to, const Owner& owner);

}  // namespace warpsmith

// Binds through which what only we may read is readable by the child: our id on disk shows as the child's.
#pragma once

#include <string>

#include "mounts.h"

namespace warpsmith {

// Whether a file or folder refuses readers other than its owner.
bool is_private(const std::string& path);

// A bind of `from` at `to` where what belongs to the owner of `from` belongs to `owner`; false where the file system or
// the kernel has no id maps.
bool bind_as(const std::string& from, const std::string& to, const Owner& owner);

// The other way to the same end, for small things on file systems without id maps: a copy that belongs to `owner`.
// False with errno EFBIG when there is more than `most_bytes`.
bool copy_as(const std::string& from, const std::string& to, const Owner& owner, uint64_t most_bytes);

}  // namespace warpsmith

// The device code of an artifact, from its file, which is read and not loaded.
#pragma once

#include <string>

namespace worker {

// The fat binary that the compiler left; empty where another stands beside it, before it or around it.
std::string image_of(const std::string& file);

}  // namespace worker

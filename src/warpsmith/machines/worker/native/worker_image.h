// The device code of an artifact, read from its file without loading it.
#pragma once

#include <string>

namespace worker {

// Returns the fat binary that the compiler embedded. Empty if the file could make the runtime use another image.
std::string extract_image(const std::string& file);

}  // namespace worker

// A loaded module: its text, the addresses of its symbols, and the programs built for its entries.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "lower.h"
#include "memory.h"

namespace vgpu {

struct Loaded {
  std::unique_ptr<ptx::Module> module;
  Symbols symbols;  // globals, constants, functions
  std::vector<Address> allocations;
  std::map<std::string, std::unique_ptr<Program>> programs;
  std::map<std::string, Entry> entries;
  std::map<std::string, std::pair<int, size_t>> resources;  // registers and static shared memory, as ptxas reports them
};

// Allocates and initializes the module's variables. Returns an empty string or the reason of a failure.
std::string place_variables(Loaded& loaded, Memory& memory);
std::unique_ptr<Program> build(const Loaded& loaded, const ptx::Function& entry);

}  // namespace vgpu

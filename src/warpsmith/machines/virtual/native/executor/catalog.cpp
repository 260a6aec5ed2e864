// Loading of modules into the engine on first use.
#include "catalog.h"

#include <algorithm>
#include <utility>

namespace executor {

namespace {

// The machine code comes from the candidate. It may state more resources than the PTX needs, never fewer.
Resources worse(const Resources& ptx, const Resources& said) {
  return {said.registers > 0 ? said.registers : kMostRegisters, std::max(ptx.static_shared, said.static_shared),
          said.stack};
}

}  // namespace

int Catalog::add(std::vector<uint8_t> fatbin) {
  modules_.push_back({});
  modules_.back().fatbin = std::move(fatbin);
  return int(modules_.size() - 1);
}

void Catalog::drop(int module) {
  if (module < 0 || size_t(module) >= modules_.size()) return;
  if (modules_[size_t(module)].loaded >= 0) engine_->unload(modules_[size_t(module)].loaded);
  modules_[size_t(module)] = {};
  modules_[size_t(module)].read = true;
  modules_[size_t(module)].image.error = "The module was unloaded.";
}

Catalog::Module* Catalog::ready(int number, std::string* error) {
  if (number < 0 || size_t(number) >= modules_.size()) {
    *error = "There is no module " + std::to_string(number) + ".";
    return nullptr;
  }
  Module& module = modules_[size_t(number)];
  if (!module.read) {
    module.read = true;
    module.image = read_fatbin(module.fatbin.data(), module.fatbin.size(), gpu_.cc_major, gpu_.cc_minor);
    module.fatbin.clear();
    module.fatbin.shrink_to_fit();
    const std::string& ptx = module.image.ptx;
    if (module.image.error.empty()) module.loaded = engine_->load(ptx.data(), ptx.size(), &module.image.error);
    for (const auto& [name, found] : module.image.resources)
      if (module.loaded >= 0) engine_->resources(module.loaded, name, found.registers, found.static_shared);
  }
  if (module.loaded >= 0) return &module;
  *error = module.image.error;
  return nullptr;
}

int Catalog::function(int number, const std::string& name, std::string* error) {
  auto known = by_name_.find({number, name});
  if (known != by_name_.end()) return known->second;
  Module* module = ready(number, error);
  if (!module) return -1;
  const vgpu::Entry* entry = engine_->entry(module->loaded, name);
  if (!entry) {
    *error = "The PTX has no entry " + name + ".";
    return -1;
  }
  Function function;
  function.module = module->loaded;
  function.name = name;
  function.parameters = entry->parameters;
  function.parameter_bytes = entry->parameter_bytes;
  function.ptx_version = module->image.ptx_version;
  function.arch = module->image.arch;
  Resources resources{32, entry->static_shared, entry->local_bytes};  // 32 registers if no machine code states a number
  if (auto found = module->image.resources.find(name); found != module->image.resources.end())
    resources = worse(resources, found->second);
  function.needs.registers = resources.registers;
  function.needs.static_shared = resources.static_shared;
  function.needs.local_bytes = resources.stack;
  function.needs.max_threads = entry->max_threads;
  function.needs.max_dynamic_shared = gpu_.shared_per_block - std::min(gpu_.shared_per_block, resources.static_shared);
  functions_.push_back(std::move(function));
  return by_name_[{number, name}] = int(functions_.size() - 1);
}

vgpu::Address Catalog::symbol(int number, const std::string& name, size_t* bytes, std::string* error) {
  Module* module = ready(number, error);
  vgpu::Address found = module ? engine_->symbol(module->loaded, name, bytes) : 0;
  if (module && !found) *error = "The PTX has no variable " + name + ".";
  return found;
}

}  // namespace executor

// Modules of the candidate and their functions by number: PTX from the fat binary, resources from ptxas.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "../engine/engine.h"
#include "bounds.h"
#include "fatbin.h"

namespace executor {

struct Function {
  int module = 0;
  std::string name;
  Needs needs;
  std::vector<vgpu::Parameter> parameters;
  size_t parameter_bytes = 0;
  int ptx_version = 0, arch = 0;
};

class Catalog {
 public:
  Catalog(vgpu::Engine* engine, const vgpu::Gpu& gpu) : engine_(engine), gpu_(gpu) {}

  // The bytes are kept until the first use of the module. As with a real driver, an unused module is never parsed.
  int add(std::vector<uint8_t> fatbin);
  void drop(int module);
  // Returns -1 and a sentence if there is none.
  int function(int module, const std::string& name, std::string* error);
  vgpu::Address symbol(int module, const std::string& name, size_t* bytes, std::string* error);
  Function* at(uint64_t function) { return function < functions_.size() ? &functions_[function] : nullptr; }

 private:
  struct Module {
    std::vector<uint8_t> fatbin;
    Image image;
    bool read = false;
    int loaded = -1;
  };
  Module* ready(int module, std::string* error);

  vgpu::Engine* engine_;
  vgpu::Gpu gpu_;
  std::vector<Module> modules_;
  std::vector<Function> functions_;
  std::map<std::pair<int, std::string>, int> by_name_;
};

}  // namespace executor

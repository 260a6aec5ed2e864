// The public interface of the engine, and the checks of copies and memsets by the host.
#include "engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "access.h"
#include "build.h"
#include "grid.h"
#include "launch.h"
#include "races.h"

namespace vgpu {

struct Engine::Impl {
  Gpu gpu;
  Options options;
  Memory memory;
  Races races;
  std::map<int, std::unique_ptr<Loaded>> modules;
  int next_module = 1;
  std::string printed;

  Impl(Gpu modelled, Options chosen)
      : gpu(std::move(modelled)), options(chosen), memory(gpu.memory_bytes, chosen.check) {}

  Loaded* loaded(int module) const {
    auto found = modules.find(module);
    return found == modules.end() ? nullptr : found->second.get();
  }

  const ptx::Function* entry(const Loaded& loaded, const std::string& name) const {
    for (auto& function : loaded.module->functions)
      if (function->is_entry && function->has_body && function->name == name) return function.get();
    return nullptr;
  }

  Program* program(Loaded& loaded, const ptx::Function& function) {
    auto& made = loaded.programs[function.name];
    if (!made) made = build(loaded, function);
    return made.get();
  }

  void begin(Operation operation, const std::string& what) {
    if (!options.check) return;
    if (races.is_exhausted()) races.restart(memory);
    races.begin(operation, what);
  }
  void end() {
    if (options.check) races.end();
  }

  bool hold(const char* doing, Address at, size_t bytes, std::vector<Finding>* findings);
  void host_write(Address to, size_t bytes, const char* doing, std::vector<Finding>* findings);
  void host_read(Address from, size_t bytes, const char* doing, std::vector<Finding>* findings);
  void host_race(const char* doing, const char* done, Address at, uint32_t cell, std::vector<Finding>* findings);
  void describe(Loaded& loaded);
};

namespace {

void add(std::vector<Finding>* findings, const char* checker, const std::string& message, Address at, size_t bytes) {
  if (!findings) return;
  for (Finding& finding : *findings)
    if (finding.checker == checker && finding.message == message) {
      ++finding.count;
      return;
    }
  Finding finding;
  finding.checker = checker;
  finding.message = message;
  finding.start = at;
  finding.bytes = bytes;
  finding.space = "global";
  findings->push_back(std::move(finding));
}

// Returns the granules of a transfer. If the transfer ends inside a granule, the granules are split first.
std::pair<size_t, size_t> granules(Allocation* allocation, Address at, size_t bytes) {
  Cells& cells = allocation->cells;
  size_t from = at - allocation->start, to = from + bytes;
  size_t unit = size_t(1) << cells.shift;
  if (from % unit || (to % unit && to != allocation->bytes)) { cells.refine(from % 2 || to % 2 ? 0 : 1); }
  return {from >> cells.shift, (to + (size_t(1) << cells.shift) - 1) >> cells.shift};
}

}  // namespace

bool Engine::Impl::hold(const char* doing, Address at, size_t bytes, std::vector<Finding>* findings) {
  Allocation* allocation = memory.holder(at, bytes);
  if (allocation && !allocation->of_engine) return true;
  Allocation* near = memory.nearest(at);
  std::string where = !near ? "in no allocation"
                      : !near->live && at < near->end()
                          ? "inside freed memory"
                          : "not inside one allocation; the nearest below has " + std::to_string(near->bytes) +
                                " bytes from " + hex(near->start);
  add(findings, "out_of_bounds",
      std::string(doing) + " of " + std::to_string(bytes) + " bytes at " + hex(at) + ", " + where, at, bytes);
  return false;
}

void Engine::Impl::host_race(const char* doing, const char* done, Address at, uint32_t cell,
                             std::vector<Finding>* findings) {
  const OperationSpan* span = races.unordered_span(cell >> 6);
  if (!span) return;
  add(findings, "race",
      std::string(doing) + " touches memory that " + span->what + " (operation " + std::to_string(span->operation) +
          ") " + done + ", and nothing orders the two: a stream or event is not waited for",
      at, 1);
}

void Engine::Impl::host_write(Address to, size_t bytes, const char* doing, std::vector<Finding>* findings) {
  if (!options.check || !bytes) return;
  Allocation* allocation = memory.holder(to, bytes);
  auto range = granules(allocation, to, bytes);
  uint32_t stamp = races.segment(kHostBlock, 0, 0) << 6;
  for (size_t k = range.first; k < range.second; ++k) {
    if (allocation->cells.wrote[k] >= races.safe && allocation->cells.wrote[k] < stamp)
      host_race(doing, "writes", to, allocation->cells.wrote[k], findings);
    if (allocation->cells.read[k] >= races.safe && allocation->cells.read[k] < stamp)
      host_race(doing, "reads", to, allocation->cells.read[k], findings);
    allocation->cells.wrote[k] = stamp;
  }
}

void Engine::Impl::host_read(Address from, size_t bytes, const char* doing, std::vector<Finding>* findings) {
  if (!options.check || !bytes) return;
  Allocation* allocation = memory.holder(from, bytes);
  auto range = granules(allocation, from, bytes);
  uint32_t stamp = races.segment(kHostBlock, 0, 0) << 6;
  size_t unwritten = 0, first = 0;
  for (size_t k = range.first; k < range.second; ++k) {
    uint32_t writer = allocation->cells.wrote[k];
    if (writer == 0 && !unwritten++) first = k;
    if (writer >= races.safe && writer < stamp) host_race(doing, "writes", from, writer, findings);
    allocation->cells.read[k] = stamp;
  }
  if (unwritten) {
    Address at = allocation->start + (first << allocation->cells.shift);
    add(findings, "uninitialized",
        std::string(doing) + " of " + std::to_string(bytes) + " bytes at " + hex(from) + " takes " +
            std::to_string(unwritten << allocation->cells.shift) + " bytes that nobody has written, the first at " +
            hex(at),
        at, unwritten << allocation->cells.shift);
  }
}

void Engine::Impl::describe(Loaded& loaded) {
  for (auto& function : loaded.module->functions) {
    if (!function->is_entry || !function->has_body) continue;
    Entry entry;
    entry.name = function->name;
    entry.max_threads = function->max_threads;
    for (const ptx::Variable& variable : function->prototype.parameters) {
      entry.parameter_bytes = (entry.parameter_bytes + variable.alignment - 1) & ~(variable.alignment - 1);
      entry.parameters.push_back({entry.parameter_bytes, variable.bytes(), variable.alignment});
      entry.parameter_bytes += variable.bytes();
    }
    Program* built = program(loaded, *function);
    entry.static_shared = built->static_shared;
    entry.local_bytes = built->local_bytes;
    loaded.entries[function->name] = std::move(entry);
  }
}

Engine::Engine(Gpu gpu, Options options) : impl_(std::make_unique<Impl>(std::move(gpu), options)) {}
Engine::~Engine() = default;

Address Engine::allocate(size_t bytes, const std::string& label) {
  Allocation* allocation = impl_->memory.allocate(bytes, label);
  return allocation ? allocation->start : 0;
}

Address Engine::share(int descriptor, size_t bytes, const std::string& label) {
  Allocation* allocation = impl_->memory.share(descriptor, bytes, label);
  return allocation ? allocation->start : 0;
}

bool Engine::release(Address start) { return impl_->memory.release(start); }
bool Engine::contains(Address start, size_t bytes) const { return impl_->memory.holder(start, bytes) != nullptr; }

bool Engine::write(Operation operation, Address to, const void* from, size_t bytes, std::vector<Finding>* findings) {
  if (!impl_->hold("a copy from the host", to, bytes, findings)) return false;
  impl_->begin(operation, "a copy from the host");
  impl_->host_write(to, bytes, "a copy from the host", findings);
  impl_->end();
  std::memcpy(impl_->memory.host(to), from, bytes);
  return true;
}

bool Engine::read(Operation operation, void* to, Address from, size_t bytes, std::vector<Finding>* findings) {
  if (!impl_->hold("a copy to the host", from, bytes, findings)) return false;
  impl_->begin(operation, "a copy to the host");
  impl_->host_read(from, bytes, "a copy to the host", findings);
  impl_->end();
  std::memcpy(to, impl_->memory.host(from), bytes);
  return true;
}

bool Engine::copy(Operation operation, Address to, Address from, size_t bytes, std::vector<Finding>* findings) {
  const char* doing = "a copy on the device";
  if (!impl_->hold(doing, to, bytes, findings) || !impl_->hold(doing, from, bytes, findings)) return false;
  impl_->begin(operation, doing);
  if (impl_->options.check && bytes) {
    // A copy of unwritten bytes leaves its target unwritten: only reading them in a kernel is a fault.
    Allocation *origin = impl_->memory.holder(from, bytes), *destination = impl_->memory.holder(to, bytes);
    auto source = granules(origin, from, bytes);
    auto target = granules(destination, to, bytes);
    int fine = std::min(origin->cells.shift, destination->cells.shift);
    origin->cells.refine(fine);
    destination->cells.refine(fine);
    source = granules(origin, from, bytes);
    std::vector<uint8_t> unwritten(source.second - source.first);
    for (size_t k = source.first; k < source.second; ++k) unwritten[k - source.first] = origin->cells.wrote[k] == 0;
    std::vector<Finding> ignored;
    for (size_t k = source.first; k < source.second; ++k) {
      uint32_t writer = origin->cells.wrote[k];
      if (writer >= impl_->races.safe) impl_->host_race(doing, "writes", from, writer, findings);
    }
    impl_->host_write(to, bytes, doing, findings);
    uint32_t stamp = impl_->races.segment(kHostBlock, 0, 0) << 6;
    for (size_t k = source.first; k < source.second; ++k) origin->cells.read[k] = stamp;
    target = granules(destination, to, bytes);
    for (size_t k = 0; k < unwritten.size() && target.first + k < target.second; ++k)
      if (unwritten[k]) destination->cells.wrote[target.first + k] = 0;
  }
  impl_->end();
  std::memmove(impl_->memory.host(to), impl_->memory.host(from), bytes);
  return true;
}

bool Engine::fill(Operation operation, Address to, uint32_t value, size_t width, size_t count,
                  std::vector<Finding>* findings) {
  if ((width != 1 && width != 2 && width != 4) || !impl_->hold("a memset", to, width * count, findings)) return false;
  impl_->begin(operation, "a memset");
  impl_->host_write(to, width * count, "a memset", findings);
  impl_->end();
  uint8_t* place = impl_->memory.host(to);
  if (width == 1) std::memset(place, int(value & 0xff), count);
  else
    for (size_t i = 0; i < count; ++i) std::memcpy(place + i * width, &value, width);
  return true;
}

int Engine::load(const char* ptx, size_t length, std::string* error) {
  try {
    auto loaded = std::make_unique<Loaded>();
    loaded->module = ptx::read(ptx, length);
    *error = place_variables(*loaded, impl_->memory);
    if (!error->empty()) return -1;
    impl_->describe(*loaded);
    impl_->modules[impl_->next_module] = std::move(loaded);
    return impl_->next_module++;
  } catch (const std::exception& thrown) { *error = std::string("PTX ") + thrown.what(); }
  return -1;
}

void Engine::unload(int module) {
  Loaded* loaded = impl_->loaded(module);
  if (!loaded) return;
  for (Address address : loaded->allocations) impl_->memory.release(address);
  impl_->modules.erase(module);
}

const Entry* Engine::entry(int module, const std::string& name) const {
  Loaded* loaded = impl_->loaded(module);
  if (!loaded) return nullptr;
  auto found = loaded->entries.find(name);
  return found == loaded->entries.end() ? nullptr : &found->second;
}

Address Engine::symbol(int module, const std::string& name, size_t* bytes) {
  Loaded* loaded = impl_->loaded(module);
  auto found = loaded ? loaded->symbols.find(name) : Symbols::iterator();
  if (!loaded || found == loaded->symbols.end() || found->second.is_function) return 0;
  if (bytes) *bytes = found->second.bytes;
  return found->second.address;
}

void Engine::resources(int module, const std::string& name, int registers, size_t static_shared) {
  if (Loaded* loaded = impl_->loaded(module)) loaded->resources[name] = {registers, static_shared};
}

void Engine::ordered(std::function<bool(Operation, Operation)> predicate) {
  impl_->races.ordered = std::move(predicate);
}

Outcome Engine::launch(const Launch& asked) {
  Launch launch = asked;
  Grid grid;
  grid.launch = &launch;
  grid.gpu = &impl_->gpu;
  grid.options = &impl_->options;
  auto refuse = [&](const std::string& why) {
    grid.outcome.status = Status::BadLaunch;
    grid.outcome.detail = why;
    report_launch(grid, "launch", why);
    return grid.outcome;
  };
  Loaded* loaded = impl_->loaded(launch.module);
  const ptx::Function* function = loaded ? impl_->entry(*loaded, launch.entry) : nullptr;
  if (!function) return refuse("there is no entry named " + launch.entry);
  const uint32_t* named = function->cluster;
  bool plain = launch.cluster.x * launch.cluster.y * launch.cluster.z == 1;
  if (named[0] && plain) launch.cluster = {named[0], named[1], named[2]};
  grid.clustered = launch.cluster.x * launch.cluster.y * launch.cluster.z > 1;
  Program* program = impl_->program(*loaded, *function);
  auto resources =
      loaded->resources.count(function->name) ? loaded->resources[function->name] : std::pair<int, size_t>{0, 0};
  std::string why = check_limits(impl_->gpu, launch, *program, *function, resources);
  if (!why.empty()) return refuse(why);
  if (launch.parameters.size() < loaded->entries[function->name].parameter_bytes)
    return refuse("the launch passes " + std::to_string(launch.parameters.size()) + " bytes of parameters; " +
                  function->name + " takes " + std::to_string(loaded->entries[function->name].parameter_bytes));

  grid.program = program;
  grid.memory = &impl_->memory;
  grid.races = &impl_->races;
  grid.printed = &impl_->printed;
  grid.check = impl_->options.check;
  grid.function_name = [loaded](Address address) -> const char* {
    size_t index = (address - kFunctionWindow) / 16;
    return address >= kFunctionWindow && index < loaded->module->functions.size()
               ? loaded->module->functions[index]->name.c_str()
               : nullptr;
  };
  std::vector<uint8_t> parameters = launch.parameters;
  parameters.resize(parameters.size() + 64);
  grid.parameters = parameters.data();
  grid.parameter_bytes = launch.parameters.size();
  grid.shared_bytes = program->static_shared + launch.dynamic_shared;
  grid.runs.assign(program->blocks.size(), 0);
  grid.threads.assign(program->blocks.size(), 0);
  Allocation* workspace = nullptr;
  if (launch.cooperative && (workspace = impl_->memory.allocate(256, "the grid barrier"))) {
    std::memset(workspace->host, 0, 256);
    if (workspace->cells.wrote)
      std::fill(workspace->cells.wrote, workspace->cells.wrote + workspace->cells.count(), 1u << 6);
    grid.workspace = workspace->start;
  }
  impl_->memory.forget_sectors();
  impl_->begin(launch.operation, "the kernel " + launch.entry);
  run_grid(grid);
  impl_->end();
  gather_counters(grid);
  if (workspace) impl_->memory.release(workspace->start);
  return grid.outcome;
}

std::string Engine::take_printed() { return std::exchange(impl_->printed, {}); }

}  // namespace vgpu

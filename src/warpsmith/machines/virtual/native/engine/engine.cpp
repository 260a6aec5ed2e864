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

  Impl(Gpu g, Options o) : gpu(std::move(g)), options(o), memory(gpu.memory_bytes, o.check) {}

  Loaded* loaded(int module) const {
    auto found = modules.find(module);
    return found == modules.end() ? nullptr : found->second.get();
  }

  const ptx::Function* entry(const Loaded& m, const std::string& name) const {
    for (auto& f : m.module->functions)
      if (f->is_entry && f->has_body && f->name == name) return f.get();
    return nullptr;
  }

  Program* program(Loaded& m, const ptx::Function& f) {
    auto& made = m.programs[f.name];
    if (!made) made = build(m, f);
    return made.get();
  }

  void begin(Operation operation, const std::string& what) {
    if (!options.check) return;
    if (races.spent()) races.restart(memory);
    races.begin(operation, what);
  }
  void end() {
    if (options.check) races.end();
  }

  bool hold(const char* doing, Address at, size_t bytes, std::vector<Finding>* findings);
  void host_write(Address to, size_t bytes, const char* doing, std::vector<Finding>* findings);
  void host_read(Address from, size_t bytes, const char* doing, std::vector<Finding>* findings);
  void host_race(const char* doing, const char* done, Address at, uint32_t cell, std::vector<Finding>* findings);
  void describe(Loaded& m);
};

namespace {

void add(std::vector<Finding>* findings, const char* checker, const std::string& message, Address at, size_t bytes) {
  if (!findings) return;
  for (Finding& f : *findings)
    if (f.checker == checker && f.message == message) {
      ++f.count;
      return;
    }
  Finding f;
  f.checker = checker;
  f.message = message;
  f.start = at;
  f.bytes = bytes;
  f.space = "global";
  findings->push_back(std::move(f));
}

// The granule range of a transfer; a transfer that ends inside a granule makes the granules finer.
std::pair<size_t, size_t> granules(Allocation* a, Address at, size_t bytes) {
  Cells& c = a->cells;
  size_t from = at - a->start, to = from + bytes;
  size_t unit = size_t(1) << c.shift;
  if (from % unit || (to % unit && to != a->bytes)) { c.refine(from % 2 || to % 2 ? 0 : 1); }
  return {from >> c.shift, (to + (size_t(1) << c.shift) - 1) >> c.shift};
}

}  // namespace

bool Engine::Impl::hold(const char* doing, Address at, size_t bytes, std::vector<Finding>* findings) {
  Allocation* a = memory.holder(at, bytes);
  if (a && !a->of_engine) return true;
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
  Allocation* a = memory.holder(to, bytes);
  auto range = granules(a, to, bytes);
  uint32_t stamp = races.segment(kHostBlock, 0, 0) << 6;
  for (size_t k = range.first; k < range.second; ++k) {
    if (a->cells.wrote[k] >= races.safe && a->cells.wrote[k] < stamp)
      host_race(doing, "writes", to, a->cells.wrote[k], findings);
    if (a->cells.read[k] >= races.safe && a->cells.read[k] < stamp)
      host_race(doing, "reads", to, a->cells.read[k], findings);
    a->cells.wrote[k] = stamp;
  }
}

void Engine::Impl::host_read(Address from, size_t bytes, const char* doing, std::vector<Finding>* findings) {
  if (!options.check || !bytes) return;
  Allocation* a = memory.holder(from, bytes);
  auto range = granules(a, from, bytes);
  uint32_t stamp = races.segment(kHostBlock, 0, 0) << 6;
  size_t unwritten = 0, first = 0;
  for (size_t k = range.first; k < range.second; ++k) {
    uint32_t c = a->cells.wrote[k];
    if (c == 0 && !unwritten++) first = k;
    if (c >= races.safe && c < stamp) host_race(doing, "writes", from, c, findings);
    a->cells.read[k] = stamp;
  }
  if (unwritten) {
    Address at = a->start + (first << a->cells.shift);
    add(findings, "uninitialized",
        std::string(doing) + " of " + std::to_string(bytes) + " bytes at " + hex(from) + " takes " +
            std::to_string(unwritten << a->cells.shift) + " bytes that nobody has written, the first at " + hex(at),
        at, unwritten << a->cells.shift);
  }
}

void Engine::Impl::describe(Loaded& m) {
  for (auto& f : m.module->functions) {
    if (!f->is_entry || !f->has_body) continue;
    Entry e;
    e.name = f->name;
    e.max_threads = f->max_threads;
    for (const ptx::Variable& v : f->prototype.parameters) {
      e.parameter_bytes = (e.parameter_bytes + v.alignment - 1) & ~(v.alignment - 1);
      e.parameters.push_back({e.parameter_bytes, v.bytes(), v.alignment});
      e.parameter_bytes += v.bytes();
    }
    Program* p = program(m, *f);
    e.static_shared = p->static_shared;
    e.local_bytes = p->local_bytes;
    m.entries[f->name] = std::move(e);
  }
}

Engine::Engine(Gpu gpu, Options options) : impl_(std::make_unique<Impl>(std::move(gpu), options)) {}
Engine::~Engine() = default;

Address Engine::allocate(size_t bytes, const std::string& label) {
  Allocation* a = impl_->memory.allocate(bytes, label);
  return a ? a->start : 0;
}

Address Engine::share(int descriptor, size_t bytes, const std::string& label) {
  Allocation* a = impl_->memory.share(descriptor, bytes, label);
  return a ? a->start : 0;
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
    // What nobody wrote stays unwritten in the copy; only reading it is a fault.
    Allocation *a = impl_->memory.holder(from, bytes), *b = impl_->memory.holder(to, bytes);
    auto source = granules(a, from, bytes);
    auto target = granules(b, to, bytes);
    int fine = std::min(a->cells.shift, b->cells.shift);
    a->cells.refine(fine);
    b->cells.refine(fine);
    source = granules(a, from, bytes);
    std::vector<uint8_t> unwritten(source.second - source.first);
    for (size_t k = source.first; k < source.second; ++k) unwritten[k - source.first] = a->cells.wrote[k] == 0;
    std::vector<Finding> ignored;
    for (size_t k = source.first; k < source.second; ++k) {
      uint32_t c = a->cells.wrote[k];
      if (c >= impl_->races.safe) impl_->host_race(doing, "writes", from, c, findings);
    }
    impl_->host_write(to, bytes, doing, findings);
    uint32_t stamp = impl_->races.segment(kHostBlock, 0, 0) << 6;
    for (size_t k = source.first; k < source.second; ++k) a->cells.read[k] = stamp;
    target = granules(b, to, bytes);
    for (size_t k = 0; k < unwritten.size() && target.first + k < target.second; ++k)
      if (unwritten[k]) b->cells.wrote[target.first + k] = 0;
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
  uint8_t* p = impl_->memory.host(to);
  if (width == 1) std::memset(p, int(value & 0xff), count);
  else
    for (size_t i = 0; i < count; ++i) std::memcpy(p + i * width, &value, width);
  return true;
}

int Engine::load(const char* ptx, size_t length, std::string* error) {
  try {
    auto m = std::make_unique<Loaded>();
    m->module = ptx::read(ptx, length);
    *error = place_variables(*m, impl_->memory);
    if (!error->empty()) return -1;
    impl_->describe(*m);
    impl_->modules[impl_->next_module] = std::move(m);
    return impl_->next_module++;
  } catch (const std::exception& e) { *error = std::string("PTX ") + e.what(); }
  return -1;
}

void Engine::unload(int module) {
  Loaded* m = impl_->loaded(module);
  if (!m) return;
  for (Address a : m->allocations) impl_->memory.release(a);
  impl_->modules.erase(module);
}

const Entry* Engine::entry(int module, const std::string& name) const {
  Loaded* m = impl_->loaded(module);
  if (!m) return nullptr;
  auto found = m->entries.find(name);
  return found == m->entries.end() ? nullptr : &found->second;
}

Address Engine::symbol(int module, const std::string& name, size_t* bytes) {
  Loaded* m = impl_->loaded(module);
  auto found = m ? m->symbols.find(name) : Symbols::iterator();
  if (!m || found == m->symbols.end() || found->second.is_function) return 0;
  if (bytes) *bytes = found->second.bytes;
  return found->second.address;
}

void Engine::resources(int module, const std::string& name, int registers, size_t static_shared) {
  if (Loaded* m = impl_->loaded(module)) m->resources[name] = {registers, static_shared};
}

void Engine::ordered(std::function<bool(Operation, Operation)> predicate) {
  impl_->races.ordered = std::move(predicate);
}

Outcome Engine::launch(const Launch& asked) {
  Launch launch = asked;
  Grid g;
  g.launch = &launch;
  g.gpu = &impl_->gpu;
  g.options = &impl_->options;
  auto refuse = [&](const std::string& why) {
    g.outcome.status = Status::BadLaunch;
    g.outcome.detail = why;
    report_launch(g, "launch", why);
    return g.outcome;
  };
  Loaded* m = impl_->loaded(launch.module);
  const ptx::Function* f = m ? impl_->entry(*m, launch.entry) : nullptr;
  if (!f) return refuse("there is no entry named " + launch.entry);
  const uint32_t* named = f->cluster;
  bool plain = launch.cluster.x * launch.cluster.y * launch.cluster.z == 1;
  if (named[0] && plain) launch.cluster = {named[0], named[1], named[2]};
  g.clustered = launch.cluster.x * launch.cluster.y * launch.cluster.z > 1;
  Program* p = impl_->program(*m, *f);
  auto resources = m->resources.count(f->name) ? m->resources[f->name] : std::pair<int, size_t>{0, 0};
  std::string why = check_limits(impl_->gpu, launch, *p, *f, resources);
  if (!why.empty()) return refuse(why);
  if (launch.parameters.size() < m->entries[f->name].parameter_bytes)
    return refuse("the launch passes " + std::to_string(launch.parameters.size()) + " bytes of parameters; " + f->name +
                  " takes " + std::to_string(m->entries[f->name].parameter_bytes));

  g.program = p;
  g.memory = &impl_->memory;
  g.races = &impl_->races;
  g.printed = &impl_->printed;
  g.check = impl_->options.check;
  g.function_name = [m](Address a) -> const char* {
    size_t i = (a - kFunctionWindow) / 16;
    return a >= kFunctionWindow && i < m->module->functions.size() ? m->module->functions[i]->name.c_str() : nullptr;
  };
  std::vector<uint8_t> parameters = launch.parameters;
  parameters.resize(parameters.size() + 64);
  g.parameters = parameters.data();
  g.parameter_bytes = launch.parameters.size();
  g.shared_bytes = p->static_shared + launch.dynamic_shared;
  g.runs.assign(p->blocks.size(), 0);
  g.threads.assign(p->blocks.size(), 0);
  Allocation* workspace = nullptr;
  if (launch.cooperative && (workspace = impl_->memory.allocate(256, "the grid barrier"))) {
    std::memset(workspace->host, 0, 256);
    if (workspace->cells.wrote)
      std::fill(workspace->cells.wrote, workspace->cells.wrote + workspace->cells.count(), 1u << 6);
    g.workspace = workspace->start;
  }
  impl_->memory.forget_sectors();
  impl_->begin(launch.operation, "the kernel " + launch.entry);
  run_grid(g);
  impl_->end();
  gather_counters(g);
  if (workspace) impl_->memory.release(workspace->start);
  return g.outcome;
}

std::string Engine::take_printed() { return std::exchange(impl_->printed, {}); }

}  // namespace vgpu

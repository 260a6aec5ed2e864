// A C face of the engine for the tests: one call a line, outcomes as JSON.
#include <cstdio>
#include <cstring>
#include <string>

#include "../../../../src/warpsmith/machines/virtual/native/engine/engine.h"

using namespace vgpu;

namespace {

std::string text;

std::string quote(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') { out += '\\'; out += c; }
    else if (static_cast<unsigned char>(c) < 32) { char b[8]; std::snprintf(b, sizeof b, "\\u%04x", c); out += b; }
    else out += c;
  }
  return out + "\"";
}

std::string dims(const Dim3& d) { return "[" + std::to_string(d.x) + "," + std::to_string(d.y) + "," + std::to_string(d.z) + "]"; }

std::string list(const std::vector<Finding>& findings) {
  std::string out = "[";
  for (const Finding& f : findings) {
    if (out.size() > 1) out += ",";
    out += "{\"checker\":" + quote(f.checker) + ",\"message\":" + quote(f.message) + ",\"kernel\":" + quote(f.kernel) + ",\"block\":" + dims(f.block) +
           ",\"thread\":" + dims(f.thread) + ",\"file\":" + quote(f.file) + ",\"line\":" + std::to_string(f.line) + ",\"start\":" + std::to_string(f.start) +
           ",\"bytes\":" + std::to_string(f.bytes) + ",\"space\":" + quote(f.space) + ",\"count\":" + std::to_string(f.count) + "}";
  }
  return out + "]";
}

const char* status_name(Status s) {
  static const char* names[] = {"done", "faulted", "budget", "unknown", "bad_launch", "assert", "trap"};
  return names[static_cast<int>(s)];
}

std::string counters(const Counters& c) {
  std::string out = "{";
  auto add = [&](const char* name, uint64_t v) { out += quote(name) + ":" + std::to_string(v) + ","; };
  add("thread_instructions", c.thread_instructions); add("warp_instructions", c.warp_instructions);
  add("global_load_sectors", c.global_load_sectors); add("global_store_sectors", c.global_store_sectors);
  add("global_load_requests", c.global_load_requests); add("global_store_requests", c.global_store_requests);
  add("global_load_bytes", c.global_load_bytes); add("global_store_bytes", c.global_store_bytes);
  add("unique_read_bytes", c.unique_read_bytes); add("unique_written_bytes", c.unique_written_bytes);
  add("shared_wavefronts", c.shared_wavefronts); add("shared_requests", c.shared_requests); add("bank_conflicts", c.bank_conflicts);
  add("local_bytes", c.local_bytes); add("atomics", c.atomics); add("divergent_branches", c.divergent_branches); add("branches", c.branches);
  add("barriers", c.barriers); add("longest_thread", c.longest_thread);
  out += "\"classes\":{";
  for (auto& e : c.classes) out += quote(e.first) + ":" + std::to_string(e.second) + ",";
  if (out.back() == ',') out.pop_back();
  return out + "}}";
}

}  // namespace

extern "C" {

void* engine_new(int check, uint64_t budget, size_t print_limit) {
  Options o;
  o.check = check;
  o.instruction_budget = budget;
  o.print_limit = print_limit;
  return new Engine(Gpu(), o);
}
void engine_delete(void* e) { delete static_cast<Engine*>(e); }
uint64_t engine_allocate(void* e, size_t bytes, const char* label) { return static_cast<Engine*>(e)->allocate(bytes, label); }
int engine_release(void* e, uint64_t start) { return static_cast<Engine*>(e)->release(start); }
// A transfer answers with its findings; null is a refusal that left none.
const char* engine_write(void* e, uint32_t op, uint64_t to, const void* from, size_t bytes) {
  std::vector<Finding> f;
  static_cast<Engine*>(e)->write(op, to, from, bytes, &f);
  return (text = list(f)).c_str();
}
const char* engine_read(void* e, uint32_t op, void* to, uint64_t from, size_t bytes) {
  std::vector<Finding> f;
  static_cast<Engine*>(e)->read(op, to, from, bytes, &f);
  return (text = list(f)).c_str();
}
const char* engine_copy(void* e, uint32_t op, uint64_t to, uint64_t from, size_t bytes) {
  std::vector<Finding> f;
  static_cast<Engine*>(e)->copy(op, to, from, bytes, &f);
  return (text = list(f)).c_str();
}
const char* engine_fill(void* e, uint32_t op, uint64_t to, uint32_t value, size_t width, size_t count) {
  std::vector<Finding> f;
  static_cast<Engine*>(e)->fill(op, to, value, width, count, &f);
  return (text = list(f)).c_str();
}
int engine_load(void* e, const char* ptx, size_t length, const char** error) {
  std::string why;
  int module = static_cast<Engine*>(e)->load(ptx, length, &why);
  *error = (text = why).c_str();
  return module;
}
uint64_t engine_symbol(void* e, int module, const char* name, size_t* bytes) { return static_cast<Engine*>(e)->symbol(module, name, bytes); }
void engine_unordered(void* e, uint32_t first, uint32_t second) {
  static_cast<Engine*>(e)->ordered([first, second](Operation a, Operation b) { return !(a == first && b == second); });
}
const char* engine_launch(void* e, uint32_t op, int module, const char* entry, const uint32_t* grid, const uint32_t* block, size_t shared, size_t shared_limit,
                          int cooperative, const void* parameters, size_t bytes) {
  Launch l;
  l.operation = op;
  l.module = module;
  l.entry = entry;
  l.grid = {grid[0], grid[1], grid[2]};
  l.block = {block[0], block[1], block[2]};
  l.dynamic_shared = shared;
  l.max_dynamic_shared = shared_limit;
  l.cooperative = cooperative;
  l.parameters.assign(static_cast<const uint8_t*>(parameters), static_cast<const uint8_t*>(parameters) + bytes);
  Outcome o = static_cast<Engine*>(e)->launch(l);
  text = "{\"status\":" + quote(status_name(o.status)) + ",\"detail\":" + quote(o.detail) + ",\"findings\":" + list(o.findings) + ",\"counters\":" + counters(o.counters) + "}";
  return text.c_str();
}
const char* engine_printed(void* e) { return (text = static_cast<Engine*>(e)->take_printed()).c_str(); }

}

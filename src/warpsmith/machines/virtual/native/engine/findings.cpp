// Findings: who, where, what, once a line.
#include <cstdio>

#include "grid.h"

namespace vgpu {

namespace {

bool of_the_user(const std::string& file) {
  static const char* foreign[] = {
      "/targets/", "/cuda/", "/cuda-", "/usr/include", "/nvidia/", "languages/nvcc/include/", "/usr/lib"};
  for (const char* mark : foreign)
    if (file.find(mark) != std::string::npos) return false;
  return true;
}

const std::string& file_name(const ptx::Module& m, int index) {
  static const std::string none;
  auto found = m.files.find(index);
  return found == m.files.end() ? none : found->second;
}

// The .loc of an inlined call names where it was inlined; that place has its own .loc further up the text.
const ptx::Location* caller(const ptx::Module& m, size_t below, const ptx::Location& at) {
  for (size_t i = below; i-- > 0;) {
    const ptx::Location& l = m.locations[i];
    if (l.file == at.inlined_file && l.line == at.inlined_line && l.column == at.inlined_column) return &l;
  }
  return nullptr;
}

}  // namespace

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

void resolve_place(const Program& p, uint32_t where, Finding* f) {
  if (where >= p.places.size() || p.places[where].location < 0) return;
  const ptx::Module& m = *p.module;
  size_t index = static_cast<size_t>(p.places[where].location);
  ptx::Location at = m.locations[index];
  for (int depth = 0; depth < 64 && at.inlined_file && !of_the_user(file_name(m, at.file)); ++depth) {
    const ptx::Location* up = caller(m, index, at);
    if (up) {
      index = static_cast<size_t>(up - m.locations.data());
      at = *up;
    } else at = ptx::Location{at.inlined_file, at.inlined_line, at.inlined_column, 0, 0, 0};
  }
  f->file = file_name(m, at.file);
  f->line = at.line;
  f->column = at.column;
}

Dim3 thread_of(const Warp& w, int lane) { return {w.tid[0][lane], w.tid[1][lane], w.tid[2][lane]}; }

std::string name_thread(const Grid& g, uint32_t block, int warp, int lane) {
  const Dim3& grid = g.launch->grid;
  const std::vector<uint32_t>& t = g.tids[size_t(warp)];
  auto part = [](uint32_t v) { return std::to_string(v); };
  return "thread (" + part(t[size_t(lane)]) + "," + part(t[size_t(32 + lane)]) + "," + part(t[size_t(64 + lane)]) +
         ") of block (" + part(block % grid.x) + "," + part(block / grid.x % grid.y) + "," +
         part(block / grid.x / grid.y) + ")";
}

void report(Warp& w, const Inst& inst, int lane, const Fault& fault, const std::function<std::string()>& message) {
  Grid& g = *w.grid;
  if (g.stop && inst.where != g.stopped_at) return;  // what a stopped kernel still does is no fault of its own
  if (fault.sticky) {
    g.stop = true;
    g.stopped_at = inst.where;
    if (g.outcome.status == Status::Done) g.outcome.status = Status::Faulted;
  }
  Finding f;
  resolve_place(*g.program, inst.where, &f);
  std::string line = f.line ? f.file + ":" + std::to_string(f.line) : "@" + std::to_string(inst.where);
  auto key = std::make_pair(std::string(fault.checker), line);
  auto known = g.known.find(key);
  if (known != g.known.end()) {
    ++g.outcome.findings[known->second].count;
    return;
  }
  if (g.outcome.findings.size() >= g.options->findings_limit) return;
  f.checker = fault.checker;
  f.kernel = g.program->name;
  f.block = w.block->id;
  f.thread = thread_of(w, lane);
  f.start = fault.start;
  f.bytes = fault.bytes;
  f.space = fault.space;
  f.message = message();
  g.known[key] = g.outcome.findings.size();
  g.outcome.findings.push_back(std::move(f));
}

void report_launch(Grid& g, const char* checker, const std::string& message) {
  Finding f;
  f.checker = checker;
  f.message = message;
  f.kernel = g.launch->entry;
  g.outcome.findings.push_back(std::move(f));
}

void stop(Warp& w, const Inst& inst, Status status, const std::string& detail) {
  Grid& g = *w.grid;
  if (g.stop) return;
  g.outcome.status = status;
  g.outcome.detail = detail;
  g.stopped_at = inst.where;
  g.stop = true;
}

}  // namespace vgpu

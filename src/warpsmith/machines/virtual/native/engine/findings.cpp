// Findings: the thread, the source line and the message, once a line and checker.
#include <cstdio>

#include "grid.h"

namespace vgpu {

namespace {

bool is_user_file(const std::string& file) {
  static const char* foreign[] = {
      "/targets/", "/cuda/", "/cuda-", "/usr/include", "/nvidia/", "languages/nvcc/include/", "/usr/lib"};
  for (const char* mark : foreign)
    if (file.find(mark) != std::string::npos) return false;
  return true;
}

const std::string& file_name(const ptx::Module& module, int index) {
  static const std::string none;
  auto found = module.files.find(index);
  return found == module.files.end() ? none : found->second;
}

// Returns the .loc of the call site of inlined code. It precedes the .loc of the inlined line in the text.
const ptx::Location* caller(const ptx::Module& module, size_t below, const ptx::Location& at) {
  for (size_t i = below; i-- > 0;) {
    const ptx::Location& location = module.locations[i];
    if (location.file == at.inlined_file && location.line == at.inlined_line && location.column == at.inlined_column)
      return &location;
  }
  return nullptr;
}

}  // namespace

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

void resolve_place(const Program& program, uint32_t where, Finding* finding) {
  if (where >= program.places.size() || program.places[where].location < 0) return;
  const ptx::Module& module = *program.module;
  size_t index = static_cast<size_t>(program.places[where].location);
  ptx::Location at = module.locations[index];
  for (int depth = 0; depth < 64 && at.inlined_file && !is_user_file(file_name(module, at.file)); ++depth) {
    const ptx::Location* up = caller(module, index, at);
    if (up) {
      index = static_cast<size_t>(up - module.locations.data());
      at = *up;
    } else at = ptx::Location{at.inlined_file, at.inlined_line, at.inlined_column, 0, 0, 0};
  }
  finding->file = file_name(module, at.file);
  finding->line = at.line;
  finding->column = at.column;
}

Dim3 thread_of(const Warp& warp, int lane) { return {warp.tid[0][lane], warp.tid[1][lane], warp.tid[2][lane]}; }

std::string name_thread(const Grid& running, uint32_t block, int warp, int lane) {
  const Dim3& grid = running.launch->grid;
  const std::vector<uint32_t>& ids = running.tids[size_t(warp)];
  auto part = [](uint32_t value) { return std::to_string(value); };
  return "thread (" + part(ids[size_t(lane)]) + "," + part(ids[size_t(32 + lane)]) + "," +
         part(ids[size_t(64 + lane)]) + ") of block (" + part(block % grid.x) + "," + part(block / grid.x % grid.y) +
         "," + part(block / grid.x / grid.y) + ")";
}

void report(Warp& warp, const Inst& inst, int lane, const Fault& fault, const std::function<std::string()>& message) {
  Grid& grid = *warp.grid;
  if (grid.stop && inst.where != grid.stopped_at)
    return;  // other lanes of a stopped kernel may fault because of the first fault
  if (fault.sticky) {
    grid.stop = true;
    grid.stopped_at = inst.where;
    if (grid.outcome.status == Status::Done) grid.outcome.status = Status::Faulted;
  }
  Finding finding;
  resolve_place(*grid.program, inst.where, &finding);
  std::string line =
      finding.line ? finding.file + ":" + std::to_string(finding.line) : "@" + std::to_string(inst.where);
  auto key = std::make_pair(std::string(fault.checker), line);
  auto known = grid.known.find(key);
  if (known != grid.known.end()) {
    ++grid.outcome.findings[known->second].count;
    return;
  }
  if (grid.outcome.findings.size() >= grid.options->findings_limit) return;
  finding.checker = fault.checker;
  finding.kernel = grid.program->name;
  finding.block = warp.block->id;
  finding.thread = thread_of(warp, lane);
  finding.start = fault.start;
  finding.bytes = fault.bytes;
  finding.space = fault.space;
  finding.message = message();
  grid.known[key] = grid.outcome.findings.size();
  grid.outcome.findings.push_back(std::move(finding));
}

void report_launch(Grid& grid, const char* checker, const std::string& message) {
  Finding finding;
  finding.checker = checker;
  finding.message = message;
  finding.kernel = grid.launch->entry;
  grid.outcome.findings.push_back(std::move(finding));
}

void stop(Warp& warp, const Inst& inst, Status status, const std::string& detail) {
  Grid& grid = *warp.grid;
  if (grid.stop) return;
  grid.outcome.status = status;
  grid.outcome.detail = detail;
  grid.stopped_at = inst.where;
  grid.stop = true;
}

}  // namespace vgpu

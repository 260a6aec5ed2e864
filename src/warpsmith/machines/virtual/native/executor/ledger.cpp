// Merging of equal findings and of launches, and the JSON of the facts.
#include "ledger.h"

#include <algorithm>

#include "json.h"

namespace executor {
namespace {

constexpr size_t kMostFindings = 256, kMostRows = 512;
constexpr size_t kMostText = 16384;  // bytes of a name or sentence: a candidate chooses their length

std::string cut(std::string text) {
  if (text.size() > kMostText) text.resize(kMostText);
  return text;
}

bool same(const vgpu::Dim3& a, const vgpu::Dim3& block_id) {
  return a.x == block_id.x && a.y == block_id.y && a.z == block_id.z;
}

bool same(const Row& a, const Row& b) {
  return a.kernel == b.kernel && same(a.grid, b.grid) && same(a.block, b.block) &&
         a.dynamic_shared == b.dynamic_shared && a.in_graph == b.in_graph;
}

bool same(const vgpu::Finding& a, const vgpu::Finding& b) {
  return a.checker == b.checker && a.kernel == b.kernel && a.line == b.line && a.file == b.file && a.space == b.space &&
         (a.line || a.message == b.message);
}

// Calls visit with each counter and its name; used for adding and for writing.
template <class Visit>
void each(Visit visit) {
  visit("thread_instructions", &vgpu::Counters::thread_instructions);
  visit("warp_instructions", &vgpu::Counters::warp_instructions);
  visit("global_load_sectors", &vgpu::Counters::global_load_sectors);
  visit("global_store_sectors", &vgpu::Counters::global_store_sectors);
  visit("global_load_requests", &vgpu::Counters::global_load_requests);
  visit("global_store_requests", &vgpu::Counters::global_store_requests);
  visit("global_load_bytes", &vgpu::Counters::global_load_bytes);
  visit("global_store_bytes", &vgpu::Counters::global_store_bytes);
  visit("unique_read_bytes", &vgpu::Counters::unique_read_bytes);
  visit("unique_written_bytes", &vgpu::Counters::unique_written_bytes);
  visit("shared_wavefronts", &vgpu::Counters::shared_wavefronts);
  visit("shared_requests", &vgpu::Counters::shared_requests);
  visit("bank_conflicts", &vgpu::Counters::bank_conflicts);
  visit("local_bytes", &vgpu::Counters::local_bytes);
  visit("atomics", &vgpu::Counters::atomics);
  visit("divergent_branches", &vgpu::Counters::divergent_branches);
  visit("branches", &vgpu::Counters::branches);
  visit("barriers", &vgpu::Counters::barriers);
  visit("longest_thread", &vgpu::Counters::longest_thread);
}

void add(vgpu::Counters* into, const vgpu::Counters& from) {
  each([&](const char*, uint64_t vgpu::Counters::* field) { into->*field += from.*field; });
  for (const auto& [name, count] : from.classes) into->classes[name] += count;
}

void write(Json* json, const char* name, const vgpu::Dim3& size) {
  json->key(name).open('[').value(uint64_t(size.x)).value(uint64_t(size.y)).value(uint64_t(size.z)).close(']');
}

void write(Json* json, const vgpu::Finding& finding) {
  json->open('{').field("checker", finding.checker).field("message", finding.message).field("kernel", finding.kernel);
  write(json, "block", finding.block);
  write(json, "thread", finding.thread);
  json->field("file", finding.file).field("line", finding.line).field("column", finding.column);
  json->field("start", uint64_t(finding.start)).field("bytes", finding.bytes).field("space", finding.space);
  json->field("count", finding.count).close('}');
}

void write(Json* json, const Row& row) {
  json->open('{').field("kernel", row.kernel).field("launches", row.launches).field("in_graph", row.in_graph);
  write(json, "grid", row.grid);
  write(json, "block", row.block);
  json->field("dynamic_shared", uint64_t(row.dynamic_shared)).field("static_shared", uint64_t(row.static_shared));
  json->field("registers", row.registers).field("blocks_per_sm", row.blocks_per_sm);
  json->key("counters").open('{');
  each([&](const char* name, uint64_t vgpu::Counters::* field) { json->field(name, row.counters.*field); });
  json->close('}').key("classes").open('{');
  for (const auto& [name, count] : row.counters.classes) json->field(name, count);
  json->close('}').close('}');
}

}  // namespace

void Ledger::add_findings(vgpu::Finding finding) {
  for (std::string* text : {&finding.message, &finding.kernel, &finding.file}) *text = cut(std::move(*text));
  for (vgpu::Finding& known : findings_)
    if (same(known, finding)) {
      known.count += finding.count;
      return;
    }
  if (findings_.size() < kMostFindings) findings_.push_back(std::move(finding));
  else ++findings_dropped_;
}

void Ledger::add_findings(const std::vector<vgpu::Finding>& findings) {
  for (const vgpu::Finding& finding : findings) add_findings(finding);
}

void Ledger::add_launch(Row launch, const vgpu::Counters& counters) {
  launch.kernel = cut(std::move(launch.kernel));
  auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& known) { return same(known, launch); });
  // If the table is full, a launch of a new shape is added to the last row. Work that no row counts would cost no
  // modelled time.
  if (row == rows_.end() && rows_.size() >= kMostRows) row = std::prev(rows_.end());
  if (row == rows_.end()) row = rows_.insert(rows_.end(), launch);
  ++row->launches;
  add(&row->counters, counters);
}

void Ledger::append_log(const std::string& text) {
  printed_bytes_ += text.size();
  if (log_.size() < print_limit_) log_.append(text, 0, print_limit_ - log_.size());
}

void Ledger::set_error(cuda::Error error, const std::string& kind, const std::string& detail) {
  if (error_) return;
  error_ = error;
  kind_ = kind;
  detail_ = cut(detail);
}

std::string Ledger::text() const {
  Json json;
  json.open('{').key("findings").open('[');
  for (const vgpu::Finding& finding : findings_) write(&json, finding);
  json.close(']').key("kernels").open('[');
  for (const Row& row : rows_) write(&json, row);
  json.close(']').field("log", log_).field("printed_bytes", printed_bytes_);
  json.field("transfers", transfers_).field("transferred_bytes", transferred_bytes_).field("host_bytes", host_bytes_);
  json.field("findings_dropped", findings_dropped_);
  json.field("error", int(error_)).field("failure", kind_).field("detail", detail_).close('}');
  return json.text();
}

void Ledger::clear() {
  size_t limit = print_limit_;
  *this = Ledger(limit);
}

}  // namespace executor

// Copies and memsets of all shapes, as rows.
#include "copy.h"

#include <cstring>
#include <vector>

#include "pointers.h"
#include "registry.h"

namespace standin {
namespace {

Rows line(void* to, const void* from, size_t bytes) { return {to, bytes, from, bytes, bytes, 1}; }

int host_to_host(const Rows& rows, uint64_t stream) {
  if (int error = submit(Call::StreamSync, {stream})) return error;
  for (size_t row = 0; row < rows.height; ++row)
    std::memmove(static_cast<char*>(rows.to) + row * rows.to_pitch,
                 static_cast<const char*>(rows.from) + row * rows.from_pitch, rows.width);
  return cuda::kSuccess;
}

// Rows in pageable memory are copied at the call, as a driver stages them; rows in pinned memory when the copy runs.
int copy_in(const Rows& rows, uint64_t stream, bool blocking) {
  uint64_t flags = blocking ? uint64_t(wire::kBlocking) : 0;
  std::vector<uint8_t> staged;
  const void* bytes = rows.from;
  size_t length = rows.width * rows.height;
  if (!blocking && is_pinned(rows.from)) {
    flags |= wire::kLazySource;
    length = 0;
  } else if (rows.height > 1) {
    staged.resize(length);
    for (size_t row = 0; row < rows.height; ++row)
      std::memcpy(staged.data() + row * rows.width, static_cast<const char*>(rows.from) + row * rows.from_pitch,
                  rows.width);
    bytes = staged.data();
  }
  return submit(
      Call::CopyIn,
      {stream, word(rows.to), rows.to_pitch, word(rows.from), rows.from_pitch, rows.width, rows.height, flags}, bytes,
      length);
}

int copy(const Rows& rows, int kind, uint64_t stream, bool blocking) {
  if (kind < 0 || kind > 4) return set_last_error(cuda::kInvalidMemcpyDirection);
  if (rows.width == 0 || rows.height == 0) return cuda::kSuccess;
  return transfer(rows, Way(kind), stream, blocking);
}

int copy3d(const Copy3D* request, uint64_t stream, bool blocking) {
  if (request->from_array || request->to_array) return report_unknown_call("cudaMemcpy3D with an array");
  auto at = [](const Pitched& base, const Position& position, size_t slice) {
    return static_cast<char*>(base.data) + ((position.z + slice) * base.height + position.y) * base.pitch + position.x;
  };
  int error = cuda::kSuccess;
  for (size_t slice = 0; slice < request->extent.depth && !error; ++slice)
    error = copy({at(request->to, request->to_position, slice), request->to.pitch,
                  at(request->from, request->from_position, slice), request->from.pitch, request->extent.width,
                  request->extent.height},
                 request->kind, stream, blocking);
  return error;
}

int fill(void* to, size_t pitch, int value, size_t width, size_t height, uint64_t stream) {
  return submit(Call::Fill, {stream, word(to), pitch, uint64_t(value & 0xff), 1, width, height, 0});
}

int fill3d(const Pitched& to, int value, const Extent& extent, uint64_t stream) {
  int error = cuda::kSuccess;
  for (size_t slice = 0; slice < extent.depth && !error; ++slice)
    error = fill(static_cast<char*>(to.data) + slice * to.height * to.pitch, to.pitch, value, extent.width,
                 extent.height, stream);
  return error;
}

int to_symbol(const void* symbol, const void* from, size_t bytes, size_t offset, int kind, uint64_t stream,
              bool blocking) {
  Variable* variable = variable_of(symbol);
  if (!variable) return last_error(false);
  if (offset + bytes > variable->bytes) return set_last_error(cuda::kInvalidValue);
  return copy(line(reinterpret_cast<void*>(variable->address + offset), from, bytes), kind, stream, blocking);
}

int from_symbol(void* to, const void* symbol, size_t bytes, size_t offset, int kind, uint64_t stream, bool blocking) {
  Variable* variable = variable_of(symbol);
  if (!variable) return last_error(false);
  if (offset + bytes > variable->bytes) return set_last_error(cuda::kInvalidValue);
  return copy(line(to, reinterpret_cast<void*>(variable->address + offset), bytes), kind, stream, blocking);
}

}  // namespace

Way resolve(Way way, const void* to, const void* from) {
  if (way == Way::In && is_device(from)) return Way::Within;
  if (way == Way::Out && is_device(to)) return Way::Within;
  if (way != Way::Default) return way;
  bool to_device = is_device(to), from_device = is_device(from);
  return to_device ? (from_device ? Way::Within : Way::In) : (from_device ? Way::Out : Way::HostToHost);
}

int transfer(const Rows& rows, Way way, uint64_t stream, bool blocking) {
  way = resolve(way, rows.to, rows.from);
  if (way == Way::HostToHost) return host_to_host(rows, stream);
  if (way == Way::In) return copy_in(rows, stream, blocking);
  // A copy to pageable memory returns when it has ended. A copy within the device never blocks the host.
  bool waits = way == Way::Out && (blocking || !is_pinned(rows.to));
  return submit(way == Way::Out ? Call::CopyOut : Call::CopyWithin,
                {stream, word(rows.to), rows.to_pitch, word(rows.from), rows.from_pitch, rows.width, rows.height,
                 waits ? uint64_t(wire::kBlocking) : 0});
}

}  // namespace standin

using namespace standin;

extern "C" {

int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
  return copy(line(to, from, bytes), kind, 0, true);
}
int cudaMemcpy_ptds(void* to, const void* from, size_t bytes, int kind) {
  return copy(line(to, from, bytes), kind, per_thread_stream(), true);
}
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  return copy(line(to, from, bytes), kind, stream_of(stream), false);
}
int cudaMemcpyAsync_ptsz(void* to, const void* from, size_t bytes, int kind, void* stream) {
  return copy(line(to, from, bytes), kind, stream_of_ptsz(stream), false);
}
int cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  if (to_device || from_device) return set_last_error(cuda::kInvalidDevice);
  return copy(line(to, from, bytes), 3, 0, true);
}
int cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, void* stream) {
  if (to_device || from_device) return set_last_error(cuda::kInvalidDevice);
  return copy(line(to, from, bytes), 3, stream_of(stream), false);
}

int cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                 int kind) {
  return copy({to, to_pitch, from, from_pitch, width, height}, kind, 0, true);
}
int cudaMemcpy2D_ptds(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                      int kind) {
  return copy({to, to_pitch, from, from_pitch, width, height}, kind, per_thread_stream(), true);
}
int cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                      int kind, void* stream) {
  return copy({to, to_pitch, from, from_pitch, width, height}, kind, stream_of(stream), false);
}
int cudaMemcpy2DAsync_ptsz(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                           int kind, void* stream) {
  return copy({to, to_pitch, from, from_pitch, width, height}, kind, stream_of_ptsz(stream), false);
}
int cudaMemcpy3D(const Copy3D* parameters) { return copy3d(parameters, 0, true); }
int cudaMemcpy3D_ptds(const Copy3D* parameters) { return copy3d(parameters, per_thread_stream(), true); }
int cudaMemcpy3DAsync(const Copy3D* parameters, void* stream) { return copy3d(parameters, stream_of(stream), false); }
int cudaMemcpy3DAsync_ptsz(const Copy3D* parameters, void* stream) {
  return copy3d(parameters, stream_of_ptsz(stream), false);
}

int cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, int kind) {
  return to_symbol(symbol, from, bytes, offset, kind, 0, true);
}
int cudaMemcpyToSymbol_ptds(const void* symbol, const void* from, size_t bytes, size_t offset, int kind) {
  return to_symbol(symbol, from, bytes, offset, kind, per_thread_stream(), true);
}
int cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset, int kind, void* stream) {
  return to_symbol(symbol, from, bytes, offset, kind, stream_of(stream), false);
}
int cudaMemcpyToSymbolAsync_ptsz(const void* symbol, const void* from, size_t bytes, size_t offset, int kind,
                                 void* stream) {
  return to_symbol(symbol, from, bytes, offset, kind, stream_of_ptsz(stream), false);
}
int cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, int kind) {
  return from_symbol(to, symbol, bytes, offset, kind, 0, true);
}
int cudaMemcpyFromSymbol_ptds(void* to, const void* symbol, size_t bytes, size_t offset, int kind) {
  return from_symbol(to, symbol, bytes, offset, kind, per_thread_stream(), true);
}
int cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset, int kind, void* stream) {
  return from_symbol(to, symbol, bytes, offset, kind, stream_of(stream), false);
}
int cudaMemcpyFromSymbolAsync_ptsz(void* to, const void* symbol, size_t bytes, size_t offset, int kind, void* stream) {
  return from_symbol(to, symbol, bytes, offset, kind, stream_of_ptsz(stream), false);
}

int cudaMemset(void* to, int value, size_t bytes) { return fill(to, bytes, value, bytes, 1, 0); }
int cudaMemset_ptds(void* to, int value, size_t bytes) { return fill(to, bytes, value, bytes, 1, per_thread_stream()); }
int cudaMemsetAsync(void* to, int value, size_t bytes, void* stream) {
  return fill(to, bytes, value, bytes, 1, stream_of(stream));
}
int cudaMemsetAsync_ptsz(void* to, int value, size_t bytes, void* stream) {
  return fill(to, bytes, value, bytes, 1, stream_of_ptsz(stream));
}
int cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return fill(to, pitch, value, width, height, 0);
}
int cudaMemset2D_ptds(void* to, size_t pitch, int value, size_t width, size_t height) {
  return fill(to, pitch, value, width, height, per_thread_stream());
}
int cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height, void* stream) {
  return fill(to, pitch, value, width, height, stream_of(stream));
}
int cudaMemset2DAsync_ptsz(void* to, size_t pitch, int value, size_t width, size_t height, void* stream) {
  return fill(to, pitch, value, width, height, stream_of_ptsz(stream));
}
int cudaMemset3D(Pitched to, int value, Extent extent) { return fill3d(to, value, extent, 0); }
int cudaMemset3D_ptds(Pitched to, int value, Extent extent) { return fill3d(to, value, extent, per_thread_stream()); }
int cudaMemset3DAsync(Pitched to, int value, Extent extent, void* stream) {
  return fill3d(to, value, extent, stream_of(stream));
}
int cudaMemset3DAsync_ptsz(Pitched to, int value, Extent extent, void* stream) {
  return fill3d(to, value, extent, stream_of_ptsz(stream));
}

}  // extern "C"

// Parsing and writing of values. The frame comes from the evaluator process, the results from the candidate: both are
// checked.
#include "worker_values.h"

namespace worker {
namespace {

bool read_tensor(Reader* from, Held* into) {
  DLTensor& tensor = into->tensor;
  tensor.device = {2, 0};
  tensor.dtype.code = from->take<uint8_t>();
  tensor.dtype.bits = from->take<uint8_t>();
  tensor.dtype.lanes = from->take<uint16_t>();
  tensor.ndim = from->take<int32_t>();
  if (!from->good() || tensor.ndim < 0 || tensor.ndim > kMostDimensions) return false;
  for (int i = 0; i < tensor.ndim; ++i) into->shape.push_back(from->take<int64_t>());
  for (int i = 0; i < tensor.ndim; ++i) into->strides.push_back(from->take<int64_t>());
  into->shape.push_back(0);  // a scalar's arrays must have an address too
  into->strides.push_back(0);
  tensor.shape = into->shape.data();
  tensor.strides = into->strides.data();
  into->address = from->take<uint64_t>();
  into->length = from->take<uint64_t>();
  into->bytes = from->bytes(into->length);
  return from->good();
}

DLTensor* held_tensor(Reader* from, Arguments* into) {
  into->held.emplace_back();
  return read_tensor(from, &into->held.back()) ? &into->held.back().tensor : nullptr;
}

bool read_value(Reader* from, Arguments* into) {
  WsValue value{};
  value.kind = from->take<int32_t>();
  value.count = from->take<int32_t>();
  if (!from->good() || value.count < 0 || value.count > 4096) return false;
  switch (value.kind) {
    case WS_NONE: break;
    case WS_TENSOR: value.as.tensor = held_tensor(from, into); break;
    case WS_TENSORS:
      into->lists.emplace_back();
      for (int i = 0; i < value.count && from->good(); ++i) into->lists.back().push_back(held_tensor(from, into));
      value.as.tensors = into->lists.back().data();
      break;
    case WS_FLOAT: value.as.f = from->take<double>(); break;
    case WS_INT:
    case WS_BOOL: value.as.i = from->take<int64_t>(); break;
    case WS_INTS:
      into->ints.emplace_back();
      for (int i = 0; i < value.count && from->good(); ++i) into->ints.back().push_back(from->take<int64_t>());
      value.as.ints = into->ints.back().data();
      break;
    default: return false;
  }
  into->values.push_back(value);
  return from->good();
}

}  // namespace

bool read_values(Reader* from, uint32_t count, Arguments* into) {
  for (uint32_t i = 0; i < count; ++i)
    if (!read_value(from, into)) return false;
  return true;
}

bool extent(const DLTensor& tensor, uint64_t* bytes) {
  uint64_t size = uint64_t(tensor.dtype.bits) * tensor.dtype.lanes / 8, last = 0;
  bool empty = false;
  if (size == 0 || size > 64 || tensor.ndim < 0 || tensor.ndim > kMostDimensions) return false;
  if (tensor.ndim && (!tensor.shape || !tensor.strides)) return false;
  for (int i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] < 0 || tensor.strides[i] < 0) return false;
    empty = empty || tensor.shape[i] == 0;
    uint64_t reach = 0;
    if (tensor.shape[i] && __builtin_mul_overflow(uint64_t(tensor.shape[i] - 1), uint64_t(tensor.strides[i]), &reach))
      return false;
    if (__builtin_add_overflow(last, reach, &last)) return false;
  }
  if (empty) {
    *bytes = 0;
    return true;
  }
  return !__builtin_mul_overflow(last + 1, size, bytes);
}

void write_tensor(Writer* to, const DLTensor& tensor, uint64_t address, const std::vector<uint8_t>& bytes) {
  to->put<int32_t>(WS_TENSOR);
  to->put<int32_t>(1);
  to->put(tensor.dtype.code);
  to->put(tensor.dtype.bits);
  to->put(tensor.dtype.lanes);
  to->put(tensor.ndim);
  for (int i = 0; i < tensor.ndim; ++i) to->put(tensor.shape[i]);
  for (int i = 0; i < tensor.ndim; ++i) to->put(tensor.strides[i]);
  to->put(address);
  to->put<uint64_t>(bytes.size());
  to->bytes(bytes.data(), bytes.size());
}

}  // namespace worker

// The views of a tensor: other sizes and strides over the same memory.
#pragma once

#include "tensor.h"

namespace c10 {

inline Tensor Tensor::shaped(IntArrayRef sizes, TensorOptions options) {
  TORCH_CHECK(sizes.size() <= kMaxDim, "a tensor of ", sizes.size(), " dimensions; at most ", kMaxDim, " are supported");
  Tensor made(Counted<TensorImpl>(new TensorImpl));
  TensorImpl& geometry = *made.impl_.get();
  geometry.type = options.dtype().type;
  geometry.device = options.device();
  if (geometry.device.is_cuda()) geometry.device = Device(kCUDA, static_cast<DeviceIndex>(warpsmith::host().device));
  geometry.dim = static_cast<int>(sizes.size());
  for (int i = 0; i < geometry.dim; ++i) {
    TORCH_CHECK(sizes[i] >= 0, "a tensor with size ", sizes[i], " on axis ", i);
    geometry.sizes[i] = sizes[i];
  }
  return made;
}

inline void Tensor::allocate(int64_t elements) const {
  TensorImpl& geometry = *impl_.get();
  geometry.storage = Counted<Storage>(new Storage);
  Storage& memory = *geometry.storage.get();
  memory.bytes = elements * elementSize(geometry.type);
  memory.ours = geometry.device.is_cuda();
  memory.data = memory.ours ? warpsmith::device_memory(memory.bytes) : warpsmith::scratch<char>(memory.bytes);
  geometry.data = static_cast<char*>(memory.data);
}

inline std::vector<int64_t> Tensor::resolved(IntArrayRef sizes) const {
  std::vector<int64_t> found = sizes.vec();
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] < 0) open = static_cast<int64_t>(i);
    else known *= found[i];
  }
  if (open >= 0 && known) found[open] = numel() / known;
  const int64_t total = open >= 0 && known ? known * found[open] : known;
  TORCH_CHECK(total == numel(), "shape ", sizes, " is invalid for ", numel(), " elements");
  return found;
}

// torch's rule: an axis of the new shape must lie within one run of axes that are dense among themselves.
inline bool Tensor::view_strides(IntArrayRef sizes, int64_t* strides) const {
  const TensorImpl& old = seen();
  int axis = old.dim - 1;
  int64_t step = old.dim ? old.strides[axis] : 1;
  int64_t run = 1, filled = 1;
  int place = static_cast<int>(sizes.size()) - 1;
  for (; axis >= 0; --axis) {
    run *= old.sizes[axis];
    const bool ends = axis == 0 || (old.sizes[axis - 1] != 1 && old.strides[axis - 1] != run * step);
    if (!ends) continue;
    while (place >= 0 && (filled < run || sizes[place] == 1)) {
      strides[place] = filled * step;
      filled *= sizes[place--];
    }
    if (filled != run) return false;
    if (axis > 0) step = old.strides[axis - 1], run = filled = 1;
  }
  for (; place >= 0; --place) strides[place] = step * filled;
  return true;
}

inline bool Tensor::can_view(IntArrayRef sizes) const {
  int64_t strides[kMaxDim];
  const std::vector<int64_t> shape = resolved(sizes);
  return numel() == 0 || is_contiguous() || view_strides(shape, strides);
}

inline Tensor Tensor::view(IntArrayRef sizes) const {
  const std::vector<int64_t> shape = resolved(sizes);
  TORCH_CHECK(shape.size() <= kMaxDim, "a view of ", shape.size(), " dimensions; at most ", kMaxDim, " are supported");
  TensorImpl* made = copied();
  Tensor result{Counted<TensorImpl>(made)};
  made->dim = static_cast<int>(shape.size());
  for (int i = 0; i < made->dim; ++i) made->sizes[i] = shape[i];
  made->pack();
  if (numel() == 0 || is_contiguous()) return result;
  TORCH_CHECK(view_strides(shape, made->strides), "view of shape ", sizes, " over strides ", strides(),
              ": use reshape or contiguous");
  return result;
}

inline Tensor Tensor::view(ScalarType type) const {
  TORCH_CHECK(elementSize(type) == itemsize(), "view as ", type, " of elements of ", itemsize(), " bytes");
  TensorImpl* made = copied();
  made->type = type;
  return Tensor(Counted<TensorImpl>(made));
}

inline Tensor Tensor::as_strided(IntArrayRef sizes, IntArrayRef strides, std::optional<int64_t> offset) const {
  TensorImpl* made = copied();
  Tensor result{Counted<TensorImpl>(made)};
  TORCH_CHECK(sizes.size() == strides.size() && sizes.size() <= kMaxDim, "as_strided with ", sizes, " and ", strides);
  made->dim = static_cast<int>(sizes.size());
  for (int i = 0; i < made->dim; ++i) made->sizes[i] = sizes[i], made->strides[i] = strides[i];
  if (offset) made->data = static_cast<char*>(made->storage->data) + *offset * itemsize();
  return result;
}

inline Tensor Tensor::transpose(int64_t a, int64_t b) const {
  TensorImpl* made = copied();
  Tensor result{Counted<TensorImpl>(made)};
  const int first = wrap(a), second = wrap(b);
  made->sizes[first] = seen().sizes[second];
  made->sizes[second] = seen().sizes[first];
  made->strides[first] = seen().strides[second];
  made->strides[second] = seen().strides[first];
  return result;
}

inline Tensor Tensor::permute(IntArrayRef order) const {
  TORCH_CHECK(order.size() == static_cast<size_t>(dim()), "permute ", order, " of a tensor of ", dim(), " dimensions");
  TensorImpl* made = copied();
  Tensor result{Counted<TensorImpl>(made)};
  for (int i = 0; i < made->dim; ++i) {
    made->sizes[i] = seen().sizes[wrap(order[i])];
    made->strides[i] = seen().strides[wrap(order[i])];
  }
  return result;
}

inline Tensor Tensor::squeeze() const {
  Tensor result = alias();
  for (int64_t axis = dim() - 1; axis >= 0; --axis) result = result.squeeze(axis);
  return result;
}

inline Tensor Tensor::squeeze(int64_t axis) const {
  const int place = wrap(axis);
  if (seen().sizes[place] != 1) return *this;
  TensorImpl* made = copied();
  --made->dim;
  for (int i = place; i < made->dim; ++i) {
    made->sizes[i] = seen().sizes[i + 1];
    made->strides[i] = seen().strides[i + 1];
  }
  return Tensor(Counted<TensorImpl>(made));
}

inline Tensor Tensor::unsqueeze(int64_t axis) const {
  const int place = wrap(axis, 1);
  TORCH_CHECK(dim() < kMaxDim, "unsqueeze of a tensor of ", dim(), " dimensions; at most ", kMaxDim, " are supported");
  TensorImpl* made = copied();
  ++made->dim;
  for (int i = made->dim - 1; i > place; --i) {
    made->sizes[i] = seen().sizes[i - 1];
    made->strides[i] = seen().strides[i - 1];
  }
  made->strides[place] = place < dim() ? seen().sizes[place] * seen().strides[place] : 1;
  made->sizes[place] = 1;
  return Tensor(Counted<TensorImpl>(made));
}

inline Tensor Tensor::narrow(int64_t axis, int64_t start, int64_t count) const {
  const int place = wrap(axis);
  TORCH_CHECK(start >= 0 && count >= 0 && start + count <= seen().sizes[place], "narrow to [", start, ", ",
              start + count, ") of ", seen().sizes[place]);
  TensorImpl* made = copied();
  made->data += start * made->strides[place] * static_cast<int64_t>(itemsize());
  made->sizes[place] = count;
  return Tensor(Counted<TensorImpl>(made));
}

inline Tensor Tensor::slice(int64_t axis, int64_t start, int64_t end, int64_t step) const {
  TORCH_CHECK(step > 0, "slice with step ", step);
  const int64_t length = size(axis);
  auto within = [length](int64_t at) { return at < 0 ? (at + length < 0 ? 0 : at + length) : at > length ? length : at; };
  const int64_t first = within(start), last = within(end);
  Tensor result = narrow(axis, first, last > first ? last - first : 0);
  const int place = wrap(axis);
  result.impl_->sizes[place] = (result.impl_->sizes[place] + step - 1) / step;
  result.impl_->strides[place] *= step;
  return result;
}

inline Tensor Tensor::select(int64_t axis, int64_t index) const {
  const int place = wrap(axis);
  return narrow(place, index < 0 ? index + seen().sizes[place] : index, 1).squeeze(place);
}

inline Tensor Tensor::expand(IntArrayRef sizes) const {
  const int extra = static_cast<int>(sizes.size()) - seen().dim;
  TORCH_CHECK(extra >= 0 && sizes.size() <= kMaxDim, "expand of ", this->sizes(), " to ", sizes);
  TensorImpl* made = copied();
  Tensor result{Counted<TensorImpl>(made)};
  made->dim = static_cast<int>(sizes.size());
  for (int i = 0; i < made->dim; ++i) {
    const int64_t old = i < extra ? 1 : seen().sizes[i - extra];
    made->sizes[i] = sizes[i] < 0 ? old : sizes[i];
    made->strides[i] = i < extra || (old == 1 && made->sizes[i] != 1) ? 0 : seen().strides[i - extra];
    TORCH_CHECK(old == made->sizes[i] || old == 1, "expand of ", this->sizes(), " to ", sizes);
  }
  return result;
}

inline std::vector<int64_t> Tensor::flat(int64_t first, int64_t last) const {
  if (dim() == 0) return {1};
  const int begin = wrap(first), end = wrap(last);
  std::vector<int64_t> shape;
  int64_t run = 1;
  for (int i = 0; i < seen().dim; ++i) {
    run *= seen().sizes[i];
    if (i >= begin && i < end) continue;
    shape.push_back(run);
    run = 1;
  }
  return shape;
}

}  // namespace c10

namespace warpsmith {
inline void put(std::string& out, const c10::Tensor& value) { put(out, "tensor of shape "), put(out, value.sizes()); }
}  // namespace warpsmith

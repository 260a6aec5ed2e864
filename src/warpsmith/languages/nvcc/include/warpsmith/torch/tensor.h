// torch::Tensor: a counted handle over memory of the caller. Views and questions; arithmetic is not here.
#pragma once

#include <optional>

#include "accessor.h"
#include "move.h"

namespace c10 {

template <class T>
using optional = std::optional<T>;
using std::make_optional;
using std::nullopt;
using nullopt_t = std::nullopt_t;

// What the old Tensor::type() returned.
struct TypeProperties {
  ScalarType type;
  bool cuda;
  operator ScalarType() const { return type; }
  ScalarType scalarType() const { return type; }
  bool is_cuda() const { return cuda; }
};

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Counted<TensorImpl> impl) : impl_(impl) {}

  static Tensor make(IntArrayRef sizes, TensorOptions options, MemoryFormat format = MemoryFormat::Contiguous) {
    Tensor made = shaped(sizes, options);
    made.impl_->pack(format);
    made.allocate(made.numel());
    return made;
  }
  static Tensor make_strided(IntArrayRef sizes, IntArrayRef strides, TensorOptions options) {
    Tensor made = shaped(sizes, options);
    int64_t reach = 1;
    for (int i = 0; i < made.impl_->dim; ++i) {
      made.impl_->strides[i] = strides[i];
      reach += (sizes[i] - 1) * strides[i];
    }
    made.allocate(made.numel() ? reach : 0);
    return made;
  }
  // A tensor over memory of somebody else, dense unless strides are given.
  static Tensor over(void* data, IntArrayRef sizes, const int64_t* strides, TensorOptions options) {
    Tensor made = shaped(sizes, options);
    made.impl_->pack();
    for (int i = 0; strides && i < made.impl_->dim; ++i) made.impl_->strides[i] = strides[i];
    made.impl_->storage = Counted<Storage>(new Storage);
    made.impl_->storage->data = data;
    made.impl_->data = static_cast<char*>(data);
    return made;
  }

  TensorImpl* impl() const { return impl_.get(); }
  TensorImpl* unsafeGetTensorImpl() const { return impl_.get(); }
  bool defined() const { return impl_.get() != nullptr; }
  explicit operator bool() const { return defined(); }
  bool is_same(const Tensor& other) const { return impl_.get() == other.impl_.get(); }
  void reset() { impl_ = {}; }

  IntArrayRef sizes() const { return IntArrayRef(seen().sizes, seen().dim); }
  IntArrayRef strides() const { return IntArrayRef(seen().strides, seen().dim); }
  int64_t size(int64_t axis) const { return seen().sizes[wrap(axis)]; }
  int64_t stride(int64_t axis) const { return seen().strides[wrap(axis)]; }
  int64_t dim() const { return seen().dim; }
  int64_t ndimension() const { return seen().dim; }
  int64_t numel() const { return seen().count(); }
  size_t nbytes() const { return numel() * elementSize(seen().type); }
  int64_t element_size() const { return elementSize(seen().type); }
  size_t itemsize() const { return elementSize(seen().type); }
  int64_t storage_offset() const {
    return (seen().data - static_cast<char*>(seen().storage->data)) / static_cast<int64_t>(itemsize());
  }
  ScalarType scalar_type() const { return seen().type; }
  TypeMeta dtype() const { return seen().type; }
  TypeProperties type() const { return {seen().type, is_cuda()}; }
  Device device() const { return seen().device; }
  int64_t get_device() const { return seen().device.index(); }
  Layout layout() const { return kStrided; }
  TensorOptions options() const { return TensorOptions(seen().type).device(seen().device); }
  bool is_cuda() const { return seen().device.is_cuda(); }
  bool is_cpu() const { return seen().device.is_cpu(); }
  bool is_sparse() const { return false; }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const { return seen().packed(format); }
  bool is_non_overlapping_and_dense() const { return seen().packed() || seen().packed(MemoryFormat::ChannelsLast); }
  bool is_floating_point() const { return isFloatingType(seen().type); }
  bool requires_grad() const { return false; }
  const Tensor& set_requires_grad(bool) const { return *this; }
  const Tensor& requires_grad_(bool = true) const { return *this; }
  MemoryFormat suggest_memory_format() const {
    const bool last = dim() == 4 && !seen().packed() && seen().packed(MemoryFormat::ChannelsLast);
    return last ? MemoryFormat::ChannelsLast : MemoryFormat::Contiguous;
  }

  void* data_ptr() const { return seen().data; }
  void* mutable_data_ptr() const { return seen().data; }
  const void* const_data_ptr() const { return seen().data; }
  template <class T>
  T* data_ptr() const {
    constexpr ScalarType wanted = ScalarOf<std::remove_const_t<T>>::value;
    TORCH_CHECK(seen().type == wanted, "expected scalar type ", wanted, " but found ", seen().type);
    return reinterpret_cast<T*>(seen().data);
  }
  template <class T>
  T* data() const { return data_ptr<T>(); }
  template <class T>
  T* mutable_data_ptr() const { return data_ptr<T>(); }
  template <class T>
  const T* const_data_ptr() const { return data_ptr<T>(); }

  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const {
    check_rank(N);
    return {data_ptr<T>(), seen().sizes, seen().strides};
  }
  template <class T, size_t N, template <class U> class P = DefaultPtrTraits, class I = int64_t>
  GenericPackedTensorAccessor<T, N, P, I> generic_packed_accessor() const {
    check_rank(N);
    return {data_ptr<T>(), seen().sizes, seen().strides};
  }
  template <class T, size_t N, template <class U> class P = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, P> packed_accessor32() const {
    TORCH_CHECK(numel() <= 0x7fffffff, "packed_accessor32 of ", numel(), " elements; use packed_accessor64");
    return generic_packed_accessor<T, N, P, int32_t>();
  }
  template <class T, size_t N, template <class U> class P = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, P> packed_accessor64() const { return generic_packed_accessor<T, N, P, int64_t>(); }
  template <class T, size_t N, template <class U> class P = DefaultPtrTraits, class I = int64_t>
  GenericPackedTensorAccessor<T, N, P, I> packed_accessor() const { return generic_packed_accessor<T, N, P, I>(); }

  Tensor alias() const { return Tensor(Counted<TensorImpl>(copied())); }
  Tensor detach() const { return *this; }
  Tensor view(IntArrayRef sizes) const;
  Tensor view(ScalarType type) const;
  Tensor view_as(const Tensor& other) const { return view(other.sizes()); }
  Tensor as_strided(IntArrayRef sizes, IntArrayRef strides, std::optional<int64_t> offset = std::nullopt) const;
  Tensor transpose(int64_t a, int64_t b) const;
  Tensor t() const { return dim() < 2 ? *this : transpose(0, 1); }
  Tensor permute(IntArrayRef order) const;
  Tensor squeeze() const;
  Tensor squeeze(int64_t axis) const;
  Tensor unsqueeze(int64_t axis) const;
  Tensor select(int64_t axis, int64_t place) const;
  Tensor narrow(int64_t axis, int64_t start, int64_t count) const;
  Tensor slice(int64_t axis, int64_t start, int64_t end, int64_t step = 1) const;
  Tensor expand(IntArrayRef sizes) const;
  Tensor expand_as(const Tensor& other) const { return expand(other.sizes()); }
  Tensor operator[](int64_t place) const { return select(0, place); }

  // These may move data, and are templates so that only the kernels a source uses are compiled.
  template <class = void>
  Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous) const {
    return is_contiguous(format) ? *this : clone<>(format);
  }
  template <class = void>
  Tensor clone(MemoryFormat format = MemoryFormat::Contiguous) const {
    Tensor made = make(sizes(), options(), format == MemoryFormat::Preserve ? suggest_memory_format() : format);
    warpsmith::copy<>(*made.impl(), seen());
    return made;
  }
  template <class = void>
  Tensor reshape(IntArrayRef sizes) const { return can_view(sizes) ? view(sizes) : contiguous<>().view(sizes); }
  template <class = void>
  Tensor reshape_as(const Tensor& other) const { return reshape<>(other.sizes()); }
  template <class = void>
  Tensor flatten(int64_t first = 0, int64_t last = -1) const { return reshape<>(IntArrayRef(flat(first, last))); }
  template <class = void>
  Tensor to(ScalarType type, bool = false, bool copy = false) const {
    if (type == seen().type && !copy) return *this;
    Tensor made = make(sizes(), options().dtype(type), suggest_memory_format());
    warpsmith::convert<>(*made.impl(), seen());
    return made;
  }
  template <class = void>
  Tensor to(TypeMeta type, bool = false, bool copy = false) const { return to<>(type.type, false, copy); }
  template <class = void>
  Tensor to(Device device, bool = false, bool = false) const {
    if (device.type() == seen().device.type()) return *this;
    const Tensor dense = contiguous<>();
    Tensor made = make(sizes(), options().device(device));
    warpsmith::copy_across(*made.impl(), dense.seen());
    return made;
  }
  template <class = void>
  Tensor to(DeviceType device) const { return to<>(Device(device)); }
  template <class = void>
  Tensor to(Device device, ScalarType type) const { return to<>(type).to<>(device); }
  template <class = void>
  Tensor to(TensorOptions options) const { return to<>(options.dtype().type).template to<>(options.device()); }
  template <class = void>
  Tensor type_as(const Tensor& other) const { return to<>(other.scalar_type()); }
  template <class = void>
  Tensor toType(ScalarType type) const { return to<>(type); }
  template <class = void>
  Tensor cuda() const { return to<>(Device(kCUDA)); }
  template <class = void>
  Tensor cpu() const { return to<>(Device(kCPU)); }
  template <class = void>
  const Tensor& copy_(const Tensor& from, bool = false) const {
    warpsmith::convert<>(seen(), from.expand(sizes()).seen());
    return *this;
  }
  template <class = void>
  const Tensor& fill_(Scalar value) const {
    warpsmith::fill<>(seen(), value);
    return *this;
  }
  template <class = void>
  const Tensor& zero_() const {
    warpsmith::zero<>(seen());
    return *this;
  }
  template <int = 0>  // not a type, so that item<float>() can mean only the one below
  Scalar item() const {
    TORCH_CHECK(numel() == 1, "item() needs a tensor of one element, this one has ", numel());
    const Tensor here = to<>(Device(kCPU));
    return isIntegralType(seen().type, true) ? Scalar(warpsmith::load_as<int64_t>(seen().type, here.data_ptr(), 0))
                                             : Scalar(warpsmith::load_as<double>(seen().type, here.data_ptr(), 0));
  }
  template <class T>
  T item() const { return item<0>().template to<T>(); }

  Tensor new_empty(IntArrayRef sizes) const { return make(sizes, options()); }
  Tensor new_empty(IntArrayRef sizes, TensorOptions options) const { return make(sizes, options); }
  template <class = void>
  Tensor new_zeros(IntArrayRef sizes) const { return make(sizes, options()).zero_<>(); }
  template <class = void>
  Tensor new_zeros(IntArrayRef sizes, TensorOptions options) const { return make(sizes, options).template zero_<>(); }
  template <class = void>
  Tensor new_full(IntArrayRef sizes, Scalar value) const { return make(sizes, options()).fill_<>(value); }

 private:
  const TensorImpl& seen() const {
    if (!defined()) throw Error("an undefined tensor was used: an optional argument that is absent?");
    return *impl_.get();
  }
  int wrap(int64_t axis, int64_t extra = 0) const {
    const int64_t rank = seen().dim + extra;
    TORCH_CHECK(axis >= -rank && axis < rank, "axis ", axis, " of a tensor of ", rank, " dimensions");
    return static_cast<int>(axis < 0 ? axis + rank : axis);
  }
  void check_rank(size_t rank) const {
    TORCH_CHECK(rank == static_cast<size_t>(dim()), "an accessor of ", rank, " dimensions to a tensor of ", dim());
  }
  TensorImpl* copied() const {
    TensorImpl* made = new TensorImpl(seen());
    made->refs = 0;
    return made;
  }
  static Tensor shaped(IntArrayRef sizes, TensorOptions options);
  void allocate(int64_t elements) const;
  bool can_view(IntArrayRef sizes) const;
  std::vector<int64_t> flat(int64_t first, int64_t last) const;
  std::vector<int64_t> resolved(IntArrayRef sizes) const;
  bool view_strides(IntArrayRef sizes, int64_t* strides) const;

  Counted<TensorImpl> impl_;
};

using TensorList = ArrayRef<Tensor>;

}  // namespace c10

#include "view.h"

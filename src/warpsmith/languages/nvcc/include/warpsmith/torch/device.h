// Devices and tensor options: where a tensor lies and what it is made of.
#pragma once

#include "scalar_type.h"

namespace c10 {

enum class DeviceType : int8_t { CPU = 0, CUDA = 1 };
using DeviceIndex = int8_t;
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;

struct Device {
  DeviceType kind = kCPU;
  DeviceIndex place = -1;

  Device(DeviceType type, DeviceIndex index = -1) : kind(type), place(index) {}
  Device(const char* name) : kind(name[0] == 'c' && name[1] == 'u' ? kCUDA : kCPU) {}
  DeviceType type() const { return kind; }
  DeviceIndex index() const { return place; }
  bool has_index() const { return place >= 0; }
  bool is_cuda() const { return kind == kCUDA; }
  bool is_cpu() const { return kind == kCPU; }
};
inline bool operator==(Device a, Device b) { return a.kind == b.kind && a.place == b.place; }
inline bool operator!=(Device a, Device b) { return !(a == b); }

enum class Layout : int8_t { Strided };
constexpr Layout kStrided = Layout::Strided;
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast };

struct TensorOptions {
  TypeMeta element = kFloat;
  Device place = kCPU;

  TensorOptions() = default;
  TensorOptions(ScalarType type) : element(type) {}
  TensorOptions(TypeMeta type) : element(type) {}
  TensorOptions(Device device) : place(device) {}
  TensorOptions(DeviceType type) : place(type) {}
  TensorOptions(Layout) {}
  TensorOptions(MemoryFormat) {}

  TensorOptions dtype(TypeMeta type) const { return with(type, place); }
  TensorOptions dtype(ScalarType type) const { return with(type, place); }
  TensorOptions device(Device device) const { return with(element, device); }
  TensorOptions device(DeviceType type, DeviceIndex index = -1) const { return with(element, {type, index}); }
  TensorOptions device_index(DeviceIndex index) const { return with(element, {kCUDA, index}); }
  TensorOptions layout(Layout) const { return *this; }
  TensorOptions requires_grad(bool = true) const { return *this; }
  TensorOptions pinned_memory(bool = true) const { return *this; }
  TensorOptions memory_format(MemoryFormat) const { return *this; }
  TypeMeta dtype() const { return element; }
  Device device() const { return place; }
  Layout layout() const { return kStrided; }

 private:
  static TensorOptions with(TypeMeta type, Device device) {
    TensorOptions made;
    made.element = type;
    made.place = device;
    return made;
  }
};

inline TensorOptions dtype(TypeMeta type) { return TensorOptions(type); }
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions device(Device place) { return TensorOptions(place); }
inline TensorOptions device(DeviceType type) { return TensorOptions(type); }
inline TensorOptions requires_grad(bool = true) { return TensorOptions(); }

}  // namespace c10

// One entry that adds up everything it was given, kind by kind.
#include "artifact.h"

__global__ void add(float* out, const float* a, const float* b, const float* c, const long long* d, long stride,
    float rest) {
  out[0] = a[0] + a[1] + b[0] + b[1] + c[0] + c[1] + float(d[stride] + d[stride + 1]) + rest;
}

static int sum(Call& call) {
  const WsValue* v = call.arguments;
  EXPECT(v[0].kind == WS_TENSOR && v[1].kind == WS_NONE && v[2].kind == WS_TENSORS && v[2].count == 2);
  EXPECT(v[3].kind == WS_FLOAT && v[4].kind == WS_INT && v[5].kind == WS_BOOL && v[6].kind == WS_INTS &&
      v[6].count == 2);
  const DLTensor* last = v[7].as.tensor;
  EXPECT(last->ndim == 2 && last->shape[1] == 2 && last->strides[0] == 3 && last->dtype.code == 0 &&
      last->dtype.bits == 64);
  EXPECT(last->device.device_type == 2 && last->byte_offset == 0);
  float rest = float(v[3].as.f + double(v[4].as.i) + double(v[5].as.i) + double(v[6].as.ints[0] + v[6].as.ints[1]));
  float* out = fresh(call);
  auto* shape = static_cast<int64_t*>(call.host->scratch(call.host->context, sizeof(int64_t)));
  EXPECT(*shape == 0);  // scratch comes zeroed
  *shape = 1;
  call.results[0].as.tensor->shape = shape;
  auto data = [](const DLTensor* tensor) { return static_cast<const float*>(tensor->data); };
  add<<<1, 1, 0, call.stream>>>(out, call.x, data(v[2].as.tensors[0]), data(v[2].as.tensors[1]),
                                static_cast<const long long*>(last->data), long(last->strides[0]), rest);
  return 1;
}

ENTRIES(ROW(sum))

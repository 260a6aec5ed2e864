// The boundary between an artifact (a compiled candidate) and whoever calls it. Plain C layout, no libtorch, no Python.
//
// An artifact exports three functions, all extern "C":
//   int  warpsmith_abi(void)                         the version below
//   int  warpsmith_entries(const WsEntry** table)    how many functions it offers, and which
//   int  warpsmith_call(const char* name, const WsHost* host, const WsValue* arguments, int count,
//                       WsValue* results, int capacity)
//                                                    number of results, or a negative WsStatus
// Memory, the current stream and the place to complain belong to the caller and come in through WsHost.
//
// Torch style: results come back in `results`, flattened: a tuple or vector of tensors is one WS_TENSOR each, an undefined
// tensor is WS_NONE. Their memory is the caller's from then on and is not given to `release`.
// Plain style: the caller makes the results and passes them after the arguments, one WS_TENSOR each; the call returns 0
// results. Its signature names them `&tensor`, and every tensor argument `optional_tensor`, since a pointer takes both.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define WARPSMITH_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

// DLPack's tensor, by its published layout (v1, unversioned struct).
typedef struct {
  uint8_t code;  // 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 float8_e4m3fn, 12 float8_e5m2
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  int32_t device_type;  // 1 CPU, 2 CUDA
  int32_t device_id;
} DLDevice;

typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; never NULL here
  uint64_t byte_offset;
} DLTensor;

enum WsKind {
  WS_NONE = 0,  // an absent optional tensor
  WS_TENSOR = 1,
  WS_TENSORS = 2,
  WS_FLOAT = 3,
  WS_INT = 4,
  WS_BOOL = 5,
  WS_INTS = 6,
};

// One argument or one result. `count` is the length of `tensors` or `ints`.
typedef struct {
  int32_t kind;
  int32_t count;
  union {
    DLTensor* tensor;
    DLTensor** tensors;
    double f;
    int64_t i;
    const int64_t* ints;
  } as;
} WsValue;

enum WsStatus {
  WS_NO_SUCH_ENTRY = -1,
  WS_BAD_ARGUMENTS = -2,  // number or kinds differ from the entry's
  WS_REFUSED = -3,        // the candidate's own check failed or it threw; the text went to WsHost.complain
  WS_CUDA_ERROR = -4,     // a CUDA call failed inside our headers
  WS_TOO_MANY_RESULTS = -5,
};

typedef struct {
  const char* name;
  const char* doc;
  const char* signature;  // "tensor,optional_tensor,tensors,float,int,bool,ints->tensor": kinds in order
} WsEntry;

// What a tiled tensor map (TMA) describes; enums hold the values of the CUDA driver's enums of the same meaning.
typedef struct {
  int32_t data_type;  // CUtensorMapDataType
  uint32_t rank;
  void* address;
  const uint64_t* sizes;          // `rank` of them, in elements
  const uint64_t* strides_bytes;  // `rank` - 1 of them
  const uint32_t* box;            // `rank` of them
  const uint32_t* steps;          // `rank` of them, in elements
  int32_t interleave;
  int32_t swizzle;
  int32_t l2_promotion;
  int32_t out_of_bounds_fill;
} WsTiledMap;

// What the caller lends to the artifact for one call. Result tensors (their DLTensor, shape and strides) are
// allocated with `scratch` and die with the call's WsHost; their data come from `allocate`.
typedef struct {
  uint32_t version;
  int32_t device;
  void* context;
  void* stream;  // cudaStream_t; the current stream
  void* (*allocate)(void* context, size_t bytes);  // device memory, 256-byte aligned, or NULL
  void (*release)(void* context, void* data);      // gives device memory back early, of an earlier call too; may do nothing
  void* (*scratch)(void* context, size_t bytes);   // host memory, zeroed
  void (*complain)(void* context, const char* text);
  void* (*blas)(void* context);  // a cublasHandle_t bound to `stream`, or NULL where the task does not allow it
  // Fills the 128 bytes at `map` (64-byte aligned); 0, or a CUresult. NULL where there is no TMA.
  int (*encode_tensor_map)(void* context, void* map, const WsTiledMap* wanted);
} WsHost;

#ifdef __cplusplus
}
#endif

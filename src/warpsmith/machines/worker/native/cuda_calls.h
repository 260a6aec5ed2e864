// Declarations of the CUDA runtime functions that the worker calls. They stand here so that g++ builds the worker
// without NVIDIA's headers. The library is linked by soname: NVIDIA's libcudart.so.13 on a GPU, the stand-in runtime on
// the virtual GPU.
#pragma once

#include <cstddef>

extern "C" {
int cudaSetDevice(int number);
int cudaSetDeviceFlags(unsigned flags);
int cudaMalloc(void** address, size_t bytes);
int cudaFree(void* address);
int cudaMemcpy(void* to, const void* from, size_t bytes, int kind);
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream);
int cudaStreamCreate(void** stream);
int cudaStreamSynchronize(void* stream);
int cudaDeviceSynchronize();
int cudaMemset(void* to, int value, size_t bytes);
int cudaDeviceGetAttribute(int* value, int attribute, int device);
int cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes, size_t rows,
                      int kind, void* stream);
int cudaMemset2DAsync(void* to, size_t pitch, int value, size_t row_bytes, size_t rows, void* stream);
int cudaMemsetAsync(void* to, int value, size_t bytes, void* stream);
int cudaHostAlloc(void** address, size_t bytes, unsigned flags);
int cudaHostGetDevicePointer(void** device, void* host, unsigned flags);
int cudaEventCreate(void** event);
int cudaEventRecord(void* event, void* stream);
int cudaEventElapsedTime(float* milliseconds, void* start, void* end);
int cudaGetLastError();
const char* cudaGetErrorName(int error);
const char* cudaGetErrorString(int error);
}

constexpr int kHostToHost = 0, kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3;
constexpr unsigned kHostMapped = 2, kScheduleSpin = 1, kNonBlocking = 1;

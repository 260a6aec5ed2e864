// Our declarations of the runtime's structures against NVIDIA's: same size, same places.
#include <cstddef>

#include <cuda_runtime_api.h>

#include "types.h"

#define SAME(ours, theirs) static_assert(sizeof(standin::ours) == sizeof(theirs), #ours)
#define AT(ours, field, theirs, member) \
  static_assert(offsetof(standin::ours, field) == offsetof(theirs, member), #ours "." #field)

SAME(Dim3, dim3);
SAME(FunctionAttributes, cudaFuncAttributes);
AT(FunctionAttributes, max_threads, cudaFuncAttributes, maxThreadsPerBlock);
AT(FunctionAttributes, binary_version, cudaFuncAttributes, binaryVersion);
AT(FunctionAttributes, max_dynamic_shared, cudaFuncAttributes, maxDynamicSharedSizeBytes);
SAME(PointerAttributes, cudaPointerAttributes);
AT(PointerAttributes, host_pointer, cudaPointerAttributes, hostPointer);
SAME(LaunchAttribute, cudaLaunchAttribute);
AT(LaunchAttribute, bytes, cudaLaunchAttribute, val);
SAME(LaunchConfig, cudaLaunchConfig_t);
AT(LaunchConfig, attributes, cudaLaunchConfig_t, attrs);
SAME(KernelNode, cudaKernelNodeParams);
AT(KernelNode, parameters, cudaKernelNodeParams, kernelParams);
SAME(FillNode, cudaMemsetParams);
AT(FillNode, width, cudaMemsetParams, width);
SAME(Pitched, cudaPitchedPtr);
SAME(Extent, cudaExtent);
SAME(Position, cudaPos);
SAME(Copy3D, cudaMemcpy3DParms);
AT(Copy3D, to, cudaMemcpy3DParms, dstPtr);
AT(Copy3D, kind, cudaMemcpy3DParms, kind);
SAME(UpdateResult, cudaGraphExecUpdateResultInfo);
SAME(InstantiateParameters, cudaGraphInstantiateParams);
SAME(Properties, cudaDeviceProp);
AT(Properties, memory_bytes, cudaDeviceProp, totalGlobalMem);
AT(Properties, registers_per_block, cudaDeviceProp, regsPerBlock);
AT(Properties, grid_most, cudaDeviceProp, maxGridSize);
AT(Properties, constant_bytes, cudaDeviceProp, totalConstMem);
AT(Properties, sm_count, cudaDeviceProp, multiProcessorCount);
AT(Properties, surface_alignment, cudaDeviceProp, surfaceAlignment);
AT(Properties, unified_addressing, cudaDeviceProp, unifiedAddressing);
AT(Properties, l2_bytes, cudaDeviceProp, l2CacheSize);
AT(Properties, shared_per_sm, cudaDeviceProp, sharedMemPerMultiprocessor);
AT(Properties, registers_per_sm, cudaDeviceProp, regsPerMultiprocessor);
AT(Properties, cooperative, cudaDeviceProp, cooperativeLaunch);
AT(Properties, shared_per_block_optin, cudaDeviceProp, sharedMemPerBlockOptin);
AT(Properties, blocks_per_sm, cudaDeviceProp, maxBlocksPerMultiProcessor);
AT(Properties, reserved_shared, cudaDeviceProp, reservedSharedMemPerBlock);
AT(Properties, pools, cudaDeviceProp, memoryPoolsSupported);

// One use of every dispatch and check macro, of the 16-bit types, accessors, streams and guards.
#include <ATen/AccumulateType.h>
#include <ATen/cuda/Atomic.cuh>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_INPUT(x) CHECK_CUDA(x); TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")

template <typename scalar_t>
__global__ void arithmetic(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int64_t n) {
  using acc_t = at::acc_type<scalar_t, true>;
  using op_t = at::opmath_type<scalar_t>;
  CUDA_KERNEL_LOOP(i, n) {
    scalar_t a = x[i], b = scalar_t(2), c = 0;
    c = a + b * a - a / b;
    c += a;
    c *= scalar_t(0.5);
    acc_t sum = static_cast<acc_t>(c) + acc_t(1);
    sum += __expf(static_cast<float>(a));
    if (a > b || a <= scalar_t(0) || c == b || a != b) sum = -sum;
    const scalar_t top = std::numeric_limits<scalar_t>::max(), low = std::numeric_limits<scalar_t>::lowest();
    const scalar_t inf = std::numeric_limits<scalar_t>::infinity();
    sum = sum > acc_t(top) ? acc_t(inf) : sum;
    sum = max(sum, acc_t(low));
    sum += __shfl_xor_sync(0xffffffff, sum, 1) + WARP_SHFL_DOWN(sum, 2) + WARP_SHFL_XOR(sum, 4);
    y[i] = static_cast<scalar_t>(op_t(sum) * op_t(1));
    y[i] = -y[i] + 1.0f;
    y[i] = fmaxf(y[i], 0.f);
    y[i] = sqrt(static_cast<op_t>(y[i])) + a * 2;
    CUDA_KERNEL_ASSERT(i < n);
  }
}

__global__ void accessors(const torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits> x,
                          at::PackedTensorAccessor64<float, 2> y, torch::PackedTensorAccessor<float, 1, torch::RestrictPtrTraits, size_t> z) {
  const int i = blockIdx.x, j = threadIdx.x;
  if (i < x.size(0) && j < x.size(1)) y[i][j] = x[i][j] * 2.0f + z[j] + float(y.stride(0));
  gpuAtomicAdd(&y[0][0], 1.0f);
}

__global__ void halves(const __half* x, __nv_bfloat16* y, c10::Half* z, c10::BFloat16* w) {
  const int i = threadIdx.x;
  __half2 pair = __half2half2(x[i]);
  pair = __hadd2(pair, pair);
  float f = __half2float(x[i]) + __low2float(pair) + __bfloat162float(y[i]);
  y[i] = __float2bfloat16(f);
  z[i] = __float2half(f);
  z[i] = x[i];
  z[i] += c10::Half(1.0f);
  w[i] = f;
  __half back = z[i];
  __half cast = static_cast<__half>(z[i]);
  __nv_bfloat16 wide = static_cast<__nv_bfloat16>(w[i]);
  w[i] = c10::BFloat16(wide) * c10::BFloat16(2) + 0.5f;
  z[i] = c10::Half(0x3c00, c10::Half::from_bits()) * static_cast<at::Half>(back) + static_cast<at::Half>(cast);
  atomicAdd(z, z[i]);
  gpuAtomicAdd(w, w[i]);
  __shared__ c10::Half tile[32];
  tile[i] = z[i];
  __syncthreads();
  z[i] = tile[31 - i] < z[i] ? tile[i] : z[i];
}

__global__ void __launch_bounds__(256, 2) count_up(int64_t* x) { atomicAdd(reinterpret_cast<unsigned long long*>(x), 1ULL); }

template <typename T>
void launch(torch::Tensor x, torch::Tensor y) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  arithmetic<T><<<at::cuda::detail::GET_BLOCKS(x.numel()), 256, 0, stream>>>(x.data_ptr<T>(), y.data_ptr<T>(), x.numel());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor forward(torch::Tensor x) {
  CHECK_INPUT(x);
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  const c10::cuda::CUDAGuard other(x.device());
  c10::DeviceGuard third(x.device());
  at::cuda::CUDAGuard fourth{static_cast<c10::DeviceIndex>(x.get_device())};
  torch::NoGradGuard no_grad;
  auto y = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "a", ([&] { launch<scalar_t>(x, y); }));
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.type(), "b", [&] { launch<scalar_t>(x, y); });
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x.scalar_type(), "c", [&] { launch<scalar_t>(x, y); });
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, x.dtype(), "d",
                                  [&] { launch<scalar_t>(x, y); });
  AT_DISPATCH_SWITCH(x.scalar_type(), "e", AT_DISPATCH_CASE(at::ScalarType::Float, [&] { launch<scalar_t>(x, y); })
                                               AT_DISPATCH_CASE(at::ScalarType::Half, [&] { launch<scalar_t>(x, y); }));
  AT_DISPATCH_REDUCED_FLOATING_TYPES(x.scalar_type(), "f", [&] { launch<scalar_t>(x, y); });
  const int width = AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBool, x.scalar_type(), "g", [&] { return int(sizeof(scalar_t)); });
  AT_DISPATCH_INTEGRAL_TYPES(torch::kInt64, "h", [&] { y.fill_(scalar_t(width)); });
  AT_DISPATCH_INDEX_TYPES(torch::kInt32, "i", [&] { y.fill_(sizeof(index_t)); });
  AT_DISPATCH_ALL_TYPES(x.scalar_type(), "j", [&] { y.fill_(scalar_t(1)); });
  AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(x.scalar_type(), "k", [&] { y.fill_(scalar_t(1)); });
  return y;
}

torch::Tensor checks(torch::Tensor x, torch::Tensor index) {
  TORCH_CHECK(x.is_cuda());
  TORCH_CHECK_EQ(x.dim(), 2);
  TORCH_CHECK_GE(x.size(0), 1);
  TORCH_CHECK_TYPE(x.scalar_type() == at::kFloat, "type");
  TORCH_CHECK_VALUE(x.numel() > 0, "value ", x.numel(), std::string(" elements"), ' ', 1.5, true);
  TORCH_CHECK_INDEX(x.size(0) > 0, "index");
  TORCH_INTERNAL_ASSERT(x.defined(), "internal");
  TORCH_WARN("slow for ", x.sizes());
  AT_ASSERTM(x.dim() == 2, "old spelling");
  if (x.size(1) == 12345) AT_ERROR("odd ", x.size(1));
  C10_CUDA_CHECK(cudaGetLastError());
  AT_CUDA_CHECK(cudaPeekAtLastError());
  auto y = torch::zeros_like(x), z = torch::ones({x.size(1)}, x.options());
  auto stream = c10::cuda::getCurrentCUDAStream(x.device().index());
  accessors<<<dim3(x.size(0)), dim3(x.size(1)), 0, stream.stream()>>>(
      x.packed_accessor32<float, 2, torch::RestrictPtrTraits>(), y.packed_accessor64<float, 2>(),
      z.packed_accessor<float, 1, torch::RestrictPtrTraits, size_t>());
  AT_CUDA_CHECK(cudaGetLastError());
  auto h = x.to(torch::kHalf), b = x.to(torch::kBFloat16);
  halves<<<1, 32, 0, stream>>>(reinterpret_cast<const __half*>(h.data_ptr<at::Half>()),
                               reinterpret_cast<__nv_bfloat16*>(b.data_ptr<at::BFloat16>()), h.data_ptr<c10::Half>(),
                               b.data_ptr<c10::BFloat16>());
  count_up<<<at::ceil_div(int64_t(5), int64_t(2)), 1, 0, at::cuda::getCurrentCUDAStream()>>>(index.data_ptr<int64_t>());
  {
    c10::cuda::CUDAStreamGuard side(at::cuda::getStreamFromPool());
    y.zero_();
    side.~CUDAStreamGuard();
    new (&side) c10::cuda::CUDAStreamGuard(c10::cuda::getDefaultCUDAStream());
  }
  for (const auto i : c10::irange(2)) TORCH_CHECK(i < 2);
  TORCH_CHECK(at::cuda::getCurrentDeviceProperties()->multiProcessorCount > 0 && at::cuda::warp_size() == C10_WARP_SIZE);
  at::cuda::stream_synchronize(stream);
  return y.to(torch::kFloat32).contiguous();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward);
  m.def("checks", &checks);
}

// Warp operations whose mask names lanes that are elsewhere, or that read from a lane that takes no part. Lanes that
// have left the kernel may stand in a mask; reading from one is a fault. Either line of a pair may be named.
#include "fault.h"

constexpr unsigned kAll = 0xffffffffu;

// Half the warp has left the kernel; the other half reads from it.
template <bool kFixed>
__global__ void from_exited_lane(const float* x, float* out, int n) {
  int lane = threadIdx.x;
  float v = x[lane];
  if (lane >= 16) return;
  int from = kFixed ? lane ^ 8 : lane ^ 16;
  float other = __shfl_sync(kFixed ? 0x0000ffffu : kAll, v, from);  // fault: from_exited_lane
  out[lane] = v + other;
}

// In the branch only even lanes are at home; the odd ones wait behind it.
template <bool kFixed>
__global__ void in_a_branch(const float* x, float* out, int n) {
  int lane = threadIdx.x;
  float v = x[lane];
  if (lane % 2 == 0) v += __shfl_down_sync(kFixed ? 0x55555555u : kAll, v, 2);  // fault: in_a_branch
  __syncwarp();  // fault: in_a_branch
  out[lane] = v;
}

// The mask is right for the warp, but the source lane is not in it.
template <bool kFixed>
__global__ void source_not_in_mask(const float* x, float* out, int n) {
  int lane = threadIdx.x;
  float v = x[lane];
  if (lane < 8) {
    v += __shfl_sync(0x000000ffu, v, kFixed ? 3 : 12);  // fault: source_not_in_mask
    out[lane] = v;
  }
}

// A lane that its own mask does not name.
template <bool kFixed>
__global__ void caller_not_in_mask(const float* x, float* out, int n) {
  int lane = threadIdx.x;
  float v = x[lane];
  v = __shfl_xor_sync(kFixed ? kAll : 0x0fffffffu, v, 1);  // fault: caller_not_in_mask
  out[lane] = v;
}

// The tail of the loop runs with fewer lanes than the mask says.
template <bool kFixed>
__global__ void in_a_ragged_loop(const float* x, float* out, int n) {
  int lane = threadIdx.x, total = 0;
  int last = kFixed ? 96 : 80;
  for (int i = lane; i < last; i += 32) {
    unsigned votes = __ballot_sync(kAll, x[i] > 10.f);  // fault: in_a_ragged_loop
    total += __popc(votes);
  }
  out[lane] = __reduce_max_sync(kAll, total);  // fault: in_a_ragged_loop
}

template <bool kFixed>
__global__ void reduce_with_an_absentee(const float* x, float* out, int n) {
  int lane = threadIdx.x, v = static_cast<int>(x[lane]);
  if (kFixed || lane != 7) v = __reduce_add_sync(kAll, v);  // fault: reduce_with_an_absentee
  __syncwarp();  // fault: reduce_with_an_absentee
  out[lane] = v;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", RUN(from_exited_lane<true>, 1, 32, 0));
  TWINS(from_exited_lane, 1, 32, 0);
  TWINS(in_a_branch, 1, 32, 0);
  TWINS(source_not_in_mask, 1, 32, 0);
  TWINS(caller_not_in_mask, 1, 32, 0);
  TWINS(in_a_ragged_loop, 1, 32, 0);
  TWINS(reduce_with_an_absentee, 1, 32, 0);
}

// A fat binary of its own before the compiler's, with that in its tail: the section looks like one image.
#include "../virtual/runtime/artifact.h"

__global__ void bump(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1.0f;
}

#ifndef __CUDA_ARCH__
asm(R"(
  .pushsection .nv_fatbin, "a"
  .balign 8
own_image:
  .long 0xba55ed50
  .short 1, 16
  .quad own_end - own_image - 16
  .short 1, 0x101
  .long 64
  .quad own_rest - own_text
  .long 0, 0
  .short 0, 9
  .long 90, 0, 0
  .quad 0, 0, 0
own_text:
  .ascii ".version 8.0\n.target sm_90a\n.address_size 64\n"
  .ascii ".visible .entry _Z4bumpPfi(.param .u64 x, .param .u32 n) {\n.reg .b64 %at;\n"
  .ascii "ld.param.u64 %at, [x];\nst.global.f32 [%at], 0f41100000;\nret;\n}\n"
  .balign 8, 0
own_rest:
  .short 0, 0x101
  .long 64
  .quad own_end - own_rest - 64
  .zero 48
  .subsection 1
own_end:
  .popsection
)");
#endif

static int launch(Call& call) {
  bump<<<1, 256, 0, call.stream>>>(call.x, call.n);
  OK(cudaGetLastError());
  return same(call);
}

ENTRIES({"launch", launch})

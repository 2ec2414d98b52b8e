//===- Prelude.cpp - what every emitted CUDA source begins with -----------===//

#include "KernelText.h"

namespace cleave::cuda {

llvm::StringRef preludeText() {
  return R"(// Storage of bf16; arithmetic is done in float.
struct bf16 {
  unsigned short bits;
};
__device__ inline float toFloat(bf16 x) { return __uint_as_float((unsigned int)x.bits << 16); }
__device__ inline bf16 toBf16(float x) {
  unsigned int bits = __float_as_uint(x);
  unsigned int rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  unsigned int quiet = (bits >> 16) | 0x40u;
  bf16 result;
  result.bits = (unsigned short)(x != x ? quiet : rounded);
  return result;
}

// Four neighbours, read and written at once.
template <class T> struct __align__(4 * sizeof(T)) Four {
  T at[4];
};
template <class T> __device__ inline Four<T> load4(const T *from) {
  return *reinterpret_cast<const Four<T> *>(from);
}
template <class T> __device__ inline void store4(T *to, const Four<T> &values) {
  *reinterpret_cast<Four<T> *>(to) = values;
}

// A NaN on either side gives NaN.
__device__ inline float maximum(float a, float b) { return a > b || a != a ? a : b; }
__device__ inline float minimum(float a, float b) { return a < b || a != a ? a : b; }

// How a reduction combines two partial results.
struct Sum {
  template <class T> __device__ static T combine(T a, T b) { return a + b; }
};
struct Product {
  template <class T> __device__ static T combine(T a, T b) { return a * b; }
};
struct Maximum {
  __device__ static float combine(float a, float b) { return maximum(a, b); }
  __device__ static int combine(int a, int b) { return a > b ? a : b; }
};
struct Minimum {
  __device__ static float combine(float a, float b) { return minimum(a, b); }
  __device__ static int combine(int a, int b) { return a < b ? a : b; }
};
struct MaximumNumber {
  __device__ static float combine(float a, float b) { return fmaxf(a, b); }
};
struct MinimumNumber {
  __device__ static float combine(float a, float b) { return fminf(a, b); }
};
struct Or {
  __device__ static int combine(int a, int b) { return a | b; }
};
struct And {
  __device__ static int combine(int a, int b) { return a & b; }
};

// Each of these gives the result to all threads of the team, in an order of
// additions that is always the same.
template <class Op, class T> __device__ inline T reduceWarp(T value) {
  for (int offset = 16; offset > 0; offset >>= 1)
    value = Op::combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}
template <class Op, int threads, class T> __device__ inline T reduceBlock(T value, T *scratch) {
  value = reduceWarp<Op>(value);
  if (threadIdx.x % 32 == 0)
    scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[0];
  for (int warp = 1; warp < threads / 32; ++warp)
    value = Op::combine(value, scratch[warp]);
  __syncthreads();
  return value;
}
// Over the warps of a block, for each of 32 columns on its own.
template <class Op, int warps, class T> __device__ inline T reduceColumn(T value, T *scratch) {
  scratch[threadIdx.x] = value;
  for (int half = warps / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half * 32)
      scratch[threadIdx.x] = Op::combine(scratch[threadIdx.x], scratch[threadIdx.x + half * 32]);
  }
  __syncthreads();
  value = scratch[threadIdx.x % 32];
  __syncthreads();
  return value;
}
)";
}

} // namespace cleave::cuda

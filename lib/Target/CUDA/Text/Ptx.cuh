// What CUDA C++ has no words for, each in a function; the shim brings twins of its own.
#ifndef CLEAVE_SIMT
#define DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]

__device__ __forceinline__ unsigned sharedAddress(const void *at) {
  return (unsigned)__cvta_generic_to_shared(at);
}

// Matrices of 8 × 8 elements of two bytes: lane l names row l % 8 of matrix l / 8, and gets
// elements 2 * (l % 4) and the next of row l / 4 of each, or of column l / 4.
template <int count>
__device__ __forceinline__ void loadMatrices(unsigned *registers, const void *row);
template <>
__device__ __forceinline__ void loadMatrices<1>(unsigned *registers, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
               : "=r"(registers[0])
               : "r"(sharedAddress(row))
               : "memory");
}
template <>
__device__ __forceinline__ void loadMatrices<2>(unsigned *registers, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(registers[0]), "=r"(registers[1])
               : "r"(sharedAddress(row))
               : "memory");
}
template <>
__device__ __forceinline__ void loadMatrices<4>(unsigned *registers, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(sharedAddress(row))
               : "memory");
}
template <int count>
__device__ __forceinline__ void loadMatricesTransposed(unsigned *registers, const void *row);
template <>
__device__ __forceinline__ void loadMatricesTransposed<1>(unsigned *registers, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
               : "=r"(registers[0])
               : "r"(sharedAddress(row))
               : "memory");
}
template <>
__device__ __forceinline__ void loadMatricesTransposed<2>(unsigned *registers, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(registers[0]), "=r"(registers[1])
               : "r"(sharedAddress(row))
               : "memory");
}
template <>
__device__ __forceinline__ void loadMatricesTransposed<4>(unsigned *registers, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(sharedAddress(row))
               : "memory");
}

// sums += a · b for tiles of 16 × 16 and 16 × 8, four sums for each lane.
__device__ __forceinline__ void multiplyBf16(float *sums, const unsigned *a, const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void multiplyHalf(float *sums, const unsigned *a, const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// 16 bytes to shared memory, of which the first `bytes` are read and the others become zero.
__device__ __forceinline__ void copyAsync16(void *to, const void *from, int bytes = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(to)), "l"(from),
               "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void commitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits for the copies of all groups but the last few.
template <int groups> __device__ __forceinline__ void waitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}
#endif

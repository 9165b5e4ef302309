// Products of small matrices by the 32 lanes of a warp, as `mma.sync` and `wmma` define them: every lane puts its part
// of both factors into shared memory and computes its part of the product from there.
#pragma once

// What four bytes of a register hold: two or four numbers of 16 or 8 bits, or one.
struct weft_halves {
  static const int count = 2;
  typedef float sum;
  static __device__ float at(unsigned bits, int k) {
    return (float)__builtin_bit_cast(_Float16, (unsigned short)(bits >> 16 * k));
  }
};
struct weft_brain_halves {
  static const int count = 2;
  typedef float sum;
  static __device__ float at(unsigned bits, int k) {
    return __builtin_bit_cast(float, k ? bits & 0xffff0000u : bits << 16);
  }
};
struct weft_short_floats {  // tf32: a float of which the last 13 bits do not count
  static const int count = 1;
  typedef float sum;
  static __device__ float at(unsigned bits, int) { return __builtin_bit_cast(float, bits & 0xffffe000u); }
};
struct weft_signed_bytes {
  static const int count = 4;
  typedef int sum;
  static __device__ int at(unsigned bits, int k) { return (signed char)(bits >> 8 * k); }
};
struct weft_unsigned_bytes {
  static const int count = 4;
  typedef int sum;
  static __device__ int at(unsigned bits, int k) { return (int)(bits >> 8 * k & 255u); }
};

static inline __device__ unsigned weft_matrix_thread() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

// mma.sync.m16n8k(K): lane 4 g + t has rows g and g + 8 of the left factor, column g of the right one, and columns 2 t
// and 2 t + 1 of the result, to which the product is added.
template <typename Left, typename Right, int K>
static inline __device__ void weft_ptx_mma(typename Left::sum *result, const unsigned *left, const unsigned *right) {
  typedef typename Left::sum Sum;
  __shared__ Sum weft_left[32][16][K], weft_right[32][8][K];
  unsigned warp = weft_matrix_thread() / 32u, lane = weft_matrix_thread() % 32u, g = lane / 4u, t = lane % 4u;
  const int each = Left::count, registers = K / (4 * each);
#pragma unroll
  for (int r = 0; r < registers; r++)
#pragma unroll
    for (int k = 0; k < each; k++) {
      unsigned at = each * t + 4 * each * r + k;
      weft_left[warp][g][at] = Left::at(left[2 * r], k);
      weft_left[warp][g + 8][at] = Left::at(left[2 * r + 1], k);
      weft_right[warp][g][at] = Right::at(right[r], k);
    }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 4; i++) {
    Sum sum = 0;
    for (int k = 0; k < K; k++) sum += weft_left[warp][g + 8 * (i / 2)][k] * weft_right[warp][2 * t + i % 2][k];
    result[i] += sum;
  }
  __syncwarp();
}

// The same with a result of four numbers of 16 bits in two registers.
static inline __device__ float weft_ptx_half_at(unsigned bits, int k) { return weft_halves::at(bits, k); }
static inline __device__ unsigned weft_ptx_halves(float low, float high) {
  return (unsigned)__builtin_bit_cast(unsigned short, (_Float16)low) |
         (unsigned)__builtin_bit_cast(unsigned short, (_Float16)high) << 16;
}

// mma.sync.m8n8k4 of doubles.
static inline __device__ void weft_ptx_mma_double(double *result, double left, double right) {
  __shared__ double weft_left[32][8][4], weft_right[32][8][4];
  unsigned warp = weft_matrix_thread() / 32u, lane = weft_matrix_thread() % 32u, g = lane / 4u, t = lane % 4u;
  weft_left[warp][g][t] = left, weft_right[warp][g][t] = right;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 4; k++) result[i] += weft_left[warp][g][k] * weft_right[warp][2 * t + i][k];
  __syncwarp();
}

// ldmatrix: lane l names a row of matrix l / 8; a lane gets two neighbours of row lane / 4, or of that column.
static inline __device__ unsigned weft_ptx_matrix_row(unsigned row, int matrix) {
  unsigned lane = weft_matrix_thread() % 32u;
  unsigned from = __shfl_sync(0xffffffffu, row, (int)(8 * matrix + lane / 4u));
  return *(const unsigned *)weft_ptx_shared_at(from + 4u * (lane % 4u));
}
static inline __device__ unsigned weft_ptx_matrix_column(unsigned row, int matrix) {
  unsigned lane = weft_matrix_thread() % 32u;
  unsigned low = __shfl_sync(0xffffffffu, row, (int)(8 * matrix + 2 * (lane % 4u)));
  unsigned high = __shfl_sync(0xffffffffu, row, (int)(8 * matrix + 2 * (lane % 4u) + 1));
  return (unsigned)*(const unsigned short *)weft_ptx_shared_at(low + 2u * (lane / 4u)) |
         (unsigned)*(const unsigned short *)weft_ptx_shared_at(high + 2u * (lane / 4u)) << 16;
}

// cp.async: copied when it is asked for, which a program that waits for it cannot tell; zeros behind the bytes given.
static inline __device__ void weft_ptx_copy(void *to, const void *from, unsigned bytes, unsigned given) {
  for (unsigned i = 0; i < bytes / 4u; i++) {
    unsigned word = 0;
    if (4u * i < given) word = ((const unsigned *)from)[i];
    if (4u * i + 4u > given && 4u * i < given) word &= (1u << 8u * (given - 4u * i)) - 1u;
    ((unsigned *)to)[i] = word;
  }
}
// Rounded to the ten bits of tf32, halves away from zero.
static inline __device__ float weft_ptx_tf32(float x) {
  unsigned bits = __builtin_bit_cast(unsigned, x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  return __builtin_bit_cast(float, (bits + 0x1000u) & 0xffffe000u);
}

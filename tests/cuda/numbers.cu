// Functions of numbers, elementwise: `numbers CASE` reads rows of 32-bit words and writes rows of words.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logos.cuh"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

enum { INPUTS = 3, OUTPUTS = 16 };
typedef void Row(const unsigned *in, unsigned *out);

__device__ void narrow(const unsigned *in, unsigned *out) {
    out[0] = __half_as_ushort(__float2half(__uint_as_float(in[0])));
    out[1] = __bfloat16_as_ushort(__float2bfloat16(__uint_as_float(in[0])));
    const __half2 pair = __floats2half2_rn(1.5f, __uint_as_float(in[0]));
    out[2] = __half_as_ushort(__high2half(pair));
    out[3] = __half_as_ushort(__double2half(double(__uint_as_float(in[0])) * (1.0 + 1e-12)));
}

__device__ void widen(const unsigned *in, unsigned *out) {
    const unsigned short bits = (unsigned short)in[0];
    out[0] = __float_as_uint(__half2float(__ushort_as_half(bits)));
    out[1] = __float_as_uint(__bfloat162float(__ushort_as_bfloat16(bits)));
    const float2 both = __half22float2(__halves2half2(__ushort_as_half(bits), __ushort_as_half(bits)));
    out[2] = __float_as_uint(both.x), out[3] = __float_as_uint(both.y);
}

__device__ void half_sums(const unsigned *in, unsigned *out) {
    const __half x = __ushort_as_half((unsigned short)in[0]), y = __ushort_as_half((unsigned short)in[1]);
    const __half z = __ushort_as_half((unsigned short)in[2]);
    out[0] = __half_as_ushort(x + y), out[1] = __half_as_ushort(__hsub(x, y));
    out[2] = __half_as_ushort(x * y), out[3] = __half_as_ushort(__hdiv(x, y));
    out[4] = __half_as_ushort(__hfma(x, y, z)), out[5] = x < y, out[6] = __heq(x, y);
    const __half2 sum = __hfma2(__halves2half2(x, y), __halves2half2(y, z), __halves2half2(z, x));
    out[7] = __half_as_ushort(__low2half(sum)), out[8] = __half_as_ushort(__high2half(sum));
}

__device__ void bfloat16_sums(const unsigned *in, unsigned *out) {
    const __nv_bfloat16 x = __ushort_as_bfloat16((unsigned short)in[0]);
    const __nv_bfloat16 y = __ushort_as_bfloat16((unsigned short)in[1]);
    const __nv_bfloat16 z = __ushort_as_bfloat16((unsigned short)in[2]);
    out[0] = __bfloat16_as_ushort(x + y), out[1] = __bfloat16_as_ushort(__hsub(x, y));
    out[2] = __bfloat16_as_ushort(x * y), out[3] = __bfloat16_as_ushort(__hdiv(x, y));
    out[4] = __bfloat16_as_ushort(__hfma(x, y, z)), out[5] = x < y, out[6] = __heq(x, y);
}

__device__ void integers(const unsigned *in, unsigned *out) {
    const int x = int(in[0]), y = int(in[1]), z = int(in[2]);
    out[0] = unsigned(__dp4a(x, y, z)), out[1] = __dp4a(in[0], in[1], in[2]);
    out[2] = unsigned(__popc(in[0])), out[3] = unsigned(__ffs(x)), out[4] = unsigned(__clz(x));
    out[5] = __brev(in[0]), out[6] = __byte_perm(in[0], in[1], in[2]);
    out[7] = unsigned(__mulhi(x, y)), out[8] = __umulhi(in[0], in[1]);
    const long long wide = (long long)((unsigned long long)in[0] << 32 | in[1]);
    out[9] = unsigned(__popcll((unsigned long long)wide)), out[10] = unsigned(__ffsll(wide));
    out[11] = unsigned(__clzll(wide)), out[12] = unsigned(min(x, y)), out[13] = max(in[0], in[1]);
    const long long high = __mul64hi(wide, wide ^ z);
    out[14] = unsigned(high), out[15] = unsigned(high >> 32);
}

__device__ void roundings(const unsigned *in, unsigned *out) {
    const float x = __uint_as_float(in[0]);
    out[0] = unsigned(__float2int_rn(x)), out[1] = unsigned(__float2int_rz(x));
    out[2] = unsigned(__float2int_rd(x)), out[3] = unsigned(__float2int_ru(x));
    const long long wide = __float2ll_rn(x);
    out[4] = unsigned(wide), out[5] = unsigned(wide >> 32);
    out[6] = __float_as_uint(__fsqrt_rn(x)), out[7] = __float_as_uint(__frcp_rn(x));
    out[8] = __float_as_uint(__fmaf_rn(x, __uint_as_float(in[1]), __uint_as_float(in[2])));
    out[9] = __float_as_uint(min(x, __uint_as_float(in[1]))), out[10] = __float_as_uint(max(x, __uint_as_float(in[1])));
}

// Atomics of all threads of all blocks on one row: integer sums do not depend on the order.
__device__ void atomics(const unsigned *in, unsigned *out) {
    out -= (blockIdx.x * (long long)blockDim.x + threadIdx.x) * OUTPUTS;
    const int x = int(in[0]);
    atomicAdd((int *)out, x), atomicAdd(out + 1, in[0]), atomicMax((int *)out + 2, x), atomicMin((int *)out + 3, x);
    atomicMax(out + 4, in[0]), atomicAnd(out + 5, in[0]), atomicOr(out + 6, in[0]), atomicXor(out + 7, in[0]);
    atomicAdd((unsigned long long *)(out + 8), (unsigned long long)in[0] << 8);
    atomicMax((long long *)(out + 10), (long long)x * (1 << 20));
    unsigned seen = out[12], before;
    do {
        before = seen;
        seen = atomicCAS(out + 12, before, before + 3);
    } while (seen != before);
    atomicAdd((float *)(out + 13), 0.25f);
    if (atomicAdd(out + 14, 1u) == gridDim.x * blockDim.x - 1) atomicExch(out + 15, 77u);
}

template <Row row>
__global__ void each(const unsigned *in, unsigned *out, int n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) row(in + i * INPUTS, out + i * OUTPUTS);
}

template <Row row>
static void run(const unsigned *in, unsigned *out, int n) {
    LOGOS_LAUNCH(each<row>, (n + 255) / 256, n < 256 ? n : 256, 0, 0, in, out, n);
}

int main(int count, char **arguments) {
    const char *name = count == 2 ? arguments[1] : "";
    size_t bytes = 0, room = 64 << 20;
    unsigned *rows = (unsigned *)malloc(room), *in, *out;
    while (size_t got = fread((char *)rows + bytes, 1, room - bytes, stdin)) bytes += got;
    const int n = int(bytes / (INPUTS * sizeof *rows));
    const size_t written = n * OUTPUTS * sizeof *rows;
    cudaMalloc((void **)&in, bytes), cudaMalloc((void **)&out, written);
    cudaMemcpy(in, rows, bytes, cudaMemcpyHostToDevice), cudaMemset(out, 0, written);
    if (!strcmp(name, "narrow")) run<narrow>(in, out, n);
    if (!strcmp(name, "widen")) run<widen>(in, out, n);
    if (!strcmp(name, "half_sums")) run<half_sums>(in, out, n);
    if (!strcmp(name, "bfloat16_sums")) run<bfloat16_sums>(in, out, n);
    if (!strcmp(name, "integers")) run<integers>(in, out, n);
    if (!strcmp(name, "roundings")) run<roundings>(in, out, n);
    if (!strcmp(name, "atomics")) run<atomics>(in, out, n);
    if (cudaMemcpy(rows, out, written, cudaMemcpyDeviceToHost) != cudaSuccess || written > room) return 1;
    fwrite(rows, 1, written, stdout);
    free(rows);
    return 0;
}

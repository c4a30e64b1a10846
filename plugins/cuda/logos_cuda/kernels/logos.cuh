// What every kernel uses: the types, the launch and shared-memory macros, faults, and reductions of a warp or a block.
#pragma once

#ifdef __CUDACC__

#include <math.h>

#define LOGOS_SHARED(type, name, count) __shared__ type name[count]
#define LOGOS_DYNAMIC_SHARED(type, name)                                \
    extern __shared__ __align__(16) unsigned char logos_dynamic_shared[]; \
    type *const name = reinterpret_cast<type *>(logos_dynamic_shared)
#define LOGOS_LAUNCH(kernel, grid, block, shared, stream, ...) kernel<<<grid, block, shared, stream>>>(__VA_ARGS__)

// The same, of a kernel that may begin before the launch before it has ended (programmatic dependent launch).
#define LOGOS_LAUNCH_EARLY(kernel, grid, block, shared, stream, ...) \
    logos_launch_early(kernel, grid, block, shared, stream, __VA_ARGS__)

template <typename... Parameters, typename... Arguments>
inline void logos_launch_early(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                               Arguments... arguments) {
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

// What every kernel does first, before it reads what another wrote: it waits until the launches before it have ended and
// what they wrote is there, then lets the next one begin. Code for devices below sm_90 does neither; nor is it launched
// early, which the driver finds out by what the code was made for.
__device__ __forceinline__ void logos_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" : : : "memory");
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
}

// d += a * b for a warp's 16 by 32 and 32 by 8 fragments of signed bytes, in the register layout of the PTX manual.
__device__ __forceinline__ void logos_mma_s8(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A float as the bits of the nearest float16, and back.
__device__ __forceinline__ unsigned short half_of(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

__device__ __forceinline__ float float_of(unsigned bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<unsigned short>(bits)));
    return x;
}

// An asynchronous copy of 16 bytes to shared memory, both addresses multiples of 16: there after a wait that covers it.
__device__ __forceinline__ void logos_copy_async(void *shared, const void *global) {
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(to), "l"(global) : "memory");
}

__device__ __forceinline__ void logos_copy_commit() {
    asm volatile("cp.async.commit_group;" : : : "memory");
}

// Waits until at most `pending` of this thread's newest groups are still on their way.
template <int pending>
__device__ __forceinline__ void logos_copy_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}

#else

#include "logos_host.h"

inline unsigned short half_of(float x) { return __half_as_ushort(__float2half_rn(x)); }
inline float float_of(unsigned bits) { return __half2float(__ushort_as_half(static_cast<unsigned short>(bits))); }

#endif

typedef float Real;
typedef long long Int;
typedef long long Size;  // Sizes and offsets: a tensor may pass 2^31 elements.
typedef signed char Quant;
typedef unsigned short Half;  // The bits of a float16.

// The least and the largest of the floats that keep all their digits.
#define LEAST_NORMAL 1.17549435e-38f
#define LARGEST 3.40282347e+38f

// The first error of a step that only the device can see; kind 0 is none.
struct Fault {
    int stage;
    int kind;
    Int value;
};

enum FaultKind { FAULT_ROW = 1, FAULT_NAN = 2, FAULT_OVERFLOW = 3 };

// Stages run in order, so the first to claim the record is the program's first error.
__device__ inline void report(Fault *fault, int stage, int kind, Int value) {
    if (atomicCAS(&fault->kind, 0, kind) == 0) {
        fault->stage = stage;
        fault->value = value;
    }
}

// Where what a kernel makes goes: element i of y.
struct Stored {
    Real *y;
    __device__ __forceinline__ void operator()(Size i, float x) const { y[i] = x; }
};

// A row number that the device computed; outside its table it is reported once and is -1.
__device__ inline Size checked_row(const Int *row, Size rows, Fault *fault, int stage) {
    const Int value = *row;
    if (value >= 0 && value < rows) return value;
    if (blockIdx.x == 0 && threadIdx.x == 0) report(fault, stage, FAULT_ROW, value);
    return -1;
}

__device__ __forceinline__ Size first_index() { return static_cast<Size>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ __forceinline__ Size grid_threads() { return static_cast<Size>(gridDim.x) * blockDim.x; }

enum : unsigned { WHOLE_WARP = 0xffffffffu };

// Of something that several blocks make, in `due` parts, this block has made `count`. True, in all its threads, of the
// block that comes last: it sees what the others wrote, and the counter is 0 again for the next launch.
__device__ inline bool comes_last(int *arrivals, int count, int due) {
    LOGOS_SHARED(int, before, 1);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        before[0] = atomicAdd(arrivals, count);
        if (before[0] + count == due) *arrivals = 0;
    }
    __syncthreads();
    const bool last = before[0] + count == due;
    __threadfence();
    __syncthreads();
    return last;
}

struct Sum {
    static __device__ __forceinline__ float zero() { return 0.0f; }
    static __device__ __forceinline__ float join(float a, float b) { return a + b; }
};

struct Max {
    static __device__ __forceinline__ float zero() { return -INFINITY; }
    static __device__ __forceinline__ float join(float a, float b) { return fmaxf(a, b); }
};

// Every lane's value joined within runs of `lanes` lanes, a power of two up to 32; every lane has the result.
template <typename Join, int lanes = 32>
__device__ __forceinline__ float warp_join(float x) {
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) x = Join::join(x, __shfl_xor_sync(WHOLE_WARP, x, step));
    return x;
}

// The same over a block of whole warps; `partial` holds 32 floats of shared memory and may be used again at once.
template <typename Join>
__device__ inline float block_join(float x, float *partial) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = warp_join<Join>(x);
    __syncthreads();
    if (lane == 0) partial[warp] = x;
    __syncthreads();
    return warp_join<Join>(lane < warps ? partial[lane] : Join::zero());
}

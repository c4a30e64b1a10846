// What every kernel uses: the types, the launch and shared-memory macros, faults, and reductions of a warp or a block.

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

// One result for each element: functions of one or two tensors of n elements, and conversion to Real.


struct Sigmoid {
    static __device__ __forceinline__ float of(float x) { return 1.0f / (1.0f + expf(-x)); }
};

struct Silu {
    static __device__ __forceinline__ float of(float x) { return x / (1.0f + expf(-x)); }
};

// The tanh approximation: x / (1 + e^(-2z)) with z = sqrt(2/pi) (x + 0.044715 x^3).
struct Gelu {
    static __device__ __forceinline__ float of(float x) {
        const float z = 0.7978845608f * (x + 0.044715f * x * x * x);
        return x / (1.0f + expf(-2.0f * z));
    }
};

struct Swiglu {
    static __device__ __forceinline__ float of(float gate, float up) { return Silu::of(gate) * up; }
};

struct Plus {
    static __device__ __forceinline__ float of(float a, float b) { return a + b; }
    static __device__ __forceinline__ Int of(Int a, Int b, bool &overflow) {
        const Int sum = static_cast<Int>(static_cast<unsigned long long>(a) + static_cast<unsigned long long>(b));
        overflow = overflow || ((a ^ sum) & (b ^ sum)) < 0;
        return sum;
    }
};

struct Hadamard {
    static __device__ __forceinline__ float of(float a, float b) { return a * b; }
    static __device__ __forceinline__ Int of(Int a, Int b, bool &overflow) {
        const __int128 product = static_cast<__int128>(a) * b;
        overflow = overflow || product != static_cast<Int>(product);
        return static_cast<Int>(product);
    }
};

// How B meets A: element for element, its one row with every row, its one element with every element.
enum Spread { SAME, ROW, SCALAR };

template <Spread spread>
__device__ __forceinline__ Size place(Size i, Size columns) {
    return spread == SAME ? i : spread == ROW ? i % columns : 0;
}

template <typename Function>
__device__ inline void map(const Real *x, Real *y, Size n) {
    const Size vectors = n / 4;
    for (Size i = first_index(); i < vectors; i += grid_threads()) {
        const float4 a = reinterpret_cast<const float4 *>(x)[i];
        const float4 made = {Function::of(a.x), Function::of(a.y), Function::of(a.z), Function::of(a.w)};
        reinterpret_cast<float4 *>(y)[i] = made;
    }
    for (Size i = 4 * vectors + first_index(); i < n; i += grid_threads()) y[i] = Function::of(x[i]);
}

template <typename Function, Spread spread>
__device__ inline void pairwise(const Real *a, const Real *b, Real *y, Size n, Size columns) {
    const Size vectors = spread == ROW ? 0 : n / 4;
    for (Size i = first_index(); i < vectors; i += grid_threads()) {
        const float4 p = reinterpret_cast<const float4 *>(a)[i];
        float4 q;
        if (spread == SCALAR) {
            q.x = q.y = q.z = q.w = b[0];
        } else {
            q = reinterpret_cast<const float4 *>(b)[i];
        }
        const float4 made = {Function::of(p.x, q.x), Function::of(p.y, q.y), Function::of(p.z, q.z),
                             Function::of(p.w, q.w)};
        reinterpret_cast<float4 *>(y)[i] = made;
    }
    for (Size i = 4 * vectors + first_index(); i < n; i += grid_threads()) {
        y[i] = Function::of(a[i], b[place<spread>(i, columns)]);
    }
}

template <typename T>
__device__ inline void repeat(const T *x, T *y, Size n, Size columns) {
    for (Size i = first_index(); i < n; i += grid_threads()) y[i] = x[i % columns];
}

template <typename Function, Spread spread>
__device__ inline void pairwise_int(const Int *a, const Int *b, Int *y, Fault *fault, int stage, Size n,
                                    Size columns) {
    bool overflow = false;
    for (Size i = first_index(); i < n; i += grid_threads()) {
        y[i] = Function::of(a[i], b[place<spread>(i, columns)], overflow);
    }
    if (overflow) report(fault, stage, FAULT_OVERFLOW, 0);
}

// Rows of `columns` elements, n in all: a row of a lies `a_step` after the one before, of b `b_step`, and b has `columns`
// elements a row or one for all of them.
template <typename Function>
__device__ inline void pairwise_rows(const Real *a, const Real *b, Real *y, Size n, Size columns, Size a_step,
                                     Size b_step, Size b_columns) {
    for (Size i = first_index(); i < n; i += grid_threads()) {
        const Size row = i / columns, at = i % columns;
        y[i] = Function::of(a[row * a_step + at], b[row * b_step + (b_columns == 1 ? 0 : at)]);
    }
}

template <typename Function>
__device__ inline void pairwise_rows_int(const Int *a, const Int *b, Int *y, Fault *fault, int stage, Size n,
                                         Size columns, Size a_step, Size b_step, Size b_columns) {
    bool overflow = false;
    for (Size i = first_index(); i < n; i += grid_threads()) {
        const Size row = i / columns, at = i % columns;
        y[i] = Function::of(a[row * a_step + at], b[row * b_step + (b_columns == 1 ? 0 : at)], overflow);
    }
    if (overflow) report(fault, stage, FAULT_OVERFLOW, 0);
}

template <typename T>
__device__ inline void convert(const T *x, Real *y, Size n) {
    for (Size i = first_index(); i < n; i += grid_threads()) y[i] = static_cast<Real>(x[i]);
}

// A matmul of one row: y (n) = x (k) times B, whose every byte is read once.


__device__ __forceinline__ float4 fma4(float4 a, float4 b, float4 sum) {
    sum.x = fmaf(a.x, b.x, sum.x);
    sum.y = fmaf(a.y, b.y, sum.y);
    sum.z = fmaf(a.z, b.z, sum.z);
    sum.w = fmaf(a.w, b.w, sum.w);
    return sum;
}

// This lane's share of a dot product of k elements by `lanes` lanes. Four loads of 16 bytes are under way at once;
// what is left is not unrolled, which would cost registers for a short loop.
template <int lanes>
__device__ inline float dot_share(const Real *__restrict__ x, const Real *__restrict__ w, Size k, int lane) {
    float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
    if (k % 4 == 0) {
        const float4 *a = reinterpret_cast<const float4 *>(x) + lane, *b = reinterpret_cast<const float4 *>(w) + lane;
        Size left = k / 4 - lane;
        for (; left > 3 * lanes; left -= 4 * lanes, a += 4 * lanes, b += 4 * lanes) {
            const float4 b0 = __ldg(b), b1 = __ldg(b + lanes), b2 = __ldg(b + 2 * lanes), b3 = __ldg(b + 3 * lanes);
            sum = fma4(__ldg(a), b0, sum);
            sum = fma4(__ldg(a + lanes), b1, sum);
            sum = fma4(__ldg(a + 2 * lanes), b2, sum);
            sum = fma4(__ldg(a + 3 * lanes), b3, sum);
        }
#pragma unroll 1
        for (; left > 0; left -= lanes, a += lanes, b += lanes) sum = fma4(__ldg(a), __ldg(b), sum);
    } else {
        const Real *a = x + lane, *b = w + lane;
        Size left = k - lane;
        for (; left > 3 * lanes; left -= 4 * lanes, a += 4 * lanes, b += 4 * lanes) {
            sum.x = fmaf(__ldg(a), __ldg(b), sum.x);
            sum.y = fmaf(__ldg(a + lanes), __ldg(b + lanes), sum.y);
            sum.z = fmaf(__ldg(a + 2 * lanes), __ldg(b + 2 * lanes), sum.z);
            sum.w = fmaf(__ldg(a + 3 * lanes), __ldg(b + 3 * lanes), sum.w);
        }
#pragma unroll 1
        for (; left > 0; left -= lanes, a += lanes, b += lanes) sum.x = fmaf(__ldg(a), __ldg(b), sum.x);
    }
    return (sum.x + sum.y) + (sum.z + sum.w);
}

// The dot product of one row of a weight; every lane has it.
template <int lanes>
__device__ __forceinline__ float row_dot(const Real *x, const Real *w, Size k, float *partial) {
    const float share = dot_share<lanes>(x, w, k, threadIdx.x % lanes);
    return lanes == 32 ? warp_join<Sum>(share) : block_join<Sum>(share, partial);
}

// B stored as (n, k), a warp for each of its rows: for an n that fills the device with warps.
__device__ inline void matvec_by_warps(const Real *x, const Real *w, Real *y, Size k, Size n) {
    const int lane = threadIdx.x % 32;
    for (Size row = first_index() / 32; row < n; row += grid_threads() / 32) {
        const float sum = warp_join<Sum>(dot_share<32>(x, w + row * k, k, lane));
        if (lane == 0) y[row] = sum;
    }
}

// B stored as (n, k), a block of 128 threads for each of its rows.
__device__ inline void matvec_by_blocks(const Real *x, const Real *w, Real *y, Size k, Size n) {
    LOGOS_SHARED(float, partial, 32);
    for (Size row = blockIdx.x; row < n; row += gridDim.x) {
        const float sum = block_join<Sum>(dot_share<128>(x, w + row * k, k, threadIdx.x), partial);
        if (threadIdx.x == 0) y[row] = sum;
    }
}

// B stored as (k, n): a block takes tiles of 32 times `width` columns, each of its 8 warps every eighth row.
template <int width>
__device__ inline void matvec_columns(const Real *x, const Real *b, Real *y, Size k, Size n) {
    LOGOS_SHARED(float, partial, 8 * 32 * width);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (Size start = static_cast<Size>(blockIdx.x) * 32 * width; start < n;
         start += static_cast<Size>(gridDim.x) * 32 * width) {
        const Size column = start + lane * width;
        float sum[width] = {};
        if (column < n) {
#pragma unroll 4
            for (Size i = warp; i < k; i += 8) {
                const Real *row = b + i * n + column;
                if (width == 4) {
                    const float4 got = __ldg(reinterpret_cast<const float4 *>(row));
                    const float all[4] = {got.x, got.y, got.z, got.w};
#pragma unroll
                    for (int j = 0; j < width; ++j) sum[j] = fmaf(x[i], all[j], sum[j]);
                } else {
                    sum[0] = fmaf(x[i], __ldg(row), sum[0]);
                }
            }
        }
#pragma unroll
        for (int j = 0; j < width; ++j) partial[(warp * width + j) * 32 + lane] = sum[j];
        __syncthreads();
        for (int i = threadIdx.x; i < 32 * width; i += 256) {
            const int j = i % width, of = i / width;
            float total = 0.0f;
#pragma unroll
            for (int part = 0; part < 8; ++part) total += partial[(part * width + j) * 32 + of];
            if (start + i < n) y[start + i] = total;
        }
        __syncthreads();
    }
}

// Routed experts in float: of each row's experts the `top` with the largest scores, and their SwiGLU weighed.


// A row of scores, by a block. An expert's place is the number of experts before it: those of a larger score, and of an
// equal one those of a lower number. `chosen` and `shares` hold `top`, best first; the shares sum to 1.
__device__ inline void choose_row(const Real *scores, Int *chosen, Real *shares, Size experts, Size top,
                                  float *partial) {
    // A NaN has no place, and leaves one without an expert: that one keeps its own number.
    for (Size i = threadIdx.x; i < top; i += blockDim.x) chosen[i] = i;
    __syncthreads();
    for (Size i = threadIdx.x; i < experts; i += blockDim.x) {
        const float score = scores[i];
        Size place = 0;
#pragma unroll 4
        for (Size j = 0; j < experts; ++j) place += scores[j] > score || (scores[j] == score && j < i);
        if (place < top && score == score) chosen[place] = i;
    }
    __syncthreads();
    const float largest = scores[chosen[0]];
    float sum = 0.0f;
    for (Size i = threadIdx.x; i < top; i += blockDim.x) sum += expf(scores[chosen[i]] - largest);
    // One score that is no number leaves none to any share, as a softmax over all of them does.
    for (Size i = threadIdx.x; i < experts; i += blockDim.x) sum += scores[i] == scores[i] ? 0.0f : scores[i];
    sum = block_join<Sum>(sum, partial);
    for (Size i = threadIdx.x; i < top; i += blockDim.x) shares[i] = expf(scores[chosen[i]] - largest) / sum;
    __syncthreads();
}

// A block for each row of scores; `chosen` and `shares` are (rows, top).
__device__ inline void choose_experts(const Real *scores, Int *chosen, Real *shares, Size rows, Size experts,
                                      Size top) {
    LOGOS_SHARED(float, partial, 32);
    for (Size row = blockIdx.x; row < rows; row += gridDim.x) {
        choose_row(scores + row * experts, chosen + row * top, shares + row * top, experts, top, partial);
    }
}

// hidden (rows, top, inner) = silu(G x) * U x, a warp for each element; expert e's rows of G and U start at e * inner.
__device__ inline void experts_hidden(const Real *x, const Real *gate, const Real *up, const Int *chosen, Real *hidden,
                                      Size rows, Size top, Size inner, Size width) {
    const int lane = threadIdx.x % 32;
    for (Size i = first_index() / 32; i < rows * top * inner; i += grid_threads() / 32) {
        const Size slot = i / inner, at = (chosen[slot] * inner + i % inner) * width;
        const Real *from = x + slot / top * width;
        const float g = warp_join<Sum>(dot_share<32>(from, gate + at, width, lane));
        const float u = warp_join<Sum>(dot_share<32>(from, up + at, width, lane));
        if (lane == 0) hidden[i] = g / (1.0f + expf(-g)) * u;
    }
}

// y (rows, width) = the sum over the chosen experts of share * D h, a warp for each element; D's rows start at e * width.
__device__ inline void experts_down(const Real *hidden, const Real *down, const Int *chosen, const Real *shares,
                                    Real *y, Size rows, Size top, Size inner, Size width) {
    const int lane = threadIdx.x % 32;
    for (Size i = first_index() / 32; i < rows * width; i += grid_threads() / 32) {
        const Size row = i / width;
        float sum = 0.0f;
        for (Size slot = row * top; slot < (row + 1) * top; ++slot) {
            const Real *weights = down + (chosen[slot] * width + i % width) * inner;
            sum = fmaf(shares[slot], dot_share<32>(hidden + slot * inner, weights, inner, lane), sum);
        }
        sum = warp_join<Sum>(sum);
        if (lane == 0) y[i] = sum;
    }
}

// One row's scores and the choice of its experts in one launch: the block that comes last chooses.


// `lanes` threads share a row of W (experts, width). Where there is a further row `shared`, its product is kept where
// there is a pointer for it, and `gate` is its sigmoid.
template <int lanes>
__device__ inline void router(const Real *x, const Real *w, const Real *shared, Real *scores, Int *chosen, Real *shares,
                              Real *product, Real *gate, int *arrivals, Size width, Size experts, Size top) {
    LOGOS_SHARED(float, partial, 32);
    const Size rows = shared != nullptr ? experts + 1 : experts;
    for (Size row = first_index() / lanes; row < rows; row += grid_threads() / lanes) {
        const float sum = row_dot<lanes>(x, row < experts ? w + row * width : shared, width, partial);
        if (threadIdx.x % lanes != 0) continue;
        if (row < experts) {
            scores[row] = sum;
        } else {
            if (product != nullptr) product[0] = sum;
            gate[0] = Sigmoid::of(sum);
        }
    }
    if (comes_last(arrivals, 1, static_cast<int>(gridDim.x))) choose_row(scores, chosen, shares, experts, top, partial);
}

// Rows quantized to 8 bits with one scale for each 32 elements: x = quant * scale to within half a scale.


// The scale of a block whose largest size is `largest`, the same in all its 8 threads. One so small that its inverse is
// beyond a float counts as 0; a block with an element that is no number has none, and nor has what is made of it.
__device__ __forceinline__ float block_scale(float largest) {
    if (!(largest <= LARGEST)) return NAN;
    const float scale = largest / 127.0f;
    return scale < LEAST_NORMAL ? 0.0f : scale;
}

// 1 / scale, and 0 where there is nothing to divide by.
__device__ __forceinline__ float inverse_of(float scale) { return scale > 0.0f ? 1.0f / scale : 0.0f; }

// The size of an element; what is no number is larger than all that are.
__device__ __forceinline__ float size_of(float x) { return fabsf(x) <= LARGEST ? fabsf(x) : INFINITY; }

// The nearest whole number, halves away from zero, as Q8_0's reference quantizer rounds.
__device__ __forceinline__ int quant_of(float x, float inverse) {
    return inverse > 0.0f ? __float2int_rz(roundf(x * inverse)) : 0;
}

__device__ __forceinline__ unsigned packed(int a, int b, int c, int d) {
    return (a & 255u) | (b & 255u) << 8 | (c & 255u) << 16 | (d & 255u) << 24;
}

// What quants leave of x.
__device__ __forceinline__ float4 rest_of(float4 x, unsigned quants, float scale) {
    const float4 left = {fmaf(-scale, static_cast<float>(static_cast<Quant>(quants)), x.x),
                         fmaf(-scale, static_cast<float>(static_cast<Quant>(quants >> 8)), x.y),
                         fmaf(-scale, static_cast<float>(static_cast<Quant>(quants >> 16)), x.z),
                         fmaf(-scale, static_cast<float>(static_cast<Quant>(quants >> 24)), x.w)};
    return left;
}

// Four elements of a block, whose other threads hold the rest; returns the scale.
__device__ __forceinline__ float quantize_four(float4 x, unsigned &quants) {
    const float largest = fmaxf(fmaxf(size_of(x.x), size_of(x.y)), fmaxf(size_of(x.z), size_of(x.w)));
    const float scale = block_scale(warp_join<Max, 8>(largest)), inverse = inverse_of(scale);
    quants = packed(quant_of(x.x, inverse), quant_of(x.y, inverse), quant_of(x.z, inverse), quant_of(x.w, inverse));
    return scale;
}

// x (n elements, whole blocks) as quants and scales; `passes` of 2 also quantizes what these leave, behind them.
template <int passes>
__device__ inline void quantize(const Real *x, Quant *made, Real *scales, Size n) {
    // Whole warps go on together: blocks are joined by shuffles.
    for (Size i = first_index(); i - threadIdx.x % 32 < n / 4; i += grid_threads()) {
        const bool there = i < n / 4;
        float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
        if (there) four = reinterpret_cast<const float4 *>(x)[i];
#pragma unroll
        for (int pass = 0; pass < passes; ++pass) {
            unsigned quants;
            const float scale = quantize_four(four, quants);
            if (there) reinterpret_cast<unsigned *>(made + pass * n)[i] = quants;
            if (there && i % 8 == 0) scales[pass * (n / 32) + i / 8] = scale;
            if (passes > 1) four = rest_of(four, quants, scale);
        }
    }
}

// One element of a block of which the other lanes of this warp hold the rest.
__device__ __forceinline__ void quantize_one(float x, Size i, Quant *made, Real *scales) {
    const float scale = block_scale(warp_join<Max>(size_of(x)));
    made[i] = static_cast<Quant>(quant_of(x, inverse_of(scale)));
    if (i % 32 == 0) scales[i / 32] = scale;
}

// Where what a kernel makes goes, quantized and, where there is a pointer for it, as it is. The lanes of a warp come
// together, with the elements of a block.
struct Quantized {
    Real *y;
    Quant *made;
    Real *scales;
    __device__ __forceinline__ void operator()(Size i, float x) const {
        if (y != nullptr) y[i] = x;
        quantize_one(x, i, made, scales);
    }
};

// Elements of y that several blocks make, this one `count` of them from `first` on, all of one block of 32: who makes
// the last of 32 quantizes them. An arrivals counter for each 32.
__device__ inline void quantize_when_made(const Real *y, Size first, int count, Quant *made, Real *scales,
                                          int *arrivals) {
    const Size block = first / 32;
    if (comes_last(arrivals + block, count, 32) && threadIdx.x < 32) {
        const Size i = block * 32 + threadIdx.x;
        quantize_one(y[i], i, made, scales);
    }
}

// Products with a weight W (n, k) in Q8_0, k a multiple of 32: W = quant * scale, the scales (n, k / 32) in float16. Up to `rows`
// rows of x are multiplied at once, so that the weight is read once for all of them.


// Sixteen products of bytes, added to `sum`.
__device__ __forceinline__ int dot16(int4 a, int4 b, int sum) {
    return __dp4a(a.w, b.w, __dp4a(a.z, b.z, __dp4a(a.y, b.y, __dp4a(a.x, b.x, sum))));
}

// What a lane reads of a row of W and of the rows of x: half-blocks of quants, and its block's scale. Pointers rather
// than indexes, which would take twice the registers.
struct Lane {
    const int4 *w, *x;
    const Half *ws;
    const float *xs;

    template <int lanes>
    __device__ __forceinline__ void advance(int rounds) {
        w += 2 * rounds * lanes;
        x += 2 * rounds * lanes;
        ws += rounds * lanes;
        xs += rounds * lanes;
    }
};

// A round: the products of two half-blocks `first` and `second` of W, `scale` of the block that this lane is to have,
// with those of `count` rows of x, `apart` blocks apart. `round` is the round's number behind `at`.
template <int lanes, int rows>
__device__ __forceinline__ void add_round(const Lane &at, int round, int4 first, int4 second, float scale, bool near,
                                          bool far, bool there, Size apart, int count, float (&sum)[rows]) {
    const bool odd = threadIdx.x % 2 == 1;
#pragma unroll
    for (int row = 0; row < rows; ++row) {
        if (rows > 1 && row >= count) break;
        const int4 *quants = at.x + 2 * row * apart + 2 * round * lanes;
        const int a = near ? dot16(first, __ldg(quants), 0) : 0;
        const int b = far ? dot16(second, __ldg(quants + lanes), 0) : 0;
        const int whole = (odd ? b : a) + __shfl_xor_sync(WHOLE_WARP, odd ? a : b, 1);
        if (there) sum[row] = fmaf(static_cast<float>(whole), scale * __ldg(at.xs + row * apart + round * lanes), sum[row]);
    }
}

// This lane's share of a row's products with `count` rows of quants x, `xs` their scales, `apart` blocks apart. A lane
// takes the half-blocks `lane` and `lane + lanes` of each 2 * lanes and its neighbour the other halves; one exchange
// gives each a whole block: the even lane one of the first, the odd lane one of the second. Integer sums are exact, and
// the floats are added in the order of the blocks: the same on every device.
template <int lanes, int rows>
__device__ __forceinline__ void q8_share(const Quant *w, const Half *ws, const Quant *x, const Real *xs, Size blocks,
                                         Size apart, int count, int lane, float (&sum)[rows]) {
    const int own = lane % 2 == 1 ? (lanes + lane) / 2 : lane / 2;
    Lane at = {reinterpret_cast<const int4 *>(w) + lane, reinterpret_cast<const int4 *>(x) + lane, ws + own, xs + own};
    Size left = blocks;
    // Four loads of 16 bytes are under way at once; more would cost the registers that keep warps resident.
#pragma unroll 1
    for (; left >= 2 * lanes; left -= 2 * lanes, at.advance<lanes>(2)) {
        const int4 a = __ldg(at.w), b = __ldg(at.w + lanes), c = __ldg(at.w + 2 * lanes), d = __ldg(at.w + 3 * lanes);
        const float first = float_of(__ldg(at.ws)), second = float_of(__ldg(at.ws + lanes));
        add_round<lanes>(at, 0, a, b, first, true, true, true, apart, count, sum);
        add_round<lanes>(at, 1, c, d, second, true, true, true, apart, count, sum);
    }
    const int4 none = {0, 0, 0, 0};
#pragma unroll 1
    for (; left > 0; left -= lanes, at.advance<lanes>(1)) {
        const bool near = lane < 2 * left, far = lane + lanes < 2 * left, there = own < left;
        const int4 a = near ? __ldg(at.w) : none, b = far ? __ldg(at.w + lanes) : none;
        add_round<lanes>(at, 0, a, b, there ? float_of(__ldg(at.ws)) : 0.0f, near, far, there, apart, count, sum);
    }
}

// y (m, n) = x (m, k) times the transpose of W, `lanes` threads for each row of W: a warp, or a block of 128.
template <int lanes, int rows>
__device__ inline void matvec_q8(const Quant *x, const Real *xs, const Quant *w, const Half *ws, Real *y, Size m,
                                 Size k, Size n) {
    LOGOS_SHARED(float, partial, 32);
    const int lane = threadIdx.x % lanes;
    const Size blocks = k / 32;
    for (Size row = first_index() / lanes; row < n; row += grid_threads() / lanes) {
        for (Size top = 0; top < m; top += rows) {
            const int count = m - top < rows ? static_cast<int>(m - top) : rows;
            float sum[rows] = {};
            q8_share<lanes>(w + row * k, ws + row * blocks, x + top * k, xs + top * blocks, blocks, blocks, count, lane,
                            sum);
#pragma unroll
            for (int i = 0; i < rows; ++i) {
                if (rows > 1 && i >= count) break;
                const float all = lanes == 32 ? warp_join<Sum>(sum[i]) : block_join<Sum>(sum[i], partial);
                if (lane == 0) y[(top + i) * n + row] = all;
            }
        }
    }
}

// Routed experts in Q8_0 by dp4a. In one pass activations keep 8 bits; in two, what the first leaves keeps 8 more, and
// the results are a float32 product's to some 1e-5. Pass p of x starts p times `x`'s whole size behind the first.


// The product of a row of W with x in all its passes, in every lane of the warp's share of it.
template <int passes>
__device__ __forceinline__ float passes_share(const Quant *w, const Half *ws, const Quant *x, const Real *xs,
                                              Size blocks, Size apart, int lane) {
    float sum[passes] = {};
    q8_share<32>(w, ws, x, xs, blocks, apart, passes, lane, sum);
    return passes == 1 ? sum[0] : sum[0] + sum[passes - 1];
}

// Element i of hidden (rows, top, inner) = silu(G x) * U x, by a warp; expert e's rows of G and U start at e * inner.
template <int passes>
__device__ __forceinline__ void hidden_q8(const Quant *x, const Real *xs, const Quant *gate, const Half *gs,
                                          const Quant *up, const Half *us, const Int *chosen, Real *hidden, Size i,
                                          Size rows, Size top, Size inner, Size width) {
    const int lane = threadIdx.x % 32;
    const Size blocks = width / 32, apart = rows * blocks;
    const Size slot = i / inner, row = slot / top, at = chosen[slot] * inner + i % inner;
    const Quant *from = x + row * width;
    const Real *scales = xs + row * blocks;
    const float g =
        warp_join<Sum>(passes_share<passes>(gate + at * width, gs + at * blocks, from, scales, blocks, apart, lane));
    const float u =
        warp_join<Sum>(passes_share<passes>(up + at * width, us + at * blocks, from, scales, blocks, apart, lane));
    if (lane == 0) hidden[i] = g / (1.0f + expf(-g)) * u;
}

template <int passes>
__device__ inline void experts_hidden_q8(const Quant *x, const Real *xs, const Quant *gate, const Half *gs,
                                         const Quant *up, const Half *us, const Int *chosen, Real *hidden, Size rows,
                                         Size top, Size inner, Size width) {
    for (Size i = first_index() / 32; i < rows * top * inner; i += grid_threads() / 32) {
        hidden_q8<passes>(x, xs, gate, gs, up, us, chosen, hidden, i, rows, top, inner, width);
    }
}

// y (rows, width) = the sum over the chosen experts of share * D h, a warp for each element; D's rows start at e * width.
template <int passes>
__device__ inline void experts_down_q8(const Quant *hidden, const Real *hs, const Quant *down, const Half *ds,
                                       const Int *chosen, const Real *shares, Real *y, Size rows, Size top, Size inner,
                                       Size width) {
    const int lane = threadIdx.x % 32;
    const Size blocks = inner / 32, apart = rows * top * blocks;
    for (Size i = first_index() / 32; i < rows * width; i += grid_threads() / 32) {
        const Size row = i / width;
        float sum = 0.0f;
#pragma unroll 2
        for (Size slot = row * top; slot < (row + 1) * top; ++slot) {
            const Size at = chosen[slot] * width + i % width;
            const float part = passes_share<passes>(down + at * inner, ds + at * blocks, hidden + slot * inner,
                                                    hs + slot * blocks, blocks, apart, lane);
            sum = fmaf(shares[slot], part, sum);
        }
        sum = warp_join<Sum>(sum);
        if (lane == 0) y[i] = sum;
    }
}

// The hidden rows of experts that go on in Q8_0: `inner` is a multiple of 32, with a counter for each 32.


__device__ inline void experts_hidden_quantized(const Quant *x, const Real *xs, const Quant *gate, const Half *gs,
                                                const Quant *up, const Half *us, const Int *chosen, Real *hidden,
                                                Quant *made, Real *scales, int *arrivals, Size rows, Size top,
                                                Size inner, Size width) {
    const int together = blockDim.x / 32;
    for (Size first = static_cast<Size>(blockIdx.x) * together; first < rows * top * inner;
         first += static_cast<Size>(gridDim.x) * together) {
        hidden_q8<1>(x, xs, gate, gs, up, us, chosen, hidden, first + threadIdx.x / 32, rows, top, inner, width);
        quantize_when_made(hidden, first, together, made, scales, arrivals);
    }
}

extern "C" __global__ void __launch_bounds__(128, 1) router_by_blocks_kernel(const Real *x, const Real *w, Real *scores, Int *chosen, Real *shares, int *arrivals, Size width, Size experts, Size top) { logos_begin(); router<128>(x, w, nullptr, scores, chosen, shares, nullptr, nullptr, arrivals, width, experts, top); }
extern "C" __global__ void __launch_bounds__(256) quantize_kernel(const Real *x, Quant *made, Real *made_scales, Size n) { logos_begin(); quantize<1>(x, made, made_scales, n); }
extern "C" __global__ void __launch_bounds__(256, 1) experts_hidden_quantized_kernel(const Quant *x, const Real *x_scales, const Quant *gate, const Half *gate_scales, const Quant *up, const Half *up_scales, const Int *chosen, Real *hidden, Quant *made, Real *made_scales, int *arrivals, Size rows, Size top, Size inner, Size width) { logos_begin(); experts_hidden_quantized(x, x_scales, gate, gate_scales, up, up_scales, chosen, hidden, made, made_scales, arrivals, rows, top, inner, width); }
extern "C" __global__ void __launch_bounds__(256, 1) experts_down_q8_kernel(const Quant *hidden, const Real *hidden_scales, const Quant *down, const Half *down_scales, const Int *chosen, const Real *shares, Real *y, Size rows, Size top, Size inner, Size width) { logos_begin(); experts_down_q8<1>(hidden, hidden_scales, down, down_scales, chosen, shares, y, rows, top, inner, width); }

// What threads exchange, printed: `collectives CASE`. Compiled by nvcc or for the host.
#include <stdio.h>
#include <string.h>

#include "gemm_q8.cuh"

enum { ROOM = 4096 };

extern "C" __global__ void shuffle(int *out, int kind, int argument, int width) {
    const int value = 10 * threadIdx.x + 3;
    int got = 0;
    if (kind == 0) got = __shfl_sync(0xffffffffu, value, argument, width);
    if (kind == 1) got = __shfl_up_sync(0xffffffffu, value, argument, width);
    if (kind == 2) got = __shfl_down_sync(0xffffffffu, value, argument, width);
    if (kind == 3) got = __shfl_xor_sync(0xffffffffu, value, argument, width);
    out[threadIdx.x] = got;
}

// Two halves of a warp at one place, each with its own mask, and values of 8 bytes.
extern "C" __global__ void halves(long long *out) {
    const unsigned lane = threadIdx.x % 32, mask = lane < 12 ? 0x00000fffu : 0xfffff000u;
    const long long value = (1ll << 40) + threadIdx.x;
    out[threadIdx.x] = __shfl_sync(mask, value, lane < 12 ? 11 : 12);
    out[threadIdx.x + blockDim.x] = __ballot_sync(mask, threadIdx.x % 3 == 0);
    out[threadIdx.x + 2 * blockDim.x] = __any_sync(mask, lane == 5);
    out[threadIdx.x + 3 * blockDim.x] = __all_sync(mask, lane >= 12);
    const double half = __shfl_xor_sync(mask, lane / 2.0, lane < 12 ? 1 : 0);
    out[threadIdx.x + 4 * blockDim.x] = (long long)(half * 2);
}

// A block whose last warp is not whole: votes leave out the lanes that are not there, a mask names those that are.
extern "C" __global__ void partial(int *out) {
    const int t = threadIdx.x, n = blockDim.x;
    out[t] = __popc(__ballot_sync(0xffffffffu, 1));
    const int lanes = n - t / 32 * 32 < 32 ? n - t / 32 * 32 : 32;
    const unsigned mask = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1;
    out[n + t] = __shfl_sync(mask, t, lanes - 1);
    out[2 * n + t] = __syncthreads_count(t % 2);
    out[3 * n + t] = __syncthreads_or(t == n - 1);
    out[4 * n + t] = __syncthreads_and(t != n - 1);
    __syncwarp();
    out[5 * n + t] = __syncthreads_and(1);
}

// Threads that have returned are no longer waited for.
extern "C" __global__ void early(int *out, int stay) {
    LOGOS_SHARED(int, row, 128);
    if (threadIdx.x >= stay) return;
    row[threadIdx.x] = threadIdx.x + 1;
    __syncthreads();
    out[threadIdx.x] = row[stay - 1 - threadIdx.x];
    __syncwarp();
    out[128 + threadIdx.x] = __syncthreads_count(1);
    if (threadIdx.x % 2) return;
    __syncthreads();
    out[256 + threadIdx.x] = 1;
}

extern "C" __global__ void active(unsigned *out) {
    const unsigned lane = threadIdx.x;
    if (lane % 3 == 0) {
        const unsigned mask = __activemask();
        out[lane] = __shfl_sync(mask, lane, 30);
        out[32 + lane] = mask;
        __syncwarp();
    } else {
        out[lane] = 100;
        out[32 + lane] = __activemask();
        __syncwarp();
    }
    out[64 + lane] = out[31 - lane];
}

extern "C" __global__ void multiply(const unsigned *a, const unsigned *b, int *d) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sums[4];
    unsigned left[4], right[2];
    for (int i = 0; i < 4; i++) sums[i] = d[(warp * 32 + lane) * 4 + i];
    for (int i = 0; i < 4; i++) left[i] = a[(warp * 32 + lane) * 4 + i];
    for (int i = 0; i < 2; i++) right[i] = b[(warp * 32 + lane) * 2 + i];
    logos_mma_s8(sums, left, right);
    for (int i = 0; i < 4; i++) d[(warp * 32 + lane) * 4 + i] = sums[i];
}

// Four matrices, whose rows lie in an order of their own.
extern "C" __global__ void matrices(const int *in, int *out) {
    LOGOS_SHARED(int4, rows, 32);
    const int lane = threadIdx.x;
    rows[31 - lane] = make_int4(in[4 * lane], in[4 * lane + 1], in[4 * lane + 2], in[4 * lane + 3]);
    __syncwarp();
    unsigned got[4];
    logos_load_matrices(got, &rows[31 - lane]);
    for (int i = 0; i < 4; i++) out[4 * lane + i] = static_cast<int>(got[i]);
}

// Two groups of copies in flight: the older is there after a wait that leaves the newer.
extern "C" __global__ void copies(const int *in, int *out) {
    LOGOS_SHARED(int4, rows, 128);
    const int t = threadIdx.x;
    rows[t] = rows[64 + t] = make_int4(-1, -1, -1, -1);
    logos_copy_async(&rows[t], in + 4 * t);
    logos_copy_commit();
    logos_copy_async(&rows[64 + t], in + 256 + 4 * t);
    logos_copy_commit();
#ifndef __CUDACC__
    out[t] = rows[t].w;  // not yet there: on a GPU nobody can say
#endif
    logos_copy_wait<1>();
    __syncthreads();
    out[64 + t] = rows[63 - t].x;
#ifndef __CUDACC__
    out[128 + t] = rows[64 + t].y;
#endif
    logos_copy_wait<0>();
    __syncthreads();
    out[192 + t] = rows[127 - t].z;
}

// Each thread's place, written at that place; arrays of two instantiations are two arrays.
template <int which>
__device__ int *corner() {
    LOGOS_SHARED(int, slot, 4);
    return slot;
}
extern "C" __global__ void places(int *out) {
    LOGOS_DYNAMIC_SHARED(int, dynamic);
    const int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const int n = blockDim.x * blockDim.y * blockDim.z;
    const int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    if (t == n - 1) corner<0>()[1] = 1000 * b;
    if (t == 0) corner<1>()[1] = 7;
    dynamic[n - 1 - t] = t;
    __syncthreads();
    out[b * n + t] = corner<0>()[1] + 10 * dynamic[t] + corner<1>()[1];
}

// The order in which blocks began, and in which the first two warps of each wrote.
extern "C" __global__ void tickets(int *out) {
    if (threadIdx.x == 0) out[blockIdx.x] = atomicAdd(out + 100, 1);
    if (threadIdx.x % 32 == 5) out[101 + blockIdx.x] = threadIdx.x / 32;
}

// The order in which threads came by before and after a barrier.
extern "C" __global__ void turns(int *out) {
    out[threadIdx.x] = atomicAdd(out + 128, 1);
    __syncthreads();
    out[64 + threadIdx.x] = atomicAdd(out + 128, 1);
}

// One thread reads what another wrote, with a barrier between and without.
extern "C" __global__ void race(int *out, int waits) {
    LOGOS_SHARED(int, row, 64);
    row[threadIdx.x] = -1;
    __syncthreads();
    row[threadIdx.x] = threadIdx.x;
    if (waits) __syncthreads();
    out[threadIdx.x] = row[(threadIdx.x + 21) % 64];
}

template <class Item>
static void show(const char *name, const Item *items, int count) {
    Item *copy = new Item[count];
    if (cudaMemcpy(copy, items, count * sizeof(Item), cudaMemcpyDeviceToHost) != cudaSuccess) printf("failed ");
    printf("%s", name);
    for (int i = 0; i < count; i++) printf(" %lld", (long long)copy[i]);
    printf("\n");
    delete[] copy;
}

static void run_shuffles(int *out) {
    char name[32];
    for (int kind = 0; kind < 4; kind++) {
        for (int width = 1; width <= 32; width *= 2) {
            for (int argument = 0; argument < 35; argument++) {
                LOGOS_LAUNCH(shuffle, 1, 32, 0, 0, out, kind, argument, width);
                snprintf(name, sizeof name, "%d,%d,%d", kind, width, argument);
                show(name, out, 32);
            }
        }
    }
}

static void run_partial(int *out) {
    for (int n = 33; n <= 100; n += 67) {
        LOGOS_LAUNCH(partial, 1, n, 0, 0, out);
        show(n == 33 ? "33" : "100", out, 6 * n);
    }
}

static void run_multiply() {
    unsigned a[256], b[128], *da, *db;
    int d[256], *dd;
    for (unsigned i = 0; i < 256; i++) a[i] = i * 2654435761u;
    for (unsigned i = 0; i < 128; i++) b[i] = ~i * 2246822519u;
    for (int i = 0; i < 256; i++) d[i] = 1000 - 77 * i;
    d[255] = 0x7fffffff;
    cudaMalloc((void **)&da, sizeof a), cudaMalloc((void **)&db, sizeof b), cudaMalloc((void **)&dd, sizeof d);
    cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice);
    cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice);
    cudaMemcpy(dd, d, sizeof d, cudaMemcpyHostToDevice);
    show("a", da, 256), show("b", db, 128), show("c", dd, 256);
    LOGOS_LAUNCH(multiply, 1, 64, 0, 0, da, db, dd);
    show("d", dd, 256);
}

static void run_copies(int *out) {
    int in[512], *device;
    for (int i = 0; i < 512; i++) in[i] = i;
    cudaMalloc((void **)&device, sizeof in);
    cudaMemcpy(device, in, sizeof in, cudaMemcpyHostToDevice);
    cudaMemset(out, 0xff, 256 * sizeof(int));
    LOGOS_LAUNCH(copies, 1, 64, 0, 0, device, out);
    show("copies", out, 256);
}

static void run_matrices(int *out) {
    int in[128], *device;
    for (int i = 0; i < 128; i++) in[i] = i;
    cudaMalloc((void **)&device, sizeof in);
    cudaMemcpy(device, in, sizeof in, cudaMemcpyHostToDevice);
    LOGOS_LAUNCH(matrices, 1, 32, 0, 0, device, out);
    show("matrices", out, 128);
}

int main(int count, char **arguments) {
    const char *name = count == 2 ? arguments[1] : "";
    int *out;
    long long *wide;
    cudaMalloc((void **)&out, ROOM * sizeof(int));
    cudaMalloc((void **)&wide, ROOM * sizeof(long long));
    cudaMemset(out, 0, ROOM * sizeof(int));
    if (!strcmp(name, "shuffles")) run_shuffles(out);
    if (!strcmp(name, "halves")) LOGOS_LAUNCH(halves, 1, 64, 0, 0, wide), show(name, wide, 320);
    if (!strcmp(name, "partial")) run_partial(out);
    if (!strcmp(name, "early")) LOGOS_LAUNCH(early, 1, 128, 0, 0, out, 45), show(name, out, 384);
    if (!strcmp(name, "active")) LOGOS_LAUNCH(active, 1, 32, 0, 0, (unsigned *)out), show(name, (unsigned *)out, 96);
    if (!strcmp(name, "multiply")) run_multiply();
    if (!strcmp(name, "copies")) run_copies(out);
    if (!strcmp(name, "matrices")) run_matrices(out);
    if (!strcmp(name, "places")) LOGOS_LAUNCH(places, dim3(3, 2, 2), dim3(5, 3, 4), 240, 0, out), show(name, out, 720);
    if (!strcmp(name, "tickets")) LOGOS_LAUNCH(tickets, 100, 64, 0, 0, out), show(name, out, 201);
    if (!strcmp(name, "turns")) LOGOS_LAUNCH(turns, 1, 64, 0, 0, out), show(name, out, 128);
    if (!strcmp(name, "race")) LOGOS_LAUNCH(race, 1, 64, 0, 0, out, 0), show(name, out, 64);
    if (!strcmp(name, "barrier")) LOGOS_LAUNCH(race, 1, 64, 0, 0, out, 1), show(name, out, 64);
    const cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess || cudaGetLastError() != cudaSuccess) printf("%s\n", cudaGetErrorString(error));
    return 0;
}

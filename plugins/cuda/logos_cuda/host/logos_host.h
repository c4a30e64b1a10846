// A stand-in for the CUDA runtime and the device on the host: the text of a CUDA program, compiled as C++17 against
// this header, runs with blocks on OS threads and a block's threads as fibers. It checks logic and indexing; memory
// ordering, the hardware's fragment layout and speed are for a GPU to show. Settings, read from the environment:
//   LOGOS_HOST_THREADS=N                            OS threads; default: the processors that the process may use
//   LOGOS_HOST_ORDER=forward|reverse|shuffle:SEED   the order of a block's threads and of a grid's blocks
//   LOGOS_HOST_POISON=1                             memory that nothing wrote holds NaN patterns
// A fault of a kernel is named on standard error and ends the program with exit code 86. Blocks that wait for one
// another (a spin on memory) are not supported: one may only start when another has ended.
#pragma once

#include "atomics.h"
#include "copies.h"
#include "device.h"
#include "graph.h"
#include "half.h"
#include "launch.h"
#include "numbers.h"
#include "primitives.h"
#include "runtime.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __forceinline__ inline __attribute__((always_inline))

#define threadIdx (::logos_host::thread_index)
#define blockIdx (::logos_host::block_index)
#define blockDim (::logos_host::block_shape)
#define gridDim (::logos_host::grid_shape)
constexpr int warpSize = 32;

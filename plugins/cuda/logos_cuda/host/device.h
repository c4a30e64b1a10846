// What there is to know of the device: one, with the limits of compute capability 9.0.
#pragma once

#include "launch.h"

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
    int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    int major, minor, multiProcessorCount, maxThreadsPerMultiProcessor, l2CacheSize, memoryBusWidth;
};

enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1, cudaDevAttrMaxSharedMemoryPerBlock = 8, cudaDevAttrWarpSize = 10,
    cudaDevAttrMultiProcessorCount = 16, cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrComputeCapabilityMajor = 75, cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81, cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9,
};

inline cudaError_t cudaGetDeviceCount(int *count) {
    *count = int(logos_host::setting("LOGOS_HOST_DEVICES", 1, 0));
    return logos_host::answer(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}
inline cudaError_t cudaSetDevice(int device) {
    return logos_host::answer(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
inline cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}

// The same on every host: what a program derives from it must not depend on where it runs.
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
    if (device != 0) return logos_host::answer(cudaErrorInvalidDevice);
    *properties = {"LOGOS host stand-in", size_t(64) << 30, logos_host::STATIC_SHARED, logos_host::MOST_SHARED,
                   logos_host::MOST_SHARED + 1024, 65536, 32, 1024, {1024, 1024, 64}, {0x7fffffff, 65535, 65535},
                   9, 0, 16, 2048, 50 << 20, 4096};
    return cudaSuccess;
}

inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp of;
    if (cudaError_t error = cudaGetDeviceProperties(&of, device)) return error;
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: *value = of.maxThreadsPerBlock; return cudaSuccess;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = int(of.sharedMemPerBlock); return cudaSuccess;
        case cudaDevAttrWarpSize: *value = of.warpSize; return cudaSuccess;
        case cudaDevAttrMultiProcessorCount: *value = of.multiProcessorCount; return cudaSuccess;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = of.maxThreadsPerMultiProcessor; return cudaSuccess;
        case cudaDevAttrComputeCapabilityMajor: *value = of.major; return cudaSuccess;
        case cudaDevAttrComputeCapabilityMinor: *value = of.minor; return cudaSuccess;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
            *value = int(of.sharedMemPerMultiprocessor);
            return cudaSuccess;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = int(of.sharedMemPerBlockOptin); return cudaSuccess;
    }
    return logos_host::answer(cudaErrorInvalidValue);
}

struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion;
};

// Of a kernel only what it was made for is known.
template <class... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*)(Parameters...)) {
    *attributes = {0, 0, 0, 1024, 0, 90, 90};
    return cudaSuccess;
}

template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute, int value) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || size_t(value) > logos_host::MOST_SHARED) return logos_host::answer(cudaErrorInvalidValue);
    const void *address = reinterpret_cast<const void *>(kernel);
    for (size_t i = 0; i < logos_host::allowances.count; i++) {
        if (logos_host::allowances.items[i].kernel == address) {
            logos_host::allowances.items[i].bytes = size_t(value);
            return cudaSuccess;
        }
    }
    logos_host::allowances.add({address, size_t(value)});
    return cudaSuccess;
}

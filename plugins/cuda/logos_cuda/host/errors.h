// CUDA's error codes with their names and words, and the last error.
#pragma once

#define LOGOS_ERRORS(row) \
    row(cudaSuccess, 0, "no error") \
    row(cudaErrorInvalidValue, 1, "invalid argument") \
    row(cudaErrorMemoryAllocation, 2, "out of memory") \
    row(cudaErrorInvalidConfiguration, 9, "invalid configuration argument") \
    row(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy") \
    row(cudaErrorNoDevice, 100, "no CUDA-capable device is detected") \
    row(cudaErrorInvalidDevice, 101, "invalid device ordinal") \
    row(cudaErrorInvalidResourceHandle, 400, "invalid resource handle") \
    row(cudaErrorIllegalState, 401, "the operation cannot be performed in the present state") \
    row(cudaErrorNotReady, 600, "device not ready") \
    row(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing") \
    row(cudaErrorStreamCaptureInvalidated, 901, "operation failed due to a previous error during capture") \
    row(cudaErrorStreamCaptureUnjoined, 904, "capturing stream has unjoined work") \
    row(cudaErrorStreamCaptureImplicit, 906, \
        "operation would make the legacy stream depend on a capturing blocking stream")

enum cudaError_t {
#define LOGOS_ROW(name, code, words) name = code,
    LOGOS_ERRORS(LOGOS_ROW)
#undef LOGOS_ROW
};
typedef cudaError_t cudaError;

inline const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define LOGOS_ROW(name, code, words) case name: return #name;
        LOGOS_ERRORS(LOGOS_ROW)
#undef LOGOS_ROW
    }
    return "unrecognized error code";
}

inline const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
#define LOGOS_ROW(name, code, words) case name: return words;
        LOGOS_ERRORS(LOGOS_ROW)
#undef LOGOS_ROW
    }
    return "unrecognized error code";
}

#undef LOGOS_ERRORS

namespace logos_host {

inline cudaError_t last_error = cudaSuccess;

// What a call of the runtime returns: an error stays the last one until cudaGetLastError has told it.
inline cudaError_t answer(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
}

}  // namespace logos_host

inline cudaError_t cudaPeekAtLastError() { return logos_host::last_error; }
inline cudaError_t cudaGetLastError() {
    cudaError_t error = logos_host::last_error;
    logos_host::last_error = cudaSuccess;
    return error;
}

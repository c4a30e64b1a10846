// The CUDA runtime's functions that a driver calls.
#pragma once

#include "launch.h"

enum cudaMemcpyKind {
    cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault,
};
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed,
};
enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2 };

inline cudaError_t cudaMalloc(void **pointer, size_t bytes) { return logos_host::allocate(pointer, bytes, false); }
inline cudaError_t cudaMallocHost(void **pointer, size_t bytes) { return logos_host::allocate(pointer, bytes, true); }
template <class Item>
cudaError_t cudaMalloc(Item **pointer, size_t bytes) {
    return cudaMalloc(reinterpret_cast<void **>(pointer), bytes);
}
template <class Item>
cudaError_t cudaMallocHost(Item **pointer, size_t bytes) {
    return cudaMallocHost(reinterpret_cast<void **>(pointer), bytes);
}
inline cudaError_t cudaFree(void *pointer) { return logos_host::release(pointer, false); }
inline cudaError_t cudaFreeHost(void *pointer) { return logos_host::release(pointer, true); }

namespace logos_host {

inline cudaError_t check_copy(const void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    bool device_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool device_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    // A side that is the host's must still end where a known allocation does.
    bool good_to = device_to || find_allocation(to) ? holds(to, bytes) : true;
    bool good_from = device_from || find_allocation(from) ? holds(from, bytes) : true;
    return bytes == 0 || (good_to && good_from) ? cudaSuccess : cudaErrorInvalidValue;
}

inline bool pageable(const void *pointer) { return find_allocation(pointer) == nullptr; }

}  // namespace logos_host

inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    if (cudaError_t error = logos_host::may_use_legacy()) return error;
    if (cudaError_t error = logos_host::may_wait()) return error;
    if (cudaError_t error = logos_host::check_copy(to, from, bytes, kind)) return logos_host::answer(error);
    logos_host::synchronize();
    memmove(to, from, bytes);
    return cudaSuccess;
}

// Pageable memory of the host is copied from or to before the call returns, as CUDA does; pinned memory is not.
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream = nullptr) {
    if (cudaError_t error = logos_host::check_copy(to, from, bytes, kind)) return logos_host::answer(error);
    cudaError_t error = logos_host::issue_action([=] { memmove(to, from, bytes); }, stream);
    bool captures = logos_host::stream_of(stream)->capture != nullptr;
    if (error == cudaSuccess && !captures && (logos_host::pageable(to) || logos_host::pageable(from))) {
        logos_host::synchronize();
    }
    return error;
}

inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream = nullptr) {
    if (bytes != 0 && !logos_host::holds(to, bytes)) return logos_host::answer(cudaErrorInvalidValue);
    return logos_host::issue_action([=] { memset(to, value, bytes); }, stream);
}
inline cudaError_t cudaMemset(void *to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes); }

inline cudaError_t cudaDeviceSynchronize() {
    if (cudaError_t error = logos_host::may_wait()) return error;
    logos_host::synchronize();
    return cudaSuccess;
}

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    *stream = new logos_host::Stream{flags != cudaStreamNonBlocking};
    logos_host::streams.add(*stream);
    return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, 0); }

inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (logos_host::stream_of(stream)->capture) return logos_host::invalidate(cudaErrorStreamCaptureUnsupported);
    if (stream == nullptr) {
        if (cudaError_t error = logos_host::may_use_legacy()) return error;
    }
    logos_host::synchronize();
    return cudaSuccess;
}

inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    logos_host::List<logos_host::Stream *> &streams = logos_host::streams;
    for (size_t i = 0; i < streams.count; i++) {
        if (streams.items[i] != stream || stream->capture) continue;
        streams.items[i] = streams.items[--streams.count];
        delete stream;
        return cudaSuccess;
    }
    return logos_host::answer(cudaErrorInvalidResourceHandle);
}

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    *event = new logos_host::Event;
    return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }

inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr) {
    event->stream = logos_host::stream_of(stream);
    event->capture = event->stream->capture;
    event->issued = event->stream->issued;
    if (event->capture) return cudaSuccess;  // in a capture an event is an edge of the graph, not a node
    event->recorded = true;
    return logos_host::issue_action([=] { event->milliseconds = logos_host::now(); }, stream);
}

inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (event->capture && event->capture == logos_host::open_capture) {
        return logos_host::invalidate(cudaErrorStreamCaptureUnsupported);
    }
    logos_host::synchronize();
    return cudaSuccess;
}

inline cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
    if (!from->recorded || !to->recorded) return logos_host::answer(cudaErrorInvalidResourceHandle);
    if (from->milliseconds == 0 || to->milliseconds == 0) return logos_host::answer(cudaErrorNotReady);
    *milliseconds = float(to->milliseconds - from->milliseconds);
    return cudaSuccess;
}

inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
    logos_host::synchronize();
    delete event;
    return cudaSuccess;
}

// A stream that waits for an event of a capture joins the capture; by another event it is joined to the origin.
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0) {
    logos_host::Stream *waiting = logos_host::stream_of(stream);
    logos_host::Capture *capture = event->capture;
    if (capture == nullptr || capture != logos_host::open_capture) return cudaSuccess;
    if (waiting == &logos_host::legacy_stream) return logos_host::may_use_legacy();
    waiting->capture = capture;
    if (event->stream->issued == event->issued) event->stream->joined = true;
    waiting->joined = waiting == capture->origin;
    return cudaSuccess;
}

// Streams, events and captured graphs over one queue: work waits in the order in which it was issued until the program
// synchronizes, so that a program that reads too early sees old data. One thread of the program may use it.
#pragma once

#include <time.h>

#include "errors.h"
#include "fault.h"

namespace logos_host {

// A growing array of plain values.
template <class Item>
struct List {
    Item *items = nullptr;
    size_t count = 0, room = 0;
    void add(Item item) {
        if (count == room) {
            room = room ? 2 * room : 16;
            items = static_cast<Item *>(realloc(static_cast<void *>(items), room * sizeof(Item)));
            if (items == nullptr) end_with("no memory is left for the queue of launches", "synchronize more often");
        }
        items[count++] = item;
    }
    void release() {
        free(static_cast<void *>(items));
        items = nullptr;
        count = room = 0;
    }
};

// Work on a stream. A graph and its launches share it.
struct Operation {
    int holders = 0;
    virtual void run() = 0;
    virtual ~Operation() = default;
};

inline void let_go(Operation *operation) {
    if (--operation->holders == 0) delete operation;
}

struct Operations : List<Operation *> {
    void hold(Operation *operation) {
        operation->holders++;
        add(operation);
    }
    void let_all_go() {
        for (size_t i = 0; i < count; i++) let_go(items[i]);
        release();
    }
};

struct Stream;

struct Capture {
    Operations operations;
    Stream *origin;
    bool relaxed;
    bool invalid = false;
};

struct Stream {
    bool blocking;
    Capture *capture = nullptr;
    // In a capture that began on another stream: what was issued here, and whether that stream waits for all of it.
    long issued = 0;
    bool joined = true;
};

struct Event {
    bool recorded = false;
    double milliseconds = 0;
    // Of the last record: its capture, its stream, and what that had issued.
    Capture *capture = nullptr;
    Stream *stream = nullptr;
    long issued = 0;
};

struct Graph {
    Operations operations;
};

inline Stream legacy_stream = {true};
inline List<Stream *> streams;
inline Operations queue;
inline Capture *open_capture = nullptr;

inline Stream *stream_of(Stream *stream) { return stream == nullptr ? &legacy_stream : stream; }

// Runs everything that was issued.
inline void synchronize() {
    for (size_t i = 0; i < queue.count; i++) {
        queue.items[i]->run();
        let_go(queue.items[i]);
    }
    queue.count = 0;
}

inline cudaError_t invalidate(cudaError_t error) {
    open_capture->invalid = true;
    return answer(error);
}

// Whether a call that allocates or waits may be made: not while a stream captures.
inline cudaError_t may_wait(bool allocates = false) {
    if (open_capture == nullptr || (allocates && open_capture->relaxed)) return cudaSuccess;
    return invalidate(cudaErrorStreamCaptureUnsupported);
}

// Whether a call on the legacy stream may be made: it would wait for every blocking stream.
inline cudaError_t may_use_legacy() {
    if (open_capture == nullptr) return cudaSuccess;
    for (size_t i = 0; i < streams.count; i++) {
        if (streams.items[i]->capture && streams.items[i]->blocking) return invalidate(cudaErrorStreamCaptureImplicit);
    }
    return cudaSuccess;
}

// Issues an operation, or captures it; takes it over.
inline cudaError_t issue(Operation *operation, Stream *stream) {
    operation->holders++;
    stream = stream_of(stream);
    cudaError_t error = stream == &legacy_stream ? may_use_legacy() : cudaSuccess;
    if (error == cudaSuccess && stream->capture && stream->capture->invalid) error = cudaErrorStreamCaptureInvalidated;
    if (error == cudaSuccess && stream->capture) {
        stream->capture->operations.hold(operation);
        stream->issued++;
        stream->joined = stream == stream->capture->origin;
    } else if (error == cudaSuccess) {
        queue.hold(operation);
    }
    let_go(operation);
    // A program that never synchronizes must not fill the memory.
    if (queue.count >= 4096) synchronize();
    return answer(error);
}

template <class Body>
struct Action : Operation {
    Body body;
    explicit Action(Body body) : body(body) {}
    void run() override { body(); }
};

template <class Body>
cudaError_t issue_action(Body body, Stream *stream) {
    return issue(new Action<Body>(body), stream);
}

inline double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) * 1e3 + double(time.tv_nsec) / 1e6;
}

}  // namespace logos_host

typedef logos_host::Stream *cudaStream_t;
typedef logos_host::Event *cudaEvent_t;
typedef logos_host::Graph *cudaGraph_t;
typedef logos_host::Graph *cudaGraphExec_t;

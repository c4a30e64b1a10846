// Launches: their limits as CUDA checks them, and a grid's blocks run by a pool of OS threads.
#pragma once

#include <pthread.h>
#include <sched.h>

#include "count.h"
#include "crash.h"
#include "memory.h"
#include "meeting.h"
#include "shared.h"
#include "stream.h"

namespace logos_host {

inline Worker *this_worker() {
    static thread_local Worker *own = nullptr;
    if (own == nullptr) {
        own = new Worker();
        void *shared = nullptr;
        if (posix_memalign(&shared, 128, sizeof(Shared)) != 0) {
            end_with("no memory is left for a block's shared memory", "set LOGOS_HOST_THREADS=1");
        }
        own->shared = static_cast<Shared *>(shared);
        adopt(&own->root);
        watch_signals();
    }
    return own;
}

// A grid being run: its OS threads take runs of blocks until none is left.
struct Work {
    const Launch *launch;
    BlockOrder order;
    unsigned long long chunk;
    unsigned long long taken = 0;
};

inline void work_on(Work &work) {
    Worker &w = *(worker = this_worker());
    prepare(w, *work.launch);
    for (;;) {
        unsigned long long place = __atomic_fetch_add(&work.taken, work.chunk, __ATOMIC_RELAXED);
        if (place >= work.order.blocks) break;
        unsigned long long end = place + work.chunk;
        if (end > work.order.blocks) end = work.order.blocks;
        for (; place < end; place++) {
            begin_shared(*w.shared, work.launch->shared);
            run_block(w, work.order.at(place));
        }
    }
    worker = nullptr;
}

struct Pool {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t came = PTHREAD_COND_INITIALIZER, left = PTHREAD_COND_INITIALIZER;
    Work *work = nullptr;
    unsigned long long number = 0;  // of the work
    int busy = 0;
    long threads = 1;
    bool started = false;
};
inline Pool pool;

inline void *pool_main(void *) {
    unsigned long long done = 0;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.work == nullptr || pool.number == done) pthread_cond_wait(&pool.came, &pool.lock);
        Work *work = pool.work;
        done = pool.number;
        pool.busy++;
        pthread_mutex_unlock(&pool.lock);
        work_on(*work);
        pthread_mutex_lock(&pool.lock);
        if (--pool.busy == 0) pthread_cond_signal(&pool.left);
    }
}

inline void start_pool() {
    pool.started = true;
    cpu_set_t set;
    long processors = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    pool.threads = setting("LOGOS_HOST_THREADS", processors, 1);
    for (long i = 1; i < pool.threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, nullptr, pool_main, nullptr) != 0) break;
        pthread_detach(thread);
    }
}

inline void run_grid(const Launch &launch) {
    if (!pool.started) start_pool();
    unsigned long long blocks = (unsigned long long)launch.grid.x * launch.grid.y * launch.grid.z;
    unsigned long long chunk = blocks / (unsigned long long)(8 * pool.threads);
    Work work = {&launch, BlockOrder(blocks), chunk < 1 ? 1 : chunk > 256 ? 256 : chunk};
    bool alone = pool.threads == 1 || blocks == 1;
    if (!alone) {
        pthread_mutex_lock(&pool.lock);
        pool.work = &work;
        pool.number++;
        pthread_cond_broadcast(&pool.came);
        pthread_mutex_unlock(&pool.lock);
    }
    work_on(work);
    if (alone) return;
    pthread_mutex_lock(&pool.lock);
    pool.work = nullptr;
    while (pool.busy) pthread_cond_wait(&pool.left, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

// Dynamic shared memory that cudaFuncSetAttribute allows a kernel.
struct Allowance {
    const void *kernel;
    size_t bytes;
};
inline List<Allowance> allowances;

inline size_t allowed_shared(const void *kernel) {
    for (size_t i = 0; i < allowances.count; i++) {
        if (allowances.items[i].kernel == kernel) return allowances.items[i].bytes;
    }
    return STATIC_SHARED;
}

inline cudaError_t check_launch(const void *kernel, dim3 grid, dim3 block, size_t shared) {
    bool some = grid.x && grid.y && grid.z && block.x && block.y && block.z;
    bool blocks = grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535;
    bool threads = block.x <= 1024 && block.y <= 1024 && block.z <= 64;
    if (!some || !blocks || !threads || block.x * block.y * block.z > MOST_THREADS) return cudaErrorInvalidConfiguration;
    return shared <= allowed_shared(kernel) ? cudaSuccess : cudaErrorInvalidValue;
}

// A pointer that a kernel is given must be of the device: on a GPU another is an illegal address.
template <class Value>
void check_argument(const Launch &, int, const Value &) {}
template <class Value>
void check_argument(const Launch &launch, int number, Value *const &pointer) {
    if (pointer == nullptr || find_allocation(pointer) != nullptr) return;
    Text what;
    what.add("kernel %s: its argument %d points to no memory of the device", launch.name, number);
    end_with(what.characters, "pass memory that cudaMalloc or cudaMallocHost gave and nothing freed");
}

// Threads of the running grid that have waited for the launches before it.
inline unsigned long long begun;

inline void check_begun(const Launch &launch) {
    const dim3 &g = launch.grid, &b = launch.block;
    unsigned long long due = (unsigned long long)g.x * g.y * g.z * b.x * b.y * b.z;
    if (!launch.early || begun == due) return;
    Text what;
    what.add("kernel %s may begin before the launch before it has ended, and %llu of its %llu threads did not wait",
             launch.name, due - begun, due);
    end_with(what.characters, "let every thread call logos_begin before it reads what another kernel wrote");
}

template <class Body, class Check>
struct KernelLaunch : Operation, Launch {
    Body body;
    Check check;
    KernelLaunch(Body body, Check check) : body(body), check(check) {}
    void thread() const override { body(); }
    void run() override {
        check(*this);
        LOGOS_COUNT_LAUNCH(name);
        begun = 0;
        run_grid(*this);
        check_begun(*this);
    }
};

template <class Body, class Check>
Operation *new_launch(const char *name, bool early, dim3 grid, dim3 block, size_t shared, Body body, Check check) {
    auto *made = new KernelLaunch<Body, Check>(body, check);
    made->name = name;
    made->early = early;
    made->grid = grid;
    made->block = block;
    made->shared = shared;
    return made;
}

// kernel<<<grid, block, shared, stream>>>(arguments…): the arguments are copied now, as parameters of their types.
template <class... Parameters, class... Arguments>
void launch(const char *name, bool early, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared,
            cudaStream_t stream, Arguments... arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments), "a launch gives every parameter of its kernel");
    cudaError_t error = check_launch(reinterpret_cast<const void *>(kernel), grid, block, shared);
    if (error != cudaSuccess) {
        answer(error);
        if (stream_of(stream)->capture) stream_of(stream)->capture->invalid = true;
        return;
    }
    auto issue_with = [&](Parameters... values) {
        auto body = [=] { kernel(values...); };
        auto check = [=](const Launch &launch) {
            int number = 0;
            (void)number;
            (check_argument(launch, ++number, values), ...);
            (void)launch;
        };
        issue(new_launch(name, early, grid, block, shared, body, check), stream);
    };
    issue_with(arguments...);
}

}  // namespace logos_host

#define LOGOS_LAUNCH(kernel, grid, block, shared, stream, ...) \
    ::logos_host::launch(#kernel, false, kernel, dim3(grid), dim3(block), shared, stream, ##__VA_ARGS__)
#define LOGOS_LAUNCH_EARLY(kernel, grid, block, shared, stream, ...) \
    ::logos_host::launch(#kernel, true, kernel, dim3(grid), dim3(block), shared, stream, ##__VA_ARGS__)

inline void logos_begin() { __atomic_fetch_add(&::logos_host::begun, 1, __ATOMIC_RELAXED); }
